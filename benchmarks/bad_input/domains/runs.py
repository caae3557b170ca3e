"""Folders of trainings: damaged, forged, linked, at unusual places."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from benchmarks.bad_input import examples, mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must, Said, call
from embodied.storage.configs import to_json
from embodied.storage.runs import Run
from policies.training.loading import load_policy
from policies.training.settings import saved_settings

RUN = "run"


def read(path: Path) -> tuple[int, float, list[dict[str, float]], dict[str, Any]]:
    """All that is read of a run: step and sum of its newest checkpoint, metrics, result."""
    run = Run.open(path)
    checkpoint = run.load()
    load_policy(str(path), examples.env())
    total = sum(float(tensor.double().abs().sum()) for tensor in checkpoint.tensors.values())
    return checkpoint.step, total, run.metrics(), run.result


def differs(good: Path):
    """Whether what was read is not of the valid run."""

    def wrong(result: Any) -> str:
        step, total, metrics, said = result
        totals = {step: read(good / RUN / "checkpoints" / f"{step:012d}")[1] for step in examples.STEPS}
        if total != totals.get(step):
            return f"checkpoint {step} has other numbers than were saved"
        _, _, all_metrics, all_said = read(good / RUN)
        if any(row not in all_metrics for row in metrics):
            return f"metrics {metrics} were never logged"
        return "" if said in (all_said, {}) else f"result {said} was never written"

    return wrong


def damaged_file(rng: random.Random, box: Box) -> Attempt:
    """Bytes of a checkpoint's file or of the config are others: the seals and sums hold them."""
    path = box.copied(RUN)
    files = [
        file for file in mutate.files_of(path) if file.parent.parent.name == "checkpoints" or file.name == "config.json"
    ]
    file = rng.choice(files)
    data, how = mutate.damaged(file.read_bytes(), rng)
    file.write_bytes(data)
    return Attempt(f"{file.relative_to(path)}: {how}", lambda: read(path), wrong=differs(box.good))


def replaced(rng: random.Random, box: Box) -> Attempt:
    """Something else in the place of a file or folder."""
    path = box.copied(RUN)
    victims = sorted(p for p in path.rglob("*") if not p.name.startswith("events"))
    how = mutate.replaced(rng.choice(victims), rng, box.precious)
    return Attempt(how, lambda: read(path), wrong=differs(box.good))


def swapped(rng: random.Random, box: Box) -> Attempt:
    """Files of two checkpoints exchanged, or one under another's name."""
    path = box.copied(RUN) / "checkpoints"
    first, second = sorted(path.iterdir())
    way = rng.choice(("tensors", "documents", "folders", "copies"))
    if way == "folders":
        first.rename(path / "x")
        second.rename(first)
        (path / "x").rename(second)
    elif way == "copies":
        shutil.copytree(second, path / f"{rng.randrange(3000, 10**12):012d}")
    else:
        name = {"tensors": "state.safetensors", "documents": "state.json"}[way]
        kept = (first / name).read_bytes()
        (first / name).write_bytes((second / name).read_bytes())
        (second / name).write_bytes(kept)
    return Attempt(way, lambda: read(path.parent), wrong=differs(box.good))


def forged_config(rng: random.Random, box: Box) -> Attempt:
    """Another value in the config, sealed again: settings have that value, or refuse it."""
    path = box.copied(RUN)
    said: list[Any] = []

    def change(document: Any) -> Any:
        new, how = mutate.edited(document, rng, ("config",))
        said.extend((how, new["config"]))
        return new

    mutate.rewritten(path / "config.json", change)
    how, config = said

    def wrong(settings: Any) -> str:
        document = to_json(settings)
        flat = {**document, **document.get("camera_config", {})}
        for name, value in config.items():
            if name in flat and name not in ("engine", "variations") and not alike(flat[name], value):
                return f"{name} is {value!r:.80} in the file and {flat[name]!r:.80} in the settings"
        return ""

    return Attempt(how, lambda: saved_settings(Run.open(path)), wrong=wrong)


def alike(loaded: Any, written: Any) -> bool:
    """Whether a setting is what the file says; fields that the file leaves out may be anything."""
    if isinstance(written, dict) and isinstance(loaded, dict):
        return all(name in loaded and alike(loaded[name], value) for name, value in written.items())
    if isinstance(written, list) and isinstance(loaded, list | tuple):
        return len(written) == len(loaded) and all(map(alike, loaded, written))
    return loaded == written or (loaded != loaded and (written is None or written != written)) or str(loaded) == written


def other_version(rng: random.Random, box: Box) -> Attempt:
    """A run or checkpoint of a format that does not exist."""
    path = box.copied(RUN)
    file = rng.choice([path / "config.json", *sorted(path.glob("checkpoints/*/state.json"))[-1:]])
    value = rng.choice((0, 2, 99, "1", None, [1], {}, 1.5, True, "x" * 300))
    mutate.rewritten(file, lambda document: document | {"format": value})
    step = examples.STEPS[-1] if file.name == "state.json" else None
    if value is True:  # equals 1 in Python, and in JSON's readers
        return Attempt("format true", lambda: Run.open(path).load(step))
    return Attempt(f"{file.name}: format {value!r:.40}", lambda: Run.open(path).load(step), Must.REFUSE)


