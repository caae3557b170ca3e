"""A team is rehearsed as a whole: each robot by a loop of its own, on one clock, seeing itself as the first."""

import copy
import dataclasses
import functools
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from embodied.core.episode import flatten_observation
from embodied.core.facets import Operator, Team
from embodied.core.world import World
from embodied.engines import make_engine
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage import checkpoints
from policies.training.loading import policy_from_checkpoint, shipped_path
from sim2real import deploy
from sim2real.bundles.policies import ShippedPolicy
from sim2real.contract.contract import COMMAND
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.deployment.team import run_together
from sim2real.graphs import describe as describing
from sim2real.graphs.control import ControlGraph, nominal
from sim2real.graphs.reference import with_numbers
from sim2real.graphs.tracing.sources import Sources
from sim2real.robots import registry
from sim2real.robots.simulation import robot_model
from sim2real.robots.simulation.lockstep import Lockstep
from sim2real.robots.simulation.simulated import SimulatedOptions, SimulatedRobot
from tests.kit.bundles import shipped_policy
from tests.kit.worlds import jitted

FORMATION = "swarm/formation"
TEAMS = {
    FORMATION: 4, "swarm/leader-follower": 4, "swarm/swap": 4, "swarm/meet-up": 4, "swarm/navigation": 3,
    "swarm/trajectory": 3, "swarm/landing": 2, "swarm/pursuit": 4, "swarm/coverage": 3, "swarm/base-station": 4,
    "swarm/flock": 4, "swarm/tag": 4, "swarm/path-finding": 4,
}  # fmt: skip


ORDERED = {
    FORMATION, "swarm/leader-follower", "swarm/swap", "swarm/navigation", "swarm/landing", "swarm/flock", "swarm/tag",
    "swarm/path-finding",
}  # fmt: skip
"""One at least of each way in which a team's goals change places."""


def teams(quick):
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in TEAMS]


def steady(task):
    """Without variations, and with hooks that whoever compiles one again finds compiled."""
    plain = copy.copy(nominal(task))
    for name in ("reset", "process_action", "apply_action", "post_step"):
        setattr(plain, name, jax.jit(getattr(plain, name)))
    plain.team = plain.team and dataclasses.replace(plain.team, seen_by=jax.jit(plain.team.seen_by))
    return plain


@pytest.fixture(scope="module", autouse=True)
def _described_once():
    """Each simulation makes and describes its task anew, with hooks that are traced again: here all have the same."""

    def once(whole):
        found: dict[Any, Any] = {}

        def known(task):
            key = type(task), task.config
            if key not in found:
                found[key] = whole(task)
            return found[key]

        return known

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robot_model, "nominal", once(steady))
        patch.setattr(describing, "_bounds", once(describing._bounds))
        yield


@pytest.fixture(scope="module")
def formation(_described_once) -> ShippedPolicy:
    """A team's policy that has flown once: its hooks are compiled."""
    policy = shipped_policy(FORMATION)
    rehearsed(policy, 0.04)
    return policy


def team_of(name):
    """The task without variations, of a few."""
    kind = join_content()[name].load()
    quiet = {"range_noise": 0.0, "bearing_noise": 0.0} if name == "swarm/pursuit" else {}
    return nominal(kind(kind.config_type(agents=TEAMS[name], **quiet)))


@pytest.mark.parametrize("name", teams(ORDERED))
def test_whoever_a_robot_of_a_team_is_it_sees_itself_as_the_first(name):
    task, key = team_of(name), jax.random.key(2)
    commands = (task.operator or Operator()).commands
    world, state = anywhere(task)

    @jax.jit
    def seen(world, state):
        def by(agent):
            own, told = (task.team or Team(1)).seen_by(world, stepped, agent)
            after = task.post_step(own, told, jnp.zeros(task.action_shape), key)
            kept = {name: ((), functools.reduce(getattr, name.split("."), told).reshape(-1)) for name in commands}
            return shown(task)(own, with_numbers(after, kept), key)[0]

        stepped = task.post_step(world, state, jnp.zeros(task.action_shape), key)
        return shown(task)(world, stepped, key), jax.vmap(by)(np.arange(TEAMS[name]))

    whole, own = seen(world, state)
    assert np.ptp(whole, axis=0).max() > 0.1
    np.testing.assert_allclose(own, whole, atol=2e-5)


