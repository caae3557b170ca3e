"""docs/results.md, written from the JSON files under benchmarks/results: every figure with its file, none by hand.

python -m benchmarks.results_page            # write it
python -m benchmarks.results_page --check    # exit code 1 where it is not what the files say
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tyro

from benchmarks.learners import table as learners

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/results.md"
LINK = "../benchmarks/results/"
SEED = re.compile(r"_seed(\d+)")
Record: TypeAlias = Mapping[str, Any]
Row: TypeAlias = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Metric:
    """How a number of a result is shown."""

    label: str
    unit: str
    """`%` of a share."""
    digits: int = 3


METRICS: Mapping[str, Metric] = {
    "velocity_error": Metric("velocity error", "m/s"),
    "fall": Metric("failed", "%", 1),
    "tracked": Metric("targets tracked", "%", 1),
    "position_error": Metric("position error", "m"),
    "forward_speed": Metric("speed", "m/s", 2),
    "caught": Metric("caught", "%", 1),
    "dropped": Metric("dropped", "%", 1),
}
"""Of the tasks' own metrics those that are shown, in this order."""
BY_RETURN = (
    "locomotion/ant",
    "locomotion/half-cheetah",
    "locomotion/hopper",
    "locomotion/walker2d",
    "locomotion/humanoid",
)
"""Tasks that are judged by their return, as Gymnasium's are."""
INTRODUCTION = """# Results

Written by `python -m benchmarks.results_page` from the JSON files in `benchmarks/results`. Each has its command,
hardware, commit and versions; nothing here is written by hand. **Success** is that at the last step of an episode;
beside it stands success at any step, as Meta-World counts; *failed* are episodes that ended in a fall, a collision or a
drop. Intervals are 95 % (Wilson's over the episodes). One seed is an anecdote: rows with several say the mean and each.
All was measured on 2 shared CPU cores without a GPU, unless the file's `hardware` says otherwise.
"""


@dataclasses.dataclass(frozen=True)
class Section:
    """One table."""

    title: str
    intro: str
    header: Row
    rows: Callable[[Mapping[str, Record]], Iterable[Row]]
    """Of all results by their files' names."""


def is_evaluated(record: Record) -> bool:
    """Whether success of a policy was counted."""
    return isinstance(record.get("success"), float | int) and "episodes" in record and "bytes" not in record


def is_trained(record: Record) -> bool:
    return is_evaluated(record) and "train_seconds" in record and "steps" in record


def learner(record: Record) -> str:
    """Name of the algorithm; older results have it in their command only, by the flag's former name `--learner` too."""
    named = re.search(r"--(?:algorithm|learner) (\S+)", str(record.get("command", "")))
    return str(record.get("algorithm") or (named[1] if named else "ppo"))


def groups(results: Mapping[str, Record], wanted: Callable[[str, Record], bool]) -> dict[str, dict[str, Record]]:
    """Name without seed -> file -> result."""
    found: dict[str, dict[str, Record]] = {}
    for name, record in results.items():
        if wanted(name, record):
            found.setdefault(SEED.sub("", name), {})[name] = record
    return found


