"""How fast hands that hold a cylinder are simulated: physics steps per second of a batch on the `mujoco` engine.

The engine runs a task of nothing but a hand, palm down, and a cylinder of 6 cm in its grasp, under gravity;
every step has all its contacts. Fingers keep pressing while the clock runs. On a machine with other work
the steps per second of a core, of the time that the process had one, say more than those of the clock.

python -m benchmarks.hand_speed --json FILE
"""

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import tyro
from jax import Array

from embodied.core.hooks import Observation, Timing
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.engines import make_engine
from tasks.grasping.hands.hand import PALM_DOWN, PHYSICS_DT, Hand, closed, closing, poses, set_physics, spec_of
from tasks.grasping.hands.models import HANDS, hand_named

ROD_RADIUS, ROD_HALF, ROD_MASS = 0.03, 0.06, 0.2  # m, m, kg
HEIGHT = 0.5  # m, of the palm
SUBSTEPS = 10


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    hands: tuple[str, ...] = tuple(HANDS)
    """Names of hands."""
    num_envs: int = 512
    """Simulations in the batch."""
    calls: int = 20
    """Engine calls of 10 physics steps each."""
    threads: int = 0
    """Threads; 0: one per core."""
    json: Path | None = None
    """File for the results."""


class Holding(Task[Array]):
    """A hand and a rod; what begins is the grasp as it was after closing."""

    config_type = Settings
    timing = Timing(physics_dt=PHYSICS_DT, substeps=SUBSTEPS, episode_seconds=1.0)

    def __init__(self, hand: Hand) -> None:
        """Nothing but a hand to choose."""
        super().__init__()
        self.hand, self.action_size = hand, len(hand.actuator_names)
        self.qpos = grasp(self.model, hand)

    def build_spec(self) -> mujoco.MjSpec:
        """Palm down, the rod across it."""
        spec = spec_of(self.hand, (0, 0, HEIGHT), PALM_DOWN)
        set_physics(spec)
        rod = spec.worldbody.add_body(name="rod", pos=(0, 0, HEIGHT - ROD_RADIUS - 0.006), zaxis=(0, 1, 0))
        rod.add_freejoint(name="rod")
        rod.add_geom(type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[ROD_RADIUS, ROD_HALF, 0], mass=ROD_MASS)
        return spec

    def reset(self, key: Array) -> ResetState[Array]:
        """The grasp."""
        del key
        return ResetState(qpos=jnp.asarray(self.qpos), qvel=jnp.zeros(self.model.nv), task_state=jnp.zeros(()))

    def observe(self, world: World, state: Array, key: Array) -> Observation:
        """The joints."""
        del state, key
        return {"policy": {"qpos": world.qpos}}

    def rewards(self, world: World, state: Array, action: Array) -> Mapping[str, Array]:
        """None."""
        del world, state, action
        return {}

    def outcome(self, world: World, state: Array) -> Outcome:
        """It never ends."""
        del world, state
        return Outcome(jnp.zeros((), bool), jnp.zeros((), bool))


def grasp(model: mujoco.MjModel, hand: Hand) -> np.ndarray:
    """(nq,) after closing on the rod without gravity."""
    layout, data = hand.layout(model), mujoco.MjData(model)
    gravity, model.opt.gravity = model.opt.gravity.copy(), 0
    data.qpos[layout.qpos] = poses(hand).opened.joints
    for share in np.linspace(0, 1, 140):
        data.ctrl[layout.actuators] = closing(hand, share)
        mujoco.mj_step(model, data)
    mujoco.mj_step(model, data, nstep=100)
    model.opt.gravity = gravity
    return data.qpos.copy()


def measure(settings: Settings, name: str) -> dict[str, float]:
    """Physics steps per second, and how many rods are still held."""
    task = Holding(hand_named(name))
    engine: Any = make_engine("mujoco", task, settings.num_envs, threads=settings.threads)
    start = jax.tree.map(
        lambda leaf: np.repeat(np.asarray(leaf)[None], settings.num_envs, 0), task.reset(jax.random.key(0))
    )
    engine.reset(np.arange(settings.num_envs), start)
    targets: Any = np.repeat(np.asarray(closed(task.hand))[None], settings.num_envs, 0)
    control = Control(ctrl=targets)
    engine.step(control, SUBSTEPS)
    began, worked = time.perf_counter(), time.process_time()
    for _ in range(settings.calls):
        engine.step(control, SUBSTEPS)
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    steps = settings.num_envs * settings.calls * SUBSTEPS
    height = engine.world().qpos[:, task.model.joint("rod").qposadr[0] + 2]
    return {
        "physics_steps_per_second": steps / seconds,
        "physics_steps_per_core_second": steps / worked,
        "held": float((height > HEIGHT - 0.1).mean()),
        "contacts": float(contacts(task)),
        "seconds": seconds,
    }


def contacts(task: Holding) -> int:
    """Contacts of the grasp."""
    data = mujoco.MjData(task.model)
    data.qpos[:] = task.qpos
    mujoco.mj_forward(task.model, data)
    return data.ncon


def main(settings: Settings) -> None:
    """Measure and print."""
    results = {name: measure(settings, name) for name in settings.hands}
    for name, row in results.items():
        cli.show(cli.table(name, {key: cli.number(value) for key, value in row.items()}))
    cli.write_result(
        settings.json, cli.command_line("benchmarks.hand_speed"), {"num_envs": settings.num_envs, "results": results}
    )


if __name__ == "__main__":
    main(tyro.cli(Settings))