def anywhere(task):
    """A world and a state whose numbers are drawn, since no episode needs to have led to them."""
    rng = np.random.default_rng(0)

    def numbers(leaf):
        whole = not np.issubdtype(leaf.dtype, np.floating)
        drawn = rng.integers(0, 2, leaf.shape) if whole else rng.uniform(0.1, 1, leaf.shape)
        return drawn.astype(leaf.dtype)

    state = jax.tree.map(numbers, jax.eval_shape(task.reset, jax.random.key(0)).task_state)
    qpos, qvel = rng.uniform(-1, 1, task.model.nq), rng.uniform(-1, 1, task.model.nv)
    return World.posed(task.model, qpos, qvel), state


@pytest.mark.parametrize("name", teams({FORMATION}))
def test_every_robot_of_a_team_sees_what_the_task_shows_it(name):
    task = team_of(name)
    control, sources = ControlGraph.of(task), Sources(task.model)
    world, state = anywhere(task)
    state = jax.jit(task.post_step)(world, state, np.zeros(task.action_shape), jax.random.key(1))
    whole = np.asarray(jax.jit(shown(task))(world, state, jax.random.key(2)))
    seen_by = jax.jit((task.team or Team(1)).seen_by)
    for agent in range(TEAMS[name]):
        seen, own = seen_by(world, state, agent)
        given = sources.values(*(np.asarray(part) for part in (seen.qpos, seen.qvel, seen.sensordata)))
        inputs = {one.name: given[one.name] for one in control.sources}
        for one in control.commands:
            value = leaf(own, one.name).reshape(-1)
            inputs[COMMAND + one.name] = value[list(one.places)] if one.places else value
        remembered = {one.name: leaf(own, one.name) for one in control.remembered if "deployment" not in one.name}
        inputs |= {
            f"state.{one.name}": remembered[one.name].reshape(-1)[: one.size]
            if one.name in remembered
            else np.ones(one.size)
            for one in control.remembered
        }
        inputs["planned.action"] = np.zeros(task.action_size)
        found = control.graph.run(**{name: np.asarray(value, np.float32) for name, value in inputs.items()})
        np.testing.assert_allclose(found["observation"], whole[agent], atol=2e-5)


def shown(task):
    """What the task shows to each agent, (A, n)."""

    def observe(world, state, key):
        return flatten_observation({"policy": task.observe(world, state, key)["policy"]}, task.team)["policy"]

    return observe


def episode(task, seed, steps, act):
    """World and state before each of some control steps, and after the last; `act` gives the actions."""
    start = jitted(task.reset)(jax.random.key(seed))
    engine: Any = make_engine("mujoco", task, 1)
    engine.reset(np.arange(1), jax.tree.map(lambda value: np.asarray(value)[None], start))
    state = start.task_state
    process, apply, post = jitted(task.process_action), jitted(task.apply_action), jitted(task.post_step)
    for step in range(steps):
        yield world_of(engine), state
        key = jax.random.key(step)
        action = np.asarray(act(world_of(engine), state, key), np.float32)
        command, state = process(world_of(engine), state, action, key)
        for _ in range(task.timing.substeps):
            control, state = apply(world_of(engine), state, command)
            engine.step(jax.tree.map(lambda value: np.asarray(value)[None], control), 1)
        state = post(world_of(engine), state, action, key)
    yield world_of(engine), state


def world_of(engine):
    return jax.tree.map(lambda value: np.asarray(value[0]), engine.world())


def leaf(state, path):
    for name in path.split("."):
        state = getattr(state, name)
    return np.asarray(state, float)


