"""What every engine promises (`embodied.engines.base`), over all engines, on toys that compile in seconds."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import pytest
import torch

from embodied.core import episode
from embodied.core.world import Control
from embodied.engines import make_engine
from embodied.env.env import Env
from embodied.env.step import Step
from embodied.errors import SimulationError
from embodied.storage.trees import flatten, unflatten
from tests.kit.budget import sharing
from tests.kit.toy_tasks import FIELDS, Ball, Lander, Speck, Watched
from tests.kit.worlds import COMPILED, build_env, toy_task, toy_world

N = 8
ENGINES = ["rigid", "mujoco", "mjx-jax", "mjx-warp", "pybullet", "brax"]
BIT_EXACT = ["rigid", "mujoco", "mjx-jax", "pybullet", "brax"]  # Warp promises statistics only
COSTLY = {"mjx-jax", "mjx-warp", "brax"}  # seconds of compilation for each number of environments


def case(engine: str, *more: Any) -> Any:
    """A default run has MJX by Warp, as on a GPU; its other implementation compiles half a minute."""
    return pytest.param(engine, *more, marks=[pytest.mark.slow] if engine == "mjx-jax" else [])


def quick(engines: list[str]) -> list[Any]:
    """For tests that compile anew: engines whose kind another one represents are left to the slow ones."""
    return [pytest.param(engine, marks=[pytest.mark.slow] if engine in COSTLY else []) for engine in engines]


ALL = [case(engine) for engine in ENGINES]


pytestmark = pytest.mark.timeout(280)


def toy_of(engine: str) -> Any:
    """The toy that shows what holds for any: one with contacts where they share buffers, one with user sensors."""
    return {"mjx-warp": Lander, "mjx-jax": Watched}.get(engine, Ball)


@pytest.fixture(params=ALL)
def toy(request: pytest.FixtureRequest, tmp_path: Path) -> Env:
    env = toy_world(toy_of(request.param), request.param, N)
    env.dump_folder = tmp_path
    return env


def ball_of(engine: str) -> Any:
    """The ball that this engine's toy is, if it is one; Warp's, another, is left to the slow tests."""
    return Ball if engine == "mjx-warp" else toy_of(engine)


WARP_SLOWLY = [*map(case, BIT_EXACT), pytest.param("mjx-warp", marks=pytest.mark.slow)]
TOYS = [
    *(case(engine, toy_of(engine)) for engine in ENGINES),
    case("mujoco", Lander),
    case("mjx-jax", Lander),
    pytest.param("mjx-warp", Ball, marks=pytest.mark.slow),
]


@dataclasses.dataclass(frozen=True)
class Life:
    """What the environments of a toy lived through in some steps, after a reset."""

    start: np.ndarray
    """(N, nq) where they began."""
    steps: list[Step]
    qpos: list[np.ndarray]
    """(N, nq) after every step, restarts included."""
    levels: np.ndarray
    """(N,) how many episodes each had ended."""
    statistics: dict[str, float]
    cleared: dict[str, float]
    """The same, asked for once more."""


@functools.cache
def lived(engine: str) -> Life:
    """16 steps, more than an episode has, in which some episodes fail and some are truncated."""
    env = toy_world(toy_of(engine), engine, N)
    with sharing(f"a life on {engine}"):
        env.reset(seed=1)
        np.testing.assert_array_equal(env.task_state.level, 0)
        start, steps, qpos = np.array(env.world().qpos), [], []
        for action in actions(16, env.action_size):
            steps.append(env.step(action))
            qpos.append(np.array(env.world().qpos))
        return Life(start, steps, qpos, np.array(env.task_state.level), env.statistics(), env.statistics())


@pytest.fixture(params=ALL)
def life(request: pytest.FixtureRequest) -> Life:
    return lived(request.param)


def actions(steps: int, size: int, num_envs: int = N, seed: int = 0) -> torch.Tensor:
    """(steps, num_envs, size) in [-0.9, 0.9], none of which explodes."""
    return 1.8 * torch.rand(steps, num_envs, size, generator=torch.Generator().manual_seed(seed)) - 0.9


def rollout(env: Env, steps: torch.Tensor) -> list[dict[str, np.ndarray]]:
    """Every array of every step."""
    rows = []
    for action in steps:
        step = env.step(action)
        row = {name: getattr(step, name) for name in ("reward", "terminated", "truncated", "success")}
        for kind, values in (("obs", step.obs), ("final", step.final_obs), ("info", step.info)):
            row |= {f"{kind}.{name}": value for name, value in values.items()}
        rows.append({name: value.numpy().copy() for name, value in row.items()})
    return rows


def assert_equal(
    rows: list[dict[str, np.ndarray]], others: list[dict[str, np.ndarray]], keep: Any = slice(None)
) -> None:
    """Bitwise equality of two rollouts, for the environments `keep`."""
    for index, (row, other) in enumerate(zip(rows, others, strict=True)):
        for name, value in row.items():
            np.testing.assert_array_equal(value[keep], other[name][keep], err_msg=f"step {index}, {name}")


@functools.cache
def begin(task_type: Any) -> Any:
    """Keys -> what environments draw at their first reset, as one program."""
    return jax.jit(jax.vmap(functools.partial(episode.begin, toy_task(task_type))))


def starts_of(task_type: Any, seed: int) -> Any:
    """The starts of N environments after a reset with a seed."""
    return jax.tree.map(np.asarray, begin(task_type)(episode.environment_keys(seed, N))[0])


@functools.cache
def actuate(task_type: Any) -> Any:
    """Actions -> controls, as one program; what the toys do depends on nothing else."""
    task: Any = toy_task(task_type)
    return jax.jit(jax.vmap(lambda command: task.apply_action(None, None, command)[0]))


def controls_of(task_type: Any, action: torch.Tensor) -> Control:
    """What N environments do under an action."""
    return jax.tree.map(np.asarray, actuate(task_type)(action.numpy()))


def reference(task: Any, seed: int, steps: torch.Tensor) -> Iterator[dict[str, np.ndarray]]:
    """The same episodes by a loop over C MuJoCo: first the starts, then one row per control step.

    Positions and velocities are those after a step, forces and accelerations those of its last `mj_step`.
    """
    starts = starts_of(type(task), seed)
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
        mujoco.mj_rnePostConstraint(model, data)
        simulations.append((model, data))
    yield gather([data for _, data in simulations], [data for _, data in simulations], task.model)
    for action in steps:
        current = []
        controls = controls_of(type(task), action)
        for i, (model, data) in enumerate(simulations):
            control = jax.tree.map(lambda leaf, i=i: leaf[i], controls)
            for _ in range(task.timing.substeps):
                data.xfrc_applied[:] = control.wrench
                if control.ctrl is not None:
                    data.ctrl[:] = control.ctrl
                mujoco.mj_step(model, data)
            mujoco.mj_rnePostConstraint(model, data)
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
        if sensor.name in FIELDS:
            row[sensor.name] = np.stack([np.ravel(getattr(data, sensor.name)) for data in stepped])
        else:
            row[sensor.name] = np.stack([data.sensordata[part] for data in (stepped if late else current)])
    return row


def sensors(env: Env) -> dict[str, np.ndarray]:
    """Sensor name -> (N, size) as a task reads them."""
    world = env.world()
    return {name: np.asarray(world[name]) for name in world.layout.names}


FORCE_SENSORS = {"ankle_force", "ankle_torque", "contact", "accelerometer", "hip_force"}


@pytest.mark.parametrize(("engine", "task_type"), TOYS, ids=lambda p: getattr(p, "__name__", p))
def test_sensors_equal_a_loop_over_c_mujoco(task_type: Any, engine: str) -> None:
    """Open loop, 5 control steps (40 ms) with contact: positions to 1e-4, velocities to 1e-2, forces to 2 %.

    C MuJoCo 9 steps, all to 1e-4.
    """
    env, close = toy_world(task_type, engine, N), engine == "mujoco"
    steps = actions(9 if close else 5, env.action_size)
    env.reset(seed=3)
    alive = np.ones(N, bool)
    touched = False
    for index, expected in enumerate(reference(env.task, 3, steps)):
        if index:
            alive &= ~env.step(steps[index - 1]).done.numpy()
        read = sensors(env)
        for name, value in expected.items():
            found, wanted, said = read[name][alive], value[alive], f"{name}, step {index}"
            if close:
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=said)
                continue
            scale = max(1.0, float(np.abs(value).max()))
            share = 2e-2 if name in FORCE_SENSORS else 1e-3 if "vel" in name or name in ("gyro", "cfrc_ext") else None
            np.testing.assert_allclose(found, wanted, atol=share * scale if share else 1e-4, err_msg=said)
        touched |= bool((expected.get("contact", np.zeros(1)) > 0).any())
        assert index > 5 or alive.sum() >= 3
    assert touched or task_type is not Lander


def test_every_episode_starts_afresh(life: Life) -> None:
    starts = [row.tobytes() for row in life.start]
    for step, qpos in zip(life.steps, life.qpos, strict=True):
        starts += [row.tobytes() for row in qpos[step.done.numpy()]]
    assert len(starts) > 2 * N
    assert len(set(starts)) == len(starts)


def test_the_same_seed_gives_the_same_starts_and_another_gives_others(toy: Env) -> None:
    first, again, other = (toy.reset(seed=seed)["policy"].numpy().copy() for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not (first == other).all(axis=1).any()


@pytest.mark.parametrize("engine", quick(BIT_EXACT))
def test_starts_do_not_depend_on_the_number_of_environments(engine: str) -> None:
    many, one = (toy_world(toy_of(engine), engine, count) for count in (N, 1))
    np.testing.assert_allclose(many.reset(seed=8)["policy"][:1], one.reset(seed=8)["policy"], atol=1e-6)


class Counted(Speck):
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
    count = 2 * N  # of up to 8, host engines let all restart with each
    env = toy_world(Counted, engine, count)
    env.reset()
    jax.effects_barrier()
    Counted.drawn = 0
    ended = sum(int(env.step(action).done.sum()) for action in actions(14, env.action_size, count))
    jax.effects_barrier()
    assert ended > count
    assert Counted.drawn == ended


def test_final_observations_differ_from_observations_exactly_where_episodes_end(life: Life) -> None:
    ends = 0
    for step in life.steps:
        same = (step.obs["policy"] == step.final_obs["policy"]).all(dim=1)
        assert torch.equal(same, ~step.done)
        assert torch.equal(step.final_obs["critic"][:, 0], step.info["length"].float())
        assert (step.obs["critic"][step.done] == 0).all()
        ends += int(step.done.sum())
    assert ends > N


@pytest.mark.parametrize("toy", WARP_SLOWLY, indirect=True)
def test_final_observations_are_what_an_environment_without_restarts_sees(toy: Env) -> None:
    steps = actions(toy.max_episode_steps - 1, toy.action_size)
    toy.reset(seed=2)
    mortal = [toy.step(action) for action in steps]
    toy.reset(seed=2)
    toy.task_state = dataclasses.replace(toy.task_state, life=np.full(N, 1000, np.int32))
    alive = torch.ones(N, dtype=torch.bool)
    tolerance: dict[str, Any] = {"atol": 1e-5 if variant(toy) in BIT_EXACT else 1e-3, "rtol": 1e-5}
    for action, final in zip(steps, mortal, strict=True):
        immortal = toy.step(action)
        assert not immortal.done.any()
        torch.testing.assert_close(final.final_obs["policy"][alive], immortal.obs["policy"][alive], **tolerance)
        torch.testing.assert_close(final.reward[alive], immortal.reward[alive], **tolerance)
        alive &= ~final.done
    assert 3 <= alive.logical_not().sum() < N


def test_an_episode_s_start_knows_how_the_one_before_ended(life: Life) -> None:
    ended = torch.stack([step.done for step in life.steps]).sum(0)
    assert ended.max() >= 2
    np.testing.assert_array_equal(life.levels, ended.numpy())


def test_returns_lengths_and_statistics_add_up(life: Life) -> None:
    total, length = torch.zeros(N), torch.zeros(N)
    returns, lengths, truncations = [], [], 0
    for step in life.steps:
        total, length = total + step.reward, length + 1
        torch.testing.assert_close(step.info["return"], total)
        torch.testing.assert_close(step.info["length"].float(), length)
        assert not (step.terminated & step.truncated).any()
        assert torch.equal(step.truncated, (length == Ball.timing.max_steps) & ~step.terminated)
        truncations += int(step.truncated.sum())
        returns += total[step.done].tolist()
        lengths += length[step.done].tolist()
        total[step.done], length[step.done] = 0.0, 0.0
    statistics = life.statistics
    assert truncations
    assert statistics["episodes"] == len(returns)
    assert statistics["return"] == pytest.approx(np.mean(returns), rel=1e-4)
    assert statistics["length"] == pytest.approx(np.mean(lengths), rel=1e-6)
    assert statistics["failure"] == pytest.approx(1 - truncations / len(returns), rel=1e-6)
    assert statistics["reward/alive"] == pytest.approx(np.mean(lengths), rel=1e-5)
    assert life.cleared == {"episodes": 0.0, "diverged": 0.0}


@pytest.mark.parametrize("engine", WARP_SLOWLY)
def test_each_episode_has_its_own_mass_from_its_first_step(engine: str) -> None:
    """The accelerometer at the centre of mass reads force / mass."""
    ball = toy_world(ball_of(engine), engine, N)
    ball.reset(seed=9)
    push = torch.full((N, 3), 0.5)
    masses, begins = [], np.ones(N, bool)
    for _ in range(6):
        step = ball.step(push)
        stays = ~step.done.numpy()
        mass = 2.5 * np.sqrt(3) / np.linalg.norm(sensors(ball)["accelerometer"], axis=1).clip(1e-6)
        masses += list(mass[begins & stays])
        begins = ~stays
    assert 0.49 < min(masses) < max(masses) < 2.01
    assert len({round(float(mass), 4) for mass in masses}) == len(masses)
    np.testing.assert_allclose(masses[:N], starts_of(type(ball.task), 9).model["body_mass"][:, 1], rtol=1e-3)


@pytest.mark.parametrize(("engine", "task_type"), TOYS, ids=lambda p: getattr(p, "__name__", p))
def test_one_divergence_reaches_nobody_else(task_type: Any, engine: str) -> None:
    env = toy_world(task_type, engine, N)
    steps = actions(4, env.action_size)
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


def test_a_state_of_nan_is_restarted(toy: Env) -> None:
    toy.reset(seed=0)
    state = toy.state()
    for name, value in state["simulator"].items():
        if name in ("engine.state", "physics.vel", "physics.qvel"):
            poisoned = np.array(value)
            poisoned[2] = np.nan
            state["simulator"][name] = poisoned
    toy.load_state(state)
    step = toy.step(torch.zeros(toy.action_shape))
    assert step.info["diverged"].tolist() == [i == 2 for i in range(N)]
    assert not toy.step(torch.zeros(toy.action_shape)).info["diverged"].any()
    toy.statistics()


@pytest.mark.parametrize("engine", quick(ENGINES))
def test_a_dump_diverges_again(engine: str, tmp_path: Path) -> None:
    dump = dump_of_divergences(toy_world(ball_of(engine), engine, N), tmp_path)
    assert toy_world(ball_of(engine), engine, 1).replay_divergence(dump)


@pytest.mark.parametrize("engine", WARP_SLOWLY)
def test_many_divergences_raise_with_a_dump(engine: str, tmp_path: Path) -> None:
    env = toy_world(ball_of(engine), engine, N)
    dump = dump_of_divergences(env, tmp_path)
    with pytest.raises(SimulationError, match="num_envs=1, not 8"):
        env.replay_divergence(dump)


def dump_of_divergences(env: Env, folder: Path) -> Path:
    """What is left behind where 4 of 48 steps diverged."""
    env.dump_folder = folder
    env.reset(seed=0)
    steps = actions(6, env.action_size)
    steps[2:4, [1, 6], -1] = 1.0
    rollout(env, steps)
    with pytest.raises(SimulationError, match=r"4 environments diverged .* in 48 steps.*divergence-.*npz") as caught:
        env.statistics()
    (dump,) = folder.glob("*.npz")
    assert str(dump) in str(caught.value)
    return dump


def test_a_dump_of_another_task_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", nothing=np.zeros(1))
    with pytest.raises(SimulationError, match=r"other\.npz is not a dump of Ball on rigid"):
        toy_world(Ball, "rigid", 1).replay_divergence(tmp_path / "other.npz")


def variant(env: Env) -> str:
    """The engine's name as the tests write it."""
    return f"{env.engine_name}-{env.engine.impl}" if env.engine_name == "mjx" else env.engine_name


