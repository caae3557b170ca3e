"""Help: 80 columns, short first, examples that can be pasted."""

import dataclasses
import shlex

import pytest
import tyro

from embodied import cli
from embodied.cli.flags import flags_of, groups_of
from embodied.cli.help import ALL, continued, described, first_sentence, help_text


@dataclasses.dataclass(frozen=True)
class Inner:
    gain: float = 0.5
    """How much of it there is."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Do one thing, which takes so many words to describe that they do not fit into a line of eighty columns.

    1. this comes first
    2. and this second, with words that go on for so long that this point, too, needs another line

    Examples:

        python -m embodied.list one --flag value
        python -m embodied.list two --text "of several words" --another-flag with-a-long-value --and-another 1
    """

    task: tyro.conf.Positional[str]
    """What to do it to."""
    steps: int = 10
    """How often. Once is not enough, as is said only on demand."""
    quick: bool = True
    """Whether in a hurry."""
    seldom: cli.Rare[int] = 3
    """Hardly ever set."""
    inner: Inner = dataclasses.field(default_factory=Inner)
    """What is within."""


def shown(*, everything: bool) -> list[str]:
    text = help_text(
        "python -m embodied.list", Settings, flags_of(Settings), groups_of(Settings), everything=everything
    )
    return text.splitlines()


@pytest.mark.parametrize("everything", [False, True])
def test_it_fits_80_columns(everything: bool):
    assert max(map(len, shown(everything=everything))) <= 80


def test_short_help_leaves_out_what_is_rare_or_nested_and_says_so():
    text = "\n".join(shown(everything=False))
    assert "--steps INT           How often (default: 10)" in text
    assert "default: yes; --no-quick for no" in text
    assert "Once is not enough" not in text
    assert "--seldom" not in text
    assert f"{ALL} shows the other flags, those of --inner.* among them" in text


def test_all_help_has_every_flag_in_all_its_words():
    text = "\n".join(shown(everything=True))
    for words in ("Once is not enough", "--seldom INT", "--inner.*  What is within.", "--inner.gain FLOAT"):
        assert words in text
    assert ALL not in text


def test_paragraphs_are_wrapped_and_lists_and_examples_keep_their_lines():
    lines = shown(everything=False)
    assert lines[0] == "usage: python -m embodied.list TASK [FLAGS]"
    assert "1. this comes first" in lines
    assert any(line.startswith("2. and this second") for line in lines)
    assert "  python -m embodied.list one --flag value" in lines
    assert described("One\ntwo\n\nthree") == ["One two", "", "three"]


def test_a_long_example_pastes_as_the_same_words():
    command = 'python -m embodied.list two --text "of several words" --another-flag with-a-long-value --and-another 1 2'
    lines = continued(command)
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)


def test_the_first_sentence_ends_at_a_full_stop_before_a_capital():
    assert first_sentence("m, at 0.5 of it. More.") == "m, at 0.5 of it."
    assert first_sentence("Only one") == "Only one"
