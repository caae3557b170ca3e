"""The tasks of legged robots: curriculum, variations, latency, self-collision, stances."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.task import Task
from embodied.core.world import World
from embodied.env.factory import configured
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from tasks.locomotion.getup import Getup, GetupConfig
from tasks.locomotion.ground import Terrain
from tasks.locomotion.humanoid_joystick import HumanoidConfig, HumanoidJoystick
from tasks.locomotion.joystick import CommandConfig, Joystick, JoystickConfig
from tasks.locomotion.legged import Variation
from tasks.locomotion.reach import Reach
from tasks.locomotion.two_feet import Handstand
from tests.kit.hooks import blank, partly

KEY = jax.random.PRNGKey(0)


def starts(task: Task[Any], count: int, part: Callable[[Any], Any]) -> Any:
    """A part of so many starts."""
    return jax.tree.map(np.asarray, partly(jax.vmap(task.reset), part)(jax.random.split(KEY, count)))


def test_ground_gets_harder_after_success_easier_after_a_fall_and_anything_after_the_top() -> None:
    task = Joystick(JoystickConfig(terrain=Terrain.ROUGH))
    state, end = blank(task).task_state, np.float32(task.timing.max_steps)
    restart = partly(task.restart, lambda start: start.task_state.level)

    def following(level: int, steps: Any, error: float, key: Any = KEY) -> int:
        mean = {"mean_error": np.float32(error), "mean_command": np.float32(1.0)}
        return int(restart(key, dataclasses.replace(state, level=np.int32(level), steps=steps, **mean)))

    assert following(3, end, 0.1) == 4
    assert following(3, end, 0.5) == 3
    assert following(3, end - 1, 0.1) == 2
    assert following(0, end - 1, 0.1) == 0
    top = task.ground.levels - 1
    assert len({following(top, end, 0.1, key) for key in jax.random.split(KEY, 12)}) > 2


@pytest.mark.parametrize("kind", [Joystick, HumanoidJoystick, Reach])
@pytest.mark.parametrize("fast", [True, False])
def test_a_robot_rises_that_walks_as_commanded_and_none_that_stands(kind: Any, fast: bool) -> None:
    """Also where the command is slow, whose distance from standing is small."""
    command = CommandConfig(limits=(1.5, 0.8, 1.2) if fast else (0.25, 0.1, 1.2))
    task = kind(kind.config_type(terrain=Terrain.ROUGH, command=command))
    home = World.posed(task.model, task.model.key("home").qpos, np.zeros(task.model.nv))
    begun = dataclasses.replace(blank(task).task_state, level=np.int32(3))
    action = np.zeros(task.action_size, np.float32)

    def following(key: Any, share: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            speed = share * jnp.append(state.command[:2], 0.0)
            sensed = home.sensordata.at[home.layout.slices["linvel"]].set(speed)
            return task.post_step(dataclasses.replace(home, sensordata=sensed), state, action, key), None

        state = jax.tree.map(jnp.asarray, begun)
        ended, _ = jax.lax.scan(step, state, jax.random.split(key, round(task.timing.max_steps)))
        return task.restart(key, ended).task_state.level

    levels = jax.jit(jax.vmap(following, (0, None)))
    keys = jax.random.split(KEY, 16)
    assert (np.asarray(levels(keys, 0.0)) == 3).all()
    assert (np.asarray(levels(keys, 1.0)) == 4).all()


def test_first_starts_cover_all_levels_and_stand_on_the_ground() -> None:
    task = Joystick(JoystickConfig(terrain=Terrain.ROUGH))
    level, qpos = starts(task, 200, lambda start: (start.task_state.level, start.qpos))
    assert set(np.unique(level)) == set(range(task.ground.levels))
    above = qpos[:, 2] - task.ground.height(qpos[:, :2])
    assert (above > task.robot.height).all()


def test_every_variation_is_listed_and_can_be_left_out_by_name() -> None:
    whole = Joystick()
    assert {"floor_friction", "latency", "encoder_bias", "push", "observation_noise"} <= set(whole.variations)
    for name in whole.variations:
        assert set(Joystick(JoystickConfig(without=(name,))).variations) == set(whole.variations) - {name}
    bare = Joystick(JoystickConfig(without=("all",)))
    start = starts(bare, 3, lambda start: start)
    assert not bare.variations
    assert not start.model
    assert not np.asarray(start.task_state.latency).any()
    assert not np.asarray(start.task_state.encoder_bias).any()
    assert not np.asarray(start.task_state.push.force).any()


def test_an_unknown_variation_is_answered_with_those_that_exist() -> None:
    with pytest.raises(EmbodiedError, match=r"'floor_frction'.*floor_friction"):
        Joystick(JoystickConfig(without=("floor_frction",)))


def test_a_range_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(ValueError, match=r"latency=\(0.01, 0.0\).*smaller number first"):
        Variation(latency=(0.01, 0.0))


def test_what_is_drawn_stays_in_its_range() -> None:
    task = Joystick()
    friction, latency = starts(task, 300, lambda start: (start.model["geom_friction"], start.task_state.latency))
    friction = friction[:, task.model.geom("floor").id, 0]
    assert 0.4 <= friction.min() < 0.5
    assert 0.9 < friction.max() <= 1.0 + 1e-6
    assert 0 <= latency.min() < 0.002
    assert 0.013 < latency.max() <= 0.015


def test_latency_mixes_the_last_target_into_this_one() -> None:
    task = Joystick()
    last, action = jnp.zeros(12), jnp.ones(12)
    np.testing.assert_allclose(task.delayed(action, last, jnp.zeros(())), action)
    np.testing.assert_allclose(task.delayed(action, last, jnp.asarray(0.005)), 0.75 * action, rtol=1e-6)
    np.testing.assert_allclose(task.delayed(action, last, jnp.asarray(0.02)), last, atol=1e-6)


def test_a_fallen_robot_starts_in_every_orientation_and_cannot_act_at_first() -> None:
    task = Getup(GetupConfig(without=("all",)))
    qpos, limp = starts(task, 400, lambda start: (start.qpos, start.task_state.limp))
    quat, fallen = qpos[:, 3:7], limp > 0
    up = 1 - 2 * (quat[:, 1] ** 2 + quat[:, 2] ** 2)
    assert 0.7 < fallen.mean() < 0.9
    assert (up[fallen] < -0.8).any()
    assert (up[fallen] > 0.8).any()
    assert (up[~fallen] > 0.9).all()


def test_getup_robots_collide_with_themselves_and_others_do_not() -> None:
    def own_pairs(model: mujoco.MjModel) -> int:
        body = model.geom_bodyid > 0
        meets = (model.geom_contype[:, None] & model.geom_conaffinity[None]) != 0
        return int((meets & body[:, None] & body[None]).sum())

    assert own_pairs(Getup().model) > 0
    assert own_pairs(Joystick().model) == 0


def test_soft_ankles_still_carry_the_g1_at_home() -> None:
    """Held at its stance it neither drops nor jumps; that it tips over after some seconds is what it learns against."""
    task = HumanoidJoystick(HumanoidConfig(scaled=False))
    model = task.model
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.ctrl[task.layout.actuators] = task.layout.stance
    mujoco.mj_step(model, data, 100)
    assert model.actuator_gainprm[model.actuator("left_ankle_pitch").id, 0] == 40
    assert abs(data.body("pelvis").xpos[2] - task.robot.height) < 0.01


def test_an_action_moves_each_joint_as_far_as_it_reaches() -> None:
    task = HumanoidJoystick(HumanoidConfig(without=("all",)))
    joints, state = len(task.robot.joint_names), blank(task).task_state
    targets = partly(task.process_action, lambda processed: processed[0])(None, state, np.ones(joints, np.float32), KEY)
    moved = np.asarray(targets) - task.layout.stance
    legs, waist, arms = np.split(moved, [12, 15])
    assert moved.shape == (joints,)
    assert legs.max() == pytest.approx(task.config.action_scale)
    assert waist.max() < arms.max() < legs.max()


def test_feet_swing_in_turn_and_stand_without_a_command() -> None:
    task = HumanoidJoystick(HumanoidConfig(scaled=False))
    command = np.array([0.5, 0.0, 0.0], np.float32)
    state = dataclasses.replace(blank(task).task_state, command=command, steps=np.float32(9.0))
    left, right = np.sin(np.asarray(task._phase(state)))
    assert left == pytest.approx(-right, abs=1e-5)
    still = dataclasses.replace(state, command=jnp.zeros(3))
    assert not np.asarray(task._phase(still)).any()


def test_a_task_of_ours_is_one_class_with_a_config() -> None:
    registry = join_content()
    for name, kind in (("joystick-rough", Joystick), ("getup", Getup), ("handstand", Handstand)):
        entries = {robot: registry[f"locomotion/{robot}-{name}"].load() for robot in ("go1", "go2")}
        for robot, entry in entries.items():
            config = entry.config_type()
            assert issubclass(entry, kind)
            assert isinstance(config, kind.config_type)
            assert (config.robot, config.scaled) == (robot, False)
    assert entries["go1"] is registry["locomotion/go1-handstand"].load()


def test_a_config_that_leaves_the_robot_open_is_for_the_robot_of_the_task() -> None:
    task = configured(join_content()["locomotion/go2-joystick-rough"], JoystickConfig(froude=False))
    config: Any = task.config
    assert (config.robot, config.terrain, config.froude) == ("go2", Terrain.ROUGH, False)