@pytest.mark.parametrize(
    ("engine", "fresh"),
    [
        *(case(engine, engine in ("mujoco", "pybullet")) for engine in BIT_EXACT),
        *(pytest.param(engine, True, marks=pytest.mark.slow) for engine in ("rigid", "mjx-jax", "brax")),
    ],
)
def test_runs_are_bit_identical_per_seed_and_across_a_resume(engine: str, fresh: bool) -> None:
    """Also in other environments, where an engine holds the state itself; the others compile there once more."""
    env, steps = toy_world(toy_of(engine), engine, N), actions(20, 3)
    env.reset(seed=7)
    before = rollout(env, steps[:10])
    state = env.state()
    kept = {name: np.array(value) for name, value in state["simulator"].items()}
    after = rollout(env, steps[10:])
    for name, value in state["simulator"].items():
        np.testing.assert_array_equal(value, kept[name], err_msg=f"{name} changed under the checkpoint's feet")

    with sharing(f"another toy on {engine}"):
        other = build_env(toy_of(engine)(), engine, N, seed=7) if fresh else env
        other.reset()
        rollout(other, steps)
    other.reset(seed=None if fresh else 7)
    assert_equal(rollout(other, steps[:10]), before)
    other.reset(seed=1000)
    rollout(other, steps[:3])
    other.load_state(unflatten(flatten(state), state))
    assert_equal(rollout(other, steps[10:]), after)


