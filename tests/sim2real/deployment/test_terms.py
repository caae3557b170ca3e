"""The robot's observation is the task's observation, number for number."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import embodied
from sim2real.contract.contract import Contract
from sim2real.contract.describe import describe
from sim2real.deployment.terms import Observer
from sim2real.robots.base import Measurement, RobotError


def made(name):
    """One environment without noise, and its contract."""
    env = embodied.make(name, 1, "mujoco")
    if "without" in {field.name for field in dataclasses.fields(env.task.config)}:
        config = dataclasses.replace(env.task.config, without=("all",))
    else:
        config = dataclasses.replace(env.task.config, noise=False)
    env = embodied.make(name, 1, "mujoco", config=config)
    return env, describe(env.task, name)


def measured(env, contract: Contract) -> Measurement:
    """What a perfect robot would measure in the environment's present state."""
    world = jax.tree.map(lambda leaf: np.asarray(leaf[0]), env.world())
    model = env.task.model
    joints = [model.joint(joint.name) for joint in contract.joints]
    legged = "linvel" in world.layout.names
    orientation = np.asarray(world["orientation"], float)
    if legged:  # what a legged robot observes is the velocity of its IMU
        matrix = np.zeros(9)
        import mujoco

        mujoco.mju_quat2Mat(matrix, orientation)
        linvel = matrix.reshape(3, 3) @ np.asarray(world["linvel"], float)
    else:
        linvel = np.asarray(world["linvel_w"], float)
    return Measurement(
        time=0.0,
        joint_pos=world.qpos[[joint.qposadr[0] for joint in joints]].astype(float) if joints else None,
        joint_vel=world.qvel[[joint.dofadr[0] for joint in joints]].astype(float) if joints else None,
        gyro=np.asarray(world["gyro"], float),
        orientation=orientation,
        position=np.asarray(world["position"], float),
        linvel=linvel,
    )


@pytest.mark.parametrize(
    "name",
    ["locomotion/go1-joystick-flat", "locomotion/go2-joystick-flat", "locomotion/g1-joystick-flat", "swarm/hover"],
)
def test_a_robot_observes_what_the_task_does(name):
    import torch

    env, contract = made(name)
    task: Any = env.task
    observer = Observer(contract)
    seen = env.reset(3)
    action = np.zeros(contract.action_size)
    rng = np.random.default_rng(0)
    for _ in range(5):
        state = env.task_state
        command = task.target if name == "swarm/hover" else np.asarray(state.command[0])
        ours = observer(measured(env, contract), action, np.asarray(command, float))
        np.testing.assert_allclose(ours, seen["policy"][0].numpy(), atol=2e-5)
        action = rng.uniform(-1, 1, contract.action_size).astype(np.float32)
        seen = env.step(torch.as_tensor(action[None])).obs


@pytest.mark.parametrize("name", ["locomotion/go1-joystick-flat", "swarm/hover"])
def test_targets_are_the_tasks_own(name):
    env, contract = made(name)
    task: Any = env.task
    env.reset(1)
    world = jax.tree.map(lambda leaf: leaf[0], env.world())
    state = jax.tree.map(lambda leaf: leaf[0], env.task_state)
    for action in np.random.default_rng(1).uniform(-1, 1, (5, contract.action_size)).astype(np.float32):
        command, _ = env.task.process_action(world, state, action, jax.random.key(0))
        if name == "swarm/hover":  # the task's command is a speed
            from tasks.swarm.dynamics import quadrotor

            target = quadrotor.speed_for_thrust(task.drone, jnp.asarray(contract.target(action)))
        else:
            target = contract.target(action)
            command = np.clip(command, contract.row("lower"), contract.row("upper"))
        np.testing.assert_allclose(target, command, rtol=2e-5)


def test_history_repeats_the_first_and_ends_with_the_newest():
    _, contract = made("swarm/hover")
    gyro = next(term for term in contract.terms if term.name == "gyro")
    short = dataclasses.replace(contract, terms=(dataclasses.replace(gyro, history=3),))
    observer = Observer(short)
    seen = [observer(Measurement(0.0, gyro=np.full(3, float(n))), np.zeros(4), np.zeros(3)) for n in range(4)]
    np.testing.assert_array_equal(seen[-1], np.repeat([1.0, 2.0, 3.0], 3))
    observer.reset()
    seen = observer(Measurement(0.0, gyro=np.full(3, 7.0)), np.zeros(4), np.zeros(3))
    np.testing.assert_array_equal(seen, np.full(9, 7.0))


def test_a_robot_without_a_sensor_is_told_which():
    _, contract = made("swarm/hover")
    with pytest.raises(RobotError, match="'position'"):
        Observer(contract)(Measurement(0.0, orientation=np.array([1.0, 0, 0, 0])), np.zeros(4), np.zeros(3))


def test_tasks_without_a_description_in_words_are_described_by_their_whole_step():
    assert describe(embodied.make("manipulation/reach", 1, "mujoco").task, "manipulation/reach").step is not None
    assert describe(embodied.make("swarm/hover", 1, "mujoco").task, "swarm/hover").step is None
