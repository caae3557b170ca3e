"""Models from users: none reads outside its folder, exceeds a bound, or brings this process down."""

from __future__ import annotations

import os
import struct
import sys
import time
import zlib
from pathlib import Path

import mujoco
import numpy as np
import pytest

from embodied.paths import asset
from sim2real import user_model
from sim2real.user_model import Bounds, UserModelError, check, load

ROBOTS = sorted(path for path in asset("robots").rglob("*.xml"))
TETRAHEDRON = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
BALL = '<body><freejoint/><geom size=".1"/></body>'


def written(folder: Path, inside: str = "", before: str = "", name: str = "robot.xml") -> Path:
    """A model with some elements in its world, and some before it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'<mujoco>\n{before}\n<worldbody>\n<geom size=".1"/>\n{inside}\n</worldbody>\n</mujoco>\n')
    return path


def png(width: int, height: int) -> bytes:
    """A grey PNG; rows are all alike, so that a large one is a small file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + bytes(width)) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("path", ROBOTS, ids=lambda path: path.stem)
def test_our_robots_come_out_as_they_are(path: Path) -> None:
    checked = check(path)
    ours = mujoco.MjSpec.from_string(checked.xml, assets=checked.assets).compile()
    theirs = mujoco.MjModel.from_xml_path(str(path))
    assert ours.nbuffer == theirs.nbuffer
    for field in ("body_mass", "jnt_range", "geom_size", "actuator_gainprm", "qpos0", "dof_armature"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def test_a_model_of_many_files_is_the_same_as_by_mujoco(tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "tetra.obj").write_bytes(TETRAHEDRON)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "grey.png").write_bytes(png(8, 8))
    (tmp_path / "meshes" / "hills.png").write_bytes(png(6, 5))
    written(tmp_path, '<body pos="0 0 1"><joint/><geom type="mesh" mesh="tetra"/></body>',
            '<asset><mesh file="tetra.obj"/></asset><compiler meshdir="."/>', "parts/arm.xml")  # fmt: skip
    (tmp_path / "parts" / "tetra.obj").write_bytes(TETRAHEDRON)
    (tmp_path / "parts" / "more.xml").write_text("<mujocoinclude><body><geom size='.3'/></body></mujocoinclude>")
    path = written(
        tmp_path,
        '<geom type="mesh" mesh="tetra" material="m"/><geom type="hfield" hfield="hills"/>'
        '<include file="parts/more.xml"/><attach model="arm" body="body" prefix="a_"/>'
        '<replicate count="3" offset="0 0 1"><site name="s"/></replicate>',
        '<compiler meshdir="meshes" texturedir="pictures"/><asset><mesh file="tetra.obj"/>'
        '<hfield file="hills.png" size="1 1 1 1"/><texture type="2d" file="grey.png"/>'
        '<material name="m" texture="grey"/><model name="arm" file="parts/arm.xml"/></asset>',
    )
    (tmp_path / "parts" / "arm.xml").write_text(
        (tmp_path / "parts" / "arm.xml").read_text().replace('<body pos="0 0 1">', '<body name="body" pos="0 0 1">')
    )
    ours, theirs = load(path).compile(), mujoco.MjModel.from_xml_path(str(path))
    assert (ours.nbody, ours.nmesh, ours.nsite, ours.nq, ours.nhfielddata) == (
        theirs.nbody, theirs.nmesh, theirs.nsite, theirs.nq, theirs.nhfielddata,
    )  # fmt: skip
    np.testing.assert_array_equal(ours.geom_size, theirs.geom_size)