def metrics_lines(rng: random.Random, box: Box) -> Attempt:
    """Strange lines between those of the metrics, as killed and mixed writers leave them."""
    path = box.copied(RUN)
    good = (path / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in good]
    for _ in range(rng.choice((1, 3, 20))):
        strange, _ = mutate.edited(rng.choice(records), rng)
        texts = (json.dumps(strange), json.dumps(mutate.other_value(rng, 0)), "{", "\0" * 50, "[" * 50_000, "")
        good.insert(rng.randrange(len(good) + 1), rng.choice(texts))
    (path / "metrics.jsonl").write_text("\n".join(good), encoding="utf-8")

    def wrong(result: Said) -> str:
        return "" if result.code or (box.out / "c.png").exists() else "no picture, and no error"

    words = rng.choice(((), ("--across", "minutes"), ("--measures", "*"), ("--bins", "1")))
    act = lambda: call("embodied.curves", str(path), "--out", str(box.out / "c.png"), *words)  # noqa: E731
    return Attempt(f"{len(good)} lines of metrics", act, wrong=wrong)


def one_bad_of_three(rng: random.Random, box: Box) -> Attempt:
    """A listing of runs of which one is broken names the others."""
    for name in ("first", "second", "third"):
        box.copied(RUN, f"runs/{name}")
    victim = box.work / "runs" / "second"
    if rng.random() < 0.4:
        how = mutate.replaced(rng.choice([victim, *sorted(victim.rglob("*"))]), rng, box.precious)
    else:
        file = rng.choice([f for f in mutate.files_of(victim) if f.suffix in (".json", ".jsonl")])
        how = f"{file.name} of another content"
        if file.suffix == ".json":
            mutate.rewritten(file, lambda document: mutate.edited(document, rng)[0])
        else:
            file.write_bytes(mutate.damaged(file.read_bytes(), rng)[0])

    def wrong(result: Said) -> str:
        lacking = [name for name in ("first", "third") if f"runs/{name}" not in result.out]
        return f"{', '.join(lacking)} not in the list: {result.out[-300:]}" if lacking else ""

    words = rng.choice(((), ("--json",), ("--limit", "0"), ("hover",)))
    return Attempt(f"one of three runs: {how}", lambda: call("embodied.runs", *words), Must.WORK, wrong)


def unusual_place(rng: random.Random, box: Box) -> Attempt:
    """A valid run in a folder of an unusual name, given in an unusual way."""
    names = (
        "with space",
        "ключ",
        "-flag",
        "a" * 200,
        "日本",
        "'quoted'",
        "%41",
        "a=b",
        "nan",
        "*",
        "[1]",
        "tab\tbed",
        ".hidden",
        "x.py",
    )
    path = box.copied(RUN, rng.choice(names))
    link = box.work / "link"
    link.symlink_to(path)
    forms = (
        path,
        f"{path}/",
        f"./{path.name}",
        f"{box.work}/../work/{path.name}",
        link,
        path / "config.json",
        path / "checkpoints",
    )
    form = Path(rng.choice(forms))
    return Attempt(f"{form}"[-80:], lambda: read(form), Must.WORK, differs(box.good))


def no_run(rng: random.Random, box: Box) -> Attempt:
    """Paths at which there is no run."""
    box.copied(RUN)
    texts = ("", ".", "..", "/", "no/such", "/dev/null", "/proc/self/mem", "run/checkpoints/1", "run/../run/x",
        "run/videos/x",
             "x" * 5000, "a\0b", "run/config.json/x", "~", "out", "run/checkpoints/999999999999")  # fmt: skip
    text = rng.choice(texts)
    command = rng.choice(
        ("Run.open", "embodied.curves", "embodied.evaluate", "embodied.ship", "embodied.play", "sim2real.export")
    )
    if command == "Run.open" or text.endswith("999999999999"):  # whose metrics there are
        return Attempt(f"Run.open({text[:40]!r})", lambda: Run.open(Path(text)).load(), Must.REFUSE)
    out = ("--out", str(box.out / "x.png")) if command in ("embodied.curves", "sim2real.export") else ()
    if "\0" in text:  # no argument of a process holds it
        text = "a\nb"
    return Attempt(f"{command} {text[:40]!r}", lambda: call(command, text, *out), Must.REFUSE)


def linked_out(rng: random.Random, box: Box) -> Attempt:
    """Parts of a run that are links to others' files: going on with the run does not write through them."""
    path = box.copied(RUN, "out/run")
    victims = ("metrics.jsonl", "result.json", "config.json", "checkpoints", "videos", "events")
    victim = next(path.glob(f"{rng.choice(victims)}*"))
    elsewhere = box.precious / victim.name
    if rng.random() < 0.5:
        victim.rename(elsewhere)
    elif victim.is_dir():
        shutil.move(victim, elsewhere)
        shutil.copytree(box.good / RUN / "checkpoints", elsewhere / "checkpoints")
    else:
        victim.unlink()
    victim.symlink_to(elsewhere)

    def go_on() -> str:
        with Run.open(path) as run:
            tensors = run.resume(examples.STEPS[0]).tensors
            run.log(3000, {"return": 1.0})
            run.save(3000, tensors, {})
            run.write_result({"success": 1.0})
        return "went on"

    return Attempt(f"{victim.name} is a link", go_on)


KINDS: Kinds = {
    "damaged file": damaged_file,
    "something in its place": replaced,
    "swapped checkpoints": swapped,
    "forged config": forged_config,
    "other version": other_version,
    "lines of metrics": metrics_lines,
    "one bad run of three": one_bad_of_three,
    "unusual place": unusual_place,
    "no run": no_run,
    "links to others": linked_out,
}
