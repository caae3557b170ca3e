"""Files that a training with a twin makes before the target's learner begins, each made once.

demonstrations.safetensors   the target, from the demonstrated region
twin/                        checkpoint of the learner in the twin, with its replay buffer
map.html, map.json, initial_states.safetensors   where the twin's policy fails
helped.safetensors           the target, from initial states that the map proposes
synthesised.safetensors      solved episodes of the twin's policy in the twin, from the whole range
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from embodied.core.initial_states import InitialStateBuffer, InitialStates, first_reset_states
from embodied.core.initial_states import load as load_initial_states
from embodied.core.initial_states import save as save_initial_states
from embodied.core.task import Task
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError
from embodied.storage import checkpoints
from embodied.storage.files import dumps, write_atomic
from policies.data.demonstrations import Demonstrator, record_actor
from policies.data.demonstrations import save as save_demonstrations
from policies.off_policy.sac import SACConfig
from policies.training.loading import load_policy
from sim2real.failures.failure_map import demonstrations as proposals
from sim2real.failures.failure_map import failure_map, features_of, resampling_weights
from sim2real.failures.failure_page import page
from sim2real.twin import sweep
from sim2real.twin_training.learning import Evaluated, learned_in_twin
from sim2real.twin_training.regions import Split, split
from sim2real.twin_training.target import HiddenParameters, HiddenTask, ShortEpisodes

REGION_STATES = 4096  # initial states that are drawn and sorted into the region and the rest
EVALUATION_SEED = 7_000_003  # initial states of evaluations, which training has not seen


@dataclasses.dataclass(frozen=True)
class Plan:
    """Twin, target, and what is made of them."""

    task: str
    out: Path
    region: tuple[str, ...]
    """See `sim2real.twin_training.regions.inside`."""
    hidden: HiddenParameters
    twin_engine: str
    target_engine: str
    calibration: Path | None
    episode_seconds: float
    num_envs: int
    demonstrations: int
    """Episodes."""
    twin_steps: int
    synthesised: int
    """Episodes."""
    swept: int
    """Episodes."""
    helped: int
    """Episodes, at most."""
    learner: SACConfig
    seed: int

    @property
    def path(self) -> dict[str, Path]:
        """Paths of all files and folders."""
        files = {name: self.out / f"{name}.safetensors" for name in ("demonstrations", "synthesised", "helped")}
        return files | {
            "twin": self.out / "twin",
            "initial_states": self.out / "initial_states.safetensors",
            "map": self.out / "map.json",
            "page": self.out / "map.html",
        }

    @property
    def nominal(self) -> Task[Any]:
        """The task as it is by default."""
        kind = join_content()[self.task].load()
        return kind(kind.config_type())

    @functools.cached_property
    def regions(self) -> Split:
        """Initial states in the demonstrated region, and others."""
        return split(self.nominal, self.region, self.seed + EVALUATION_SEED, REGION_STATES)

    def target(self, num_envs: int, seed: int, starts: InitialStateBuffer | None = None, share: float = 1.0) -> Env:
        """The target, a share of its episodes beginning at `starts`."""
        begin = [] if starts is None else [lambda task: InitialStates(task, starts, share)]
        hide = lambda task: HiddenTask(task, self.hidden)  # noqa: E731
        return make(self.task, num_envs, self.target_engine, seed, wrappers=(*begin, self.shortened, hide))

    def evaluation(self, num_envs: int, seed: int) -> Evaluated:
        """The target for evaluations, from initial states about half of which lie in the region."""
        within = self.regions.first_within(self.region, seed, num_envs)
        return Evaluated(self.target(num_envs, seed, self.regions.halves), within)

    def twin(self, num_envs: int, seed: int) -> Env:
        """The twin."""
        short, known = (self.shortened,), self.calibration
        return make(self.task, num_envs, self.twin_engine, seed, wrappers=short, calibration=known)

    def shortened(self, task: Task[Any]) -> Task[Any]:
        """The task with episodes of `episode_seconds`."""
        return ShortEpisodes(task, self.episode_seconds)

    def twins_policy(self, env: Env) -> PolicyFunction:
        """The policy that was trained in the twin."""
        return load_policy(self.twin_checkpoint, env)

    @property
    def twin_checkpoint(self) -> Path:
        """The checkpoint of the learner in the twin."""
        latest = checkpoints.latest(self.path["twin"])
        if latest is None:
            raise EmbodiedError(f"'{self.path['twin']}' holds no checkpoint; train in the twin first")
        return latest


def demonstrate(plan: Plan, on_episode: Callable[[int], None]) -> None:
    """Demonstrations on the target, from the region, by the task's script."""
    if plan.path["demonstrations"].exists():
        return
    env = plan.target(min(plan.num_envs, plan.demonstrations), plan.seed, plan.regions.inside)
    recording = record_actor(env, Demonstrator(load_policy("expert", env)), plan.demonstrations, on_step=on_episode)
    save_demonstrations(plan.path["demonstrations"], recording.steps, recording.source)


