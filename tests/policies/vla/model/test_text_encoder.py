"""Instructions: what is read alike, what is refused."""

import pytest
import torch

from embodied.core.instruction import bucket_of, check_instruction, ngrams
from embodied.errors import EmbodiedError
from policies.vla.model.text_encoder import HashedTextEncoder


@pytest.fixture(scope="module")
def reader():
    torch.manual_seed(0)
    return HashedTextEncoder(32, 1, 2, 512)


def test_words_count_in_their_order_but_spaces_capitals_and_neighbours_do_not(reader):
    texts = ["open the drawer", "Open  the\ndrawer!", "the drawer open", "open the drawers"]
    plain, shouted, turned, plural = reader(texts)
    assert torch.equal(plain, shouted)
    assert not torch.allclose(plain, turned)
    assert (plain - plural).norm() < (plain - reader(["push a cup away now"])[0]).norm()
    torch.testing.assert_close(reader(texts[:1])[0], plain)  # alone as among longer ones


def test_a_word_is_itself_and_its_runs_of_three_letters():
    assert ngrams("open") == ["<open>", "<op", "ope", "pen", "en>"]
    assert ngrams("a") == ["<a>"]
    assert ngrams("é") == ["<é>"]


def test_buckets_are_the_same_everywhere():
    assert bucket_of("123456789", 2**32) == 0xCBF43926  # the published check value of CRC-32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "instruction '' says nothing; expected words"),
        (" ?! ", r"instruction ' \?! ' says nothing"),
        ("go " * 3_334, r"has 10,001 characters and 3,334 words; expected at most 500 and 64"),
        ("a" * 10_000, r"'a{40}...' has 10,000 characters and 1 words"),
        (None, "instruction None is a NoneType; expected text"),
    ],
)
def test_messages(reader, text, message):
    with pytest.raises(EmbodiedError, match=message):
        check_instruction(text)
    with pytest.raises(EmbodiedError, match=message):
        reader(["open", text])
