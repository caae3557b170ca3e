"""The results pages: their tables, and where the rows come from.

`docs/results.md` has the headlines; the tables of all other sections are pages that are built with the site.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from benchmarks.learners import table as learners
from benchmarks.results_page import studies, tables
from benchmarks.results_page.records import LINK, ROOT, Record, Row, files

PAGE = ROOT / "docs/results.md"
FOLDER = "results"
"""Folder of the site with the pages that are built."""
INTRODUCTION = """# Results

Written by `python -m benchmarks.results_page` from the JSON files in `benchmarks/results`. Each has its command,
hardware, commit and versions; nothing here is written by hand. The tables below the first are pages of the site, which
`make docs` builds. **Success** is that at the last step of an episode;
beside it stands success at any step, as Meta-World counts; *failed* are episodes that ended in a fall, a collision or a
drop. Intervals are 95 % (Wilson's over the episodes). One seed is an anecdote: rows with several say the mean and each.
All was measured on 2 shared CPU cores without a GPU, unless the file's `hardware` says otherwise. Table tasks
(`manipulation/...`, MT10) have had a slim gripper since 25 November 2026, 21:30: files with an earlier `hardware.date`
are of Franka's broad hand.
"""


@dataclasses.dataclass(frozen=True)
class Section:
    """One table."""

    title: str
    intro: str
    header: Row
    rows: Callable[[Mapping[str, Record]], Iterable[Row]]
    """Of all results by their files' names."""
    page: str = ""
    """Page of the site that has the table; empty: docs/results.md."""
    in_order: bool = False
    """Whether the rows stay in their order, instead of being sorted."""
    file: str | None = None
    """File of all rows, where they name none."""


FRESH = ("task", "policy", "engine", "episodes", "success, %", "at any step, %", "besides", "file")
SECTIONS = (
    Section(
        "In short",
        "What most people look for first.",
        ("what", "success, %", "at any step, %", "besides", "training", "file"),
        tables.headlines,
        in_order=True,
    ),
    Section(
        "Trained policies",
        "Each trained by one command (in the file) and evaluated over fresh episodes afterwards.",
        ("task", "learner", "steps, M", "minutes", "success, %", "at any step, %", "besides", "file"),
        tables.trained,
        page="training",
    ),
    Section(
        "Several seeds by one command",
        "By `python -m embodied.train --seeds`. Mean and interquartile mean over the seeds with intervals of a "
        "stratified bootstrap, which of three seeds promise more than they know.",
        ("task", "learner", "seeds", "success, %", "interquartile mean, %", "each, %", "besides", "file"),
        tables.of_seeds,
        page="training",
    ),
    Section(
        "Policies and scripts evaluated",
        "Shipped policies, scripted experts and runs; also on engines that they were not trained on.",
        FRESH,
        tables.evaluated(sees=False),
        page="training",
    ),
    Section(
        "Policies that see and follow instructions",
        "Vision-language-action policies, from pictures and words; a policy of LeRobot under LeRobot's own evaluation.",
        FRESH,
        tables.evaluated(sees=True),
        page="seeing",
    ),
    Section(
        "Speed",
        "Whole control steps, by `python -m embodied.bench`; beside them how much of the bare engine's speed that is.",
        ("task", "engine", "environments", "policy", "environment steps/s", "physics steps/s", "of the engine", "file"),
        tables.speed,
        page="speed",
    ),
    Section(
        "Deployed on simulated robots",
        "Bundles behind the safety chain, by `python -m benchmarks.deploy_standin`: on the model, late (10 ms), lossy "
        "(5 % of packets), with a model mismatch, or all of it. *Outside*: targets beyond a limit that were sent.",
        ("task", "engine, condition", "runs", "success, %", "failed, %", "latched", "outside", "besides", "file"),
        tables.deployed,
        page="deployment",
    ),
    Section(
        "Calibration",
        "Logs of simulators that are not the twin, by `python -m benchmarks.calibration_foreign`.",
        (
            "simulator",
            "logs (converged)",
            "truths inside, %",
            "half width / error",
            "width / prior's",
            "identified, %",
            "held least",
            "file",
        ),
        tables.calibrated,
        page="deployment",
    ),
    Section(
        "Calibration, logs of the twin itself",
        "Logs of the twin with hidden parameters, sensor noise and delays of 8 to 12 ms, by `python -m "
        "benchmarks.calibration`. *Within 5 %* are estimates that are called identified.",
        ("robot", "parameter", "truths inside, %", "identified", "within 5 %, %", "median error, %", "file"),
        studies.own_logs,
        in_order=True,
        page="deployment",
    ),
    Section(
        "Trained on a calibrated twin",
        "Success on a robot simulated in PyBullet with parameters that nobody was told, not retuned, by `python -m "
        "benchmarks.calibrated_training`.",
        ("robot", "trained on", "in training, %", "on the robot, %", "besides", "runs", "file"),
        studies.on_the_twin,
        in_order=True,
        page="deployment",
    ),
    Section(
        "A twin that makes learning on a target short",
        "faucet-open on PyBullet with hidden parameters, by `python -m benchmarks.twin_rl`: means of three seeds, and "
        "of how many 95 % was reached at the last step (others count with the most steps that they had). The region of "
        "the demonstrations is a quarter of the initial states.",
        (
            "",
            "steps in the region",
            "out of it",
            "both at once",
            "both, seeds 0, 1, 2",
            "the twin's policy in, %",
            "out, %",
            "in the end in, %",
            "out, %",
        ),
        studies.with_a_twin,
        in_order=True,
        file="sim2real/faucet-open/twin-rl",
        page="deployment",
    ),
    Section(
        "MT10, task by task",
        "Success at the last step, %, of every policy that was evaluated on all ten tasks, and its episodes of each.",
        ("mean", *studies.MT10, "episodes", "file"),
        studies.by_task,
        in_order=True,
        page="manipulation",
    ),
    Section(
        "Reinforcement learning of a policy that sees",
        "One demonstration each, then success, %, of 32 whole episodes of each task with the most likely actions, by "
        "task at the last step; 95 % intervals of the mean. With Franka's hand, and all begin as one policy. Outcome "
        "alone: episodes of 250 steps without partial credit.",
        ("", "last step", "any step", *studies.IMPROVED, "steps, M", "minutes", "file"),
        studies.improved,
        in_order=True,
        page="seeing",
    ),
    Section(
        "Asking which object is meant",
        "`manipulation/pick-among` by who decides when to ask, by `python -m policies.vla.asking.evaluate`.",
        ("who acts", "who asks", "success at any step, %", "a wrong object, %", "asked, %", "episodes", "file"),
        studies.asked,
        in_order=True,
        page="seeing",
    ),
    Section(
        "Grasp and lift: from a script to a policy",
        "100 demonstrations, 200,000 steps, as many critic updates; three seeds of 128 episodes, intervals over all of "
        "them, by `python -m benchmarks.grasp_comparison`. *Held*: for 1 s at some time; *up*: still after 6 s.",
        ("task", "method", "held, %", "each seed, %", "up, %", "first held after", "minutes of one core"),
        studies.grasp_methods,
        in_order=True,
        file="grasping/grasp-comparison",
        page="grasping",
    ),
    Section(
        "A cube in a hand: reorientation",
        "Targets in a row within 50 s, of episodes whose first target is at most so far away, by `python -m "
        "benchmarks.reorientation`.",
        ("task", "policy", "first target", "reached within", "targets, mean", "dropped, %", "episodes", "file"),
        studies.cubes,
        page="grasping",
    ),
    Section(
        "Clutter: targets retrieved",
        "By `python -m benchmarks.clutter_retrieval`.",
        ("hand, difficulty", "what goes first", "retrieved, %", "grasps", "removals", "scenes", "file"),
        studies.retrieved,
        in_order=True,
        page="grasping",
    ),
    Section(
        "Speed of the table tasks beside other packages",
        "Thousands of control steps per second of each of Meta-World's tasks under random actions, resets included, on "
        "the same two cores in turns, medians of three: 2,048 of our worlds, two processes of metaworld 3.1.1, two "
        "threads of envpool 1.2.5. By `python -m benchmarks.manipulation_speed`.",
        ("task", "embodied", "metaworld", "envpool", "times metaworld", "times envpool"),
        studies.table_tasks,
        in_order=True,
        file="engines/manipulation-speed",
        page="speed",
    ),
    Section(
        "Policies written for Meta-World",
        "Meta-World's own fifty scripts, unchanged, on our tasks, and our scripts from the same starts, 20 episodes "
        "each. By `python -m benchmarks.metaworld_policies`.",
        ("task", "theirs, any step, %", "theirs, last step, %", "ours, any step, %", "ours, last step, %"),
        studies.metaworld,
        in_order=True,
        file="manipulation/metaworld-policies",
        page="manipulation",
    ),
    Section(
        "Trained policies that change sides",
        "One that stable-baselines3 (SAC, 60,000 steps) trained on the original, and those that are shipped; then some "
        "that imitate scripts (DAgger), those of Meta-World by scikit-learn's perceptron, ours by `dagger`, "
        "the last two with `--dagger.action-noise 1`. 50 episodes on either side. "
        "By `python -m benchmarks.metaworld_transfer`.",
        ("task", "trained on", "there, any step, %", "there, last step, %", "here, any step, %", "here, last step, %"),
        studies.transferred,
        in_order=True,
        file="manipulation/metaworld-transfer",
        page="manipulation",
    ),
    Section(
        "Programs lowered for CUDA without a GPU",
        "By `python -m benchmarks.cuda_lowering`. *State* is what one environment keeps between steps. *Widest "
        "operation* is what the largest single operation of a step writes per environment, a lower bound of working "
        "memory: for Warp the working data, whose contacts and constraint rows are allocated in advance.",
        ("engine", "tasks", "lower", "call the host", "state, KB", "widest operation, KB"),
        studies.lowered,
        file="engines/cuda-lowering",
        page="speed",
    ),
    Section(
        "Everything else",
        "Measurements of one kind each; `benchmarks/README.md` says what they are.",
        ("file", "command (python -m ...)", "numbers"),
        tables.remaining,
        page="other",
    ),
)
"""The last is of what no other has."""


def page(results: Mapping[str, Record]) -> str:
    """docs/results.md, Markdown: the headlines, and the page of every other section."""
    parts = [INTRODUCTION]
    for section in SECTIONS:
        place = f"Table: `{FOLDER}/{section.page}.md`."
        parts.append(
            f"## {section.title}\n\n{_intro(section)}\n\n{place if section.page else _table(section, results)}\n"
        )
    learner_sections = "\n".join(f"### {title}\n" for title in learners.TITLES)
    parts.append(
        f"## Learners\n\nEvery learner on the same problems. Tables: `{FOLDER}/learners.md`.\n\n{learner_sections}"
    )
    return "\n".join(parts)


def site_pages(results: Mapping[str, Record]) -> dict[str, str]:
    """Name -> Markdown of the pages that are built with the site."""
    pages: dict[str, list[str]] = {}
    listed = ""
    for section in SECTIONS:
        if section is SECTIONS[-1]:
            results = {name: record for name, record in results.items() if f"{LINK}{name}.json" not in listed}
        table = _table(section, results)
        listed += _intro(section) + table
        pages.setdefault(section.page, []).append(f"## {section.title}\n\n{_intro(section)}\n\n{table}\n")
    del pages[""]
    found = {name: f"# Results: {name}\n\n" + "\n".join(parts) for name, parts in pages.items()}
    found["learners"] = f"# Results: learners\n\n{learners.markdown(learners.read())}"
    return {name: text.replace(f"]({LINK}", f"](../{LINK}") for name, text in found.items()}


def _intro(section: Section) -> str:
    return section.intro + (f" All of it is in {files([section.file])}." if section.file else "")


def _table(section: Section, results: Mapping[str, Record]) -> str:
    rows = list(section.rows(results))
    ordered = rows if section.in_order else sorted(rows, key=lambda row: (row[0], row[-1]))
    lines = [section.header, ("---",) * len(section.header), *ordered]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
