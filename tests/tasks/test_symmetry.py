"""Robots in a mirror: from the mirrored state, mirrored actions lead to what the mirror shows, for the same reward."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import mujoco
import numpy as np
import pytest

from embodied.core.episode import flatten_observation
from embodied.core.task import Task
from embodied.core.world import ResetState, World
from embodied.env.factory import make
from embodied.errors import EmbodiedError
from embodied.math.symmetry import PLANAR_COMMAND, PSEUDOVECTOR, QUATERNION, VECTOR, Reflection
from tasks.locomotion.getup import Getup, GetupConfig
from tasks.locomotion.humanoid_joystick import STEP_RATE, HumanoidConfig, HumanoidJoystick
from tasks.locomotion.joystick import SCAN, SCAN_REFLECTION, CommandConfig, Joystick, JoystickConfig
from tasks.locomotion.two_feet import Handstand, TwoFeetConfig
from tasks.swarm.single.hover import ROTORS, Hover, HoverConfig
from tests.kit.hooks import blank
from tests.kit.scripts import flown, hosted
from tests.kit.worlds import build_env

TOLERANCE = 1e-4  # rigid computes in single precision


def body(joints: Reflection) -> tuple[Reflection, Reflection]:
    """qpos and qvel of a free body and its joints."""
    return Reflection.joined([VECTOR, QUATERNION, joints]), Reflection.joined([VECTOR, PSEUDOVECTOR, joints])


def legged(task: Any, start: ResetState[Any]) -> ResetState[Any]:
    joints = task.mirror.action
    qpos, qvel = body(joints)
    changes: dict[str, Any] = {}
    for name, reflection in (("command", PLANAR_COMMAND), ("target", joints)):
        if hasattr(start.task_state, name):
            changes[name] = reflection(getattr(start.task_state, name))
    if isinstance(task.unwrapped, HumanoidJoystick):  # the other foot's turn is half a period away
        changes["steps"] = start.task_state.steps + 0.5 / (STEP_RATE * task.timing.control_dt)
    state = dataclasses.replace(start.task_state, **changes)
    return dataclasses.replace(start, qpos=qpos(start.qpos), qvel=qvel(start.qvel), task_state=state)


def flying(start: ResetState[Any]) -> ResetState[Any]:
    qpos, qvel = body(Reflection((), ()))
    rotors = {name: ROTORS(getattr(start.task_state, name)) for name in ("rotor_speed", "command", "last_command")}
    state = dataclasses.replace(start.task_state, **rotors)
    return dataclasses.replace(start, qpos=qpos(start.qpos), qvel=qvel(start.qvel), task_state=state)


def centred(task: Task[Any]) -> Task[Any]:
    """The same robot with its IMU in the plane of symmetry: a Go1's lies 6.7 cm to the right."""

    def edit(spec: mujoco.MjSpec) -> None:
        spec.site("imu").pos[1] = 0.0

    return task.rebuilt([edit])


ONE = CommandConfig(interval=1e9)
ALL = ("all",)
ROBOTS: dict[str, Callable[[], Task[Any]]] = {
    "go1": lambda: centred(Joystick(JoystickConfig(without=ALL, command=ONE))),
    "go2": lambda: Joystick(JoystickConfig("go2", without=ALL, command=ONE)),
    "g1": lambda: HumanoidJoystick(HumanoidConfig(without=ALL, command=ONE)),
    "getup": lambda: centred(Getup(GetupConfig(without=ALL))),
    "handstand": lambda: centred(Handstand(TwoFeetConfig(without=ALL))),
}


def somewhere(task: Any) -> ResetState[Any]:
    """A robot that moves in mid-air, told to go anywhere, without the dear program of its reset."""
    start, rng = blank(task), np.random.default_rng(0)
    qpos = np.array(task.model.key("home").qpos, np.float32)
    qpos += rng.uniform(-0.1, 0.1, qpos.shape).astype(np.float32)
    qpos[3:7] /= np.linalg.norm(qpos[3:7])
    drawn = {
        name: rng.uniform(-0.5, 0.5, getattr(start.task_state, name).shape).astype(np.float32)
        for name in ("command", "target")
        if hasattr(start.task_state, name)
    }
    state = dataclasses.replace(start.task_state, **drawn)
    return dataclasses.replace(
        start, qpos=qpos, qvel=0.3 * rng.normal(size=task.model.nv).astype(np.float32), task_state=state
    )


