"""The commands of `embodied`, by name: the module that each runs, and its purpose, in a line.

A command's module is a string, imported when the command is called, as are the targets of the registry: so this
table may name modules of packages that `embodied` does not know. A new command is one line here.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from embodied.env.registry import load_target
from embodied.errors import WORDINGS, EmbodiedError


@dataclasses.dataclass(frozen=True)
class Command:
    """One command."""

    name: str
    """As it is typed."""
    module: str
    """Module whose `main` it calls; `python -m MODULE` is the same."""
    summary: str
    """Purpose, in at most `SUMMARY_WIDTH` characters."""
    arguments: tuple[str, ...] = ()
    """Words that go before those of the user."""
    needs: tuple[str, ...] = ()
    """Packages without which its work cannot end."""
    extra: str = ""
    """Extra of this package that brings them."""


SUMMARY_WIDTH = 58  # characters: with a name before it, a line of 80
DEMO = ("locomotion/go1-joystick-flat", "--policy", "shipped", "--browser")  # a robot that people can steer
ONNX = ("onnx", "onnxruntime")

GROUPS: Mapping[str, tuple[Command, ...]] = {
    "Begin": (
        Command("demo", "embodied.play", "steer a trained quadruped in the browser", DEMO),
        Command("list", "embodied.list", "tasks, suites, learners, engines, robots"),
        Command("doctor", "embodied.doctor", "what this machine has, what is wrong, and how to fix it"),
        Command("completion", "embodied.completion", "completion of commands, flags and tasks for a shell"),
    ),
    "Train, look, measure": (
        Command("train", "embodied.train", "train a policy on a task or a suite"),
        Command("play", "embodied.play", "watch a policy, in the browser or as a film"),
        Command("evaluate", "embodied.evaluate", "how well a policy does, with 95 % intervals"),
        Command("ladder", "embodied.ladder", "ratings of policies that play the sides of a game"),
        Command("bench", "embodied.bench", "how fast tasks run"),
        Command("runs", "embodied.runs", "the runs there are, and how they compare"),
        Command("sweep", "embodied.sweep", "a search for the best flags of a training", (), ("optuna",), "sweep"),
        Command("curves", "embodied.curves", "pictures of how trainings went", (), ("matplotlib",), "plots"),
        Command("ship", "embodied.ship", "put a trained policy into the package"),
        Command("snapshots", "embodied.snapshots", "a teacher's moments as initial states to train from"),
    ),
    "Your tasks and robots": (
        Command("new", "embodied.new", "a small complete task, which trains as it stands"),
        Command("check", "embodied.check", "whether a task meets the contract of all tasks"),
        Command("robot", "embodied.robot", "what is understood of a robot's MJCF or URDF file"),
    ),
    "Demonstrations, policies that see and listen": (
        Command("collect", "embodied.collect", "demonstrations with images and words, in LeRobot's format"),
        Command(
            "demonstrations", "policies.demonstrations", "demonstrations as transitions, for learners to start from"
        ),
        Command("vla-train", "policies.vla.train", "fine-tune a vision-language-action policy"),
        Command("vla-rl", "policies.vla.rl_finetune", "reinforcement learning of such a policy"),
        Command("vla-compare", "policies.vla.compare", "how reinforcement learning changed its behaviour"),
        Command("asking-train", "policies.vla.asking.train", "learn when to ask"),
        Command(
            "asking-evaluate", "policies.vla.asking.evaluate", "a policy that asks, beside never and always asking"
        ),
    ),
    "To a robot and back": (
        Command("export", "sim2real.export", "a policy as a bundle that runs on a robot", (), ONNX, "sim2real"),
        Command("bundle", "sim2real.bundles.bundle", "verify a bundle and say what it is", (), ONNX, "sim2real"),
        Command("deploy", "sim2real.deploy", "run a bundle on a robot, or a simulated stand-in", (), ONNX, "sim2real"),
        Command("excitation", "sim2real.excitation", "motions to play on a robot whose log is to calibrate"),
        Command("preflight", "sim2real.preflight", "what is wrong with a robot's log"),
        Command("calibrate", "sim2real.calibrate", "a robot's parameters from its log"),
        Command("twin", "sim2real.twin", "where a policy fails on the calibrated robot"),
        Command("twin-rl", "sim2real.twin_rl", "reinforcement learning that a twin makes short"),
        Command("reconstruct", "sim2real.reconstruct", "the layout of blocks on a table, from a picture"),
        Command("board", "sim2real.cameras.board", "a calibration board to print"),
        Command("camera", "sim2real.cameras.calibrate", "a camera's intrinsic parameters, from photographs"),
        Command("hand-eye", "sim2real.cameras.calibrate_hand_eye", "where a camera sits on a robot, from photographs"),
    ),
}
"""Heading -> commands, in the order in which they are shown."""

COMMANDS: Mapping[str, Command] = {command.name: command for group in GROUPS.values() for command in group}
"""Name -> command."""

_BY_MODULE = {command.module: command for command in COMMANDS.values() if not command.arguments}
_NAMED = re.compile(r"python -m ([\w.]*\w)")
PROGRAM, MODULE = "embodied", "python -m embodied"
"""The two ways in which the program is started; the second where it is not installed."""


def program() -> str:
    """Name by which this process was started."""
    return PROGRAM if Path(sys.argv[0]).stem == PROGRAM else MODULE


def call(command: Command, words: Sequence[str]) -> int:
    """Run a command as if this process had been started as it alone; returns the exit code.

    From here on every message, note and result names commands in the form in which this one was typed.
    """
    WORDINGS.add(as_called)
    sys.argv = [f"{program()} {command.name}", *command.arguments, *words]
    if not {"-h", "--help", "--help-all"} & set(words):
        check_needs(command.module)  # before its module is imported, with torch and JAX
    spec = find_spec(command.module)
    package = spec is not None and spec.submodule_search_locations is not None
    module = f"{command.module}.__main__" if package else command.module
    return load_target(f"{module}:main", f"command {command.name!r}")()


def check_needs(module: str) -> None:
    """Check that the packages are installed that the command of a module needs.

    Raises:
        EmbodiedError: one is not; says how to install it.
    """
    command = _BY_MODULE.get(module)
    if command is None:
        return
    for name in command.needs:
        if find_spec(name) is None:
            raise EmbodiedError(
                f'python -m {module} needs the package {name}; pip install "embodied-sim[{command.extra}]"'
            )


def as_called(text: str) -> str:
    """A text that names commands as `python -m MODULE`, in the form in which this process was started.

    Started as `embodied train`, `python -m embodied.play` is `embodied play`; started by a module, it stays as it is.
    """
    prefix = sys.argv[0].rpartition(" ")[0] if sys.argv else ""
    if prefix not in (PROGRAM, MODULE):
        return text

    def form(found: re.Match[str]) -> str:
        command = _BY_MODULE.get(found[1])
        return found[0] if command is None else f"{prefix} {command.name}"

    return _NAMED.sub(form, text)
