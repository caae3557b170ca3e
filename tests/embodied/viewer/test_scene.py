"""The scene: every visible shape is drawn, what is followed stays at the origin, rays find what can be pushed."""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np
import pytest
import viser

from embodied.core.scenes import compose
from embodied.rendering.meshes import VISIBLE_GROUPS, body_parts
from embodied.rendering.scene_state import SceneState
from embodied.viewer.camera import start_server
from embodied.viewer.contacts import Contacts
from embodied.viewer.scene import LONGEST, WEIGHT_LENGTH, Scene, sky

ROBOTS = ["robots/go1/go1.xml", "robots/crazyflie/crazyflie.xml"]
BALL = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><body name="ball" pos="0 0 1"><freejoint/>
<geom type="sphere" size=".2" mass="2"/></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def server() -> Iterator[viser.ViserServer]:
    server = start_server("localhost", 18080)
    yield server
    server.stop()


def state(*places: tuple[float, float, float]) -> SceneState:
    qpos = np.array([[*place, 1.0, 0.0, 0.0, 0.0] for place in places])
    return SceneState(np.zeros(len(places)), qpos, None, None, {})


@pytest.mark.filterwarnings("ignore:Attaching a spec")
@pytest.mark.parametrize("robot", ROBOTS)
def test_the_viewer_builds_every_visible_shape(server: viser.ViserServer, robot: str) -> None:
    model = compose("scenes/floor.xml", robot).compile()
    scene = Scene(server, model, 2)
    drawn = sorted([geom for part in scene.parts for geom in part.geoms] + list(scene.planes))
    assert drawn == [geom for geom in range(model.ngeom) if model.geom_group[geom] < VISIBLE_GROUPS]


@pytest.mark.parametrize("kind", ["sphere", "capsule", "ellipsoid", "cylinder", "box"])
def test_a_shape_has_its_size_in_the_viewer(kind: str) -> None:
    xml = f'<mujoco><worldbody><body pos="1 2 3"><geom type="{kind}" size=".1 .2 .3"/></body></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(xml)
    (part,) = body_parts(model)
    half = {
        "sphere": (0.1, 0.1, 0.1),
        "capsule": (0.1, 0.1, 0.3),
        "ellipsoid": (0.1, 0.2, 0.3),
        "cylinder": (0.1, 0.1, 0.2),
        "box": (0.1, 0.2, 0.3),
    }
    assert np.abs(part.vertices).max(axis=0) == pytest.approx(half[kind], rel=0.02)
    assert np.linalg.norm(part.normals, axis=1) == pytest.approx(np.ones(len(part.normals)))


def test_what_is_followed_comes_to_the_origin_and_the_endless_floor_passes_by_whole_lines(server) -> None:
    scene = Scene(server, mujoco.MjModel.from_xml_string(BALL), 1)
    for _ in range(30):
        scene.follow(state((1.7, -0.4, 1.0)), 0, 0.0)
    places = scene.update(state((1.7, -0.4, 1.0)))
    np.testing.assert_allclose(places[0, 1], 0.0, atol=1e-4)
    (handle, _), *_ = scene.planes.values()
    np.testing.assert_allclose(handle.position, [-0.7, -0.6, -1.0], atol=1e-4)
    scene.follow(state((50.0, 0.0, 1.0)), 0, 0.0)  # another episode: at once
    np.testing.assert_allclose(scene.update(state((50.0, 0.0, 1.0)))[0, 1], 0.0, atol=1e-9)


def test_a_ray_finds_the_body_that_it_meets_and_nothing_where_it_meets_the_floor(server) -> None:
    scene = Scene(server, mujoco.MjModel.from_xml_string(BALL), 2)
    where = state((0.0, 0.0, 1.0), (0.0, 0.0, 1.0))
    down = np.array([0.0, 0.0, -1.0])
    found = scene.hit(where, 3.0, np.array([3.0, 0.1, 5.0]), down)
    assert found is not None
    assert found[:2] == (1, 1)
    np.testing.assert_allclose(found[2], [0.0, 0.1, np.sqrt(0.03)], atol=1e-6)
    assert scene.hit(where, 3.0, np.array([1.5, 0.0, 5.0]), down) is None


def test_the_arrow_of_the_weight_has_its_length_and_none_is_longer_than_the_longest(server) -> None:
    scene = Scene(server, mujoco.MjModel.from_xml_string(BALL), 1)
    scene.show_contacts(None, np.zeros(3))
    forces = np.array([[0.0, 0.0, 2 * 9.81], [0.0, 1e6, 0.0], [0.0, 0.0, 1e-3]])
    scene.show_contacts(Contacts(np.eye(3), forces), np.array([0.0, 0.0, 1.0]))
    arrows = scene._forces.points
    assert arrows.shape == (2, 2, 3)  # what is too weak for an arrow has its point alone
    np.testing.assert_allclose(arrows[0, 0], [1.0, 0.0, 1.0])
    lengths = np.linalg.norm(arrows[:, 1] - arrows[:, 0], axis=1)
    np.testing.assert_allclose(lengths, [WEIGHT_LENGTH * scene.radius, LONGEST * scene.radius], rtol=1e-5)
    scene.show_contacts(None, np.zeros(3))
    assert not scene._forces.visible
    assert not scene._touches.visible


def test_robots_that_are_small_from_the_camera_get_halos(server) -> None:
    scene = Scene(server, mujoco.MjModel.from_xml_string(BALL), 2)
    scene.seen_from(1.0)
    assert not scene._halos
    scene.seen_from(20.0)
    scene.update(state((0.0, 0.0, 1.0), (0.0, 0.0, 2.0)), 5.0)
    np.testing.assert_allclose(scene._halos.batched_positions, [[0, 0, 1], [5, 0, 2]])
    np.testing.assert_allclose(scene._stems.points[:, 0], [[0, 0, 0], [5, 0, 0]])


def test_the_sky_ends_in_the_haze() -> None:
    assert sky().dtype == np.uint8
    assert (sky()[40:] == sky()[-1]).all()
    assert (sky()[0] < sky()[-1]).all()
