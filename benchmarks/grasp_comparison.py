"""From a script to a policy, side by side: cloning it, seeding a replay buffer with it (G-PAYN), RLPD, AWAC, nothing.

All learners take the same number of environment steps and make as many critic updates per step, `sac` and `rlpd` after
their warm-up; `expert` is the script that recorded the demonstrations, `bc` takes no steps at all. CPU seconds are of
training. Whatever the JSON already holds is not run again, so that an interrupted comparison goes on with the same
command.

python -m benchmarks.grasp_comparison --tasks grasping/leap-lift --seeds 0 1 2 --json FILE
python -m benchmarks.grasp_comparison --table FILE
"""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import torch
import tyro
from torch import Tensor

from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.env.vec_env import PolicyFunction, VecEnv
from embodied.errors import EmbodiedError, UnknownNameError, guard
from embodied.evaluation.rates import wilson
from embodied.evaluation.rollouts import evaluate
from embodied.storage.configs import to_json
from policies.data import demonstrations
from policies.imitation.behaviour_cloning import BehaviourCloning, BehaviourCloningConfig
from policies.off_policy.awac import AWACConfig
from policies.off_policy.config import ActorCriticConfig
from policies.off_policy.critics import PolicyValue
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.sac import SACConfig
from policies.registry import TrainConfig, default_config
from policies.training.loading import load_policy
from policies.training.loop import Trainer

EVALUATION_SEED = 10_000  # of the starts that judge seed 0; training and recordings have smaller ones
RECORDING_SEED = 5_000
EXPERT, CLONING = "expert", "bc"
FEW_CRITICS = 4  # of RLPD's ten, which one core cannot afford


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the comparison."""

    tasks: tuple[str, ...] = ("grasping/leap-lift",)
    """Tasks that have a script: several hands, several objects."""
    methods: tuple[str, ...] = ("expert", "bc", "sac", "sac-seeded", "sac-cloned", "rlpd", "awac")
    """Which, and in which order."""
    steps: int = 200_000
    """Environment steps of every learner but bc."""
    num_envs: int = 16
    """Environments that step together."""
    updates: float = 8.0
    """Updates of the critics per control step of all environments together."""
    offline_updates: int = 5_000
    """Updates of awac and sac-cloned on demonstrations before the first step."""
    clone_updates: int = 20_000
    """Most updates of bc, which may end sooner."""
    demonstrations: int = 100
    """Successful episodes of the script to learn from."""
    bfloat16_matmul: bool = True
    """Learn with factors of matrix products rounded to bfloat16."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of learner and environment."""
    episodes: int = 128
    """Fresh episodes to evaluate over at the end."""
    folder: Path = Path("runs") / "grasp_comparison"
    """Folder of recordings, one for each task, to be used again."""
    json: Path | None = None
    """File for the results, rewritten after each row."""
    table: Path | None = None
    """Print this file of results as a Markdown table, and run nothing."""

    def __post_init__(self) -> None:
        """Reject methods that do not exist."""
        for method in self.methods:
            if method not in METHODS:
                raise UnknownNameError("method", method, METHODS)


@dataclasses.dataclass(frozen=True)
class TimedStep:
    """Fields of a step that an evaluation reads, and when the episode first succeeded."""

    obs: Mapping[str, Tensor]
    success: Tensor
    terminated: Tensor
    done: Tensor
    info: Mapping[str, Tensor]


class Stopwatch:
    """An environment whose steps also have `first_success`: s since the episode began, NaN where there was none."""

    def __init__(self, env: Env) -> None:
        """Wrap an environment."""
        self.env, self.num_envs, self.device = env, env.num_envs, env.device
        self._dt = env.task.timing.control_dt
        self._first = torch.full((env.num_envs,), torch.nan)

    def reset(self, seed: int | None = None) -> Mapping[str, Tensor]:
        """Begin anew."""
        self._first.fill_(torch.nan)
        return self.env.reset(seed)

    def step(self, action: Tensor) -> TimedStep:
        """Step, and note the time of what succeeds for the first time."""
        step = self.env.step(action)
        now = self._dt * step.info["length"].cpu()
        self._first = torch.where(step.success.cpu() & self._first.isnan(), now, self._first)
        info = step.info | {"first_success": self._first.to(self.device)}
        self._first = self._first.masked_fill(step.done.cpu(), torch.nan)
        return TimedStep(step.obs, step.success, step.terminated, step.done, info)


