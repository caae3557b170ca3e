"""Command lines and files of settings: flags of every command, their values, and TOML and JSON."""

from __future__ import annotations

import functools
import json
import os
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bad_input import examples, mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must, Said, call
from benchmarks.bad_input.domains.runs import alike
from embodied.cli.commands import COMMANDS
from embodied.env.registry import join_content
from embodied.storage.configs import UNSAVED, places, to_json
from policies.training import command_line
from policies.training.settings import default_settings

FLAG = re.compile(r"^  (--[\w.\-]+) ((?:INT|FLOAT|PATH|TEXT|\{[^}]*\}|\.\.\.| )+?)(?:  |$)", re.M)
SWITCH = re.compile(r"^  (--[\w.\-]+)(?:  |$)", re.M)
POSITIONAL: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("train", "play", "evaluate", "ladder", "bench", "snapshots", "collect", "export", "sweep",
    "check", "list", "demonstrations"), (examples.TASK,)),
    "new": ("task", "mine"), "robot": ("go1",), "curves": ("run",), "ship": ("run",), "deploy": ("bundle",),
    "bundle": ("bundle",),
    "preflight": ("log.csv",), "calibrate": ("log.csv",), "reconstruct": ("photo.png",), "camera": ("photo.png",),
    "hand-eye": ("photo.png",),
}  # fmt: skip
"""Command -> what stands before its flags."""
CHEAP: Mapping[str, tuple[str, ...]] = {
    "evaluate": (examples.TASK, "--policy", "zero", "--episodes", "2", "--num-envs", "2", "--episode-steps", "5"),
    "list": (examples.TASK,),
    "runs": (),
    "curves": ("run", "--out", "c.png"),
    "preflight": ("log.csv",),
    "bundle": ("bundle",),
    "new": ("task", "mine", "--folder", "new"),
    "ship": ("run",),
    "robot": ("legged/robot.xml",),
    "board": ("--out", "b.png"),
}
"""Commands that end soon, in words that are valid."""
WRONG: Mapping[str, tuple[str, ...]] = {
    "INT": ("x", "1.5", "", "1e3", "0x10", "nan", "1,000", "--", "1 2", "١x", "9" * 5000, "½"),
    "FLOAT": ("x", "", "1,5", "--", "1 2", "0x1g", "one", "1e", "$HOME"),
    "{": ("nonsense", "", "NONE!", "0.5"),
}
"""Kind of value -> values that are none."""


@functools.cache
def flags(command: str) -> tuple[tuple[str, str], ...]:
    """Flags of a command that have values -> what their values are, by its own help."""
    text = call(COMMANDS[command].module, *POSITIONAL.get(command, ()), "--help-all").out
    return tuple(dict(FLAG.findall(text)).items())


def wrong_type(rng: random.Random, box: Box) -> Attempt:
    """A value of a type that its flag does not have, for a flag of any command."""
    command = rng.choice(sorted(COMMANDS))
    known = [
        (name, kind) for name, kind in flags(command) if kind.startswith(("INT", "FLOAT", "{")) and "TEXT" not in kind
    ]
    if not known:
        return wrong_type(rng, box)
    name, kind = rng.choice(known)
    value = rng.choice(WRONG["{" if kind.startswith("{") else kind.split()[0]])
    joined = rng.random() < 0.5 and not value.startswith("--")
    words = [f"{name}={value}"] if joined else [name, value]
    module = COMMANDS[command].module
    return Attempt(
        f"{command} {' '.join(words)[:80]}", lambda: call(module, *POSITIONAL.get(command, ()), *words), Must.REFUSE
    )


def unknown_flag(rng: random.Random, box: Box) -> Attempt:
    """A flag that the command does not have, or one without its value, or a word too many."""
    command = rng.choice(sorted(COMMANDS))
    names = [name for name, _ in flags(command)] or ["--json"]
    name = rng.choice(names)
    words = rng.choice(
        (
            [f"{name}x"], [name[:-1] + "_"], [f"-{name}"], [name.upper()], ["--no-such-flag"], ["--=1"], [
            f"{name}.more", "1"],
            ["--", "--x"], ["-z"], [f"--{'x' * 3000}"], ["--\u0430ll"], [name], ["--config.nothing", "1"], [
            "--a\nb"], ["--\udcff"], ["---"],
        )
    )  # fmt: skip
    module = COMMANDS[command].module
    switch = words == [name] and not dict(flags(command)).get(name, "INT").startswith(("INT", "FLOAT", "PATH", "{"))
    must = Must.EITHER if switch or words in (["---"], ["--", "--x"], [name]) else Must.REFUSE
    if must is Must.EITHER:
        words = ["--no-such-flag"]
        must = Must.REFUSE
    return Attempt(
        f"{command} {' '.join(words)[:60]!r}", lambda: call(module, *POSITIONAL.get(command, ()), *words), must
    )


