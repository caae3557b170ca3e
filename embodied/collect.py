"""`python -m embodied.collect`: demonstrations with images and instructions, as a dataset in LeRobot's format v3.0."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro

from embodied import cli
from embodied.cli.interrupts import Interrupts, held
from embodied.env.env import Env
from embodied.env.factory import build
from embodied.env.options import C, EnvOptions
from embodied.env.registry import Suite, TaskEntry, join_content
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.suites import of_task
from embodied.rendering.camera_config import CameraConfig
from embodied.storage import task_names
from embodied.storage.configs import run_document
from embodied.storage.datasets.collecting import CollectConfig, collect, keypoint_names, require_recordable
from embodied.storage.datasets.layout import DatasetInfo, read_info
from embodied.storage.datasets.writer import DatasetWriter
from policies.training.loading import load_policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(CollectConfig, EnvOptions[C]):
    """Record episodes of a script or a policy, with images and instructions.

    Noise is added to executed actions, not to recorded ones. Ctrl-C or SIGTERM stops, and keeps the episodes that are
    whole; --resume goes on. Examples:

        python -m embodied.collect mt10 --out demos
        python -m embodied.collect manipulation/push --episodes 10 --cameras view --resolution 128 --out push
        python -m embodied.collect manipulation/pick-place --policy shipped --failures --noise 0 --out tries
    """

    task: tyro.conf.Positional[str] = ""
    """Task or suite to record; python -m embodied.list names them all. Or a task of your own, FILE.py:CLASS."""
    out: Path | None = None
    """Folder to write; it must not exist, unless with --resume."""
    resume: bool = False
    """Go on where a process with the same settings was stopped or killed, which loses at most its last thousand
    frames."""
    policy: str = "expert"
    """expert, shipped, random, zero, or a run folder or checkpoint; one that sees needs its own cameras and resolution
    here."""
    camera_config: tyro.conf.OmitArgPrefixes[CameraConfig] = CameraConfig(("view", "wrist"))  # noqa: RUF009 -- frozen
    """Cameras of the task's model, separated by spaces or commas."""
    num_envs: int = 50
    """Environments that step together."""
    json: Path | None = None
    """Also write the figures, with hardware and command, to this file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [name for word in self.camera_config.cameras for name in word.split(",") if name]
        cameras = dataclasses.replace(self.camera_config, cameras=tuple(dict.fromkeys(names)))
        object.__setattr__(self, "camera_config", cameras)
        if self.num_envs < 1:
            raise EmbodiedError(f"--num-envs {self.num_envs}: expected at least 1")


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    entry = registry.find(cli.required_task(words, registry, "collect", Settings))
    settings = parse(entry, words)
    if settings.out is None:
        raise EmbodiedError("where to? python -m embodied.collect TASK --out FOLDER")
    run(entry, settings, settings.out)
    return 0


def parse(entry: TaskEntry | Suite, words: list[str]) -> Settings[Any]:
    """Parse a command line whose flags include the fields of the task's config, or of the tasks' common one."""
    suite = isinstance(entry, Suite)
    config = entry.shared_config(training=False) if suite else entry.load().config_type()
    kind = Settings[type(config)]  # type: ignore[misc]
    parsed = cli.parse(kind, words, "collect", Settings[Any](task=tyro.MISSING, config=config))
    return dataclasses.replace(parsed, task=entry.name)


def run(entry: TaskEntry | Suite, settings: Settings[Any], out: Path) -> None:
    """Record task by task, print a line for each, write JSON."""
    tasks = entry.tasks if isinstance(entry, Suite) else (entry.name,)
    total, name = settings.episodes * len(tasks), task_names.label(entry.name)
    if settings.resume and out.exists() and read_info(out).episodes >= total:
        cli.say(f"{out} has all {total} episodes already")
        return
    envs = make_envs(tasks, settings)
    info = dataset_info(envs, settings)
    start, writing, seconds = time.perf_counter(), 0.0, dict.fromkeys(tasks, 0.0)
    interrupts = Interrupts()
    with DatasetWriter(out, info, origin=run_document(settings), resume=settings.resume) as writer:
        before = len(writer.rows)
        if before:
            cli.say(f"{before} of {total} episodes are there; the others follow")
        with interrupts, cli.Line(f"{name} by {settings.policy}", total, before=cli.COMPILING) as line:
            while envs and not interrupts.signal:
                # Let go of each when it is done: its programs and its renderer are not needed again.
                begun, env = time.perf_counter(), envs.pop(0)
                writing += record(env, writer, settings, line, interrupts)
                seconds[env.name] = time.perf_counter() - begun
    if interrupts.signal:
        cli.say(
            f"stopped by {interrupts.signal}: {len(writer.rows)} of {total} episodes are in {out}; the same command "
            "with --resume goes on"
        )
    took = time.perf_counter() - start
    results = [row for task in tasks if (row := result_row(task, writer, seconds[task]))["episodes"]]
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    frames, own = (sum(row.length for row in rows) for rows in (writer.rows, writer.rows[before:]))
    tried, succeeded = (sum(row[name] for row in results) for name in ("tried", "succeeded"))
    summary = {
        "episodes": len(writer.rows), "frames": frames, "images": frames * len(settings.camera_config.cameras),
        "tried": tried, "success": succeeded / tried, "seconds": took, "frames_per_second": own / took,
        "writing_seconds": writing, "bytes": size,
    }  # fmt: skip
    cli.show(cli.table(f"{name} by {settings.policy} -> {out}", table_rows(summary)))
    options = {
        "task": name, "policy": settings.policy, "seed": settings.seed, "noise": settings.noise,
        "noise_correlation": settings.noise_correlation, "hold": settings.hold,
        "cameras": list(settings.camera_config.cameras), "resolution": settings.camera_config.resolution,
        "visual_shift": settings.camera_config.visual_shift, "num_envs": settings.num_envs,
    }  # fmt: skip
    cli.write_result(settings.json, cli.command_line("embodied.collect"), options | summary | {"results": results})


def make_envs(tasks: Sequence[str], settings: Settings[Any]) -> list[Env]:
    """Environments of each task, all before the first is recorded, so that a misfit is an error at once.

    Raises:
        EmbodiedError: A task has no such camera, cannot be recorded, or differs from the others in rate or sizes.
    """
    count = min(settings.num_envs, settings.episodes)
    if not settings.camera_config.cameras:
        raise EmbodiedError("no --cameras; expected at least one")
    envs = [build(of_task(settings, task, count, settings.seed)) for task in tasks]
    for env in envs:
        require_recordable(env, settings.state)
        first, own = (
            (e.control_dt, e.observation_spec[settings.state].shape[0], e.action_size, *keypoint_names(e.task))
            for e in (envs[0], env)
        )
        if first != own:
            raise EmbodiedError(
                f"'{envs[0].name}' and '{env.name}' do not fit into one dataset: control step in s, length of state "
                f"and of action, and keypoints are {first} and {own}"
            )
    return envs


def dataset_info(envs: Sequence[Env], settings: Settings[Any]) -> DatasetInfo:
    """The features and rate that the tasks' frames have in common.

    Raises:
        EmbodiedError: The control rate is no whole number of Hz, as LeRobot wants it.
    """
    env = envs[0]
    fps = round(1 / env.control_dt)
    if abs(fps * env.control_dt - 1) > 1e-6:
        raise EmbodiedError(f"'{env.name}' acts at {1 / env.control_dt:.3f} Hz; a dataset needs a whole number")
    terms = env.observation_terms[settings.state]
    sizes = {term: max(1, int(shape[0]) if shape else 1) for term, shape in terms.items()}
    names = [term if size == 1 else f"{term}_{i}" for term, size in sizes.items() for i in range(size)]
    actions = tuple(f"action_{i}" for i in range(env.action_size))
    cameras = settings.camera_config
    return DatasetInfo(fps, cameras.cameras, cameras.size, tuple(names), actions, keypoint_names(env.task))


class _Stopped(Exception):
    """A signal arrived while episodes were simulated."""


def record(env: Env, writer: DatasetWriter, settings: Settings[Any], line: cli.Line, interrupts: Interrupts) -> float:
    """Record one task's episodes; returns the seconds spent writing.

    A signal ends it at the next control step, or behind the episode that is being written: those before are kept.
    """
    what, writing = env.name.rpartition("/")[2], 0.0
    there = [row for row in writer.rows if row.task == env.name]
    before, frames = len(writer.rows) - len(there), sum(row.length for row in there)
    policy = load_policy(settings.policy, env, settings.seed)

    def show(kept: int, step: int) -> None:
        if interrupts.signal:
            raise _Stopped
        line.update(before + kept, f"{what}, step {step}")

    with contextlib.suppress(_Stopped):
        for demonstration in collect(env, policy, settings, show, [row.tried or 0 for row in there]):
            episode, start = demonstration.episode, time.perf_counter()
            with held():
                writer.add(episode, demonstration.noise, demonstration.tried)
            writing += time.perf_counter() - start
            frames += len(episode)
            line.update(len(writer.rows), f"{what}, {frames:,} frames")
            if interrupts.signal:
                break
    return writing


def result_row(task: str, writer: DatasetWriter, seconds: float) -> dict[str, Any]:
    """A task's row of the result; `seconds` are those of this process."""
    rows = [row for row in writer.rows if row.task == task]
    count, tried, frames = len(rows), max((row.tried or 0 for row in rows), default=0), sum(row.length for row in rows)
    succeeded = sum(row.success for row in rows)
    return {"task": task_names.label(task), "episodes": count, "tried": tried, "succeeded": succeeded,
            "success": succeeded / max(tried, 1), "frames": frames, "length": frames / max(count, 1),
            "seconds": seconds}  # fmt: skip


def table_rows(summary: dict[str, Any]) -> dict[str, str]:
    """The rows of the summary's table."""
    return {
        "episodes": f"{summary['episodes']} of {summary['tried']} tried, {100 * summary['success']:.1f} % solved",
        "frames": f"{summary['frames']:,}, {summary['images']:,} images",
        "size": f"{summary['bytes'] / 1e6:.1f} MB",
        "speed": f"{summary['frames_per_second']:.0f} frames/s, {summary['seconds']:.0f} s, of which writing "
        f"{summary['writing_seconds']:.0f} s",
    }


if __name__ == "__main__":
    sys.exit(main())