def plain(settings: Settings, training: TrainConfig, file: Path) -> SACConfig:
    """SAC from nothing: a task's own settings, else the default ones with reward scale and discount of its PPO."""
    del file
    config = default_config("sac", training)
    assert isinstance(config, SACConfig)
    if config not in training.algorithms:
        ppo = default_config("ppo", training)
        config = dataclasses.replace(config, reward_scale=ppo.reward_scale, gamma=ppo.gamma)
    return dataclasses.replace(
        config, critic_updates=settings.updates, bfloat16_matmul=settings.bfloat16_matmul, save_buffer=False
    )


def seeded(settings: Settings, training: TrainConfig, file: Path) -> SACConfig:
    """SAC whose one buffer begins with the demonstrations."""
    config = plain(settings, training, file)
    return dataclasses.replace(config, demonstrations=file, demonstrations_in_buffer=True)


def cloned(settings: Settings, training: TrainConfig, file: Path) -> SACConfig:
    """The same, beginning with a policy that imitates them and critics that know them."""
    return dataclasses.replace(seeded(settings, training, file), offline_updates=settings.offline_updates)


def rlpd(settings: Settings, training: TrainConfig, file: Path) -> SACConfig:
    """SAC with half of every batch from the demonstrations, more critics, normalised."""
    return dataclasses.replace(
        plain(settings, training, file), demonstrations=file, demonstration_share=0.5, critics=FEW_CRITICS,
        target_critics=2, policy_value=PolicyValue.MEAN, layer_norm=True,
    )  # fmt: skip


def awac(settings: Settings, training: TrainConfig, file: Path) -> AWACConfig:
    """AWAC with SAC's networks, rates and batches."""
    shared = {field.name: getattr(plain(settings, training, file), field.name)
              for field in dataclasses.fields(ActorCriticConfig)}  # fmt: skip
    own = {"demonstrations": file, "demonstrations_in_buffer": True, "offline_updates": settings.offline_updates}
    return AWACConfig(**shared | own)


Recipe = Callable[[Settings, TrainConfig, Path], ActorCriticConfig]
METHODS: dict[str, Recipe | None] = {
    EXPERT: None,
    CLONING: None,
    "sac": plain,
    "sac-seeded": seeded,
    "sac-cloned": cloned,
    "rlpd": rlpd,
    "awac": awac,
}
"""Learners by name, those that take no steps without a recipe."""


@guard
def main(settings: Settings) -> None:
    """Compare what is not compared yet."""
    if settings.table is not None:
        print(markdown(read(settings.table)))
        return
    join_content()
    rows = read(settings.json) if settings.json is not None and settings.json.exists() else []
    known = {tuple(row[name] for name in ("task", "method", "seed", "steps")) for row in rows}
    for task in settings.tasks:
        file = demonstrate(settings, task)
        for seed in settings.seeds:
            for method in settings.methods:
                if (task, method, seed, settings.steps) in known:
                    continue
                row = {"task": task, "method": method, "seed": seed, "steps": settings.steps}
                rows.append(row | measure(settings, task, method, seed, file))
                cli.write_result(settings.json, cli.command_line("benchmarks.grasp_comparison"), {"results": rows})
    print(markdown(rows))


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of results.

    Raises:
        EmbodiedError: There is no such file, or it is none.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbodiedError(f"cannot read results from '{path}': {type(error).__name__}: {error}") from error


def demonstrate(settings: Settings, task: str) -> Path:
    """The file of the script's successes, recorded unless it is there."""
    file = settings.folder / f"{task.replace('/', '-')}-{settings.demonstrations}.safetensors"
    if not file.exists():
        env = make(task, min(32, settings.demonstrations), settings.engine, RECORDING_SEED)
        steps = demonstrations.record(env, load_policy(EXPERT, env), settings.demonstrations)
        demonstrations.save(file, steps)
    return file


