"""What every engine promises (`embodied.engines.base`), over all engines, on toys that compile in seconds."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

from embodied.core import episode
from embodied.core.hooks import Timing
from embodied.env.env import HEALTH_INTERVAL, Env
from embodied.errors import SimulationError
from embodied.storage.trees import flatten, unflatten
from tests.kit.toy_tasks import Ball, Lander
from tests.kit.worlds import build_env, toy_world

N = 8
ALL = ["rigid", "mujoco", "mjx-jax", "mjx-warp", "pybullet", "brax"]
BIT_EXACT = ["rigid", "mujoco", "mjx-jax", "pybullet", "brax"]  # Warp promises statistics only
COSTLY = {"mjx-jax", "brax"}  # seconds of compilation for each number of environments
QUICK_FIRST = [pytest.param(engine, marks=[pytest.mark.slow] if engine in COSTLY else []) for engine in BIT_EXACT]
"""As `BIT_EXACT`, for tests that compile anew: engines whose kind another one represents are left to the slow ones."""

pytestmark = pytest.mark.timeout(280)

COMPILED: list[str] = []


def count_compilations(event: str, duration_secs: float, **kwargs: str | int) -> None:
    """Note every program that XLA compiles."""
    if event.endswith("backend_compile_duration"):
        COMPILED.append(event)


jax.monitoring.register_event_duration_secs_listener(count_compilations)


@pytest.fixture(params=ALL)
def ball(request: pytest.FixtureRequest, tmp_path: Path) -> Env:
    env = toy_world(Ball, request.param, N)
    env.dump_folder = tmp_path
    return env


def actions(steps: int, size: int, num_envs: int = N, seed: int = 0) -> torch.Tensor:
    """(steps, num_envs, size) in [-0.9, 0.9], none of which explodes."""
    return 1.8 * torch.rand(steps, num_envs, size, generator=torch.Generator().manual_seed(seed)) - 0.9


def rollout(env: Env, steps: torch.Tensor) -> list[dict[str, np.ndarray]]:
    """Every array of every step."""
    rows = []
    for action in steps:
        step = env.step(action)
        row = {f"obs.{name}": value for name, value in step.obs.items()}
        row |= {f"final.{name}": value for name, value in step.final_obs.items()}
        row |= {f"info.{name}": value for name, value in step.info.items()}
        row |= {
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "success": step.success,
        }
        rows.append({name: value.numpy().copy() for name, value in row.items()})
    return rows


def assert_equal(
    rows: list[dict[str, np.ndarray]], others: list[dict[str, np.ndarray]], keep: Any = slice(None)
) -> None:
    """Bitwise equality of two rollouts, for the environments `keep`."""
    for index, (row, other) in enumerate(zip(rows, others, strict=True)):
        for name, value in row.items():
            np.testing.assert_array_equal(value[keep], other[name][keep], err_msg=f"step {index}, {name}")


def reference(task: Any, seed: int, steps: torch.Tensor) -> Iterator[dict[str, np.ndarray]]:
    """The same episodes by a loop over C MuJoCo: first the starts, then one row per control step.

    Positions and velocities are those after a step, forces and accelerations those of its last `mj_step`.
    """
    keys = episode.environment_keys(seed, N)
    starts = jax.jit(jax.vmap(functools.partial(episode.begin, task)))(keys)[0]
    simulations = []
    for i in range(N):
        model = task.model.__copy__()
        model.opt.timestep = task.timing.physics_dt
        for name, values in starts.model.items():
            getattr(model, name)[:] = values[i]
        data = mujoco.MjData(model)
        mujoco.mj_setConst(model, data)
        data.qpos[:], data.qvel[:] = starts.qpos[i], starts.qvel[i]
        mujoco.mj_forward(model, data)
        simulations.append((model, data))
    yield gather([data for _, data in simulations], [data for _, data in simulations], task.model)
    actuate = jax.jit(jax.vmap(lambda command: task.apply_action(None, None, command)[0]))
    for action in steps:
        current = []
        controls = jax.tree.map(np.asarray, actuate(action.numpy()))
        for i, (model, data) in enumerate(simulations):
            control = jax.tree.map(lambda leaf, i=i: leaf[i], controls)
            for _ in range(task.timing.substeps):
                data.xfrc_applied[:] = control.wrench
                if control.ctrl is not None:
                    data.ctrl[:] = control.ctrl
                mujoco.mj_step(model, data)
            after = mujoco.MjData(model)
            after.qpos[:], after.qvel[:] = data.qpos, data.qvel
            mujoco.mj_forward(model, after)
            current.append(after)
        yield gather([data for _, data in simulations], current, task.model)


def gather(stepped: list[Any], current: list[Any], model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """Sensor name -> (N, size), each from the data in which it has the age it is promised to have."""
    row = {}
    for i in range(model.nsensor):
        sensor, late = model.sensor(i), model.sensor_needstage[i] == mujoco.mjtStage.mjSTAGE_ACC
        part = slice(int(sensor.adr[0]), int(sensor.adr[0] + sensor.dim[0]))
        row[sensor.name] = np.stack([data.sensordata[part] for data in (stepped if late else current)])
    return row


def sensors(env: Env) -> dict[str, np.ndarray]:
    """Sensor name -> (N, size) as a task reads them."""
    world = env.world()
    return {name: np.asarray(world[name]) for name in world.layout.names}


FORCE_SENSORS = {"ankle_force", "ankle_torque", "contact", "accelerometer", "hip_force"}


@pytest.mark.parametrize(
    ("task_type", "engine"),
    [
        *((Ball, e) for e in ALL),
        *((Lander, e) for e in ("mujoco", "mjx-warp")),
        pytest.param(Lander, "mjx-jax", marks=pytest.mark.slow),  # compiles for 50 s
    ],
    ids=lambda p: getattr(p, "__name__", p),
)
def test_sensors_equal_a_loop_over_c_mujoco(task_type: Any, engine: str) -> None:
    """Open loop, 6 control steps (48 ms) with contact: positions to 1e-4, velocities to 1e-2, forces to 2 %."""
    env = toy_world(task_type, engine, N)
    steps = actions(6, env.action_size)
    env.reset(seed=3)
    alive = np.ones(N, bool)
    touched = False
    for index, expected in enumerate(reference(env.task, 3, steps)):
        if index:
            alive &= ~env.step(steps[index - 1]).done.numpy()
        read = sensors(env)
        for name, value in expected.items():
            scale = max(1.0, float(np.abs(value).max()))
            tolerance = (
                2e-2 * scale if name in FORCE_SENSORS else 1e-3 * scale if "vel" in name or "gyro" in name else 1e-4
            )
            np.testing.assert_allclose(read[name][alive], value[alive], atol=tolerance, err_msg=f"{name}, step {index}")
        touched |= bool((expected.get("contact", np.zeros(1)) > 0).any())
    assert alive.sum() >= 3
    assert touched or task_type is Ball


@pytest.mark.parametrize("task_type", [Ball, Lander])
def test_c_mujoco_equals_its_own_loop_closely(task_type: Any) -> None:
    env = toy_world(task_type, "mujoco", N)
    steps = actions(9, env.action_size)
    env.reset(seed=4)
    alive = np.ones(N, bool)
    for index, expected in enumerate(reference(env.task, 4, steps)):
        if index:
            alive &= ~env.step(steps[index - 1]).done.numpy()
        for name, value in sensors(env).items():
            np.testing.assert_allclose(
                value[alive], expected[name][alive], rtol=1e-4, atol=1e-4, err_msg=f"{name}, step {index}"
            )


def test_every_episode_starts_afresh(ball: Env) -> None:
    ball.reset(seed=0)
    starts = [row.tobytes() for row in np.asarray(ball.world().qpos)]
    for action in actions(30, ball.action_size):
        done = ball.step(action).done.numpy()
        starts += [row.tobytes() for row in np.asarray(ball.world().qpos)[done]]
    assert len(starts) > 3 * N
    assert len(set(starts)) == len(starts)


def test_the_same_seed_gives_the_same_starts_and_another_gives_others(ball: Env) -> None:
    first, again, other = (ball.reset(seed=seed)["policy"].numpy().copy() for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not (first == other).all(axis=1).any()


@pytest.mark.parametrize("engine", QUICK_FIRST)
def test_starts_do_not_depend_on_the_number_of_environments(engine: str) -> None:
    many, one = toy_world(Ball, engine, N), toy_world(Ball, engine, 1)
    np.testing.assert_allclose(many.reset(seed=8)["policy"][:1], one.reset(seed=8)["policy"], atol=1e-6)


class Counted(Ball):
    """Counts the starts that are drawn."""

    drawn = 0

    def reset(self, key: jax.Array) -> Any:
        jax.debug.callback(self._count, key)
        return super().reset(key)

    @classmethod
    def _count(cls, _: Any) -> None:
        cls.drawn += 1


@pytest.mark.parametrize("engine", ["rigid", "mujoco"])
def test_a_start_is_drawn_for_each_ended_episode_and_no_more(engine: str) -> None:
    env = build_env(Counted(), engine, N)
    env.reset()
    jax.effects_barrier()
    Counted.drawn = 0
    ended = sum(int(env.step(action).done.sum()) for action in actions(25, env.action_size))
    jax.effects_barrier()
    assert ended > N
    assert Counted.drawn == ended


def test_final_observations_differ_from_observations_exactly_where_episodes_end(ball: Env) -> None:
    ball.reset(seed=1)
    ends = 0
    for action in actions(25, ball.action_size):
        step = ball.step(action)
        same = (step.obs["policy"] == step.final_obs["policy"]).all(dim=1)
        assert torch.equal(same, ~step.done)
        assert torch.equal(step.final_obs["critic"][:, 0], step.info["length"].float())
        assert (step.obs["critic"][step.done] == 0).all()
        ends += int(step.done.sum())
    assert ends > N


class Immortal(Ball):
    """A ball whose episodes do not end."""

    timing = Timing(0.002, 4, 10.0)

    def outcome(self, world: Any, state: Any) -> Any:
        outcome = super().outcome(world, state)
        return type(outcome)(success=outcome.success, failure=jnp.zeros((), bool))


@pytest.mark.parametrize("engine", ["rigid", "mujoco", pytest.param("mjx-jax", marks=pytest.mark.slow)])
def test_final_observations_are_what_an_environment_without_restarts_sees(engine: str) -> None:
    mortal, immortal = toy_world(Ball, engine, N), toy_world(Immortal, engine, N)
    mortal.reset(seed=2)
    immortal.reset(seed=2)
    alive = torch.ones(N, dtype=torch.bool)
    for action in actions(14, mortal.action_size):
        final, expected = mortal.step(action), immortal.step(action)
        torch.testing.assert_close(
            final.final_obs["policy"][alive], expected.obs["policy"][alive], atol=1e-5, rtol=1e-5
        )
        torch.testing.assert_close(final.reward[alive], expected.reward[alive], atol=1e-5, rtol=1e-5)
        alive &= ~final.done
    assert not alive.any()


def test_an_episode_s_start_knows_how_the_one_before_ended(ball: Env) -> None:
    ball.reset(seed=5)
    np.testing.assert_array_equal(ball.task_state.level, 0)
    ended = torch.zeros(N)
    for _ in range(30):
        ended += ball.step(torch.zeros(N, ball.action_size)).done
    assert ended.max() >= 2
    np.testing.assert_array_equal(ball.task_state.level, ended.numpy())


def test_returns_lengths_and_statistics_add_up(ball: Env) -> None:
    ball.reset(seed=1)
    total, length = torch.zeros(N), torch.zeros(N)
    returns, lengths, truncations = [], [], 0
    for action in actions(30, ball.action_size):
        step = ball.step(action)
        total, length = total + step.reward, length + 1
        torch.testing.assert_close(step.info["return"], total)
        torch.testing.assert_close(step.info["length"].float(), length)
        assert not (step.terminated & step.truncated).any()
        assert torch.equal(step.truncated, (length == ball.max_episode_steps) & ~step.terminated)
        truncations += int(step.truncated.sum())
        returns += total[step.done].tolist()
        lengths += length[step.done].tolist()
        total[step.done], length[step.done] = 0.0, 0.0
    statistics = ball.statistics()
    assert truncations
    assert statistics["episodes"] == len(returns)
    assert statistics["return"] == pytest.approx(np.mean(returns), rel=1e-4)
    assert statistics["length"] == pytest.approx(np.mean(lengths), rel=1e-6)
    assert statistics["failure"] == pytest.approx(1 - truncations / len(returns), rel=1e-6)
    assert statistics["reward/alive"] == pytest.approx(np.mean(lengths), rel=1e-5)
    assert ball.statistics() == {"episodes": 0.0, "diverged": 0.0}


def test_each_episode_has_its_own_mass_from_its_first_step(ball: Env) -> None:
    """The accelerometer at the centre of mass reads force / mass."""
    ball.reset(seed=9)
    push = torch.full((N, 3), 0.5)
    masses, begins = [], np.ones(N, bool)
    for _ in range(14):
        step = ball.step(push)
        stays = ~step.done.numpy()
        mass = 2.5 * np.sqrt(3) / np.linalg.norm(sensors(ball)["accelerometer"], axis=1).clip(1e-6)
        masses += list(mass[begins & stays])
        begins = ~stays
    assert 0.49 < min(masses) < max(masses) < 2.01
    assert len({round(float(mass), 4) for mass in masses}) == len(masses)
    starts = jax.vmap(functools.partial(episode.begin, ball.task))(episode.environment_keys(9, N))[0]
    np.testing.assert_allclose(masses[:N], starts.model["body_mass"][:, 1], rtol=1e-3)


@pytest.mark.parametrize(
    ("task_type", "engine"),
    [
        *((Ball, e) for e in ALL),
        *((Lander, e) for e in ("mujoco", "mjx-warp")),
        pytest.param(Lander, "mjx-jax", marks=pytest.mark.slow),  # compiles for 50 s
    ],
    ids=lambda p: getattr(p, "__name__", p),
)
def test_one_divergence_reaches_nobody_else(task_type: Any, engine: str) -> None:
    env = toy_world(task_type, engine, N)
    steps = actions(14, env.action_size)
    env.reset(seed=0)
    clean = rollout(env, steps)
    env.statistics()
    steps[1, 3, -1] = 1.0
    env.reset(seed=0)
    dirty = rollout(env, steps)
    others = np.arange(N) != 3
    if engine == "mjx-warp":
        for row, other in zip(clean, dirty, strict=True):
            np.testing.assert_allclose(row["obs.policy"][others], other["obs.policy"][others], atol=1e-3)
    else:
        assert_equal(clean, dirty, others)
    diverged = np.stack([row["info.diverged"] for row in dirty])
    assert diverged[1, 3]
    assert diverged.sum() == 1
    assert dirty[1]["terminated"][3]
    assert dirty[1]["reward"][3] == 0
    assert (dirty[1]["final.policy"][3] == 0).all()
    assert all(np.isfinite(value).all() for row in dirty for value in row.values())
    assert env.statistics()["diverged"] == 1


def test_a_state_of_nan_is_restarted(ball: Env) -> None:
    ball.reset(seed=0)
    state = ball.state()
    for name, value in state["simulator"].items():
        if name in ("engine.state", "physics.vel", "physics.qvel"):
            poisoned = np.array(value)
            poisoned[2] = np.nan
            state["simulator"][name] = poisoned
    ball.load_state(state)
    step = ball.step(torch.zeros(N, 3))
    assert step.info["diverged"].tolist() == [i == 2 for i in range(N)]
    assert not ball.step(torch.zeros(N, 3)).info["diverged"].any()
    ball.statistics()


@pytest.mark.parametrize(
    "ball",
    [
        "rigid",
        "mujoco",
        "mjx-warp",
        "pybullet",
        *(pytest.param(e, marks=pytest.mark.slow) for e in ("mjx-jax", "brax")),
    ],
    indirect=True,
)
def test_many_divergences_raise_with_a_dump_that_diverges_again(ball: Env) -> None:
    ball.reset(seed=0)
    steps = actions(6, ball.action_size)
    steps[2:4, [1, 6], -1] = 1.0
    rollout(ball, steps)
    with pytest.raises(SimulationError, match=r"4 environments diverged .* in 48 steps.*divergence-.*npz") as caught:
        ball.statistics()
    (dump,) = ball.dump_folder.glob("*.npz")
    assert str(dump) in str(caught.value)
    one = toy_world(type(ball.task), variant(ball), 1)
    assert one.replay_divergence(dump)
    with pytest.raises(SimulationError, match="num_envs=1, not 8"):
        ball.replay_divergence(dump)


def test_a_dump_of_another_task_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", nothing=np.zeros(1))
    with pytest.raises(SimulationError, match=r"other\.npz is not a dump of Ball on rigid"):
        toy_world(Ball, "rigid", 1).replay_divergence(tmp_path / "other.npz")


def variant(env: Env) -> str:
    """The engine's name as the tests write it."""
    return f"{env.engine_name}-{env.engine.impl}" if env.engine_name == "mjx" else env.engine_name


