"""Meta-World's benchmarks as suites: which tasks, which starts and goals, and whether the goal is seen.

A benchmark has 50 starts and goals for each task. Training meets them again and again, each environment all of them
before any twice; an evaluation meets each of them once. In the meta-learning benchmarks the goal is not observed.

The lists are Meta-World 3.1.1's, measured in `benchmarks/reference/metaworld.json`, with one repair: its ML25 has
basketball among both the training and the test tasks. Here basketball is held out, and ML25 trains on 24 tasks.
"""

from __future__ import annotations

from collections.abc import Mapping

from embodied.env.registry import Registry, Suite
from tasks.manipulation import paraphrases

GOALS = 50  # of each task; Meta-World
SEED = 0  # of a benchmark's starts and goals

MT10 = (
    "reach", "push", "pick-place", "door-open", "drawer-open", "drawer-close", "button-press-topdown",
    "peg-insert-side", "window-open", "window-close",
)  # fmt: skip
MT25 = (
    *MT10, "coffee-pull", "pick-out-of-hole", "disassemble", "pick-place-wall", "basketball", "stick-pull",
    "button-press-wall", "faucet-open", "door-lock", "lever-pull", "sweep-into", "faucet-close", "coffee-button",
    "button-press-topdown-wall", "dial-turn",
)  # fmt: skip
MT50 = (
    "assembly", "basketball", "bin-picking", "box-close", "button-press-topdown", "button-press-topdown-wall",
    "button-press", "button-press-wall", "coffee-button", "coffee-pull", "coffee-push", "dial-turn", "disassemble",
    "door-close", "door-lock", "door-open", "door-unlock", "hand-insert", "drawer-close", "drawer-open", "faucet-open",
    "faucet-close", "hammer", "handle-press-side", "handle-press", "handle-pull-side", "handle-pull", "lever-pull",
    "pick-place-wall", "pick-out-of-hole", "pick-place", "plate-slide", "plate-slide-side", "plate-slide-back",
    "plate-slide-back-side", "peg-insert-side", "peg-unplug-side", "soccer", "stick-push", "stick-pull", "push",
    "push-wall", "push-back", "reach", "reach-wall", "shelf-place", "sweep-into", "sweep", "window-open",
    "window-close",
)  # fmt: skip
ML10_TEST = ("drawer-open", "door-close", "shelf-place", "sweep-into", "lever-pull")
ML10_TRAIN = (
    "reach", "push", "pick-place", "door-open", "drawer-close", "button-press-topdown", "peg-insert-side",
    "window-open", "sweep", "basketball",
)  # fmt: skip
ML25_TEST = ("basketball", "door-close", "shelf-place", "sweep", "button-press")
ML25_TRAIN = tuple(task for task in MT25 if task not in ML25_TEST)
ML45_TEST = ("bin-picking", "box-close", "hand-insert", "door-lock", "door-unlock")
ML45_TRAIN = tuple(task for task in MT50 if task not in ML45_TEST)


def register(registry: Registry) -> None:
    """Register the benchmarks. Orders, and so the numbers of the one-hot identities, are Meta-World's."""
    for name, tasks in (("mt10", MT10), ("mt25", MT25), ("mt50", MT50)):
        registry.register_suite(
            multi_task(name, f"{len(tasks)} manipulation tasks, one policy that is told which.", tasks)
        )
    for name, train, test in (
        ("ml10", ML10_TRAIN, ML10_TEST), ("ml25", ML25_TRAIN, ML25_TEST), ("ml45", ML45_TRAIN, ML45_TEST),
    ):  # fmt: skip
        summary = f"{len(train)} manipulation tasks with hidden goals, and {len(test)} held out."
        registry.register_suite(meta_learning(name, summary, train, test))
    for task in sorted(MT50):
        registry.register_suite(multi_task(f"mt1:{task}", "One manipulation task, 50 goals.", (task,)))
        summary = "One manipulation task, 50 hidden goals, and 50 others held out."
        registry.register_suite(meta_learning(f"ml1:{task}", summary, (task,), (task,)))


def multi_task(name: str, summary: str, tasks: tuple[str, ...]) -> Suite:
    """Goals are observed; with several tasks, so is the task's identity."""
    return Suite(
        name, summary, qualified(tasks), identified=len(tasks) > 1, train_options={"goals": GOALS, "goal_seed": SEED},
        seed=SEED, episodes=GOALS, training="tasks.manipulation.training:MULTI_TASK",
        paraphrases=said(paraphrases.TRAINED, tasks), held_out_paraphrases=said(paraphrases.HELD_OUT, tasks),
    )  # fmt: skip


def said(instructions: Mapping[str, tuple[str, ...]], tasks: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The instructions of those tasks that have some."""
    return {f"manipulation/{task}": instructions[task] for task in tasks if task in instructions}


def meta_learning(name: str, summary: str, train: tuple[str, ...], test: tuple[str, ...]) -> Suite:
    """Neither goals nor tasks are seen. Held-out starts and goals are of another seed: ML1 holds out goals alone."""
    return Suite(
        name, summary, qualified(train), qualified(test), options={"hide_goal": True}, unseen="goals",
        train_options={"goals": GOALS, "goal_seed": SEED}, seed=SEED, held_out_seed=SEED + 1, episodes=GOALS,
        training="tasks.manipulation.training:MULTI_TASK",
    )  # fmt: skip


def qualified(tasks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"manipulation/{task}" for task in tasks)