def is_mirrored(task: Any, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Whether observations (..., size) are each other's images, and none its own."""
    for group, reflection in task.mirror.of_groups(task.observation_terms).observed.items():
        expected = reflection(np.asarray(ours[group]))
        np.testing.assert_allclose(theirs[group], expected, rtol=TOLERANCE, atol=TOLERANCE)
        assert (np.abs(expected - ours[group]).max(-1) > 0.1).all()


@pytest.mark.parametrize(
    "robot", ["go1", "g1", *(pytest.param(name, marks=pytest.mark.slow) for name in ("go2", "getup", "handstand"))]
)
def test_the_mirrored_robot_does_what_the_mirror_shows(robot: str) -> None:
    task: Any = ROBOTS[robot]()
    start = somewhere(task)
    both = jax.tree.map(lambda *leaves: np.stack(leaves), start, jax.tree.map(np.asarray, legged(task, start)))
    actions = 0.5 * np.random.default_rng(1).normal(size=(6, task.action_size)).astype(np.float32)
    found = hosted(task, 6, np.stack([actions, task.mirror.action(actions)], 1), count=2, start=both)
    ours, theirs = ({group: seen[1:, row] for group, seen in found.seen.items()} for row in (0, 1))
    is_mirrored(task, ours, theirs)
    rewards: Any = sum(task.reward_weights[term] * value[1:] for term, value in found.terms.items())
    np.testing.assert_allclose(rewards[:, 1], rewards[:, 0], rtol=TOLERANCE, atol=TOLERANCE)


def test_the_mirrored_drone_does_what_the_mirror_shows() -> None:
    task: Any = Hover(HoverConfig(noise=False, mass_spread=0.0))
    start = jax.jit(task.reset)(jax.random.PRNGKey(0))
    actions = 0.5 * np.random.default_rng(1).normal(size=(6, task.action_size)).astype(np.float32)
    flights = [
        flown(task, "rigid", done, start=begun)
        for done, begun in ((actions, start), (task.mirror.action(actions), flying(start)))
    ]

    def answer(world: World, state: Any, action: Any) -> Any:
        reward = sum(task.reward_weights[term] * value for term, value in task.rewards(world, state, action).items())
        return flatten_observation(task.observe(world, state, jax.random.PRNGKey(0))), reward

    every = jax.jit(jax.vmap(answer))
    answers = [every(*jax.tree.map(lambda leaf: leaf[1:], tuple(flight)), actions) for flight in flights]
    (ours, reward), (theirs, mirrored) = answers
    is_mirrored(task, ours, theirs)
    np.testing.assert_allclose(mirrored, reward, rtol=TOLERANCE, atol=TOLERANCE)


def test_rough_ground_is_scanned_from_right_to_left() -> None:
    np.testing.assert_allclose(SCAN[list(SCAN_REFLECTION.index)], SCAN * [1, -1])


def test_what_cannot_be_mirrored_is_said_in_one_line() -> None:
    with pytest.raises(EmbodiedError, match="locomotion/hopper does not say how it looks in a mirror") as none:
        make("locomotion/hopper", device="cpu").mirror()
    task: Task[Any] = Hover().with_observations("policy", height=lambda world, state: world["position"][2:])
    with pytest.raises(EmbodiedError, match=r"'policy/height' has no mirror image.*position, up") as unknown:
        build_env(task, "rigid", 1).mirror()
    less = build_env(Hover().without(observations=["critic/latency"]), "rigid", 1)
    assert len(less.mirror().observed["critic"]) == 22

    def lame(spec: mujoco.MjSpec) -> None:
        spec.body("FR_thigh").pos[0] += 0.1

    with pytest.raises(EmbodiedError, match=r"'FR_thigh' has no mirror image among .* nearest: 'FL_thigh'") as side:
        _ = Joystick().rebuilt([lame]).mirror
    for error in (none, unknown, side):
        assert "\n" not in str(error.value)
