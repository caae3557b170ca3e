"""`python -m policies.demonstrations`: record demonstrations of an expert or a policy, for learners to start from."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from embodied import cli
from embodied.env.multi_agent import AgentsEnv
from embodied.env.vec_env import PolicyFunction, VecEnv
from embodied.errors import EmbodiedError, guard
from policies.data import demonstrations as data
from policies.data.demonstrations import Demonstrator, NoisyDemonstrator, RecordedActor, Recording
from policies.data.interventions import Source
from policies.imitation.supervision import SupervisedActor, SupervisionConfig

if TYPE_CHECKING:
    from embodied.env.env import Env

MOST_EPISODES = 1_000_000  # of 100 steps and 100 numbers each they would take 40 GB


@dataclasses.dataclass(frozen=True)
class Settings:
    """Record episodes of a task's expert, or of any policy, to learn from with --ALGORITHM.demonstrations FILE.

    With --supervisor, another policy takes over where the first goes wrong, and the file says who acted.
    Examples:

        python -m policies.demonstrations manipulation/pick-place --episodes 100 --out pick-place.safetensors
        python -m embodied.train manipulation/pick-place --algorithm sac --sac.demonstrations pick-place.safetensors

        python -m policies.demonstrations manipulation/pick-place --policy RUN --supervisor expert --hold 20 \\
            --after pick-place.safetensors --out helped.safetensors
        python -m embodied.train manipulation/pick-place --algorithm bc --bc.demonstrations helped.safetensors \\
            --bc.weigh-interventions
    """

    task: tyro.conf.Positional[str]
    """Task to record."""
    out: Path
    """File to write."""
    replace: bool = False
    """Replace the file, if there is one."""
    policy: str = "expert"
    """expert, shipped, a run or a checkpoint."""
    supervisor: str | None = None
    """Another such policy, which takes over while the first goes wrong; by default none."""
    supervision: SupervisionConfig = dataclasses.field(default_factory=SupervisionConfig)
    """When it takes over and when it hands back."""
    after: Path | None = None
    """File of an earlier recording, which the new one begins with."""
    episodes: int = 100
    """Number of episodes; for a team, what each agent saw, did and earned is one of its own in the file."""
    failures: bool = False
    """Keep episodes that never succeed too."""
    noise: float = 0.0
    """Disturb the policy's actions, and record what was done: largest standard deviation of the noise on actions, which
    are in [-1, 1]; each episode draws its own from 0 to this. Not with --supervisor."""
    noise_steps: cli.Rare[int] = 20
    """With --noise: control steps that a disturbance lasts."""
    hold: int | None = None
    """Control steps after an episode's first success at which its recording ends; by default it does not."""
    num_envs: int = 32
    """Environments that step together."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 0
    """Seed of the reset states."""

    def __post_init__(self) -> None:
        if self.supervisor == self.policy:
            raise EmbodiedError(
                f"--supervisor {self.supervisor} supervises itself; expected another policy than --policy"
            )
        if self.out.exists() and not self.replace:
            raise EmbodiedError(f"'{self.out}' exists; --replace replaces it")
        if not 0 < self.episodes <= MOST_EPISODES:
            raise EmbodiedError(
                f"--episodes {self.episodes}: expected 1 to {MOST_EPISODES:,}; a recording is kept in memory"
            )
        if not 0 <= self.noise <= 1 or self.noise_steps < 1:
            raise EmbodiedError(
                f"--noise {self.noise} --noise-steps {self.noise_steps}: expected noise from 0 to 1, and at least 1 "
                "control step"
            )
        if self.noise and self.supervisor is not None:
            raise EmbodiedError(f"--noise {self.noise} with --supervisor {self.supervisor}: expected one of them")
        if self.hold is not None and self.hold < 0:
            raise EmbodiedError(f"--hold {self.hold}: expected at least 0")


@guard
def main(arguments: list[str] | None = None) -> int:
    from embodied.env.factory import make
    from embodied.env.registry import join_content

    settings = cli.parse(Settings, arguments, "policies.demonstrations")
    join_content()
    world = make(settings.task, min(settings.num_envs, settings.episodes), settings.engine, settings.seed)
    env = world if world.agents is None else AgentsEnv(world)
    earlier = [] if settings.after is None else [_earlier(settings.after, env)]
    actor = _actor(settings, world, env)
    with cli.Line(f"{settings.task} by {settings.policy}", settings.episodes * (world.agents or 1)) as line:
        new = data.record_actor(
            env, actor, settings.episodes * (world.agents or 1), failures=settings.failures, hold=settings.hold,
            on_step=lambda kept: line.update(kept, f"{kept} episodes"),
        )  # fmt: skip
    recording = data.concatenated([*earlier, new])
    data.save(settings.out, recording.steps, recording.source)
    cli.show(f"{_described(recording)} -> {settings.out}")
    return 0


def _actor(settings: Settings, world: Env, env: VecEnv) -> RecordedActor:
    """Actor in the rows of `env`: the environments of `world`, or all their agents."""
    from policies.training.loading import load_policy

    def rule(name: str) -> PolicyFunction:
        policy = load_policy(name, world)
        return env.acting(policy) if isinstance(env, AgentsEnv) else policy

    if settings.noise:
        return NoisyDemonstrator(rule(settings.policy), settings.noise, settings.noise_steps, settings.seed)
    if settings.supervisor is None:
        return Demonstrator(rule(settings.policy))
    return SupervisedActor(rule(settings.policy), rule(settings.supervisor), env.num_envs, settings.supervision)


def _earlier(path: Path, env: VecEnv) -> Recording:
    steps = data.load(path, env.observation_spec, env.action_size, env.device)
    return Recording(steps, data.load_source(path, env.device))


def _described(recording: Recording) -> str:
    """Numbers of episodes and steps, and of the robot's steps and interventions."""
    ends = int((recording.steps.terminated | recording.steps.truncated).sum())
    said = f"{ends} episodes, {len(recording.source):,} steps"
    shares = {kind: int((recording.source == kind).sum()) for kind in (Source.ROBOT, Source.INTERVENTION)}
    if any(shares.values()):
        said += f", the robot's {shares[Source.ROBOT]:,}, interventions {shares[Source.INTERVENTION]:,}"
    return said


if __name__ == "__main__":
    sys.exit(main())