def test_c_mujoco_is_bit_identical_at_any_number_of_threads() -> None:
    starts, controls = starts_of(Lander, 1), [controls_of(Lander, action) for action in actions(12, 2)]
    ends = []
    for threads in (1, 2, 3):
        engine: Any = make_engine("mujoco", toy_task(Lander), N, threads=threads)
        engine.reset(np.arange(N), starts)
        for control in controls:
            engine.step(control, 4)
        ends.append(engine.state())
    for name, values in ends[0].items():
        assert len(np.unique(values, axis=0)) == N
        for other in ends[1:]:
            np.testing.assert_array_equal(other[name], values, err_msg=name)


@pytest.mark.parametrize("engine", quick(BIT_EXACT))
def test_a_batch_is_a_loop_of_singles(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many, one = (toy_world(toy_of(engine), engine, count) for count in (N, 1))
    steps = actions(14, 3)
    many.reset(seed=4)
    expected = rollout(many, steps)
    keys = episode.environment_keys(4, N)
    for i in (0, 5):
        monkeypatch.setattr("embodied.env.env.environment_keys", lambda seed, count, i=i: keys[i : i + 1])
        one.reset()
        for index, row in enumerate(rollout(one, steps[:, i : i + 1])):
            for name, value in row.items():
                where, own = f"env {i}, step {index}, {name}", expected[index][name][i : i + 1]
                np.testing.assert_allclose(value, own, rtol=1e-4, atol=1e-5, err_msg=where)


def test_the_caller_may_overwrite_an_action_after_the_step(toy: Env) -> None:
    """JAX runs behind: it must not read the tensor after `step` returned."""
    steps = actions(4, toy.action_size)
    toy.reset(seed=0)
    expected = [toy.step(action).obs["policy"].numpy().copy() for action in steps]
    toy.reset(seed=0)
    buffer = torch.empty(N, toy.action_size)
    results = []
    for action in steps:
        buffer.copy_(action)
        results.append(toy.step(buffer))
        buffer.fill_(0.5)
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.obs["policy"].numpy(), value, atol=1e-5)


def test_nothing_compiles_after_the_first_steps(toy: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embodied.env.env.HEALTH_INTERVAL", 4)
    steps = actions(5, toy.action_size)
    toy.reset()
    rollout(toy, steps[:2])
    toy.statistics()
    sensors(toy)
    toy.spread_episode_lengths()
    before = len(COMPILED)
    toy.reset(seed=11)
    toy.spread_episode_lengths()
    rows = rollout(toy, steps)  # crosses a health check
    toy.statistics()
    state = toy.state()
    rollout(toy, steps[:1])
    toy.load_state(state)
    rollout(toy, steps[:1])
    assert sum(int((row["terminated"] | row["truncated"]).sum()) for row in rows) >= 3
    assert len(COMPILED) == before
