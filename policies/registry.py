"""Algorithms by name, and the training defaults of a task.

A new algorithm is a file or folder of its own, and one line in `ALGORITHMS`.

Third parties call `register` in the function that joins their tasks, of the entry-point group `embodied.tasks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from embodied.env.registry import load_target
from embodied.errors import EmbodiedError, UnknownNameError

if TYPE_CHECKING:
    import torch

    from embodied.env.vec_env import ObservationSpec, VecEnv
    from embodied.math.symmetry import Mirror
    from policies.algorithm import Algorithm

DEFAULT = "ppo"


@dataclass(frozen=True)
class TrainConfig:
    """Training defaults of one task."""

    num_envs: int = 1024
    """Environments that step together."""
    steps: int = 10_000_000
    """Environment steps in all."""
    _: KW_ONLY
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the task's config that it sets in training only, such as a curriculum; evaluations do without them."""
    algorithms: tuple[Any, ...] = ()
    """Settings of algorithms, such as a `PPOConfig`, where their own defaults do not suit the task; at most one of each
    type."""

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.steps < 1:
            raise ValueError(f"num_envs={self.num_envs} and steps={self.steps} must be at least 1")


class Build(Protocol):
    """Constructor of an algorithm; a class that derives from `Algorithm` with this constructor is one."""

    def __call__(
        self,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        num_envs: int,
        config: Any,
        *,
        device: torch.device | str,
        seed: int,
        mirror: Callable[[], Mirror],
        **team: int,
    ) -> Algorithm:
        """Build networks and buffers.

        Args:
            observation_spec: The environment's observation groups, "policy" among them.
            action_size: Length of an action.
            num_envs: N.
            config: Settings.
            device: Where everything lies.
            seed: Fixes the initial weights and, together with the rank, all random draws.
            mirror: `VecEnv.mirror`, which algorithms that use a robot's symmetry call.
            **team: `team_size`, that of `VecEnv`, for algorithms of teams.

        Raises:
            EmbodiedError: the settings do not fit the environments.
        """
        ...


@dataclass(frozen=True)
class AlgorithmEntry:
    """One registered algorithm. Targets are `module:attribute` strings, imported when first needed."""

    name: str
    config_target: str
    """Type of its settings, a frozen dataclass; it stands for the types derived from it too."""
    build_target: str
    """A `Build`."""
    summary: str
    """One line for command lines."""
    needs_images: bool = False
    """Whether it learns from images."""
    of_teams: bool = False
    """Whether it learns a team's agents together, by what all of them see and do."""
    of_sides: bool = False
    """Whether each agent of such a team learns from its own reward, as it must in a game of opposed sides."""
    imitate_expert: str | None = None
    """Function that makes an initial policy from a task's scripted expert, if there is one."""
    num_envs: int | None = None
    """Environments that suit it; None: the task's default."""
    steps: int | None = None
    """Environment steps that suit it; None: the task's default."""
    experimental: bool = False
    """Whether it has shown no gain over another one so far; `embodied list` shows it with `--all` only."""

    @property
    def config_type(self) -> type[Any]:
        """Type of its settings."""
        return self.load(self.config_target)

    def load(self, target: str) -> Any:
        """Import one of its targets."""
        return load_target(target, f"algorithm {self.name!r}")