@pytest.mark.parametrize("engine", BIT_EXACT)
def test_runs_are_bit_identical_per_seed_and_across_a_resume(engine: str) -> None:
    env, steps = toy_world(Ball, engine, N), actions(40, 3)
    env.reset(seed=7)
    before = rollout(env, steps[:17])
    state = env.state()
    kept = {name: np.array(value) for name, value in state["simulator"].items()}
    after = rollout(env, steps[17:])
    for name, value in state["simulator"].items():
        np.testing.assert_array_equal(value, kept[name], err_msg=f"{name} changed under the checkpoint's feet")

    fresh = build_env(Ball(), engine, N, seed=7)
    fresh.reset()
    assert_equal(rollout(fresh, steps[:17]), before)
    fresh.reset(seed=1000)
    rollout(fresh, steps[:3])
    fresh.load_state(unflatten(flatten(state), state))
    assert_equal(rollout(fresh, steps[17:]), after)


def test_c_mujoco_is_bit_identical_at_any_number_of_threads() -> None:
    steps = actions(12, 2)
    rows = []
    for threads in (1, 2, 3):
        env = build_env(Lander(), "mujoco", N, seed=1, threads=threads)
        env.reset()
        rows.append(rollout(env, steps))
    assert_equal(rows[0], rows[1])
    assert_equal(rows[0], rows[2])


