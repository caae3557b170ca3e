"""`python -m benchmarks.model_files SOURCE ...`: the robots of other packages, from the file to an exported task.

Every MJCF and URDF file of a source is read as `python -m embodied.robot` reads it, in a process of its own under a
limit of time; a robot's first task is then built, simulated for some steps and described for export. The promise: all
of it works, or the file is refused in one line; no tracebacks, no crashes, no hangs. `--table` writes the robots among
the files of an earlier result as a table in Markdown.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from embodied import cli
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, guard
from embodied.robot import Robot, forms_of
from embodied.storage.bounds import at_least
from embodied.storage.files import write_atomic
from sim2real.graphs.describe import describe

DISTRIBUTIONS = {"pybullet_data": "pybullet", "dm_control": "dm_control"}  # module -> what holds its version
SKIPPED = (
    "random_urdfs",
    "test_assets",
    "testing",
)  # folders: a thousand like objects, and tests of the package itself
NO_ROBOT = (
    "an object, not a robot", "a part that another file includes", "expected <mujoco>", "has no links", "no XML",
    "0 joints and limbs", "1 joints and limbs", "2 joints and limbs",
)  # fmt: skip
SCENERY = (
    "ground", "plane", "cube", "table", "toys/", "spherical", "pendulum", "acrobot", "floor.xml", "scene.xml",
    "boxhead", "jumping_ball", "drosophila", "build_fruitfly",
)  # fmt: skip
"""In names of files that have joints and are no robots, or parts of one."""
STEPS = 10
TABLE = Path("docs/robots_tried.md")
RESULT = Path("benchmarks/results/sim2real/model-files.json")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Read model files of other packages, or write the table of an earlier result.

    Examples:
        python -m benchmarks.model_files pybullet_data dm_control --json benchmarks/results/sim2real/model-files.json
        python -m benchmarks.model_files example-robot-data==6.0.0=FOLDER
        python -m benchmarks.model_files --table
    """

    sources: tyro.conf.Positional[tuple[str, ...]] = ()
    """An installed module, a file or folder, or NAME==VERSION=FOLDER."""
    limit: float = 180.0
    """s for a file."""
    processes: Annotated[int, at_least(1)] = 1
    """Files at a time."""
    table: bool = False
    """Write docs/robots_tried.md from benchmarks/results/sim2real/model-files.json."""
    json: Path | None = None
    """File for the result."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Files of one package."""

    name: str
    version: str
    folder: Path
    files: tuple[Path, ...]

    @classmethod
    def of(cls, text: str) -> Source:
        """The source that a command line names.

        Raises:
            EmbodiedError: there is no such module, file or folder.
        """
        name, version, where = text, "", text
        if "==" in text:
            name, _, rest = text.partition("==")
            version, _, where = rest.partition("=")
        elif not Path(text).exists() and (spec := importlib.util.find_spec(text.replace("-", "_"))) and spec.origin:
            where = str(Path(spec.origin).parent)
            version = importlib.metadata.version(DISTRIBUTIONS.get(text, text))
        path = Path(where)
        if not path.exists():
            raise EmbodiedError(f"no module, file or folder {where!r}; say a module's name, or NAME==VERSION=FOLDER")
        if path.is_file():
            return cls(name if "==" in text else path.name, version, path.parent, (path,))
        files = sorted([*path.rglob("*.urdf"), *path.rglob("*.xml")])
        kept = [file for file in files if not set(SKIPPED) & set(file.parts) and b"<mujoco" in head(file)]
        return cls(name if "==" in text else path.name, version, path, tuple(kept))

    def named(self, file: Path) -> tuple[str, str, str]:
        """Package, version and name of one of its files."""
        return self.name, self.version, file.relative_to(self.folder).as_posix()