_IMITATE = "policies.imitation.warm_start:imitate"
_OFF_POLICY = "policies.off_policy.learner:OffPolicyLearner"
ALGORITHMS: dict[str, AlgorithmEntry] = {
    entry.name: entry
    for entry in (
        AlgorithmEntry(
            DEFAULT, "policies.ppo.config:PPOConfig", "policies.ppo.ppo:PPO", "on-policy, from fresh rollouts",
            imitate_expert=_IMITATE,
        ),
        AlgorithmEntry("sac", "policies.off_policy.sac:SACConfig", _OFF_POLICY, "off-policy, max entropy", num_envs=64),
        AlgorithmEntry("rlpd", "policies.off_policy.rlpd:RLPDConfig", _OFF_POLICY, "sac with prior data", num_envs=16),
        AlgorithmEntry(
            "awac", "policies.off_policy.awac:AWACConfig", _OFF_POLICY, "advantage-weighted, offline to online",
            num_envs=16,
        ),
        AlgorithmEntry(
            "idql", "policies.off_policy.idql:IDQLConfig", _OFF_POLICY, "implicit Q-learning, diffusion policy",
            num_envs=16, experimental=True,
        ),
        AlgorithmEntry(
            "svea", "policies.off_policy.svea:SVEAConfig", _OFF_POLICY, "sac from augmented images",
            needs_images=True, num_envs=16, steps=100_000,
        ),
        AlgorithmEntry(
            "bc", "policies.imitation.behaviour_cloning:BehaviourCloningConfig",
            "policies.imitation.behaviour_cloning:BehaviourCloning", "behaviour cloning, from demonstrations alone",
            num_envs=16, steps=100_000,
        ),
        AlgorithmEntry(
            "dagger", "policies.imitation.dagger_config:DaggerConfig", "policies.imitation.dagger:Dagger",
            "imitation of a script, asked where the policy goes", steps=5_000_000,
        ),
        AlgorithmEntry(
            "dagger-pixels", "policies.imitation.dagger_config:PixelDaggerConfig",
            "policies.imitation.pixel_dagger:PixelDagger", "dagger from images", needs_images=True, num_envs=64,
            steps=500_000,
        ),
        AlgorithmEntry(
            "hasac", "policies.multi_agent.hasac:HASACConfig", _OFF_POLICY, "sac of a team, agent after agent",
            of_teams=True, num_envs=64, experimental=True,
        ),
        AlgorithmEntry(
            "happo", "policies.multi_agent.happo:HAPPOConfig", "policies.multi_agent.happo:HAPPO",
            "ppo of a team, agent after agent", of_teams=True,
        ),
        AlgorithmEntry(
            "matd3", "policies.multi_agent.matd3:MATD3Config", _OFF_POLICY, "td3 of a team, a reward of each agent",
            of_teams=True, of_sides=True, num_envs=64, experimental=True,
        ),
        AlgorithmEntry(
            "qmix", "policies.multi_agent.qmix:QMIXConfig", _OFF_POLICY, "a team's Q-value of its agents' utilities",
            of_teams=True, num_envs=64, experimental=True,
        ),
        AlgorithmEntry(
            "td3", "policies.off_policy.td3:TD3Config", _OFF_POLICY, "off-policy, deterministic, twin critics",
            num_envs=64,
        ),
    )
}  # fmt: skip


def register(entry: AlgorithmEntry) -> None:
    """Add an algorithm of a third party.

    Raises:
        EmbodiedError: another algorithm has the name already.
    """
    known = ALGORITHMS.setdefault(entry.name, entry)
    if known != entry:
        raise EmbodiedError(
            f"algorithm {entry.name!r} is registered twice: by {known.build_target} and by {entry.build_target}"
        )


def find_algorithm(name: str) -> AlgorithmEntry:
    """The algorithm of that name.

    Raises:
        UnknownNameError: there is none; lists them.
    """
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise UnknownNameError("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


def algorithm_of(config: Any) -> AlgorithmEntry:
    """The algorithm to which settings belong, by their type or the nearest that it derives from.

    Raises:
        TypeError: they belong to none.
    """
    by_type = {entry.config_target: entry for entry in ALGORITHMS.values()}
    for kind in type(config).__mro__:
        if (target := f"{kind.__module__}:{kind.__qualname__}") in by_type:
            return by_type[target]
    raise TypeError(f"{type(config).__name__} belongs to no algorithm; expected settings of {', '.join(ALGORITHMS)}")


def default_config(name: str, training: TrainConfig) -> Any:
    """The settings of an algorithm on a task: the task's own, else the algorithm's.

    Raises:
        UnknownNameError: there is no such algorithm.
    """
    kind = find_algorithm(name).config_type
    return next((config for config in training.algorithms if type(config) is kind), None) or kind()


def build_algorithm(env: VecEnv, config: Any, seed: int) -> Algorithm:
    """The algorithm to which settings belong, for an environment."""
    entry = algorithm_of(config)
    build: Build = entry.load(entry.build_target)
    team = {"team_size": env.team_size} if entry.of_teams else {}
    return build(
        env.observation_spec, env.action_size, env.num_envs, config, device=env.device, seed=seed, mirror=env.mirror,
        **team,
    )  # fmt: skip
