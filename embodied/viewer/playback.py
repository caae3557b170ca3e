"""`Playback`: one task with the policy that acts in it, and what a person does to it."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from embodied.core.hooks import PIXELS
from embodied.env.env import Env
from embodied.env.options import EnvOptions
from embodied.env.step import Step
from embodied.env.vec_env import PolicyFunction
from embodied.env.wrappers.steering import Steering, is_rate, movable
from embodied.rendering.scene_state import SceneReader, SceneState, floating_bodies, radius_of
from embodied.viewer.contacts import ContactReader, Contacts
from embodied.viewer.panel import Readings

SPACING = 8.0  # m, at most, between environments side by side
PUSH_SECONDS = 0.1  # for which a push lasts
TRAVEL_SECONDS = 4.0  # a stick that is held moves a target from one end of its range to the other


class Playback:
    """Steps environments of one task under a policy, and reads the one that is watched."""

    def __init__(self, env: Env, policy: PolicyFunction, needs: EnvOptions[Any], seed: int) -> None:
        """Reset the environments; the first step compiles."""
        self.env, self.policy, self.needs = env, policy, needs
        self.steering = Steering(env)
        self.ranges = self.steering.ranges
        self.steered: np.ndarray | None = None
        self._deflected = np.zeros(0)
        self._scene_reader, self._contact_reader = SceneReader(env), ContactReader(env)
        self.simulated = 0.0
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start every environment afresh; a command that a person set stays."""
        self.obs = self.env.reset(seed)
        self._step: Step | None = None  # whose figures are read a few times a second, not in every step
        self.totals: dict[str, float] = {}
        self._seen = (0, 0)
        if self.steered is not None:
            self.steering.set_command(self.steered)

    def steer(self, command: np.ndarray | None) -> None:
        """Set the command (k,), or give it back to the task."""
        self.steered = None if command is None else command
        self.steering.set_command(self.steered)

    def deflect(self, deflection: np.ndarray) -> np.ndarray | None:
        """Let keys and sticks, (3,) in [-1, 1], move the command for a control step.

        A rate, such as a speed, is as high as they are moved, and zero when they are let go; a target travels while
        they are held. Returns the new command (k,), None where nothing moves it.
        """
        moved = deflection[: len(self.ranges)]
        let_go = self._deflected.any() and not moved.any()
        self._deflected = moved
        if not moved.any() and not let_go:
            return None
        now = self.steered if self.steered is not None else self.steering.read()[0][0].astype(float)
        command = now.copy()
        for number, (one, stick) in enumerate(zip(self.ranges, moved, strict=False)):
            if is_rate(one):
                command[number] = stick * (one.high if stick > 0 else -one.low)
            else:
                command[number] += stick * (one.high - one.low) * self.env.control_dt / TRAVEL_SECONDS
            command[number] = min(max(command[number], one.low), one.high)
        self.steer(command)
        return command

    def halted(self) -> np.ndarray:
        """(k,) the command with its rates at zero."""
        now = self.steered if self.steered is not None else self.steering.read()[0][0].astype(float)
        rates = np.array([is_rate(one) for one in self.ranges])
        return np.where(rates, 0.0, now)

    def push(self, index: int, body: int, direction: np.ndarray, speed: float, lever: np.ndarray | None = None) -> str:
        """Push a body of environment `index`; returns what was done, in words.

        Args:
            index: Environment.
            body: What is pushed.
            direction: (3,) of unit length, world frame.
            speed: m/s by which the push would change the speed of what hangs together with the body, were it free.
            lever: (3,) m from the body's centre of mass to where it is pushed; by default there.
        """
        model = self.env.task.model
        root = int(model.body_rootid[body])
        free = root if model.body_dofnum[root] >= 6 else body
        force = float(model.body_subtreemass[free]) * speed / PUSH_SECONDS * direction
        torque = np.zeros(3) if lever is None else np.cross(lever, force)
        self.steering.push(index, body, force, PUSH_SECONDS, torque)
        name = model.body(body).name or f"body {body}"
        return f"pushed {name} with {np.linalg.norm(force):.3g} N for {PUSH_SECONDS:g} s"

    @property
    def pushed_body(self) -> int:
        """The body that a push is for unless a person clicks on another.

        The robot where it travels, else an object, else what is farthest from the base.
        """
        model = self.env.task.model
        free = [int(model.jnt_bodyid[j]) for j in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)]
        if found := floating_bodies(model) or free:
            return found[0]

        def depth(body: int) -> int:
            return 0 if body == 0 else 1 + depth(int(model.body_parentid[body]))

        return max(movable(model), key=lambda body: (depth(body), float(model.body_mass[body])))

    def step(self, index: int) -> tuple[float, dict[str, float]]:
        """Advance by one control step; returns s since the episode of `index` began, and its weighted reward terms.

        Without terms where there is no step before to compare with: the episode, or the watched environment, is new.
        """
        step = self.env.step(self.policy(self.obs))
        self.obs, self._step = step.obs, step
        self.simulated += self.env.control_dt
        episode = self.env.episode
        # Through numpy: to index a JAX array runs a program, a fifth of the time of a step.
        totals = {name: float(np.asarray(values)[index]) for name, values in episode.terms.items()}
        length = int(np.asarray(episode.steps)[index])
        follows = (index, length) == (self._seen[0], self._seen[1] + 1) and bool(self.totals)
        change = {name: value - self.totals[name] for name, value in totals.items()} if follows else {}
        self.totals, self._seen = totals, (index, length)
        return length * self.env.control_dt, change

    def command(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(k,) the command that holds, and (k,) what the robot does."""
        if not self.ranges:
            return np.zeros(0), np.zeros(0)
        command, measured = self.steering.read()
        return command[index], measured[index]

    def readings(self, index: int, contacts: Contacts | None, notes: list[str]) -> Readings:
        dt = self.env.control_dt
        command, measured = self.command(index)
        step, said = self._step, ("length", "success_any", "diverged", "return")
        units, info = self.env.task.metric_units, {} if step is None else step.info
        own = {name: float(value[index]) for name, value in info.items() if name not in said}
        metrics = {name: (value, units.get(name, "")) for name, value in own.items() if not math.isnan(value)}
        return Readings(
            seconds=int(self.env.episode.steps[index]) * dt,
            limit=self.env.max_episode_steps * dt,
            success=step is not None and bool(step.success[index]),
            command=command,
            measured=measured,
            episode_return=float(self.env.episode.total[index]),
            metrics=metrics,
            terms=self.totals,
            contact_force=float("nan") if contacts is None else contacts.total_force,
            notes=notes,
        )

    def scene(self) -> SceneState:
        """Poses of everything."""
        return self._scene_reader.read()

    def contacts(self, index: int) -> Contacts:
        return self._contact_reader.read(index)

    def pictures(self, index: int) -> dict[str, np.ndarray]:
        """Camera -> (height, width, 3) uint8 that the policy sees; of several agents that carry it, the first's."""
        if self.env.cameras is None:
            return {}
        found = {}
        for name in self.env.cameras.config.cameras:
            image = self.obs[PIXELS + name][index]
            image = image if image.dim() == 3 else image[0]
            found[name] = image.permute(1, 2, 0).cpu().numpy()
        return found

    @property
    def spacing(self) -> float:
        """m between environments that keeps neighbours apart at their start."""
        model = self.env.task.visual_model
        followed = floating_bodies(model)
        size = max(radius_of(model, body) for body in followed) if followed else float(model.stat.extent)
        return min(SPACING, max(1.0, round(3 * size, 1)))

    def close(self) -> None:
        """Release the environments."""
        self.env.close()
