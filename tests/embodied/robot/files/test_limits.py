"""Numbers of a robot's file that mean nothing are refused in one line, with file, element and number."""

from __future__ import annotations

import re
from pathlib import Path

import mujoco
import pytest

from embodied.errors import ModelError
from embodied.robot.files import mjcf
from embodied.robot.files.model import read_model

URDF = """<robot name="two"><link name="base"/><link name="arm"><inertial><mass value="1"/>
<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit {limit}/></joint></robot>"""
MJCF = """<mujoco><worldbody><body><joint name="j" axis="0 1 0" {joint}/><geom size="0.1"/></body></worldbody>
<actuator><motor name="m" joint="j" {motor}/></actuator>
<keyframe><key name="home" qpos="{home}"/></keyframe></mujoco>"""
SOUND = {"lower": "-1", "upper": "1", "effort": "20", "velocity": "3"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"lower": "1.5", "upper": "-1.5"}, 'lower="1.5" is above upper="-1.5"; expected the smaller first'),
        ({"effort": "-40"}, 'effort="-40"; expected 0 or more'),
        ({"effort": "nan"}, 'effort: "nan"; expected a number of at most 1e+17'),
        ({"upper": "1e308"}, 'upper: "1e308"; expected a number of at most 1e+17'),
        ({"effort": "inf"}, 'effort: "inf"; expected a number'),
        ({"lower": "low"}, 'lower: "low"; expected a number'),
        ({"upper": ""}, 'upper: ""; expected a number'),
    ],
)
def test_limits_of_a_urdf(tmp_path: Path, changed: dict[str, str], expected: str) -> None:
    file = tmp_path / "two.urdf"
    file.write_text(URDF.format(limit=" ".join(f'{key}="{text}"' for key, text in {**SOUND, **changed}.items())))
    with pytest.raises(ModelError, match=re.escape(f"{file}: <limit> of joint 'shoulder': {expected}")):
        read_model(file)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"joint": 'range="1 -1"'}, "range of <joint> 'j': \"1 -1\"; expected the smaller first"),
        ({"joint": 'actuatorfrcrange="-inf 5"'}, "actuatorfrcrange of <joint> 'j': \"-inf\"; expected a number"),
        ({"joint": 'damping="nan"'}, "damping of <joint> 'j': \"nan\"; expected a number"),
        ({"joint": 'armature="-1"'}, "armature of <joint> 'j': \"-1\"; expected 0 or more"),
        ({"motor": 'gear="1e300"'}, "gear of <motor> 'm': \"1e300\"; expected a number"),
        ({"motor": 'ctrlrange="nan 1"'}, "ctrlrange of <motor> 'm': \"nan\"; expected a number"),
        ({"home": "nan"}, "qpos of <key> 'home': \"nan\"; expected a number"),
    ],
)
def test_ranges_of_an_mjcf(tmp_path: Path, changed: dict[str, str], expected: str) -> None:
    file = tmp_path / "one.xml"
    file.write_text(MJCF.format(**{"joint": 'range="-1 1"', "motor": 'ctrlrange="-1 1"', "home": "0.5", **changed}))
    with pytest.raises(ModelError, match=re.escape(f"{file}: {expected}")):
        read_model(file)


