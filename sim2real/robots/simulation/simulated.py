"""A simulated robot to deploy on: a task's own, with latency, sensor noise, packet loss and a model mismatch.

Time is either real (physics follows the computer's clock) or simulated (physics waits for the policy; then a run is a
function of its seed). The robot is held in its starting pose until the first command reaches it. It measures when it is
asked, as robots with a request and a reply per cycle do; a reply that is lost leaves the policy with the one before.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import numpy as np

from embodied.core.world import World
from embodied.engines import make_engine
from embodied.errors import EmbodiedError
from sim2real.contract.contract import Contract
from sim2real.robots.base import Measurement, Phase, Robot, TaskResult
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.robot_models import RobotModel, model_of
from sim2real.robots.simulation.task_evaluator import TaskEvaluator

LONGEST = 1.0  # s, latency
SLACK = 1e-9  # s, below which two times on a grid of physics steps are the same


@dataclasses.dataclass(frozen=True)
class SimulatedOptions:
    """Latency, noise, losses and model mismatch of a simulated robot."""

    realtime: bool = True
    """Follow the computer's clock; otherwise as fast as possible, and then each run is a function of its seed."""
    latency: float = 0.0
    """s that commands take to reach the motors."""
    sensor_latency: cli.Rare[float] = 0.0
    """s that measurements take to reach the policy."""
    noise: float = 1.0
    """Factor on the noise of the sensors, of which 1 is the training's."""
    loss: float = 0.0
    """Probability that a packet is lost, a command or a measurement, each by itself."""
    mismatch: float = 0.0
    """Size of a random deviation of masses, frictions, motors and encoders from the model; 1 is about a real robot."""
    mass: cli.Rare[float] = 1.0
    """Factor on the mass of every body, besides `mismatch`."""
    friction: cli.Rare[float] = 1.0
    """Factor on the floor's sliding friction, besides `mismatch`."""
    motor_strength: cli.Rare[float] = 1.0
    """Factor on the servos' gains or the rotors' thrust, besides `mismatch`."""
    joint_friction: cli.Rare[float] = 1.0
    """Factor on the joints' dry friction, besides `mismatch`."""
    joint_damping: cli.Rare[float] = 1.0
    """Factor on the joints' damping, besides `mismatch`."""
    armature: cli.Rare[float] = 1.0
    """Factor on the motors' reflected inertia, besides `mismatch`."""
    seed: int = 0
    """Of the initial state, the noise, the losses and the mismatch."""
    robot_file: cli.Rare[Path | None] = None
    """Model file of a robot of one's own, if it no longer lies where it was trained with; it must be the same."""

    def __post_init__(self) -> None:
        for name in ("latency", "sensor_latency"):
            if not 0 <= getattr(self, name) < LONGEST:
                raise EmbodiedError(f"{name}={getattr(self, name)}; expected [0, {LONGEST:g}) s")
        if not 0 <= self.loss <= 1:
            raise EmbodiedError(f"loss={self.loss}; expected a probability")
        if not self.noise >= 0:
            raise EmbodiedError(f"noise={self.noise}; expected a factor of at least 0")

    def model_mismatch(self, joints: int) -> ModelMismatch:
        """All deviations from the model, of a robot with so many joints."""
        names = [field.name for field in dataclasses.fields(ModelMismatch) if field.name != "encoder_bias"]
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        return ModelMismatch(**own).times(ModelMismatch.draw(self.mismatch, joints, self.seed))


