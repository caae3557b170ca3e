import imageio.v3 as iio
import mujoco
import numpy as np
import pytest

import embodied
from embodied import play
from embodied.core.scenes import compose
from embodied.rendering.meshes import VISIBLE_GROUPS, body_parts
from embodied.rendering.viewer import Scene, start_server
from policies.training.loading import load_policy

ROBOTS = ["robots/go1/go1.xml", "robots/crazyflie/crazyflie.xml"]


@pytest.mark.filterwarnings("ignore:Attaching a spec")
@pytest.mark.parametrize("robot", ROBOTS)
def test_the_viewer_builds_every_visible_shape(robot: str) -> None:
    model = compose("scenes/floor.xml", robot).compile()
    server = start_server("localhost", 18080)
    try:
        scene = Scene(server, model, 2)
    finally:
        server.stop()
    drawn = sorted([geom for part in scene.parts for geom in part.geoms] + scene.planes)
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


def test_a_film_from_the_command_line(tmp_path) -> None:
    path = tmp_path / "x.mp4"
    words = ["swarm/hover", "--policy", "zero", "--video", str(path), "--seconds", "0.2", "--size", "96", "64"]
    assert play.main(words) == 0
    assert len(iio.imread(path, plugin="FFMPEG")) == 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swarm/hovver"], "unknown task 'swarm/hovver'; did you mean 'swarm/hover'?"),
        (["swarm/hover", "--policy", "nobody"], "unknown policy 'nobody'"),
        (["swarm/hover", "--engine", "magic"], "unknown engine 'magic'"),
        (["swarm/hover", "--video", "x.avi"], "'x.avi' does not end in .mp4"),
        (["swarm/hover", "--num-envs", "0"], "--num-envs 0: expected 1 to 64"),
        (["swarm/hover", "--layout", "gird"], "unknown layout 'gird'; did you mean 'grid'?"),
    ],
)
def test_mistakes_cost_one_line_and_exit_code_2(words: list[str], message: str, capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        play.main(words)
    assert exit_.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(f"error: {message}")


def test_the_player_steps_shows_and_ends(capsys) -> None:
    env = embodied.make("swarm/hover", num_envs=2)
    settings = play.Settings("swarm/hover", num_envs=2, seconds=0.1, port=18090)
    player = play.Player(env, {"zero": load_policy("zero", env)}, settings)
    assert player.run() == 0
    assert player.simulated == pytest.approx(0.1)
    assert "reward term" in player.status()
    assert "http://localhost:" in capsys.readouterr().err