def test_numbers_of_included_files_and_defaults(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text('<mujoco><default><position kp="inf"/></default></mujoco>')
    file = tmp_path / "one.xml"
    file.write_text('<mujoco><include file="part.xml"/></mujoco>')
    with pytest.raises(ModelError, match=re.escape(f"{tmp_path / 'part.xml'}: kp of <position> '': \"inf\"; expected")):
        read_model(file)


def test_files_that_include_each_other_or_a_file_twice(tmp_path: Path) -> None:
    """Each includes the next one twice: read as often as they are named, these would be 2^20 files."""
    for number in range(20):
        include = f'<include file="{number + 1}.xml"/>'
        (tmp_path / f"{number}.xml").write_text(f"<mujoco>{include}{include}</mujoco>")
    (tmp_path / "20.xml").write_text('<mujoco><include file="0.xml"/></mujoco>')
    with pytest.raises(ModelError, match=re.escape("20.xml: includes '0.xml', which is part of the model already")):
        read_model(tmp_path / "0.xml")
    (tmp_path / "20.xml").write_text("<mujoco/>")
    with pytest.raises(ModelError, match=re.escape("19.xml: includes '20.xml', which is part of the model already")):
        read_model(tmp_path / "0.xml")


def test_what_is_included_many_times_over_is_counted(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text(f"<mujoco>{'<body/>' * 100}</mujoco>")
    file = tmp_path / "one.xml"
    file.write_text(
        '<mujoco><worldbody><replicate count="99"><include file="part.xml"/></replicate></worldbody></mujoco>'
    )
    with pytest.raises(ModelError, match="9,900 elements <body>; expected at most 1,000"):
        read_model(file)


ATTACHES = """<mujoco><asset><model name="m" file="{}"/></asset>
<worldbody><frame><attach model="m" body="b" prefix="p"/></frame></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ('<mujoco><option timestep="0"/></mujoco>', "{part}: timestep of <option> '': \"0\"; expected 1e-05"),
        (
            '<mujoco><asset><mesh file="../../../a.obj"/></asset></mujoco>',
            "{part}: refers to '../../../a.obj', outside",
        ),
        ('<mujoco><asset><model file="part.xml"/></asset></mujoco>', "attaches parts of 'part.xml', but is attached"),
        (
            '<mujoco><include file="more.xml"/></mujoco>',
            "more.xml: attaches parts of 'part.xml', but is attached itself",
        ),
        ("<robot/>", "{part}, whose root element is <robot>; expected <mujoco>"),
        (None, "attaches parts of {part}, which does not exist"),
    ],
)
def test_attached_models_are_held_to_the_same(tmp_path: Path, part: str | None, expected: str) -> None:
    file, other = tmp_path / "one.xml", tmp_path / "parts" / "part.xml"
    other.parent.mkdir()
    (other.parent / "more.xml").write_text('<mujoco><asset><model file="part.xml"/></asset></mujoco>')
    file.write_text(ATTACHES.format("parts/part.xml"))
    if part is not None:
        other.write_text(part)
    with pytest.raises(ModelError, match=re.escape(expected.format(part=other))):
        read_model(file)


def test_a_model_may_attach_parts_of_another(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text(
        '<mujoco><worldbody><body name="b"><joint/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    (tmp_path / "one.xml").write_text(ATTACHES.format("part.xml"))
    assert "pb" in [body.name for body in read_model(tmp_path / "one.xml").spec.bodies]


def test_a_time_step_that_would_never_end(tmp_path: Path) -> None:
    file = tmp_path / "one.xml"
    file.write_text('<mujoco><option timestep="0"/></mujoco>')
    with pytest.raises(ModelError, match="timestep of <option> '': \"0\"; expected 1e-05 s or more"):
        read_model(file)


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ('<size nkey="100000000"/>', "nkey of <size> '': \"100000000\"; expected at most 10,000"),
        ('<size nuser_geom="1000000000"/>', "nuser_geom of <size> '': \"1000000000\"; expected at most 1,000"),
        (
            '<asset><texture name="t" width="99999"/></asset>',
            "width of <texture> 't': \"99999\"; expected at most 8,192",
        ),
        (
            '<asset><hfield name="h" nrow="1e9" ncol="2"/></asset>',
            "nrow of <hfield> 'h': \"1e9\"; expected at most 4,096",
        ),
        ('<option iterations="2000000000"/>', "iterations of <option> '': \"2000000000\"; expected at most 10,000"),
        ('<visual><quality numslices="1e9"/></visual>', "numslices of <quality> '': \"1e9\"; expected at most 1,000"),
    ],
)
def test_numbers_by_which_memory_or_time_would_grow_without_end(tmp_path: Path, element: str, expected: str) -> None:
    file = tmp_path / "one.xml"
    file.write_text(f"<mujoco>{element}</mujoco>")
    with pytest.raises(ModelError, match=re.escape(f"{file}: {expected}")):
        read_model(file)


def test_what_does_not_fit_into_memory_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo raises a `RuntimeError` there, unlike for all else that it does not read."""

    def fill_memory(file: str) -> None:
        raise RuntimeError("Caught an unknown\nexception!")

    monkeypatch.setattr(mujoco.MjSpec, "from_file", fill_memory)
    file = tmp_path / "one.xml"
    file.write_text("<mujoco/>")
    with pytest.raises(ModelError, match=re.escape(f"{file}: MuJoCo does not read it: Caught an unknown exception!")):
        read_model(file)


def test_more_files_than_a_model_has(tmp_path: Path) -> None:
    for number in range(mjcf.MOST_FILES + 2):
        (tmp_path / f"{number}.xml").write_text(f'<mujoco><include file="{number + 1}.xml"/></mujoco>')
    with pytest.raises(ModelError, match=f"no more than {mjcf.MOST_FILES} files"):
        read_model(tmp_path / "0.xml")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('<mass value="1"/>', '<mass value="inf"/>', "<mass> of link 'arm': value: \"inf\"; expected a number"),
        ("<axis", '<dynamics damping="-2"/><axis', "<dynamics> of joint 'shoulder': damping=\"-2\"; expected 0 or"),
        (
            "<axis",
            '<mimic joint="other" multiplier="nan"/><axis',
            "<mimic> of joint 'shoulder': multiplier: \"nan\"; expected a number",
        ),
    ],
)
def test_numbers_of_a_urdfs_links_and_joints(tmp_path: Path, old: str, new: str, expected: str) -> None:
    file = tmp_path / "two.urdf"
    file.write_text(URDF.format(limit='effort="5"').replace(old, new))
    with pytest.raises(ModelError, match=re.escape(f"{file}: {expected}")):
        read_model(file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<robot>{'<link/>' * 1001}</robot>", "1,001 elements <link>; expected at most 1,000"),
        (f"<mujoco>{'<body>' * 1001}{'</body>' * 1001}</mujoco>", "1,001 elements <body>; expected at most 1,000"),
        ('<mujoco><replicate count="99999"><body/></replicate></mujoco>', "99,999 elements <body>"),
        ('<mujoco><flexcomp count="60 60 60"/></mujoco>', "216,000 elements <body>"),
        (f"<robot><link>{'<visual/>' * 10_001}</link></robot>", "10,001 elements <visual>; expected at most 10,000"),
    ],
)
def test_more_links_than_a_robot_has_are_refused_at_once(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "many.xml"
    file.write_text(text)
    with pytest.raises(ModelError, match=expected):
        read_model(file)


@pytest.mark.parametrize("limit", ['lower="-1e16" upper="1e16" effort="0" velocity="0"', 'effort="5" velocity="1"'])
def test_what_makers_write_is_read(tmp_path: Path, limit: str) -> None:
    file = tmp_path / "two.urdf"
    file.write_text(URDF.format(limit=limit))
    assert read_model(file).is_urdf
