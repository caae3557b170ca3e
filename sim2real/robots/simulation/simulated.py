"""A simulated robot to deploy on: a task's own, with latency, sensor noise, packet loss and a model mismatch.

Time is either real (physics follows the computer's clock) or simulated (physics waits for the policy; then a run is a
function of its seed). The robot is held in its starting pose until the first command reaches it. It measures when it is
read, as robots with a request and a reply per cycle do; a reply that is lost leaves the policy with the one before.

A team has a robot for each member, all in one simulation and each with its own losses and latency. Their loops
share a simulated clock, and all are held until the last one's first command has arrived.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from pathlib import Path
from typing import Annotated, Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import jax
import numpy as np

from embodied.core.world import World
from embodied.engines import make_engine
from embodied.errors import EmbodiedError
from embodied.storage.bounds import FRACTION, NOT_NEGATIVE, Bound, Bounded
from sim2real.contract.contract import Contract
from sim2real.robots.base import Measurement, Phase, Robot, TaskResult
from sim2real.robots.simulation.lockstep import Lockstep
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.robot_model import RobotModel
from sim2real.robots.simulation.task_evaluator import TaskEvaluator

UP_TO_LONGEST = Bound("0 s or more and less than 1 s", lambda latency: 0 <= latency < 1)
SLACK = 1e-9  # s, below which two times on a grid of physics steps are the same


@dataclasses.dataclass(frozen=True)
class SimulatedOptions(Bounded):
    """Latency, noise, losses and model mismatch of a simulated robot."""

    realtime: bool = True
    """Follow the computer's clock; otherwise as fast as possible, and then each run is a function of its seed."""
    latency: Annotated[float, UP_TO_LONGEST] = 0.0
    """s that commands take to reach the motors."""
    sensor_latency: Annotated[cli.Rare[float], UP_TO_LONGEST] = 0.0
    """s that measurements take to reach the policy."""
    noise: Annotated[float, NOT_NEGATIVE] = 1.0
    """Factor on the noise of the sensors, of which 1 is the training's."""
    loss: Annotated[float, FRACTION] = 0.0
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
    seed: Annotated[int, NOT_NEGATIVE] = 0
    """Of the initial state, the noise, the losses and the mismatch."""
    robot_file: cli.Rare[Path | None] = None
    """Model file of the robot, if it no longer lies where it was trained with; it must be the same."""

    def model_mismatch(self, joints: int) -> ModelMismatch:
        """All deviations from the model, of a robot with so many joints."""
        names = [field.name for field in dataclasses.fields(ModelMismatch) if field.name != "encoder_bias"]
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        return ModelMismatch(**own).times(ModelMismatch.draw(self.mismatch, joints, self.seed))


class Simulation:
    """A task's robots in a physics engine; it evaluates the task while their policies run."""

    def __init__(self, contract: Contract, engine: str, options: SimulatedOptions) -> None:
        self.options, self.mismatch = options, options.model_mismatch(len(contract.joints))
        self.model = RobotModel(contract, self.mismatch, options.robot_file)
        if self.model.agents > 1 and options.realtime:
            raise EmbodiedError(
                f"'{contract.task}' is a team of {self.model.agents}, rehearsed in simulated time only: --no-realtime"
            )
        self._engine: Any = make_engine(engine, self.model.task, 1)
        start = self.model.start(options.seed)
        self._engine.reset(np.arange(1), jax.tree.map(lambda leaf: np.asarray(leaf)[None], start))
        self._dt = self.model.task.timing.physics_dt
        self._steps = 0  # physics steps since the clock began, those in which the robots are held included
        self._held = True
        self._prepared: TaskEvaluator | None = None
        self._evaluator: TaskEvaluator | None = None
        self._running: set[int] = set()
        self.result: TaskResult | None = None
        self._world = self._read_world()
        # Measurements on their way, oldest first; without latency only the newest is of use.
        kept = 1 + round(options.sensor_latency / self._dt)
        self._worlds = collections.deque([(0.0, self._world)], maxlen=kept)
        self.clock = Lockstep(self.model.agents, self.advance)
        self.robots = tuple(SimulatedRobot(self, contract, engine, number) for number in range(self.model.agents))
        self._begin = time.monotonic()

    def now(self) -> float:
        """s since it was built: of the computer's clock, or simulated."""
        return time.monotonic() - self._begin if self.options.realtime else self._steps * self._dt

    def catch_up(self) -> None:
        """Simulate until now."""
        if self.options.realtime:
            self.advance(self.now())

    def advance(self, when: float) -> None:
        """Physics until `when`; the last step ends at it or before."""
        while (left := math.floor((when + SLACK) / self._dt) - self._steps) > 0:
            for robot in self.robots:
                robot.arrive(self._steps * self._dt + SLACK)
            self._held = self._held and any(not self.robots[number].commanded for number in self.clock.present)
            steps = min(left, self._held_for())
            if not self._held:
                control = self.model.control(self._world, [robot.target for robot in self.robots])
                self._engine.step(control, steps)
                self._world = self._read_world()
            self._steps += steps
            self._worlds.append((self._steps * self._dt, self._world))
            if self._evaluator is not None:
                self._evaluator.step(self._world, steps)

    @property
    def world(self) -> World:
        """The physical state now, without sensors."""
        return self._world

    @property
    def measured_at(self) -> float:
        """Time in s of the state that the sensors report now; it lies a sensor latency back."""
        return self._worlds[0][0]

    def measure(self, robot: int, rng: np.random.Generator) -> Measurement:
        """Readings of a robot's sensors."""
        taken, world = self._worlds[0]
        evaluated = None if self._evaluator is None else self._evaluator.state
        return self.model.measure(world, taken, rng, self.options.noise, evaluated, robot)

    def prepare(self, command: np.ndarray) -> None:
        """Compile the task's evaluation under a command; in a team, one of its robots does it."""
        task, with_command = self.model.commanded(command)
        self._prepared = TaskEvaluator(task, with_command, self._world, self.model.state)

    def enter(self, robot: int, phase: Phase) -> None:
        """Evaluate the task from the first robot's first cycle in the phase `RUN` to the last one's last."""
        if phase is Phase.RUN:
            self._evaluator = self._prepared
            self._running.add(robot)
        elif robot in self._running:
            self._running.discard(robot)
            if not self._running and self._evaluator is not None:
                self.result, self._evaluator = self._evaluator.result(), None

    def task_result(self) -> TaskResult | None:
        """Of the task until now."""
        return self.result if self._evaluator is None else self._evaluator.result()

    def _held_for(self) -> int:
        """Physics steps for which nothing changes: no command arrives, nothing is measured or evaluated."""
        # What damps follows the joints, and rotors have a lag, from step to step.
        damped = any(robot.target is None for robot in self.robots)
        if self.model.every_step or damped or self.options.sensor_latency:
            return 1
        steps = self.model.task.timing.substeps if self._evaluator is None else self._evaluator.left
        arrival = min(robot.next_arrival for robot in self.robots)
        if arrival < math.inf:
            steps = min(steps, math.ceil((arrival - SLACK) / self._dt) - self._steps)
        return max(steps, 1)

    def _read_world(self) -> World:
        world = self._engine.world()
        return World(world.time[0], world.qpos[0], world.qvel[0], world.sensordata[0], world.layout)


