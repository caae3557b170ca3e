"""Teams of drones: starts, collisions, what drones see of each other, and configs that cannot be flown."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.entity_rows import COLUMNS
from embodied.core.world import World
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.robot.rotors import GRAVITY
from tasks.swarm.control.levels import LEVELS, SPEED, Level
from tasks.swarm.dynamics.crazyflie import RADIUS
from tasks.swarm.dynamics.drones import Box, Drones, places, scatter, still
from tasks.swarm.flocking.flock import kuramoto, polarisation
from tasks.swarm.multi.base_station import BaseStation, BaseStationConfig
from tasks.swarm.multi.coverage import CELL, Coverage, CoverageConfig
from tasks.swarm.multi.formation import PITCH, Formation, FormationConfig, LeaderFollower, MeetUp, Shape, Swap, slots
from tasks.swarm.multi.navigation import Navigation, NavigationConfig
from tasks.swarm.multi.pursuit import CAUGHT, Pursuit, PursuitConfig
from tasks.swarm.single.gate_race import GateRace, GateRaceConfig
from tasks.swarm.single.trajectory import Path, Trajectory, TrajectoryConfig
from tasks.swarm.team.drone_team import SPACING, DroneTeam
from tasks.swarm.team.flight import known_effects
from tasks.swarm.team.gates import CLEAR, Gate, Wall
from tasks.swarm.team.waypoints import WaypointConfig
from tests.kit.hooks import blank, compiled, partly
from tests.kit.worlds import jitted

REGISTRY = join_content()
FLEETS = [name for name in REGISTRY if name.startswith("swarm/") and issubclass(REGISTRY[name].load(), DroneTeam)]
KEYS = jax.random.split(jax.random.PRNGKey(0), 64)


def gaps(pos: np.ndarray) -> np.ndarray:
    """(worlds,) m between the nearest two of (worlds, A, 3)."""
    distance = np.linalg.norm(pos[:, :, None] - pos[:, None], axis=-1)
    return (distance + 1e3 * np.eye(pos.shape[1])).min((1, 2))


@pytest.mark.parametrize("name", FLEETS)
def test_drones_begin_apart_and_inside(name: str) -> None:
    config = REGISTRY[name].load().config_type
    task = REGISTRY[name].load()(dataclasses.replace(config(), agents=5))
    assert isinstance(task, DroneTeam)
    qpos = np.asarray(partly(jax.vmap(task.reset), lambda start: start.qpos)(KEYS)).reshape(len(KEYS), 5, 7)
    pos = qpos[..., :3]
    assert (gaps(pos) > SPACING - 1e-4).all()
    assert np.asarray(task.arena.contains(jnp.asarray(pos))).all()
    assert len(np.unique(pos.reshape(len(KEYS), -1), axis=0)) == len(KEYS)
    np.testing.assert_allclose(np.linalg.norm(qpos[..., 3:], axis=-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("count", [1, 7, 100, *(pytest.param(count, marks=pytest.mark.slow) for count in (2, 30))])
def test_scattered_points_keep_their_distance(count: int) -> None:
    box = Box((-1.0, -1.0, 0.5), (1.0, 1.0, 1.5))
    grid = places(box, count, 0.3)
    pos = jax.jit(jax.vmap(lambda key: scatter(key, grid, count)))(KEYS)
    assert np.asarray(box.contains(pos)).all()
    if count > 1:
        assert gaps(np.asarray(pos)).min() > 0.3 - 1e-5
    assert np.asarray(pos).std(0).min() > 0.05


def test_a_box_too_small_says_how_many_it_takes() -> None:
    with pytest.raises(ValueError, match=r"100 drones at least 0\.3 m apart do not fit .* at most 49 do"):
        places(Box((-1.0, -1.0, 0.5), (1.0, 1.0, 0.5)), 100, 0.3)


def world_of(task: DroneTeam, drones: Drones) -> tuple[World, Any]:
    """A world with the drones there, and the state after a control step there, of an episode that begins blank."""
    world, state = World.posed(task.model, drones.qpos, drones.qvel), blank(task).task_state
    return world, jitted(task.post_step)(world, state, state.action, jax.random.PRNGKey(1))


def test_touching_drones_collide_and_lost_ones_are_lost() -> None:
    task = compiled(Swap(WaypointConfig(agents=4)), "collided", "lost")
    pos = jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0 + 1.9 * RADIUS], [1.0, 0.0, 0.5 * RADIUS], [9.0, 0.0, 1.0]])
    world, state = world_of(task, still(pos))
    drones = Drones.of(world)
    assert task.collided(state).tolist() == [True, True, False, False]
    assert task.lost(drones).tolist() == [False, False, True, True]
    assert bool(task.outcome(world, state).failure)
    lenient = compiled(Swap(WaypointConfig(agents=4, collisions_end=False)))
    assert not bool(lenient.outcome(world, state).failure)
    assert (np.asarray(task.rewards(world, state, state.action)["ended"]) == 1).all()


def test_a_drone_sees_its_nearest_team_mates_only() -> None:
    task = Swap(WaypointConfig(agents=4, neighbours=2, sensing=2.0))
    pos = jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.5, 1.0], [0.0, -1.8, 1.0]])
    world, state = world_of(task, dataclasses.replace(still(pos), vel=0.5 * jnp.eye(4, 3, -1)))
    rows = np.asarray(jitted(task.entities)(Drones.of(world), state)["teammates"])
    assert rows.shape[:2] == (4, 2)
    np.testing.assert_allclose(rows[0, :, COLUMNS["offset"]], [[1, 0, 0], [0, 1.5, 0]], atol=1e-5)
    np.testing.assert_allclose(rows[0, 0, COLUMNS["velocity"]], [0.5, 0, 0], atol=1e-6)
    assert rows[3, 0, COLUMNS["present"]] == 1  # sees the first drone
    assert not rows[3, 1].any()  # and nobody else within 2 m


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("count", [1, 2, 8, 33])
def test_slots_of_a_formation_are_apart(shape: Shape, count: int) -> None:
    found = np.asarray(jax.jit(slots, static_argnums=(0, 1))(shape, count))
    assert found.shape == (count, 3)
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-5)
    if count > 1:
        assert gaps(found[None])[0] > PITCH - 1e-4


def alike(level: Level) -> FormationConfig:
    """Three drones exactly as their constants say, in still air."""
    return FormationConfig(agents=3, level=level, effects=(), thrust_spread=0.0, mass_spread=0.0)


@pytest.mark.parametrize(
    # A position is held by way of a velocity, an attitude and rates.
    "level",
    [pytest.param(level, marks=[] if level in (Level.ROTORS, Level.POSITION) else pytest.mark.slow) for level in Level],
)
def test_zero_actions_hold_a_drone_that_hovers(level: Level) -> None:
    """Every rotor gives what hovers, whatever the level."""
    task = Formation(dataclasses.replace(alike(level), agents=1))
    drones, state = still(jnp.array([[0.0, 0.0, 1.0]])), blank(task).task_state

    @jax.jit
    def push() -> jax.Array:
        now = dataclasses.replace(World.zeros(task.model), qpos=drones.qpos, qvel=drones.qvel)
        flying = dataclasses.replace(state, flight=task.physics.start(drones, KEYS[0]))
        command, flying = task.process_action(now, flying, jnp.zeros((1, LEVELS[level].size)), KEYS[0])
        wrenches = []
        for _ in range(8):
            control, flying = task.apply_action(now, flying, command)
            wrenches.append(control.wrench)
        return jnp.stack(wrenches)

    weight = task.drone.mass * GRAVITY
    np.testing.assert_allclose(np.asarray(push())[:, 1], [[0, 0, weight, 0, 0, 0]] * 8, atol=0.02 * weight)


def test_order_parameters() -> None:
    same = np.tile(np.array([[0.3, 0.4, 0.0]]), (5, 1))
    assert float(jitted(polarisation)(same)) == pytest.approx(1.0, abs=1e-5)
    opposed = np.concatenate([same, -same])
    assert float(jitted(polarisation)(opposed)) == pytest.approx(0.0, abs=1e-5)
    assert float(jitted(kuramoto)(np.full(5, 2.0))) == pytest.approx(1.0, abs=1e-5)
    assert float(jitted(kuramoto)(2 * np.pi * np.arange(5) / 5)) == pytest.approx(0.0, abs=1e-5)


def test_partners_swap_and_those_who_meet_stay_apart() -> None:
    task = Swap(WaypointConfig(agents=4))
    drones, goal = jitted(task.draw)(jax.random.PRNGKey(3))
    np.testing.assert_array_equal(goal.point, np.asarray(drones.pos)[::-1])
    meeting = MeetUp(WaypointConfig(agents=6))
    points = np.asarray(jax.jit(jax.vmap(meeting.draw))(KEYS)[1].point)
    assert gaps(points).min() > PITCH - 1e-3


@pytest.mark.parametrize("path", list(Path))
def test_a_path_moves_as_its_velocity_says(path: Path) -> None:
    task = Trajectory(TrajectoryConfig(agents=2, path=path))
    drones, goal = jitted(task.draw)(jax.random.PRNGKey(0))
    points = jax.jit(jax.vmap(lambda time: task.points(goal.course, time, drones)))
    places, velocity = map(
        np.asarray, points(np.array([-0.01, 0.0, 0.01, 1.29, 1.3, 1.31, 6.99, 7.0, 7.01], np.float32))
    )
    np.testing.assert_allclose((places[2::3] - places[::3]) / 2e-2, velocity[1::3], atol=2e-3)
    assert np.asarray(task.arena.contains(jnp.asarray(places[-2]))).all()


def test_targets_stay_in_their_square_and_are_tracked_from_near() -> None:
    task = Pursuit(PursuitConfig(agents=3, targets=5, target_speed=1.0))
    drones, goal = jitted(task.draw)(jax.random.PRNGKey(0))
    state = blank(task).task_state
    advance = jax.jit(lambda goal, key: task.advance(drones, dataclasses.replace(state, goal=goal), key))
    for key in jax.random.split(jax.random.PRNGKey(1), 150):
        goal = advance(goal, key)
        assert np.abs(np.asarray(goal.pos)).max() <= task.half + 1e-5
    flat = np.linalg.norm(np.asarray(drones.pos)[:, None, :2] - np.asarray(goal.pos), axis=-1)
    near = np.where(flat.min(0) < task.config.sensing, flat.min(0), np.inf)
    np.testing.assert_allclose(goal.distance, near, rtol=1e-4)
    assert float(task._share(goal)) == pytest.approx((near < CAUGHT).mean())
    seen = np.asarray(goal.seen)
    order = np.argsort(flat, 1)
    for drone in range(3):
        reached = [t for t in order[drone] if flat[drone, t] < task.config.sensing]
        assert seen[drone].tolist()[: len(reached)] == reached
        assert (seen[drone, len(reached) :] == 5).all()


def test_columns_are_seen_and_hit() -> None:
    task = Navigation(NavigationConfig(agents=1, obstacles=2))
    world, state = world_of(task, still(jnp.array([[0.0, 0.0, 1.0]])))
    course = dataclasses.replace(state.goal.course, columns=jnp.array([[0.5, 0.0], [0.0, 3.0]]))
    state = dataclasses.replace(state, goal=dataclasses.replace(state.goal, course=course))
    drones = Drones.of(world)
    rows = np.asarray(jitted(task.entities)(drones, state)["columns"])[0]
    np.testing.assert_allclose(rows[0, COLUMNS["offset"]], [0.5, 0.0, 0.0], atol=1e-6)
    assert not rows[1:].any()
    assert float(task.columns.clearance(drones, course.columns)[0]) == pytest.approx(0.5 - 0.1 - RADIUS, abs=1e-5)
    inside = still(jnp.array([[0.4, 0.0, 1.0]]))
    assert bool(task.ended(inside, state)[0])


def test_a_gate_counts_in_its_direction_and_its_frame_hurts() -> None:
    course = (Gate(0.0, 0.0, 1.0, 0.0), Gate(2.0, 0.0, 1.0, 0.0))
    task = GateRace(GateRaceConfig(course=course))
    state, drawn = blank(task).task_state, jitted(task.draw)(KEYS[0])[1]

    def crossed(begin: list[float], end: list[float]) -> tuple[bool, bool]:
        goal = dataclasses.replace(drawn, pos=np.array([begin], np.float32), next=np.zeros(1, np.int32))
        now = dataclasses.replace(state, goal=goal)
        after = jitted(task.advance)(still(jnp.array([end])), now, jax.random.PRNGKey(0))
        return bool(after.passed[0]), bool(after.hit[0])

    assert crossed([-0.1, 0.2, 1.0], [0.1, 0.2, 1.0]) == (True, False)
    assert crossed([0.1, 0.0, 1.0], [-0.1, 0.0, 1.0]) == (False, False)
    assert crossed([-0.1, 0.43, 1.0], [0.1, 0.43, 1.0]) == (False, True)
    assert crossed([-0.1, 0.8, 1.0], [0.1, 0.8, 1.0]) == (False, False)


def test_explorers_go_where_it_is_free_and_are_not_told_of_hills_that_nobody_saw() -> None:
    task = Coverage()
    pos = jnp.array([[0.0, 0.0, 1.0], [0.7, 0.2, 1.0], [-0.4, 0.6, 1.0]])
    world, state = world_of(task, still(pos))

    @jax.jit
    def after(hill: Any, known: Any) -> Any:
        goal = dataclasses.replace(state.goal, hill=hill, known=known)
        goal = task.advance(Drones.of(world), dataclasses.replace(state, goal=goal), KEYS[0])
        return goal, task.ego_observation(Drones.of(world), dataclasses.replace(state, goal=goal))

    generator = np.random.default_rng(0)
    for _ in range(20):
        hill, known = (generator.random(state.goal.hill.shape) < share for share in (0.2, 0.7))
        known = np.asarray(after(hill, known)[0].known)
        goal, seen = after(hill, known)
        for other in (hill & known, hill | ~known):
            jax.tree.map(np.testing.assert_array_equal, seen, after(other, known)[1])
        aims = np.floor((np.asarray(pos[:, :2] + goal.way) + task.half) / CELL).astype(int)
        assert (~(hill & known)[aims[:, 0], aims[:, 1]] | (np.asarray(goal.far) == 0)).all()


def test_behind_its_last_gate_a_drone_stops() -> None:
    task = compiled(GateRace(GateRaceConfig(course=(Gate(0.0, 0.0, 1.0, 0.0), Gate(2.0, 0.0, 1.0, 0.0)))), "solved")
    world, state = world_of(task, still(jnp.array([[2.1, 0.0, 1.0]])))
    state = dataclasses.replace(state, goal=jitted(task.draw)(KEYS[0])[1])

    def seen(passed: int) -> list[float]:
        goal = dataclasses.replace(state.goal, next=jnp.full(1, passed, jnp.int32))
        observation = jitted(task.ego_observation)(Drones.of(world), dataclasses.replace(state, goal=goal))
        return np.asarray(observation["gates"])[0].tolist()

    last, stop, nowhere = [-0.1 / 3.0, 0.0, 0.0, 1.0, 0.0, 0.0], [(CLEAR - 0.1) / 3.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    assert seen(0)[6:] == pytest.approx(last, abs=1e-6)
    assert seen(1) == pytest.approx([*last, *stop, *nowhere], abs=1e-6)
    assert seen(2) == pytest.approx([*stop, *nowhere, *stop, *nowhere], abs=1e-6)
    done = dataclasses.replace(state.goal, next=jnp.full(1, 2, jnp.int32))
    fast = dataclasses.replace(still(jnp.array([[2.1, 0.0, 1.0]])), vel=jnp.array([[3.0, 0.0, 0.0]]))
    moving = dataclasses.replace(world, qvel=fast.qvel)
    rest = jnp.zeros((1, 4))
    assert float(task.rewards(moving, dataclasses.replace(state, goal=done), rest)["braking"][0]) == pytest.approx(3.0)
    assert float(task.rewards(moving, state, rest)["braking"][0]) == 0.0
    assert bool(task.solved(fast, dataclasses.replace(state, goal=done)))


def test_places_behind_a_leader_move_as_their_velocities_say() -> None:
    task = LeaderFollower()
    places, _ = jax.random.uniform(KEYS[0], (2, task.config.agents, 3))
    drones = dataclasses.replace(still(places), vel=jnp.tile(jnp.array([0.3, -0.1, 0.0]), (task.config.agents, 1)))
    course = jitted(task.course)(drones, KEYS[1])
    moved = dataclasses.replace(drones, pos=drones.pos + 1e-2 * drones.vel)
    here, velocity = map(np.asarray, jitted(task.points)(course, np.float32(4.0), drones))
    there, _ = map(np.asarray, jitted(task.points)(course, np.float32(4.01), moved))
    np.testing.assert_allclose((there - here) / 1e-2, velocity, atol=2e-3)


def test_places_behind_a_leader_are_within_reach() -> None:
    task = LeaderFollower()
    rest = still(jnp.zeros((task.config.agents, 3)))

    def at(key: jax.Array, time: jax.Array) -> tuple[jax.Array, jax.Array]:
        course = task.course(rest, key)
        leader = task.points(course, time, rest)[0][0]
        on_course = dataclasses.replace(rest, pos=jnp.tile(leader, (task.config.agents, 1)))
        points, velocity = task.points(course, time, on_course)
        return task.arena.contains(points).all(), jnp.abs(velocity).max()

    times = np.linspace(0.0, task.seconds, 7, dtype=np.float32)
    inside, fastest = jax.jit(jax.vmap(jax.vmap(at, (None, 0)), (0, None)))(KEYS[:16], times)
    assert np.asarray(inside).all()
    assert np.asarray(fastest).max() < 0.6 * SPEED


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FormationConfig(agents=0), "agents=0 must be at least 1"),
        (lambda: WaypointConfig(agents=2, starts=((0, 0, 1),)), "1 starts for agents=2; expected one for each"),
        (
            lambda: WaypointConfig(agents=2, starts=((0, 0, 1), (0, 0.1, 1))),
            r"starts 0 at \(0, 0, 1\) and 1 at \(0, 0.1, 1\) overlap: 0.1 m between drones of 0.07 m radius",
        ),
        (lambda: Swap(WaypointConfig(agents=1, starts=((9, 0, 1),))), r"start \(9, 0, 1\) lies outside the arena"),
        (
            lambda: Trajectory(TrajectoryConfig(starts=((0, 0, 1),))),
            r"starts=\(\(0, 0, 1\),\): Trajectory places its drones by itself",
        ),
        (lambda: WaypointConfig(agents=20_000), r"agents=20000; expected at most 10000: MuJoCo takes minutes"),
        (lambda: Swap(WaypointConfig(agents=5000)), r"agents=5000: 5000 drones at least 0.3 m apart do not fit"),
        (lambda: Navigation(NavigationConfig(agents=40)), r"size=2.0 m: 40 starts, as many places and 3 columns"),
        (lambda: PursuitConfig(targets=0), "targets=0 and seen=6; expected at least 1"),
        (
            lambda: GateRaceConfig(course=(Gate(0, 0, 1, 0),), walls=(Wall((0.3, -1, 0), (0.4, 1, 2)),)),
            r"gate 0 at \(0, 0, 1\) m cannot be flown through: the wall from \(0.3, -1, 0\)",
        ),
        (lambda: GateRaceConfig(course=(Gate(0, 0, 0.3, 0),)), "gate 0 at z=0.3 m reaches into the floor"),
        (lambda: Trajectory().expert({}, None), "the expert acts on levels"),  # type: ignore[arg-type]
        (
            lambda: Coverage(CoverageConfig(level=Level.POSITION)).expert({}, None),  # type: ignore[arg-type]
            "on level velocity, not on position",
        ),
        (
            lambda: BaseStation(BaseStationConfig(level=Level.POSITION)).expert({}, None),  # type: ignore[arg-type]
            "on level velocity, not on position",
        ),
    ],
)
def test_what_cannot_be_flown_is_refused(make, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        make()


def test_unknown_effects_and_modes_name_those_that_exist() -> None:
    with pytest.raises(UnknownNameError, match="battery"):
        known_effects(["drag", "drga"])
    with pytest.raises(UnknownNameError, match="pyb_gnd_drag_dw"):
        Formation(FormationConfig(mode="pyb_everything"))


def test_every_drone_has_a_camera_that_looks_ahead_with_it() -> None:
    task = Swap(WaypointConfig(agents=3))
    cameras = [task.model.camera(name) for name in task.pictures.agent_cameras["front"]]
    assert len(cameras) == 3
    assert [int(camera.bodyid[0]) for camera in cameras] == [1, 2, 3]
    for camera in cameras:
        ahead = np.zeros(3)
        mujoco.mju_rotVecQuat(ahead, np.array([0.0, 0.0, -1.0]), camera.quat)  # cameras look along their -z axis
        np.testing.assert_allclose(ahead, [1, 0, 0], atol=1e-6)