def strange_value(rng: random.Random, box: Box) -> Attempt:
    """A command that ends soon, with one more flag of a strange value of the right type."""
    for name in ("run", "bundle", "log.csv", "legged"):
        box.copied(name, f"out/{name}")
    command = rng.choice(sorted(CHEAP))
    known = flags(command)
    if not known:
        return unknown_flag(rng, box)
    name, kind = rng.choice(known)
    if kind.startswith("INT"):
        value = rng.choice(
            ("-1", "0", "1", "-99999999999999999999", "99999999999999999999", "2147483648", "1000000000000")
        )
        if name == "--episodes":  # of which any number is meant to take its time
            value = "-1" if value == "1000000000000" or value == "2147483648" else value
    elif kind.startswith("FLOAT"):
        value = rng.choice(("nan", "inf", "-inf", "-1", "0", "1e308", "-0.0", "1e-320"))
    elif kind.startswith("{"):
        value = rng.choice(kind.strip("{}. ").split(","))
    else:
        value = rng.choice(
            (
                "",
                ".",
                "..",
                "/dev/null/x",
                "/proc/self/mem",
                "no/such",
                "x" * 5000,
                "a\nb",
                "*",
                "~",
                "-",
                "out",
                "out/x",
                "\udcff",
                "%s%n",
                "nan",
                "/",
                "ключ",
            )
        )
        if value == "/" and name == "--root":  # all files of this machine
            value = "."
    module = COMMANDS[command].module

    def act() -> Said:
        os.chdir(box.out)  # where the flag may name a file to write
        return call(module, *CHEAP[command], name, value)

    return Attempt(f"{command} {name} {value[:40]!r}", act)


def extreme_setting(rng: random.Random, box: Box) -> Attempt:
    """A number for a setting of a training that no training has: not finite, or beyond all bounds."""
    known = [(name, kind) for name, kind in flags("train") if kind in ("INT", "FLOAT")]
    name, kind = rng.choice(known)
    value = rng.choice(("nan", "nan", "inf", "-inf") if kind == "FLOAT" else ("-1", "-99999999999999999999", "0"))
    entry = join_content()[examples.TASK]
    act = lambda: command_line.parse(entry, [examples.TASK, name, value])  # noqa: E731

    def sound(settings: Any) -> str:
        said = str(to_json(settings))
        return f"a setting is nan: {name}" if re.search(r"\bnan\b", said) or (value == "nan") else ""

    return Attempt(f"train {name} {value}", act, Must.REFUSE if value == "nan" else Must.EITHER, sound)


def settings_document() -> dict[str, Any]:
    """The settings of a training as a file has them."""
    known = places(default_settings(join_content()[examples.TASK]))
    saved = {name: to_json(place.value) for name, place in known.items() if name not in UNSAVED}
    return json.loads(json.dumps(saved))


def from_file(path: Path) -> Any:
    """The settings of a file, as the command reads them."""
    file = command_line.read(path)
    registry = join_content()
    entry = registry.find(file.task or examples.TASK)
    return command_line.parse(entry, [entry.name, "--config-file", str(path)])


def edited_file(rng: random.Random, box: Box) -> Attempt:
    """A file of settings with another value: the setting has it, or it is refused."""
    document, how = mutate.edited(settings_document(), rng)
    path = box.work / "mine.json"
    path.write_text(json.dumps(document))

    def visible(settings: Any) -> str:
        found = {name: to_json(place.value) for name, place in places(settings).items()}
        for name, value in document.items():
            if name in found and not alike(found[name], value):
                return f"{name} is {value!r:.60} in the file and {found[name]!r:.60} in the settings"
        return ""

    return Attempt(how, lambda: from_file(path), wrong=visible)


def damaged_file(rng: random.Random, box: Box) -> Attempt:
    """A file of settings as TOML or JSON of any bytes, or something else in its place."""
    toml = 'task = "swarm/hover"\nsteps = 5000\nseed = 3\n\n[algorithm_config]\nlearning_rate = 0.001\n'
    data = {"mine.toml": toml, "mine.json": json.dumps({"task": "swarm/hover", "steps": 5000, "seed": 3})}
    path = box.work / rng.choice(sorted(data))
    text = data[path.name]
    path.write_text(text)
    ways: dict[str, Callable[[], object]] = {
        "damaged": lambda: path.write_bytes(mutate.damaged(text.encode(), rng)[0]),
        "replaced": lambda: mutate.replaced(path, rng, box.precious),
        "deep": lambda: path.write_text("a = " + "[" * 5000 if path.suffix == ".toml" else "[" * 5000),
        "deep tables": lambda: path.write_text(
            "[" + ".".join("a" * 5000) + "]\n" if path.suffix == ".toml" else '{"a":' * 5000
        ),
        "twice": lambda: path.write_text(text + text),
        "UTF-16": lambda: path.write_bytes(text.encode("utf-16")),
        "a mark": lambda: path.write_bytes(b"\xef\xbb\xbf" + text.encode()),
        "a date": lambda: path.write_text(
            "steps = 1979-05-27\n" if path.suffix == ".toml" else '{"steps": "1979-05-27"}'
        ),
        "NaN": lambda: path.write_text("steps = nan\n" if path.suffix == ".toml" else '{"steps": NaN}'),
        "a list": lambda: path.write_text("[[steps]]\na = 1\n" if path.suffix == ".toml" else "[1, 2]"),
        "other suffix": lambda: path.rename(path.with_suffix(".yaml")),
        "huge": lambda: path.write_text(
            "steps = " + "9" * 5000 if path.suffix == ".toml" else '{"steps": ' + "9" * 5000 + "}"
        ),
        "keys": lambda: path.write_text('"" = 1\n' if path.suffix == ".toml" else '{"": 1}'),
        "nothing": lambda: path.write_text(""),
    }
    way = rng.choice(sorted(ways))
    ways[way]()
    refuse = way in ("deep", "deep tables", "a date", "NaN", "a list", "other suffix", "huge", "keys")
    refuse |= way == "UTF-16" and path.suffix == ".toml"  # JSON in UTF-16 is JSON
    return Attempt(f"{path.name}: {way}", lambda: from_file(path), Must.REFUSE if refuse else Must.EITHER)