OUTSIDE = {
    "include, absolute": ("", '<include file="/etc/passwd"/>', "line 2: '/etc/passwd' is not a path within"),
    "include, upwards": ("", '<include file="../secret.xml"/>', r"'../secret.xml' leads upwards"),
    "include, upwards and back": ("", '<include file="a/../../secret.xml"/>', "leads upwards"),
    "mesh, upwards": ("", '<asset><mesh file="../secret.obj"/></asset>', "leads upwards"),
    "mesh, absolute": ("", '<asset><mesh file="/dev/zero"/></asset>', "not a path within"),
    "mesh folder": ("", '<compiler meshdir="../"/><asset><mesh file="secret.obj"/></asset>', "'../' leads upwards"),
    "asset folder": ("", '<compiler assetdir="/tmp"/>', "'/tmp' is not a path within"),
    "texture folder": ("", '<compiler texturedir="a/.."/>', "leads upwards"),
    "height field": ("", '<asset><hfield file="../secret.png" size="1 1 1 1"/></asset>', "leads upwards"),
    "texture": ("", '<asset><texture type="2d" file="../secret.png"/></asset>', "leads upwards"),
    "side of a cube": ("", '<asset><texture type="cube" fileup="../secret.png"/></asset>', "leads upwards"),
    "skin": ("", '<asset><skin file="../secret.skn"/></asset>', "leads upwards"),
    "flexcomp": ('<flexcomp name="f" type="mesh" file="../secret.obj"/>', "", "leads upwards"),
    "model": ("", '<asset><model name="m" file="../secret.xml"/></asset>', "leads upwards"),
    "provider": ("", '<asset><mesh file="http://a/b.obj"/></asset>', "without :"),
    "backslash": ("", '<asset><mesh file="..\\secret.obj"/></asset>', "not a path within"),
    "home": ("", '<asset><mesh file="~/secret.obj"/></asset>', "not a path within"),
    "letters": ("", '<asset><mesh file="a&#10;b.obj"/></asset>', "not a path within"),
    "suffix": ("", '<asset><mesh file="robot.xml"/></asset>', "should end in .stl or .obj or .msh"),
    "link": ("", '<asset><mesh file="link.obj"/></asset>', "'link.obj' is a link out of the model's folder"),
    "link to a folder": ("", '<asset><mesh file="out/secret.obj"/></asset>', "link out of the model's folder"),
    "link in a circle": ("", '<asset><mesh file="round.obj"/></asset>', "round.obj"),
    "missing": ("", '<asset><mesh file="none.obj"/></asset>', "there is no file 'none.obj'"),
    "pipe": ("", '<asset><mesh file="pipe.obj"/></asset>', "'pipe.obj' is no ordinary file"),
    "folder": ("", '<asset><mesh file="folder.obj"/></asset>', "'folder.obj'"),
    "long": ("", f'<asset><mesh file="{"a" * 5000}.obj"/></asset>', "cannot read"),
    "unknown": ("", '<asset><material name="m" file="../secret.png"/></asset>', "has the attribute 'file'"),
    "plugin": ("", '<extension><plugin plugin="evil.so"/></extension>', "only MuJoCo's own"),
    "config of a plugin": (
        "", '<extension><plugin plugin="mujoco.a"><instance name="i"><config key="k" value="/etc/passwd"/></instance>'
        "</plugin></extension>", "is told the path '/etc/passwd'",
    ),
    "itself": ("", '<include file="robot.xml"/>', "'robot.xml' includes itself"),
    "made of itself": ("", '<asset><model name="m" file="robot.xml"/></asset>', "'robot.xml' is made of itself"),
    "no file": ("", "<include/>", "should end in .xml"),
}  # fmt: skip


@pytest.mark.parametrize("attack", OUTSIDE)
def test_nothing_outside_the_folder_is_read(tmp_path: Path, attack: str) -> None:
    inside, before, message = OUTSIDE[attack]
    folder = tmp_path / "model"
    for name in ("secret.obj", "secret.xml", "secret.png", "secret.skn"):
        (tmp_path / name).write_bytes(TETRAHEDRON if name.endswith("obj") else b"<mujoco/>")
    path = written(folder, inside, before)
    (folder / "link.obj").symlink_to(tmp_path / "secret.obj")
    (folder / "out").symlink_to(tmp_path)
    (folder / "round.obj").symlink_to(folder / "round.obj")
    (folder / "folder.obj").mkdir()
    (folder / "a").mkdir()
    os.mkfifo(folder / "pipe.obj")
    with pytest.raises(UserModelError, match=message) as caught:
        check(path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value).replace("/tmp'", "")


