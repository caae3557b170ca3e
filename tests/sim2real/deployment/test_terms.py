"""The robot's observation is the task's observation, number for number."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from sim2real.contract import describe as in_words
from sim2real.contract.describe import describe
from sim2real.deployment.terms import Observer
from sim2real.robots.base import Measurement, RobotError
from tests.kit.bundles import contract_of, described
from tests.kit.noiseless import measured, noiseless
from tests.kit.worlds import jitted, task_of

WALK = "locomotion/g1-joystick-flat"  # which has every term of the quadrupeds, and a clock
OTHERS = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("locomotion/go1-joystick-flat", "locomotion/go2-joystick-flat")
]


@pytest.mark.parametrize("name", [WALK, "swarm/hover", *OTHERS])
def test_a_robot_observes_what_the_task_does(name):
    env, contract = noiseless(name)
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


@pytest.mark.parametrize("name", [WALK, "swarm/hover", OTHERS[0]])
def test_targets_are_the_tasks_own(name):
    env, contract = noiseless(name)
    task: Any = env.task
    env.reset(1)
    world, state = (jax.tree.map(lambda leaf: leaf[0], part) for part in (env.world(), env.task_state))
    process = jitted(task.process_action)
    for action in np.random.default_rng(1).uniform(-1, 1, (5, contract.action_size)).astype(np.float32):
        command, _ = process(world, state, action, jax.random.key(0))
        if name == "swarm/hover":  # the task's command is a speed
            from tasks.swarm.dynamics import quadrotor

            target = quadrotor.speed_for_thrust(task.drone, jnp.asarray(contract.target(action)))
        else:
            target = contract.target(action)
            command = np.clip(command, contract.row("lower"), contract.row("upper"))
        np.testing.assert_allclose(target, command, rtol=2e-5)


def test_history_repeats_the_first_and_ends_with_the_newest():
    gyro = next(term for term in contract_of("swarm/hover").terms if term.name == "gyro")
    short = dataclasses.replace(contract_of("swarm/hover"), terms=(dataclasses.replace(gyro, history=3),))
    observer = Observer(short)
    seen = [observer(Measurement(0.0, gyro=np.full(3, float(n))), np.zeros(4), np.zeros(3)) for n in range(4)]
    np.testing.assert_array_equal(seen[-1], np.repeat([1.0, 2.0, 3.0], 3))
    observer.reset()
    seen = observer(Measurement(0.0, gyro=np.full(3, 7.0)), np.zeros(4), np.zeros(3))
    np.testing.assert_array_equal(seen, np.full(9, 7.0))


def test_a_robot_without_a_sensor_is_told_which():
    observer = Observer(contract_of("swarm/hover"))
    with pytest.raises(RobotError, match="'position'"):
        observer(Measurement(0.0, orientation=np.array([1.0, 0, 0, 0])), np.zeros(4), np.zeros(3))


def test_tasks_without_a_description_in_words_are_described_by_their_whole_step(monkeypatch):
    monkeypatch.setattr(in_words, "describe_step", lambda task, name: described(name))
    assert describe(task_of("manipulation/reach"), "manipulation/reach") is contract_of("manipulation/reach")
    assert describe(task_of("swarm/hover"), "swarm/hover").step is None