def no_place(rng: random.Random, box: Box) -> Attempt:
    """Results that cannot be written where they are wanted: an error, and nothing half written."""
    box.copied("run")
    box.copied("log.csv")
    (box.out / "full").mkdir()
    (box.out / "full" / "x").write_text("kept")
    (box.out / "file").write_text("kept")
    places_ = (
        "/dev/full",
        "/proc/x",
        "/proc/self/x/y",
        "out/file/x",
        "out/full",
        "",
        "x" * 300 + ".json",
        "/dev/null/x",
        "out/\0",
    )
    place = rng.choice(places_[:-1])
    commands: Mapping[str, tuple[str, ...]] = {
        "embodied.evaluate": (*CHEAP["evaluate"], "--json"),
        "embodied.curves": ("run", "--out"),
        "sim2real.export": (examples.TASK, "--out"),
        "sim2real.preflight": ("log.csv", "--json"),
        "embodied.train": (examples.TASK, "--num-envs", "2", "--steps", "64", "--evaluate-episodes", "0", "--out"),
        "sim2real.excitation": ("--robot", "go1", "--out"),
        "sim2real.cameras.board": ("--out",),
        "embodied.collect": ("manipulation/reach", "--episodes", "1", "--out"),
        "policies.demonstrations": (examples.TASK, "--episodes", "1", "--out"),
        "embodied.snapshots": (examples.TASK, "--out"),
    }  # fmt: skip
    module = rng.choice(sorted(commands))

    def kept(_: Any) -> str:
        same = (box.out / "file").read_text() == (box.out / "full" / "x").read_text() == "kept"
        return "" if same else "what was there is gone"

    def act() -> Said:
        said = call(module, *commands[module], place)
        if problem := kept(None):
            raise AssertionError(problem)
        return said

    return Attempt(f"{module} {commands[module][-1]} {place[:30]!r}", act, Must.REFUSE)


def combinations(rng: random.Random, box: Box) -> Attempt:
    """Settings of which each is valid and that contradict each other, or belong to another learner or task."""
    words = rng.choice(
        (
            ["--seed", "1", "--seeds", "1", "2"], ["--seeds", "1", "1"], ["--algorithm", "sac", "--ppo.epochs",
            "3"], ["--algorithm", "svea"],
            ["--cameras", "front"], ["--resume", "no/such"], ["--resume", ""], ["--adversary", "out/x"], [
            "--calibration", "log.csv"], ["--calibration-width", "2"],
            ["--initial-states-share", "0.5"], ["--initial-states", "no/such"], ["--start-from", "no/such"], [
            "--start-from", "zero"], ["--resume", "x", "--seed", "1"],
            ["--algorithm", "dagger", "--steps", "-5"], ["--name", "a/b"], ["--name", ""], ["--name", ".."], [
            "--num-envs", "0"], ["--num-envs", "1000000000000"],
            ["--steps", "-1"], ["--engine", "warp9"], ["--device", "meta"], ["--device", "cuda:99"], ["--device",
            "tpu"], ["--device", ""], ["--algorithm", "pp"],
            ["--robot", "go1"], ["--resolution", "0", "0", "--cameras", "track"], ["--episodes-per-trial", "0"], [
            "--episodes-per-trial", "-3"], ["--config.without", "nothing"],
            ["--ppo.minibatches", "0"], ["--ppo.hidden", "0"], ["--ppo.hidden", "-5"], ["--ppo.unroll", "0"], [
            "--wandb", "maybe"], ["--episode-steps", "0"], ["--episode-steps", "-1"],
        )
    )  # fmt: skip
    out = ["--out", str(box.out / "run")] if "--resume" not in words and "--name" not in words else []
    small = ("--num-envs=2", "--steps=8", "--evaluate-episodes=0")

    def act() -> Said:
        return call("embodied.train", examples.TASK, *small, *out, *words)

    return Attempt(f"train {' '.join(words)}", act, Must.REFUSE)


KINDS: Kinds = {
    "wrong type": wrong_type,
    "unknown flag": unknown_flag,
    "strange value": strange_value,
    "extreme setting": extreme_setting,
    "edited file": edited_file,
    "damaged file": damaged_file,
    "no place": no_place,
    "combinations": combinations,
}
