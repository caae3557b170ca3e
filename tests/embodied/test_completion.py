"""Completion for shells: what bash offers, and that every shell's script names what there is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from embodied import completion
from embodied.cli.commands import COMMANDS
from embodied.completion import WRITERS, Shell, flags_of_command
from embodied.env.registry import join_content
from tests.kit.commands import run

FLAGS = {"train": ["--help", "--num-envs", "--ppo.learning-rate"], "twin": ["--out"], "twin-rl": ["--iterations"]}
TASKS = ["swarm/hover", "swarm/tag", "locomotion/reach", "mt10"]


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words behind `embodied`."""
    typed = " ".join(f"'{word}'" for word in ("embodied", *words))
    ask = f'. "$0"; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _embodied; printf "%s\\n" "${{COMPREPLY[@]}}"'
    said = subprocess.run(["bash", "-c", ask, str(script)], capture_output=True, text=True, check=True, timeout=30)
    assert not said.stderr
    return said.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tw"], ["twin", "twin-rl"]),
        ([""], ["train", "twin", "twin-rl"]),
        (["train", "swarm/"], ["swarm/hover", "swarm/tag"]),
        (["train", "swarm/hover", "--n"], ["--num-envs"]),
        (["train", "--ppo."], ["--ppo.learning-rate"]),
        (["twin", "--"], ["--out"]),
        (["twin-rl", "--"], ["--iterations"]),
        (["train", "--resume", "runs/"], []),
    ],
)
def test_bash_offers_commands_flags_and_tasks(words: list[str], expected: list[str], tmp_path: Path) -> None:
    script = tmp_path / "embodied"
    script.write_text(WRITERS[Shell.BASH](FLAGS, TASKS))
    assert offered(script, *words) == expected


@pytest.mark.parametrize("shell", Shell)
def test_every_shell_is_told_every_command_flag_and_task(shell: Shell) -> None:
    words = WRITERS[shell](FLAGS, TASKS).replace('"', " ").split()
    assert {*FLAGS, *TASKS, *(flag for own in FLAGS.values() for flag in own)} <= set(words)


def test_flags_are_those_of_the_help() -> None:
    assert {"--all", "--suites", "--robot", "--help-all"} <= set(flags_of_command("list"))
    assert not [flag for flag in flags_of_command("evaluate") if flag.startswith("--config.")]


@pytest.mark.slow
def test_a_script_names_all_commands_and_tasks(tmp_path: Path) -> None:
    script = tmp_path / "embodied"
    script.write_text(run(completion.main, "bash").out)
    assert offered(script, "") == list(COMMANDS)
    assert offered(script, "train", "swarm/") == [name for name in join_content() if name.startswith("swarm/")]
    assert "--ppo.learning-rate" in offered(script, "train", "--ppo")