class SimulatedRobot(Robot):
    """One robot of a simulation."""

    def __init__(self, simulation: Simulation, contract: Contract, engine: str, number: int) -> None:
        self.name, self.contract = engine, contract
        self.simulation, self.number = simulation, number
        self.options, self.mismatch, self.model = simulation.options, simulation.mismatch, simulation.model
        self.in_place = self.model.in_place
        self.target: np.ndarray | None = None
        """The newest one that has arrived; None for a robot that is damped."""
        self.commanded = False
        """Whether any has."""
        self._rng = np.random.default_rng([self.options.seed, 2, *([number] if number else [])])
        self._on_the_way: collections.deque[tuple[float, np.ndarray]] = collections.deque()
        self._newest = simulation.measure(number, self._rng)

    @property
    def team(self) -> tuple[Robot, ...]:
        robots = self.simulation.robots
        return robots if len(robots) > 1 else ()

    def now(self) -> float:
        """s since it was built: of the computer's clock, or simulated."""
        return self.simulation.now()

    def sleep_until(self, when: float) -> None:
        """Simulate until then, and wait for it where time is real."""
        self.simulation.clock.wait(self.number, when)
        if self.options.realtime and (left := when - self.now()) > 0:
            time.sleep(left)

    def read(self) -> Measurement:
        self.simulation.catch_up()
        if self.simulation.measured_at > self._newest.time and self._rng.random() >= self.options.loss:
            self._newest = self.simulation.measure(self.number, self._rng)
        return self._newest

    def write(self, target: np.ndarray) -> None:
        """Send targets; they arrive after the latency, or never."""
        self.simulation.catch_up()
        if self._rng.random() >= self.options.loss:
            self._on_the_way.append((self.now() + self.options.latency, np.array(target, float)))

    def damp(self) -> None:
        """Motors damp, rotors stop; at once, and whatever was on its way is void."""
        self.simulation.catch_up()
        self._on_the_way.clear()
        self.target = None

    def close(self) -> None:
        self.damp()
        self.simulation.clock.leave(self.number)

    def prepare(self, command: np.ndarray) -> None:
        """Compile the task's evaluation under this command."""
        self.simulation.prepare(command)

    def enter(self, phase: Phase) -> None:
        """Evaluate the task during the phase `RUN`, once `prepare` was called."""
        self.simulation.enter(self.number, phase)

    def task_result(self) -> TaskResult | None:
        return self.simulation.task_result()

    @property
    def next_arrival(self) -> float:
        """s, when the next target on its way arrives; infinite where there is none."""
        return self._on_the_way[0][0] if self._on_the_way else math.inf

    def arrive(self, now: float) -> None:
        """Take the targets that have arrived."""
        while self.next_arrival <= now:
            self.target, self.commanded = self._on_the_way.popleft()[1], True


def connect_mujoco(contract: Contract, options: SimulatedOptions) -> SimulatedRobot:
    """The robot, or the first of a team's, in C MuJoCo."""
    return Simulation(contract, "mujoco", options).robots[0]


def connect_pybullet(contract: Contract, options: SimulatedOptions) -> SimulatedRobot:
    """The same in PyBullet, which shares nothing with the training but the description of the robot."""
    return Simulation(contract, "pybullet", options).robots[0]