def several(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """One value, or the mean and each."""
    if len(values) == 1:
        return shown(values[0])
    return f"{shown(float(np.mean(values)))} ({', '.join(shown(value) for value in values)})"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def success(records: Sequence[Record], key: str = "success") -> str:
    """% with its interval, of several the mean and each; empty where nobody counted it."""
    if any(key not in record for record in records):
        return ""
    text = several([record[key] for record in records], percent)
    low, high = (records[0].get(f"{key}_{side}") for side in ("low", "high"))
    if len(records) > 1 or low is None or high is None:
        return text
    return f"{text} ({percent(low)} to {percent(high)})"


def others(records: Sequence[Record]) -> str:
    """Metrics of the task, and its return where that is what counts."""
    said = []
    if str(records[0].get("task")) in BY_RETURN:
        said.append(f"return {several([record['return'] for record in records], lambda value: f'{value:,.0f}')}")
    for name, metric in METRICS.items():
        if all(isinstance(record.get(name), float | int) for record in records):
            share = metric.unit == "%"
            digits = metric.digits
            text = several(
                [record[name] for record in records],
                lambda value, share=share, digits=digits: f"{100 * value if share else value:.{digits}f}",
            )
            said.append(f"{metric.label} {text} {metric.unit}")
    return "; ".join(said)


def files(names: Iterable[str]) -> str:
    """Links to the files of a row; of several seeds the first with its seed, the others by number."""
    links = []
    for count, name in enumerate(names):
        seed = SEED.search(name)
        links.append(f"[{name if count == 0 or seed is None else seed[1]}]({LINK}{name}.json)")
    return ", ".join(links)


def trained(results: Mapping[str, Record]) -> Iterable[Row]:
    """Trainings that ended with an evaluation."""
    for group in groups(results, lambda name, record: is_trained(record)).values():
        records = list(group.values())
        yield (
            f"`{records[0].get('task', '')}`",
            learner(records[0]),
            f"{records[0]['steps'] / 1e6:.1f}",
            several([record["train_seconds"] / 60 for record in records], lambda value: f"{value:.1f}"),
            success(records),
            success(records, "success_any"),
            others(records),
            files(group),
        )


def evaluated(sees: bool) -> Callable[[Mapping[str, Record]], Iterable[Row]]:
    """Policies and scripts over fresh episodes; those that see apart."""

    def rows(results: Mapping[str, Record]) -> Iterable[Row]:
        def wanted(name: str, record: Record) -> bool:
            return is_evaluated(record) and not is_trained(record) and ("vla" in name) == sees

        for group in groups(results, wanted).values():
            records = list(group.values())
            first = records[0]
            policy = first.get("policy")
            yield (
                f"`{first.get('task', '')}`",
                policy if isinstance(policy, str) and policy in ("shipped", "expert", "zero", "random") else "a run's",
                str(first.get("engine", "mujoco")),
                f"{first['episodes']:.0f}",
                success(records),
                success(records, "success_any"),
                others(records),
                files(group),
            )

    return rows


def is_of_seeds(record: Record) -> bool:
    """Whether `embodied.train --seeds` wrote it."""
    return "seeds" in record and "figures" in record


def of_seeds(results: Mapping[str, Record]) -> Iterable[Row]:
    """Trainings with several seeds by one command."""
    for name, record in results.items():
        if not is_of_seeds(record):
            continue
        figures = record["figures"]
        iqm = figures["success"]
        yield (
            f"`{record['task']}`",
            record["algorithm"],
            ", ".join(map(str, record["seeds"])),
            success([record]),
            f"{percent(iqm['iqm'])} ({percent(iqm['iqm_low'])} to {percent(iqm['iqm_high'])})",
            ", ".join(percent(score) for score in iqm["scores"]),
            others([record]),
            f"{files([name])}, [page]({LINK}{name}.html)",
        )


def speed(results: Mapping[str, Record]) -> Iterable[Row]:
    """Environments per second by `embodied.bench`."""
    for name, record in results.items():
        listed = record.get("results")
        for one in [record, *(listed if isinstance(listed, list) else [])]:
            if not isinstance(one, Mapping) or "engine_fraction" not in one or not name.startswith("bench"):
                continue
            yield (
                f"`{one['task']}`",
                one["engine"],
                f"{one['num_envs']:,}",
                "the shipped" if one.get("policy") else "none",
                f"{one['env_steps_per_second'] / 1e3:,.1f} k",
                f"{one['physics_steps_per_second'] / 1e6:,.2f} M",
                f"{100 * one['engine_fraction']:.0f} %",
                files([name]),
            )


def deployed(results: Mapping[str, Record]) -> Iterable[Row]:
    """Bundles on simulated robots."""
    for name, record in results.items():
        rows = record.get("success")
        if not name.startswith("deploy") or not isinstance(rows, Mapping):
            continue
        for what, row in rows.items():
            latched = sum(row["latched"].values())
            yield (
                f"`{what.split(' on ')[0]}`",
                what.split(" on ", 1)[1],
                str(row["runs"]),
                percent(row["success"]),
                percent(row["failed"]),
                str(latched),
                str(row["outside_limits"]),
                files([name]),
            )


def calibrated(results: Mapping[str, Record]) -> Iterable[Row]:
    """Whether a calibration's intervals hold the truth, for logs of simulators that are not its twin."""
    for name, record in results.items():
        if not name.startswith("calibration_foreign"):
            continue
        for source, row in record["results"].items():
            worst = min(row["parameters"], key=lambda parameter, row=row: row["parameters"][parameter]["coverage"])
            yield (
                source,
                str(row["logs"]),
                percent(row["coverage"]),
                f"{row['half_width_over_error']:.1f}",
                f"{row['width_over_prior']:.3f}",
                percent(row["identified"]),
                f"{worst} ({percent(row['parameters'][worst]['coverage'])} %)",
                files([name]),
            )


def remaining(results: Mapping[str, Record]) -> Iterable[Row]:
    """All other files: their commands, and what single numbers they have."""
    for name, record in results.items():
        shown = is_evaluated(record) or is_of_seeds(record) or name.startswith(("deploy", "calibration_foreign"))
        if shown or (name.startswith("bench") and any(speed({name: record}))):
            continue
        numbers = {
            key: value
            for key, value in record.items()
            if isinstance(value, float | int) and not isinstance(value, bool) and not key.endswith(("_low", "_high"))
        }
        said = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in list(numbers.items())[:8])
        yield files([name]), f"`{_short(record.get('command', ''))}`", said