def measure(settings: Settings, task: str, method: str, seed: int, file: Path) -> dict[str, Any]:
    """Train with one method and evaluate."""
    count = min(settings.episodes, 64)
    judge = make(task, count, settings.engine, EVALUATION_SEED + seed)
    wall, cpu = time.perf_counter(), time.process_time()
    spent: dict[str, Any] = {}
    if method == EXPERT:
        rule = load_policy(EXPERT, judge)
    else:
        env = make(task, settings.num_envs, settings.engine, seed)
        training = join_content().find(task).load_training() or TrainConfig()
        recipe = METHODS[method]
        rule, spent = (
            clone(settings, env, seed, file)
            if recipe is None
            else improve(settings, env, recipe(settings, training, file), seed, f"{method} {task} seed {seed}")
        )
    spent |= {"train_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    outcome = evaluate(cast("Env", Stopwatch(judge)), rule, settings.episodes)
    first = outcome.values["first_success"].nanmedian().item()
    # JSON knows no NaN: where nothing succeeded there is no time.
    summary = {name: value for name, value in outcome.summary().items() if name != "first_success"}
    return summary | spent | {"first_success_seconds": first if first == first else None}


def clone(settings: Settings, env: VecEnv, seed: int, file: Path) -> tuple[PolicyFunction, dict[str, Any]]:
    """Behaviour cloning, without a step of the environment."""
    config = BehaviourCloningConfig(demonstrations=file, bfloat16_matmul=settings.bfloat16_matmul)
    learner = BehaviourCloning(
        env.observation_spec, env.action_size, env.num_envs, config, device=env.device, seed=seed
    )
    learner.act(env.reset())  # reads the file
    with cli.Line("bc", settings.clone_updates) as line:
        while not learner.finished and learner.updates < settings.clone_updates:
            metrics = learner.update({})
            line.update(learner.updates, f"loss {metrics.get('imitation_loss', 0.0):.4g}")
    return learner.policy, {"env_steps": 0, "updates": learner.updates, "config": to_json(config)}


def improve(
    settings: Settings, env: VecEnv, config: ActorCriticConfig, seed: int, what: str
) -> tuple[PolicyFunction, dict[str, Any]]:
    """Any learner that takes steps."""
    trainer = Trainer(env, config, total_steps=settings.steps, seed=seed)
    assert isinstance(trainer.algorithm, OffPolicyLearner)
    with cli.Line(what, settings.steps) as line:
        while not trainer.done:
            metrics = trainer.iterate()
            if "success" in metrics:
                line.update(trainer.steps, f"return {metrics['return']:.4g}  success {100 * metrics['success']:.0f} %")
    spent = {"env_steps": trainer.steps, "updates": trainer.algorithm.updates, "config": to_json(config)}
    return trainer.policy, spent


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table with a line for each task and method, over all seeds; in brackets 95 % intervals."""
    lines = [
        "| task | method | success at the end, % | at any step, % | return | first success, s | CPU s | steps | runs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task, method in dict.fromkeys((row["task"], row["method"]) for row in rows):
        same = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        first = sorted(row["first_success_seconds"] for row in same if row["first_success_seconds"] is not None)
        cells = [
            task,
            method,
            *(pooled(same, name) for name in ("success", "success_any")),
            f"{mean(same, 'return'):.4g}",
        ]
        cells += [f"{first[len(first) // 2]:.2f}" if first else "never", f"{mean(same, 'cpu_seconds'):.0f}"]
        lines.append("| " + " | ".join([*cells, f"{same[0].get('env_steps', 0):,}", str(len(same))]) + " |")
    return "\n".join(lines)


def pooled(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """A rate over the episodes of all rows, in percent, with its interval."""
    episodes = int(sum(row["episodes"] for row in rows))
    successes = round(sum(row[name] * row["episodes"] for row in rows))
    low, high = wilson(successes, episodes)
    return f"{100 * successes / episodes:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    """Mean over rows."""
    return sum(row[name] for row in rows) / len(rows)


if __name__ == "__main__":
    main(tyro.cli(Settings))