def train_in_twin(plan: Plan, on_steps: Callable[[int, dict[str, float]], None]) -> None:
    """A policy for the whole range, in the twin."""
    if checkpoints.latest(plan.path["twin"]) is None:
        env = plan.twin(plan.num_envs, plan.seed)
        learned_in_twin(
            env, plan.learner, plan.path["demonstrations"], plan.twin_steps, plan.path["twin"], plan.seed,
            lambda trainer, metrics: on_steps(trainer.steps, metrics),
        )  # fmt: skip


def map_failures(plan: Plan, on_episode: Callable[[int], None]) -> None:
    """Map the failures of the twin's policy in the twin, and demonstrate on the target from there."""
    if plan.path["helped"].exists() or not plan.helped:
        return
    env = plan.twin(plan.swept, plan.seed + EVALUATION_SEED)
    states = first_reset_states(env.task, env.seed, plan.swept)
    failed = sweep(env, plan.twins_policy(env), False, on_episode)
    found = failure_map(features_of(states, env.task.model), failed)
    chosen = proposals(found, plan.helped)
    # Where the twin's policy fails nowhere, a person helps anywhere.
    rows = np.array(chosen if chosen else np.arange(min(plan.helped, plan.swept)))
    own = first_reset_states(plan.nominal, env.seed, plan.swept)  # without what a calibration adds
    save_initial_states(plan.path["initial_states"], InitialStateBuffer(own, resampling_weights(found.risk)))
    document = {"episodes": plan.swept, "failed": int(failed.sum()), "chosen": [int(row) for row in rows],
                "telling": [found.features.names[i] for i in found.telling]}  # fmt: skip
    write_atomic(plan.path["map"], dumps(document))
    plan.path["page"].write_text(page(f"{plan.task} in the twin", found, list(chosen)), encoding="utf-8")
    helpful = InitialStateBuffer(own, np.ones(plan.swept)).take(rows)
    target = plan.target(len(rows), plan.seed + 1, helpful)
    recording = record_actor(target, Demonstrator(load_policy("expert", target)), len(rows), failures=True)
    save_demonstrations(plan.path["helped"], recording.steps, recording.source)


def synthesise(plan: Plan, on_episode: Callable[[int], None]) -> None:
    """Solved episodes of the twin's policy, from the whole range.

    Raises:
        EmbodiedError: it solves too few.
    """
    if plan.path["synthesised"].exists() or not plan.synthesised:
        return
    env = plan.twin(min(plan.num_envs, plan.synthesised), plan.seed + 2)
    try:
        recording = record_actor(env, Demonstrator(plan.twins_policy(env)), plan.synthesised, on_step=on_episode)
    except EmbodiedError as error:
        raise EmbodiedError(
            f"{plan.twin_steps:,} steps in the twin made too weak a policy for {plan.synthesised} solved episodes: "
            f"{error}; choose more --twin-steps and another --out"
        ) from None
    save_demonstrations(plan.path["synthesised"], recording.steps, recording.source)


def starts_of(plan: Plan, task: Task[Any]) -> InitialStateBuffer:
    """The initial states of the map, each as often as it is risky; `task`: the plan's, unwrapped."""
    return load_initial_states(plan.path["initial_states"], task)


def steps_in(path: Path) -> int:
    """Number of steps in a file of demonstrations."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:  # pyright: ignore[reportGeneralTypeIssues] - is a context manager
        return int(file.get_slice("reward").get_shape()[0])


def same_plan(plan: Plan) -> None:
    """Write down the plan in its folder, or compare.

    Raises:
        EmbodiedError: the folder is that of another plan.
    """
    document = json.loads(json.dumps(dataclasses.asdict(plan) | {"out": ""}, default=str, sort_keys=True))
    file = plan.out / "plan.json"
    if not file.exists():
        plan.out.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2) + "\n")
        return
    known = json.loads(file.read_text())
    if other := [name for name in document if known.get(name) != document[name]]:
        name = other[0]
        raise EmbodiedError(
            f"'{plan.out}' was made with {name}={known.get(name)}, not {document[name]}; choose another --out"
        )