@pytest.mark.parametrize("engine", QUICK_FIRST)
def test_a_batch_is_a_loop_of_singles(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many, one, steps = toy_world(Ball, engine, N), toy_world(Ball, engine, 1), actions(14, 3)
    many.reset(seed=4)
    expected = rollout(many, steps)
    keys = episode.environment_keys(4, N)
    for i in (0, 5):
        monkeypatch.setattr("embodied.env.env.environment_keys", lambda seed, count, i=i: keys[i : i + 1])
        one.reset()
        for index, row in enumerate(rollout(one, steps[:, i : i + 1])):
            for name, value in row.items():
                np.testing.assert_allclose(
                    value,
                    expected[index][name][i : i + 1],
                    rtol=1e-4,
                    atol=1e-5,
                    err_msg=f"env {i}, step {index}, {name}",
                )


def test_the_caller_may_overwrite_an_action_after_the_step(ball: Env) -> None:
    """JAX runs behind: it must not read the tensor after `step` returned."""
    steps = actions(10, ball.action_size)
    ball.reset(seed=0)
    expected = [ball.step(action).obs["policy"].numpy().copy() for action in steps]
    ball.reset(seed=0)
    buffer = torch.empty(N, ball.action_size)
    results = []
    for action in steps:
        buffer.copy_(action)
        results.append(ball.step(buffer))
        buffer.fill_(0.5)
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.obs["policy"].numpy(), value, atol=1e-5)


def test_nothing_compiles_after_the_first_steps(ball: Env) -> None:
    steps = actions(HEALTH_INTERVAL + 12, ball.action_size)
    ball.reset()
    rollout(ball, steps[:2])
    ball.statistics()
    sensors(ball)
    before = len(COMPILED)
    ball.reset(seed=11)
    rollout(ball, steps)  # crosses a health check, and restarts many episodes
    ball.statistics()
    state = ball.state()
    rollout(ball, steps[:3])
    ball.load_state(state)
    rollout(ball, steps[:3])
    assert len(COMPILED) == before
