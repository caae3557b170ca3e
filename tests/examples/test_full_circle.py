"""The example runs as it stands: the robot it ends with is the one that was hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embodied.env.registry import join_content
from examples import full_circle as example
from policies.training import command_line
from sim2real.identification import calibration
from tests.kit.commands import run

COMMANDS = ("train", "export", "deploy", "calibrate")


def test_its_commands_go_round_with_flags_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes what the one before it has made; the last flight decides the exit code."""
    called: list[tuple[str, list[str]]] = []

    def stand_in(name: str) -> Callable[[list[str]], int]:
        main = getattr(example, name)

        def command(words: list[str]) -> int:
            called.append((name, words))
            return 3 if name == "deploy" else 0

        command.__module__ = main.__module__
        return command

    helps = {name: run(getattr(example, name), "--help-all").out for name in COMMANDS}
    for name in COMMANDS:
        monkeypatch.setattr(example, name, stand_in(name))
    out = tmp_path / "circle"
    assert run(example.main, "--out", str(out), "--steps", "60000").code == 3
    assert [name for name, _ in called] == ["train", "export", "deploy", "calibrate", "train", "export", "deploy"]
    for name, words in called:
        assert [word for word in words if word.startswith("--") and word not in helps[name]] == []
    nominal, exported, flown, found, again, last, flown_again = [words for _, words in called]
    for words in (nominal, again):
        settings = command_line.parse(join_content().find("swarm/hover"), words)
        assert settings.steps == 60_000
        assert (not list(settings.wrappers)) == (words is nominal)
    made = [str(out / name) for name in ("nominal", "nominal-bundle", "flight.mcap", "twin", "calibrated")]
    assert (exported[0], flown[0], found[0]) == tuple(made[:3])
    assert again[again.index("--calibration") + 1] == made[3] == found[found.index("--out") + 1]
    assert (last[0], flown_again[0]) == (made[4], str(out / "calibrated-bundle"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_once_round(tmp_path: Path) -> None:
    # The shipped policy flies first; 60,000 steps are too few for another to fly, which the last flight then says.
    code = example.main(["--out", str(tmp_path / "circle"), "--first", "swarm/hover", "--steps", "60000"])
    assert code in (0, 3)
    found = calibration.load(tmp_path / "circle" / "twin")
    assert found["thrust"].value == pytest.approx(example.WEAKER, rel=0.02)
    assert found["drone_inertia"].value == pytest.approx(example.HEAVIER, rel=0.03)
    assert found["delay"].value == pytest.approx(0.01, rel=0.05)
    half = [error for error in found.errors if (error.channel, error.horizon) == ("position", 0.5)]
    assert half[0].after < half[0].before / 2
    assert (tmp_path / "circle" / "calibrated-bundle" / "policy.onnx").exists()