def rehearsed(policy, seconds, **options):
    """Reports, the team's robots, and where all drones were, (steps, A, 3) m."""
    first = registry.connect("mujoco", policy.contract, SimulatedOptions(realtime=False, **options))
    assert isinstance(first, SimulatedRobot)
    seen = []

    def watch(progress):
        seen.append(first.simulation.world.qpos.reshape(-1, 7)[:, :3].copy())

    first.prepare(np.zeros(0))
    times = LoopSettings(seconds, damp=0.1)
    loops = [Loop(one, policy, np.zeros(0), times, watch=watch if one is first else None) for one in first.team]
    return run_together(loops), first, np.array(seen)


def test_without_latency_and_losses_a_rehearsal_is_the_task_with_its_policy(formation):
    steps = 8
    reports, first, seen = rehearsed(formation, (steps + 1) / 50)
    assert len(reports) == 8
    assert all(report.whole for report in reports), [report.reason for report in reports]
    task = first.model.task
    observe = jax.jit(shown(task))

    policy = policy_from_checkpoint(checkpoints.load(shipped_path(FORMATION)), FORMATION)

    def act(world, state, key):
        return policy(torch.from_numpy(np.array(observe(world, state, key)))).numpy()

    expected = [world.qpos.reshape(-1, 7)[:, :3] for world, _ in episode(task, 0, steps, act)]
    np.testing.assert_allclose(seen[3 : 3 + steps], expected[:steps], atol=1e-5)
    assert np.abs(np.ptp(seen, axis=0)).max() > 0.01


def test_a_rehearsal_is_a_function_of_its_seed_whatever_order_threads_have(formation):
    runs = [rehearsed(formation, 0.1, latency=0.01, loss=0.2, seed=seed)[2] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_one_robot_that_is_latched_leaves_the_others_flying(formation):
    first = registry.connect("mujoco", formation.contract, SimulatedOptions(realtime=False))
    first.prepare(np.zeros(0))
    times = LoopSettings(0.1, damp=0.1)
    stops = [(lambda: "enough") if number == 2 else str for number in range(8)]
    loops = [Loop(one, formation, np.zeros(0), times, stop=stop) for one, stop in zip(first.team, stops, strict=True)]
    reports = run_together(loops)
    assert [report.step for report in reports] == ["operator" if number == 2 else "" for number in range(8)]


@pytest.mark.usefixtures("collector")
def test_a_team_is_rehearsed_from_the_command_line(formation, tmp_path):
    words = [FORMATION, "--robot", "mujoco", "--seconds", ".1", "--log", str(tmp_path / "run.mcap")]
    result = deploy.run(deploy.parse([*words, "--no-realtime"]), formation)
    assert (len(result.reports), result.code) == (8, 0)
    assert len(result.summary()["team"]) == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run-{number}.mcap" for number in range(8)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "'swarm/formation' is a team of 8, rehearsed in simulated time only: --no-realtime"),
        (["--no-realtime", "--command", *"123456"], "the 8 robots of a team get theirs from their task"),
    ],
)
def test_what_a_team_cannot_do_is_said_in_a_line(formation, words, message):
    with pytest.raises(EmbodiedError, match=message):
        deploy.run(deploy.parse([FORMATION, "--robot", "mujoco", *words]), formation)


def in_threads(loop, *parts):
    """Call a loop with each of some arguments, all at once."""
    threads = [threading.Thread(target=loop, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)


def test_time_goes_on_when_every_loop_waits():
    times, passed = [], []
    clock = Lockstep(3, times.append)

    def loop(number, period):
        for count in range(1, 4):
            clock.wait(number, count * period)
            passed.append((count * period, number))
        clock.leave(number)

    in_threads(loop, (0, 1.0), (1, 2.0), (2, 3.0))
    assert times == [1.0, 2.0, 3.0, 4.0, 6.0, 9.0]
    assert sorted(passed) == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 2), (4, 1), (6, 1), (6, 2), (9, 2)]


def test_what_the_simulation_raises_reaches_every_loop():
    def fail(when):
        raise FloatingPointError(f"diverged at {when}")

    clock, caught = Lockstep(2, fail), []

    def loop(number):
        with pytest.raises(FloatingPointError, match=r"diverged at 1\.0") as error:
            clock.wait(number, 1.0)
        caught.append(error)

    in_threads(loop, (0,), (1,))
    assert len(caught) == 2
