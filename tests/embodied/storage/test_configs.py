"""Configs whose fields are replaced: members of enumerations by text, and what is refused."""

import dataclasses
import re
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, cast

import pytest

import embodied
from embodied import cli
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, RunError, UnknownNameError
from embodied.storage.configs import from_json, override, to_json
from tests.kit.import_graph import ROOT


def config_types() -> list[str]:
    """Every class of the packages that is called a config, as `module:Class`."""
    return [
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}:{name}"
        for package in ("embodied", "tasks", "policies", "sim2real")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "templates" not in path.parts
        for name in re.findall(r"^class (\w+Config)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize("config", config_types())
def test_a_config_with_its_defaults_is_a_valid_one(config: str) -> None:
    module, _, name = config.partition(":")
    kind: Any = getattr(pytest.importorskip(module, exc_type=ImportError), name)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    if fields and all(map(_has_default, fields)):
        cast(Any, kind)()


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights."""

    spin: float = 1.0
    """Of a term."""


@dataclasses.dataclass(frozen=True)
class Weighted:
    """Settings."""

    share: float = 0.5
    """A fraction."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Of terms."""
    count: int = 1
    """A number."""


NAN = float("nan")
NOT_NUMBERS: dict[str, tuple[Callable[[], Any], str]] = {
    "a flag": (lambda: cli.parse(Weighted, ["--share", "nan"], "x"), "share is nan or too large"),
    "a flag of an inner config": (
        lambda: cli.parse(Weighted, ["--weights.spin=NaN"], "x"),
        "weights.spin is nan or too large",
    ),
    "a flag of many digits": (lambda: cli.parse(Weighted, ["--count", "9" * 20], "x"), "count is nan or too large"),
    "an argument": (lambda: override(Weighted(), {"share": NAN}), "share=nan"),
    "a file": (lambda: from_json(Weighted, {"weights": {"spin": NAN}}, "file"), "file.weights.spin is nan"),
}


@pytest.mark.parametrize("way", NOT_NUMBERS)
def test_a_setting_that_is_no_number_is_refused_however_it_is_given(way: str) -> None:
    give, said = NOT_NUMBERS[way]
    with pytest.raises(EmbodiedError, match=f"^{said}; expected a number$"):
        give()


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)


def enumerated() -> list[tuple[str, str, type[Enum], bool]]:
    """Every task's fields that choose among named values, and whether they hold several."""
    found, content = [], join_content()
    for task in content:
        kind = content[task].load().config_type
        for field, hint in typing.get_type_hints(kind).items():
            for one in (hint, *typing.get_args(hint)):
                if isinstance(one, type) and issubclass(one, Enum):
                    found.append((task, field, one, typing.get_origin(hint) is tuple))
    return found


def test_members_may_be_given_by_their_text() -> None:
    for task, field, kind, several in enumerated():
        config = join_content()[task].load().config_type()
        for member in kind:
            text, itself = ([member.value], (member,)) if several else (member.value, member)
            try:
                override(config, {field: itself})
            except EmbodiedError as refusal:  # as of a team whose agents command no rotors
                with pytest.raises(EmbodiedError, match=re.escape(str(refusal))):
                    override(config, {field: text})
                continue
            changed = override(config, {field: text})
            assert getattr(changed, field) == itself, (task, field)
            assert type(getattr(changed, field)) is type(itself), (task, field)
            assert from_json(type(config), to_json(changed)) == changed, (task, field)


def test_an_unknown_member_is_refused_with_those_there_are() -> None:
    for task, field, kind, several in enumerated():
        with pytest.raises(UnknownNameError, match=f"unknown {field} 'helix'") as error:
            override(join_content()[task].load().config_type(), {field: ["helix"] if several else "helix"})
        assert error.value.known == tuple(sorted(str(member.value) for member in kind)), (task, field)


def slots(**options: Any) -> Any:
    """Where the drones of a formation belong, m."""
    return cast(Any, embodied.make("swarm/formation", **options).task).slots


def test_an_environment_is_what_the_text_says() -> None:
    assert (slots(shape="circle") == slots()).all()
    assert not (slots(shape="line") == slots(shape="wedge")).all()


def test_an_unknown_field_is_refused_with_a_guess() -> None:
    config = join_content()["swarm/formation"].load().config_type()
    with pytest.raises(EmbodiedError, match=r"no field 'shap'; did you mean 'shape'\?"):
        override(config, {"shap": "line"})


def test_an_unknown_member_in_a_file_is_refused_with_those_there_are() -> None:
    config = join_content()["swarm/formation"].load().config_type()
    with pytest.raises(RunError, match=r"config\.shape is 'helix'; expected one of circle, grid, line, wedge"):
        from_json(type(config), to_json(config) | {"shape": "helix"})


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("latency", [0.0, 0.01, 0.02], "latency=[0.0, 0.01, 0.02]; expected a list of 2"),
        ("latency", 0.01, "latency=0.01; expected a list of 2"),
        ("latency", "ab", "latency='ab'; expected a list of 2"),
        ("latency", (0.0, "late"), "latency='late'; expected a number"),
        ("start_tilt", 1j, "start_tilt=1j; expected a number"),
        ("start_tilt", True, "start_tilt=True; expected a number"),
        ("start_tilt", "steep", "start_tilt='steep'; expected a number"),
        ("start_tilt", [1.0], "start_tilt=[1.0]; expected a number"),
    ],
)
def test_a_value_of_another_form_is_refused_and_never_cut_off(field: str, value: Any, expected: str) -> None:
    with pytest.raises(EmbodiedError, match=re.escape(expected)):
        override(join_content()["swarm/hover"].load().config_type(), {field: value})