def test_a_link_within_the_folder_may_be_followed(tmp_path: Path) -> None:
    (tmp_path / "tetra.obj").write_bytes(TETRAHEDRON)
    (tmp_path / "link.obj").symlink_to(tmp_path / "tetra.obj")
    assert list(check(written(tmp_path, "", '<asset><mesh file="link.obj"/></asset>')).assets.values()) == [TETRAHEDRON]


NESTED = (
    '<replicate count="100"><replicate count="100"><replicate count="100"><site/></replicate></replicate></replicate>'
)
TOO_MUCH = {
    "replicate": ('<replicate count="20000"><geom size="1"/></replicate>', "", "20,000; at most 10,000 is allowed"),
    "nested replicate": (NESTED, "", r"<replicate> has count \(nested ones multiplied\) 1,000,000"),
    "composite": ('<composite prefix="c" type="cable" count="300 300 300"/>', "", "27,000,000"),
    "flexcomp": ('<flexcomp name="f" type="grid" count="200 200 200"/>', "", "8,000,000"),
    "keys": ("", '<size nkey="100000000"/>', "line 2: <size> has nkey 100,000,000; at most 1,000 is allowed"),
    "keys in hexadecimal": ("", '<size nkey="0x7fffffff"/>', "<size> has nkey inf"),
    "keys, not a number": ("", '<size nkey="nan"/>', "<size> has nkey nan"),
    "user data": ("", '<size nuserdata="2000000000"/>', "nuserdata 2,000,000,000; at most 1,000,000"),
    "user fields": ("", '<size nuser_geom="1e6"/>', "nuser_geom 1,000,000; at most 1,000"),
    "contacts": ("", '<size nconmax="2000000000"/>', "nconmax"),
    "constraints": ("", '<size njmax="2000000000"/>', "njmax"),
    "stack": ("", '<size nstack="2000000000"/>', "nstack"),
    "memory": ("", '<size memory="1000G"/>', "memory 1,073,741,824,000; at most 2,147,483,648"),
    "memory in letters": ("", '<size memory="lots"/>', "memory 'lots'; expected such as 100M"),
    "texture": ("", '<asset><texture type="2d" name="t" builtin="flat" width="16384" height="16384"/></asset>',
                "width x height 268,435,456; at most 16,777,216"),
    "height field": ("", '<asset><hfield name="h" nrow="16000" ncol="16000" size="1 1 1 1"/></asset>', "nrow x ncol"),
    "picture": ("", '<asset><texture type="2d" file="large.png"/></asset>', "'large.png' has 9,000 x 9,000 pixels"),
    "offscreen": ("", '<visual><global offwidth="100000"/></visual>', "offwidth 100,000"),
    "shadow": ("", '<visual><quality shadowsize="1000000"/></visual>', "shadowsize"),
    "slices": ("", '<visual><quality numslices="1000000"/></visual>', "numslices"),
    "iterations": ("", '<option iterations="2000000000"/>', "iterations 2,000,000,000; at most 10,000"),
    "camera": ('<camera resolution="100000 100000"/>', "", "resolution 10,000,000,000"),
    "delay": ("", '<actuator><motor joint="j" nsample="1000000000"/></actuator>', "nsample"),
    "depth": ("<body>" * 200 + "</body>" * 200, "", "nested deeper than 100 elements"),
    "elements": ("<site/>" * 50_001, "", "more than 50,000 elements"),
    "copied elements": ('<replicate count="9000">' + "<site/>" * 9 + "</replicate>", "", "at most 50,000 are allowed"),
}  # fmt: skip


@pytest.mark.parametrize("attack", TOO_MUCH)
def test_every_count_is_bound(tmp_path: Path, attack: str) -> None:
    inside, before, message = TOO_MUCH[attack]
    (tmp_path / "large.png").write_bytes(png(9000, 9000))
    start = time.monotonic()
    with pytest.raises(UserModelError, match=message):
        check(written(tmp_path, inside, before))
    assert time.monotonic() - start < 5.0