def head(file: Path) -> bytes:
    """Enough of a file to see what it is; a URDF counts by its name."""
    return b"<mujoco" if file.suffix == ".urdf" else file.read_bytes()[:20_000]


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "benchmarks.model_files")
    if settings.table:
        write_atomic(TABLE, table(json.loads(RESULT.read_text())).encode())
        cli.show(f"table: {TABLE}")
        return 0
    sources = [Source.of(text) for text in settings.sources]
    count = sum(len(source.files) for source in sources)
    os.environ["PYTHONWARNINGS"] = "ignore::RuntimeWarning"  # of a process that imports this module twice
    entries = begun(settings.json)
    known = {entry["alike"] for entry in entries if "task" in entry}
    done = {(entry["package"], entry["version"], entry["file"]) for entry in entries}
    jobs = [(source, file) for source in sources for file in source.files if (*source.named(file),) not in done]
    with cli.Line("model files", count) as line, ThreadPoolExecutor(settings.processes) as pool:
        for entry in pool.map(lambda job: read(job[0], job[1], settings.limit, known), jobs):
            entries.append(entry)
            keep(settings.json, entry)
            line.update(len(entries), f"{entry['package']} {entry['file']}")
    result = totals(entries) | {"files": entries}
    counts = {name: str(value) for name, value in result.items() if name != "files"}
    cli.show(cli.table("model files", counts))
    named = " ".join(dict.fromkeys("=".join(text.split("=")[:3]) for text in settings.sources))  # without folders
    cli.write_result(settings.json, f"python -m benchmarks.model_files {named}", result)
    if settings.json is not None:
        partial(settings.json).unlink(missing_ok=True)
    return 1 if result["tracebacks"] or result["crashes"] or result["hangs"] else 0


def partial(json_file: Path) -> Path:
    """Outcomes of a measurement that has not ended, a line each: it goes on behind them."""
    return json_file.with_suffix(".partial")


def begun(json_file: Path | None) -> list[dict[str, Any]]:
    """Outcomes that a stopped measurement left."""
    if json_file is None or not partial(json_file).exists():
        return []
    return [json.loads(line) for line in partial(json_file).read_text().splitlines()]


def keep(json_file: Path | None, entry: dict[str, Any]) -> None:
    """Append an outcome."""
    if json_file is not None:
        with partial(json_file).open("a") as lines:
            lines.write(json.dumps(entry) + "\n")


def totals(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of files by outcome."""
    ends = collections.Counter(entry["end"] for entry in entries)
    understood = [entry for entry in entries if "kind" in entry]
    return {
        "count": len(entries),
        "understood": len(understood),
        "refused": ends["refused"] - sum(entry["end"] == "refused" for entry in understood),
        "tracebacks": ends["traceback"],
        "crashes": ends["crash"],
        "hangs": ends["hang"],
        "robots": sum(is_robot(entry) for entry in entries),
        "robots_understood": sum(is_robot(entry) for entry in understood),
        "exported": ends["exported"],
        "refused_by_tasks": sum(entry["end"] == "refused" for entry in understood),
        "without_task": ends["without task"],
        "alike": ends["alike"],
    }


def read(source: Source, file: Path, limit: float, known: set[str]) -> dict[str, Any]:
    """Outcome of one file, in a process of its own; robots that are `known` are not simulated once more."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.model_files"])
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=follow, args=(file, frozenset(known), sending), daemon=True)
    begin = time.monotonic()
    process.start()
    sending.close()
    found: dict[str, Any] = {}
    while "end" not in found:
        if not receiving.poll(max(begin + limit - time.monotonic(), 0.0)):
            found["end"] = "hang"
            break
        try:
            found |= receiving.recv()
        except EOFError:
            process.join()
            found |= {"end": "crash", "said": f"the process died with {process.exitcode}"}
    process.kill()
    process.join()
    known |= {found["alike"]} if "task" in found else set()
    found["seconds"] = round(time.monotonic() - begin, 2)
    if "said" in found:
        said = found["said"].replace(str(file.resolve().parent.parent), "..").removeprefix(f"{file}: ")
        found["said"] = said.replace(str(file), file.name).replace(str(source.folder), "")
    return dict(zip(("package", "version", "file"), source.named(file), strict=True)) | found


def follow(file: Path, known: Collection[str], sending: Connection) -> None:
    """Send what is found of a model file as it goes on: `stage` before each stage, `end` as the last."""
    try:
        sending.send({"stage": "robot"})
        robot = Robot.load(file)
        sending.send(found := described(robot))
        names = join_content().taking(forms_of(robot))
        if not names or found["alike"] in known:
            sending.send({"end": "alike" if names else "without task"})
            return
        sending.send({"task": names[0], "stage": "build"})
        env = make(names[0], num_envs=1, engine="mujoco", config={"robot": str(file)})
        sending.send({"stage": "step"})
        env.reset(seed=0)
        rewards = torch.stack([env.step(torch.zeros(1, env.task.action_size)).reward for _ in range(STEPS)])
        sending.send({"stage": "export", "finite": bool(torch.isfinite(rewards).all())})
        describe(env.task, names[0])
        sending.send({"stage": "done", "end": "exported"})
    except EmbodiedError as error:
        sending.send({"end": "refused", "said": str(error), "lines": str(error).count("\n") + 1})
    except BaseException as error:
        sending.send({"end": "traceback", "said": f"{type(error).__name__}: {error}"})


