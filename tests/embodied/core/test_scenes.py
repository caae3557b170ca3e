"""Scenes compose without a word, and say what is wrong with a file."""

import mujoco
import pytest

from embodied.core.scenes import compile_spec, compose, compose_text, load_spec, say_once
from embodied.errors import ModelError


def test_composing_keeps_names_and_says_nothing(capfd):
    model = compile_spec(compose("scenes/floor.xml", "robots/go1/go1.xml"))
    assert model.geom("floor").id >= 0
    assert model.joint("FR_calf").id >= 0
    assert model.key("home").id == 0
    assert capfd.readouterr().err == ""


def test_unknown_asset_lists_its_neighbours():
    with pytest.raises(ModelError, match=r"go2\.xml.*go1\.xml"):
        compose("scenes/floor.xml", "robots/go1/go2.xml")


@pytest.mark.parametrize(
    "text", ["<mujoco><worldbody><body>", "<mujoco><worldbody><body colour='red'/></worldbody></mujoco>"]
)
def test_broken_file_is_named_in_one_line(tmp_path, text):
    file = tmp_path / "broken.xml"
    file.write_text(text)
    for read in (lambda: load_spec(file), lambda: compose("scenes/floor.xml", file)):
        with pytest.raises(ModelError, match="broken") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_model_that_does_not_compile():
    spec = mujoco.MjSpec.from_string("<mujoco model='weightless'><worldbody/></mujoco>")
    body = spec.worldbody.add_body(name="b")
    body.add_joint(name="j", type=mujoco.mjtJoint.mjJNT_HINGE)
    with pytest.raises(ModelError, match=r"weightless.*does not compile.*mass") as caught:
        compile_spec(spec)
    assert "\n" not in str(caught.value)


def test_a_robots_names_give_way_to_the_scenes():
    robot = """<mujoco><asset><texture name="floor" builtin="flat" type="2d" width="4" height="4"/>
    <material name="floor" texture="floor"/></asset><worldbody><body name="floor"><freejoint/>
    <geom name="floor" size=".1" material="floor"/><geom name="sole" size=".1"/></body></worldbody>
    <contact><exclude body1="floor" body2="world"/><pair geom1="sole" geom2="floor"/></contact></mujoco>"""
    model = compile_spec(compose_text("scenes/floor.xml", robot))
    own = model.geom("robot_floor")
    assert model.material(int(own.matid[0])).name == "robot_floor"
    assert model.body(int(own.bodyid[0])).name == "floor"
    assert int(model.pair_geom2[0]) == own.id
    assert model.geom("floor").type[0] == mujoco.mjtGeom.mjGEOM_PLANE


def test_warnings_of_mujoco_are_said_once_and_no_file_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = mujoco.get_mju_user_warning()
    assert before is not None
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    mujoco.set_mju_user_warning(say_once)
    try:
        for _ in range(3):
            data = mujoco.MjData(model)
            data.qvel[:] = 1e30
            mujoco.mj_step(model, data)
    finally:
        mujoco.set_mju_user_warning(before)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: MuJoCo: Nan, Inf or huge value in QVEL")
    assert not list(tmp_path.iterdir())