DOCUMENTS = {
    "entities": (
        '<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><mujoco model="&b;"/>',
        "entities are not allowed",
    ),
    "file": ('<!DOCTYPE m [<!ENTITY a SYSTEM "file:///etc/passwd">]><mujoco>&a;</mujoco>', "entities are not allowed"),
    "document type": ('<!DOCTYPE mujoco SYSTEM "x.dtd"><mujoco/>', "document types and entities are not allowed"),
    "cut off": ("<mujoco><worldbody>", "line 1: not XML: no element found"),
    "empty": ("", "not XML"),
    "binary": ("\0\1\2", "not XML"),
    "two attributes": ('<mujoco model="a" model="b"/>', "duplicate attribute"),
    "encoding": ('<?xml version="1.0" encoding="nonsense"?><mujoco/>', "not XML"),
    "robot": ("<robot name='urdf'/>", "a model begins with <mujoco>, not with <robot>"),
}


@pytest.mark.parametrize("attack", DOCUMENTS)
def test_documents_that_are_no_plain_xml_are_refused(tmp_path: Path, attack: str) -> None:
    text, message = DOCUMENTS[attack]
    (tmp_path / "robot.xml").write_text(text)
    with pytest.raises(UserModelError, match=message):
        check(tmp_path / "robot.xml")


def test_files_are_bound_in_bytes_and_number(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_bytes(TETRAHEDRON * 100)
    path = written(tmp_path, "", '<asset><mesh file="a.obj"/></asset>')
    with pytest.raises(UserModelError, match=r"line 2: 'a.obj' has more than the 1,000 bytes"):
        check(path, Bounds(file_bytes=1000))
    with pytest.raises(UserModelError, match=r"more than 1 files"):
        check(path, Bounds(files=1))
    with pytest.raises(UserModelError, match=r"'robot.xml' has more than the 20 bytes"):
        check(path, Bounds(xml_bytes=20))


def test_includes_of_includes_do_not_multiply_without_end(tmp_path: Path) -> None:
    for number in range(30):
        twice = f"<include file='b{number + 1}.xml'/>" * 2
        (tmp_path / f"b{number}.xml").write_text(f"<mujocoinclude>{twice}</mujocoinclude>")
    (tmp_path / "b30.xml").write_text("<mujocoinclude><site/></mujocoinclude>")
    with pytest.raises(UserModelError, match="more than 2000 files"):
        check(written(tmp_path, "<include file='b0.xml'/>"))


def test_what_does_not_compile_is_told_with_the_users_own_line(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text('<mujocoinclude>\n\n\n<geom type="mesh" mesh="nothing"/></mujocoinclude>')
    with pytest.raises(UserModelError, match=r"'robot.xml' does not compile: .*'part.xml', line 4"):
        load(written(tmp_path, '<include file="part.xml"/>'))


def test_a_model_that_takes_too_long_or_too_much_ends_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "<replicate count='9000' offset='0 0 .1'><body><geom size='.1'/></body></replicate>")
    with pytest.raises(UserModelError, match=r"did not compile within 0.5 s|1 s of CPU time"):
        load(path, Bounds(seconds=0.5))
    path = written(tmp_path, BALL, '<size memory="900M"/>')
    with pytest.raises(UserModelError, match=r"300 MiB|bound|memory"):
        user_model.try_compile(check(path), "robot.xml", Bounds(memory=300 << 20))


def test_a_crash_of_the_compiler_is_an_error_and_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash = tmp_path / "crash.py"
    crash.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(user_model, "WORKER", crash)
    with pytest.raises(UserModelError, match=r"ended with code -11.*crashes MuJoCo"):
        load(written(tmp_path))


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserModelError, match="there is no model"):
        load(tmp_path / "none.xml")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_compiling_process_writes_no_file_and_sees_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "spy.py"
    real = user_model.WORKER.read_text()
    spy.write_text(
        real.replace(
            "        files = {name:",
            "        import os\n        assert 'SECRET' not in os.environ, 'environment'\n"
            f"        open({str(tmp_path / 'out')!r}, 'wb', 0).write(b'x')\n        files = {{name:",
        )
    )
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setattr(user_model, "WORKER", spy)
    with pytest.raises(UserModelError, match="File too large"):
        load(written(tmp_path, BALL))