class SimulatedRobot(Robot):
    """A task's own robot in a physics engine; it evaluates the task while the policy runs."""

    def __init__(self, contract: Contract, engine: str, options: SimulatedOptions) -> None:
        self.name, self.contract, self.options = engine, contract, options
        self.mismatch = options.model_mismatch(len(contract.joints))
        self.model: RobotModel = model_of(contract, self.mismatch, options.robot_file)
        self._engine: Any = make_engine(engine, self.model.task, 1)
        self._rng = np.random.default_rng([options.seed, 2])
        start = self.model.start(options.seed)
        self._engine.reset(np.arange(1), jax.tree.map(lambda leaf: np.asarray(leaf)[None], start))
        self.in_place = contract.step is not None
        self._dt = self.model.task.timing.physics_dt
        self._steps = 0  # physics steps since the clock began, those in which the robot is held included
        self._held = True
        self._target: np.ndarray | None = None
        self._on_the_way: collections.deque[tuple[float, np.ndarray]] = collections.deque()
        self._prepared: TaskEvaluator | None = None
        self._evaluator: TaskEvaluator | None = None
        self._result: TaskResult | None = None
        self._world = self._read_world()
        # Measurements on their way, oldest first; without latency only the newest is of use.
        kept = 1 + round(options.sensor_latency / self._dt)
        self._worlds = collections.deque([(0.0, self._world)], maxlen=kept)
        self._newest = self._measure(0.0, self._world)
        self._begin = time.monotonic()

    def now(self) -> float:
        """s since it was built: of the computer's clock, or simulated."""
        return time.monotonic() - self._begin if self.options.realtime else self._steps * self._dt

    def sleep_until(self, when: float) -> None:
        """Simulate until then, and wait for it where time is real."""
        self._advance(when)
        if self.options.realtime and (left := when - self.now()) > 0:
            time.sleep(left)

    def read(self) -> Measurement:
        self._catch_up()
        taken, world = self._worlds[0]
        if taken > self._newest.time and self._rng.random() >= self.options.loss:
            self._newest = self._measure(taken, world)
        return self._newest

    def write(self, target: np.ndarray) -> None:
        """Send targets; they arrive after the latency, or never."""
        self._catch_up()
        if self._rng.random() >= self.options.loss:
            self._on_the_way.append((self.now() + self.options.latency, np.array(target, float)))

    def damp(self) -> None:
        """Motors damp, rotors stop; at once, and whatever was on its way is void."""
        self._catch_up()
        self._on_the_way.clear()
        self._target = None

    def close(self) -> None:
        self.damp()

    def prepare(self, command: np.ndarray) -> None:
        """Compile the task's evaluation under this command."""
        task, with_command = self.model.commanded(command)
        self._prepared = TaskEvaluator(task, with_command, self._world, self.model.state)

    def enter(self, phase: Phase) -> None:
        """Evaluate the task during the phase `RUN`, once `prepare` was called."""
        if self._evaluator is not None:
            self._result, self._evaluator = self._evaluator.result(), None
        if phase is Phase.RUN:
            self._evaluator = self._prepared

    def task_result(self) -> TaskResult | None:
        return self._result if self._evaluator is None else self._evaluator.result()

    def _catch_up(self) -> None:
        if self.options.realtime:
            self._advance(self.now())

    def _advance(self, when: float) -> None:
        """Physics until `when`; the last step ends at it or before."""
        while (left := math.floor((when + SLACK) / self._dt) - self._steps) > 0:
            while self._on_the_way and self._on_the_way[0][0] <= self._steps * self._dt + SLACK:
                self._target, self._held = self._on_the_way.popleft()[1], False
            steps = min(left, self._held_for())
            if not self._held:
                self._engine.step(self.model.control(self._world, self._target), steps)
                self._world = self._read_world()
            self._steps += steps
            self._worlds.append((self._steps * self._dt, self._world))
            if self._evaluator is not None:
                self._evaluator.step(self._world, steps)

    def _held_for(self) -> int:
        """Physics steps for which nothing changes: no command arrives, nothing is measured or evaluated."""
        # What damps follows the joints, and rotors have a lag, from step to step.
        if self.model.every_step or self._target is None or self.options.sensor_latency:
            return 1
        steps = self.model.task.timing.substeps if self._evaluator is None else self._evaluator.left
        if self._on_the_way:
            steps = min(steps, math.ceil((self._on_the_way[0][0] - SLACK) / self._dt) - self._steps)
        return max(steps, 1)

    def _measure(self, taken: float, world: World) -> Measurement:
        evaluated = None if self._evaluator is None else self._evaluator.state
        return self.model.measure(world, taken, self._rng, self.options.noise, evaluated)

    def _read_world(self) -> World:
        world = self._engine.world()
        return World(world.time[0], world.qpos[0], world.qvel[0], world.sensordata[0], world.layout)


def connect_mujoco(contract: Contract, options: SimulatedOptions) -> SimulatedRobot:
    return SimulatedRobot(contract, "mujoco", options)


def connect_pybullet(contract: Contract, options: SimulatedOptions) -> SimulatedRobot:
    """The same in PyBullet, which shares nothing with the training but the description of the robot."""
    return SimulatedRobot(contract, "pybullet", options)