def _short(command: Any) -> str:
    """A command without where it wrote to."""
    return re.sub(r" --(json|out) \S+", "", str(command)).removeprefix("python -m ").replace("|", "\\|")


HEADLINES: Sequence[tuple[str, str]] = (
    ("A Crazyflie learns to hover", "train_hover"),
    ("A Go1 learns to walk", "train_go1"),
    ("... its policy on PyBullet", "evaluate_go1_pybullet"),
    ("... on Brax", "evaluate_go1_brax"),
    ("A G1 learns to walk", "train_g1_flat"),
    ("Eight drones take their places in a formation", "evaluate_formation_shipped"),
    ("A LEAP hand lifts objects that it never saw", "lift_leap_sac_held_out"),
    ("Scripts of Meta-World's fifty tasks", "evaluate_mt50_expert"),
    ("One policy for MT10, from states", "evaluate_mt10_ppo"),
    ("... from pictures and words", "vla_mt10"),
    ("A1, known by its URDF alone, learns to walk", "velocity_a1"),
)
"""What -> file, without seed."""


def headlines(results: Mapping[str, Record]) -> Iterable[Row]:
    """What most people look for first."""
    by_name = groups(results, lambda name, record: is_evaluated(record))
    for what, name in HEADLINES:
        records = list(by_name[name].values())
        took = ""
        if is_trained(records[0]):
            minutes = float(np.mean([record["train_seconds"] for record in records])) / 60
            took = f"{records[0]['steps'] / 1e6:.1f} M steps, {minutes:.1f} min"
        yield what, success(records), success(records, "success_any"), others(records), took, files(by_name[name])


FRESH = ("task", "policy", "engine", "episodes", "success, %", "at any step, %", "besides", "file")
SECTIONS = (
    Section(
        "In short",
        "What most people look for first.",
        ("what", "success, %", "at any step, %", "besides", "training", "file"),
        headlines,
    ),
    Section(
        "Trained policies",
        "Each trained by one command (in the file) and evaluated over fresh episodes afterwards.",
        ("task", "learner", "steps, M", "minutes", "success, %", "at any step, %", "besides", "file"),
        trained,
    ),
    Section(
        "Several seeds by one command",
        "By `python -m embodied.train --seeds`. Mean and interquartile mean over the seeds with intervals of a "
        "stratified bootstrap, which of three seeds promise more than they know.",
        ("task", "learner", "seeds", "success, %", "interquartile mean, %", "each, %", "besides", "file"),
        of_seeds,
    ),
    Section(
        "Policies and scripts evaluated",
        "Shipped policies, scripted experts and runs; also on engines that they were not trained on.",
        FRESH,
        evaluated(sees=False),
    ),
    Section(
        "Policies that see and are told",
        "Vision-language-action policies, from pictures and words.",
        FRESH,
        evaluated(sees=True),
    ),
    Section(
        "Speed",
        "Whole control steps, by `python -m embodied.bench`; beside them how much of the bare engine's speed that is.",
        ("task", "engine", "environments", "policy", "environment steps/s", "physics steps/s", "of the engine", "file"),
        speed,
    ),
    Section(
        "Deployed on simulated robots",
        "Bundles behind the safety chain, by `python -m benchmarks.deploy_standin`: on the model, late (10 ms), lossy "
        "(5 % of packets), with a model mismatch, or all of it. *Outside*: targets beyond a limit that were sent.",
        ("task", "engine, condition", "runs", "success, %", "failed, %", "latched", "outside", "file"),
        deployed,
    ),
    Section(
        "Calibration",
        "Logs of simulators that are not the twin, by `python -m benchmarks.calibration_foreign`.",
        (
            "simulator",
            "logs",
            "truths inside, %",
            "half width / error",
            "width / prior's",
            "identified, %",
            "held least",
            "file",
        ),
        calibrated,
    ),
    Section(
        "Everything else",
        "Measurements of one kind each; `benchmarks/README.md` says what they are.",
        ("file", "command (python -m ...)", "numbers"),
        remaining,
    ),
)


def page(results: Mapping[str, Record]) -> str:
    """The whole page, Markdown."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        rows = list(section.rows(results))
        ordered = rows if section.rows is headlines else sorted(rows, key=lambda row: (row[0], row[-1]))
        lines = [section.header, ("---",) * len(section.header), *ordered]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"## {section.title}\n\n{section.intro}\n\n{table}\n")
    parts.append(f"## Learners\n\n{learners.markdown(learners.read())}")
    return "\n".join(parts)


def read() -> dict[str, Record]:
    """File name without its end -> result."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Write docs/results.md from the JSON files under benchmarks/results."""

    check: bool = False
    """Only say whether it is what the files say."""


def main(settings: Settings) -> int:
    text = page(read())
    if settings.check:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings)))