def described(robot: Robot) -> dict[str, Any]:
    """A robot as JSON."""
    found = {
        "kind": robot.kind.value,
        "base": "free" if robot.free else "fixed",
        "trunk": robot.trunk,
        "joints": len(robot.joints),
        "feet": list(robot.feet),
        "tip": robot.tip,
        "mass": round(robot.mass, 3),
        "mended": list(robot.fixes),
        "warnings": list(robot.warnings),
    }
    digest = hashlib.sha256(robot.model.body_inertia.tobytes() + robot.home.tobytes()).hexdigest()
    return found | {"alike": digest[:16]}


def is_robot(entry: dict[str, Any]) -> bool:
    """Whether a file is a robot: it has joints, or was refused for another reason than that it is none."""
    if "kind" in entry:
        return entry["joints"] > 0 and entry["mass"] > 0
    return not any(words in entry.get("said", "") for words in NO_ROBOT)


def table(result: dict[str, Any]) -> str:
    """The robots of a result, one of each folder of URDF files, in Markdown."""
    rows: dict[str, dict[str, Any]] = {}
    for entry in result["files"]:
        file = Path(entry["file"])
        key = f"{entry['package']}/{file.parent.parent if file.parent.name in ('urdf', 'robots') else file.parent}"
        key = f"{key}/{file.name}" if file.suffix == ".xml" or file.parent == Path(".") else key
        better = key not in rows or ("kind" not in rows[key] and "kind" in entry)
        if is_robot(entry) and better and not any(name in entry["file"] for name in SCENERY):
            rows[key] = entry
    packages = sorted({f"{entry['package']} {entry['version']}" for entry in result["files"]})
    lines = [
        "# Robots tried",
        "",
        f"Written by `python -m benchmarks.model_files --table` from `{RESULT.as_posix()}`, which has all",
        f"{result['count']} files of {', '.join(packages)}:",
        f"{result['understood']} understood, {result['refused']} refused in one line,",
        f"{result['tracebacks']} tracebacks, {result['crashes']} crashes, {result['hangs']} hangs.",
        f"Of those understood, the first task of {result['exported']} was built, simulated and described for export;",
        f"{result['refused_by_tasks']} are refused by it in one line, {result['without_task']} have none,",
        f"{result['alike']} are the same robot as another file.",
        "Each runs in a process of its own, for 3 minutes at most. Here: robots, and of a folder with",
        "several URDF files one.",
        "",
        "| file | package | understood, or the line that says what to do |",
        "|---|---|---|",
    ]
    lines += [f"| `{entry['file']}` | {entry['package']} | {words(entry)} |" for entry in rows.values()]
    return "\n".join(lines) + "\n"


def words(entry: dict[str, Any]) -> str:
    """Content of a file as understood, and what became of its first task, as a cell of the table."""
    said = entry.get("said", "")
    said = said.partition(f"{Path(entry['file']).name}: ")[2] or said
    said = said.replace("|", "/").replace("<", "&lt;").replace("*", "\\*")
    if "kind" not in entry:
        return f"refused: {said}"
    parts = [entry["kind"], f"{entry['joints']} joints", f"{entry['mass']:.3g} kg"]
    parts += [f"{len(entry['feet'])} feet"] if entry["feet"] else []
    parts += [f"tip `{entry['tip']}`"] if entry["tip"] else []
    notes = [f"fixed: {len(entry['mended'])}"] if entry["mended"] else []
    notes += [f"warnings: {len(entry['warnings'])}"] if entry["warnings"] else []
    text = ", ".join(parts) + (f" ({', '.join(notes)})" if notes else "")
    return f"{text}; tasks refuse it: {said}" if said else text


if __name__ == "__main__":
    raise SystemExit(main())
