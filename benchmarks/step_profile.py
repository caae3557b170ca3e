"""`python -m benchmarks.step_profile`: where the time of a control step of hover goes, and what one program saves.

Programs that do more and more of a control step are timed in turns, each as a scan over a rollout; a part's time is the
difference of two medians. The last rows are what a learner calls: a whole rollout as one program, and as many
`Env.step`s with the actor in torch.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import torch
import tyro
from jax import Array
from torch import Tensor

import embodied
from embodied import cli
from embodied.core.episode import environment_keys
from embodied.core.world import Control
from embodied.env.env import Env
from embodied.env.functional import EnvState
from embodied.env.rollout import PerceptronActor
from embodied.env.step import array_from_tensor
from embodied.env.vec_env import POLICY
from embodied.env.vectorized import FusedSimulator
from embodied.errors import guard
from policies.networks.mlp import MLP, GaussianActor, NetworkConfig

UNROLL = 24  # control steps in a rollout, as in hover's training


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    num_envs: tuple[int, ...] = (1024, 65536)
    """Numbers of drones."""
    turns: int = 9
    """Number of turns of the programs, the first not counted."""
    json: Path | None = None
    """File for the result."""


class Subject:
    """Hover on `rigid`, an actor of the size that is trained, and programs that each do a part of a rollout."""

    def __init__(self, num_envs: int) -> None:
        self.env: Env = embodied.make("swarm/hover", num_envs=num_envs, engine="rigid", seed=0)
        self.obs: dict[str, Tensor] = dict(self.env.reset())
        self.env.spread_episode_lengths()
        self.simulator = FusedSimulator(self.env.task, self.env.engine, num_envs)
        self.observation = self.simulator.reset(environment_keys(0, num_envs))
        self.simulator.set_episode(
            dataclasses.replace(self.simulator.episode(), steps=jnp.copy(self.env.episode.steps))
        )
        self.actor = GaussianActor(16, 4, NetworkConfig(), 0.5, torch.Generator().manual_seed(0))
        self.noise = torch.randn(UNROLL, num_envs, 4)
        self.arrays: tuple[PerceptronActor, Array] = jax.tree.map(array_from_tensor, (self.numbers, self.noise))

    @property
    def numbers(self) -> PerceptronActor:
        assert isinstance(self.actor.mean, MLP)
        linears = self.actor.mean.linears
        return PerceptronActor(
            weights=tuple(layer.weight.detach() for layer in linears),
            biases=tuple(layer.bias.detach() for layer in linears),
            log_std=self.actor.log_std.detach(),
            observation_mean=torch.zeros(16),
            observation_scale=torch.ones(16),
            observation_clip=10.0,
            activation="tanh",
        )

    def programs(self) -> dict[str, Callable[[], None]]:
        """Name -> what takes one rollout."""
        return {
            "physics": self.scanned(self.physics),
            "move": self.scanned(self.move),
            "advance": self.scanned(self.advance),
            "restart": self.scanned(self.restart),
            "act": self.in_jax,
            "roll_out": self.in_one,
            "step": self.by_steps,
        }

    def scanned(self, step: Callable[[Any, Array], tuple[Any, Any]]) -> Callable[[], None]:
        program = jax.jit(lambda state, noise: jax.lax.scan(step, state, noise))
        state, noise = jax.tree.map(jnp.copy, self.simulator.state()), self.arrays[1]
        return lambda: jax.block_until_ready(program(state, noise)) and None

    def physics(self, state: Any, noise: Array) -> tuple[Any, Any]:
        """The bare engine under no forces."""
        task, engine = self.env.task, self.simulator.engine
        held = Control(wrench=jnp.zeros((task.model.nbody, 6)))
        physics = jax.vmap(lambda one: engine.step(one, held, task.timing.substeps))(state.physics)
        return dataclasses.replace(state, physics=physics), ()

    def move(self, state: Any, noise: Array) -> tuple[Any, Any]:
        """... with the rotors: latency, lag, thrust, torque and drag at every physics step."""
        moved = jax.vmap(self.simulator.programs.one.move)(EnvState(state.physics, state.episode), 0.1 * noise)
        return dataclasses.replace(state, physics=moved.physics, episode=moved.episode), ()

    def advance(self, state: Any, noise: Array) -> tuple[Any, Any]:
        """... with rewards, outcome, observation, statistics and the search for divergence."""
        state, transition, _ = self.simulator.programs._advance(state, 0.1 * noise)
        return state, transition

    def restart(self, state: Any, noise: Array) -> tuple[Any, Any]:
        """... with restarts."""
        state, transition, _ = self.simulator.programs._advance(state, 0.1 * noise)
        state, transition = jax.lax.optimization_barrier((state, transition))
        physics, episode, following = self.simulator.programs._restart(state.physics, state.episode, transition)
        return dataclasses.replace(state, physics=physics, episode=episode), (transition, following)

    def in_jax(self) -> None:
        """... with the actor: all but the crossing to torch and back."""
        self.observation, data = self.simulator.roll_out(self.observation, *self.arrays)
        jax.block_until_ready(data)

    def in_one(self) -> None:
        """A rollout as learners call it."""
        assert self.env.roll_out is not None
        self.obs, data = self.env.roll_out(self.obs, self.numbers, self.noise)
        float(data.reward[-1, 0] + data.action[-1, 0, 0])

    def by_steps(self) -> None:
        """A rollout with one call for each step: actor in torch, `Env.step`, every result read."""
        for noise in self.noise:
            with torch.no_grad():
                action = self.actor.sample(self.obs[POLICY], noise)
            step = self.env.step(action)
            self.obs = dict(step.obs)
            _ = step.reward, step.terminated, step.truncated, step.final_obs


def profile(num_envs: int, turns: int, line: cli.Line) -> dict[str, Any]:
    """Milliseconds per control step, by part and by way of calling."""
    programs = Subject(num_envs).programs()
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(turns + 1):
        for name, program in programs.items():
            begin = time.perf_counter()
            program()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
        line.update(turn, f"{num_envs:,} drones")
    ms = {name: 1e3 * statistics.median(values) / UNROLL for name, values in seconds.items()}
    parts = {
        "physics": ms["physics"],
        "rotor model": ms["move"] - ms["physics"],
        "observation, reward, statistics": ms["advance"] - ms["move"],
        "restarts": ms["restart"] - ms["advance"],
        "network": ms["act"] - ms["restart"],
        "crossing to torch": ms["roll_out"] - ms["act"],
    }
    return {
        "num_envs": num_envs,
        "milliseconds": parts,
        "milliseconds_roll_out": ms["roll_out"],
        "milliseconds_steps": ms["step"],
        "speedup": statistics.median(b / a for a, b in zip(seconds["roll_out"], seconds["step"], strict=True)),
        "env_steps_per_second": 1e3 * num_envs / ms["roll_out"],
    }


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = tyro.cli(Settings, args=arguments, description=__doc__)
    rows = []
    for num_envs in settings.num_envs:
        with cli.Line("profiling", settings.turns) as line:
            rows.append(profile(num_envs, settings.turns, line))
    columns = {f"{row['num_envs']:,} drones": row for row in rows}
    for title, row in columns.items():
        shown = {f"{part}, ms": f"{value:.3f}" for part, value in row["milliseconds"].items()}
        shown |= {"rollout in one program, ms a step": f"{row['milliseconds_roll_out']:.3f}"}
        shown |= {"step by step, ms": f"{row['milliseconds_steps']:.3f}", "ratio": f"{row['speedup']:.2f}"}
        cli.show(cli.table(title, shown))
    cli.write_result(settings.json, cli.command_line("benchmarks.step_profile"), {"results": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
