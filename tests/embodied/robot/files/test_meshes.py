"""Meshes of other people's models: found where packages lie and nowhere else, and read in the formats that occur."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.robot import Description, Robot, standard_model
from embodied.robot.files.collada import collada_triangles
from embodied.robot.files.fit import fitted
from embodied.robot.files.meshes import find_mesh, readable_mesh, vertices_of
from embodied.robot.files.mjcf import refuse_unsound
from tests.kit.robots import MESH, quadruped

pytestmark = pytest.mark.usefixtures("any_pose")

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], float)
FACES = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
DAE = """<?xml version="1.0" encoding="utf-8"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="{unit}"/><up_axis>{up}</up_axis></asset>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="pa" count="12">{numbers}</float_array>
<technique_common><accessor source="#pa" count="4" stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
{faces}</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node id="n">{pose}<instance_geometry url="#g"/></node></visual_scene>
</library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>"""
TRIANGLES = '<triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/><p>{}</p></triangles>'.format(
    " ".join(str(corner) for face in FACES for corner in face)
)


def dae(unit: str = "1", up: str = "Z_UP", pose: str = "", faces: str = TRIANGLES, points: np.ndarray = CORNERS) -> str:
    numbers = " ".join(str(number) for number in points.reshape(-1))
    return DAE.format(unit=unit, up=up, pose=pose, faces=faces, numbers=numbers)


def test_collada_is_placed_by_its_unit_and_its_nodes() -> None:
    pose = "<translate>1 2 3</translate><rotate>0 0 1 90</rotate><scale>2 2 2</scale>"
    triangles = collada_triangles("a.dae", dae("0.01", pose=pose).encode())
    assert triangles.shape == (4, 3, 3)
    np.testing.assert_allclose(triangles.reshape(-1, 3).min(0), [-0.01, 0.02, 0.03], atol=1e-9)
    np.testing.assert_allclose(triangles.reshape(-1, 3).max(0), [0.01, 0.04, 0.05], atol=1e-9)


@pytest.mark.parametrize(
    "faces",
    [
        '<polylist><input semantic="VERTEX" source="#v" offset="0"/><vcount>4</vcount><p>0 1 2 3</p></polylist>',
        '<polygons count="1"><input semantic="VERTEX" source="#v" offset="1"/><p>9 0 9 1 9 2 9 3</p></polygons>',
        '<tristrips count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2 3</p></tristrips>',
    ],
)
def test_faces_of_every_kind_become_triangles(faces: str) -> None:
    triangles = collada_triangles("a.dae", dae(faces=faces).encode())
    assert triangles.shape == (2, 3, 3)
    assert {tuple(corner) for corner in triangles.reshape(-1, 3)} == {tuple(corner) for corner in CORNERS}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><COLLADA/>', "has a document type"),
        ("<robot/>", "its root element is <robot>; expected <COLLADA>"),
        ("<COLLADA/>", "has no triangles"),
        (dae(faces=TRIANGLES.replace("<p>0", "<p>77")), "a face of corner 77, of 4 points"),
        (dae(faces=TRIANGLES.replace("<p>0", "<p>x")), "is damaged"),
        (dae(pose='<instance_node url="#n"/>'), "nodes within nodes, too deep"),
        (dae(pose="<matrix>1 2 3</matrix>"), "is damaged"),
    ],
)
def test_collada_that_lies_is_refused(text: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        collada_triangles("a.dae", text.encode())


def test_stl_in_text_is_read(tmp_path: Path) -> None:
    lines = ["solid a"]
    for face in FACES:
        corners = "".join(f"vertex {x} {y} {z}\n" for x, y, z in CORNERS[list(face)])
        lines.append(f"facet normal 0 0 0\nouter loop\n{corners}endloop\nendfacet")
    (tmp_path / "a.stl").write_text("\n".join([*lines, "endsolid a"]))
    copy = readable_mesh(tmp_path / "a.stl")
    assert {tuple(point) for point in vertices_of(copy)} == {tuple(corner) for corner in CORNERS}


def test_stl_that_mujoco_reads_is_left_alone(tmp_path: Path) -> None:
    faces = b"".join(struct.pack("<12f2x", *(0.0,) * 3, *CORNERS[list(face)].reshape(-1)) for face in FACES)
    (tmp_path / "a.STL").write_bytes(b"solid as many exporters begin it".ljust(80) + struct.pack("<I", 4) + faces)
    assert readable_mesh(tmp_path / "a.STL") == tmp_path / "a.STL"


@pytest.mark.parametrize(
    "name",
    [
        "package://q_description/meshes/hat.dae",
        "package:///q_description/meshes/hat.dae",
        "model://q_description/meshes/hat.dae",
        "$(find q_description)/meshes/hat.dae",
        "package://all/q_description/meshes/hat.dae",
        "package://gone/meshes/hat.dae",
        "../meshes/hat.dae",
        "../../meshes/hat.dae",
    ],
)
def test_packages_are_found_above_the_model(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "all" / "q_description"
    (folder / "meshes").mkdir(parents=True)
    (folder / "package.xml").write_text("<package/>")
    (folder / "robots" / "urdf").mkdir(parents=True)
    (folder / "meshes" / "hat.dae").write_text(dae())
    model = folder / "robots" / ("q.urdf" if name.startswith("../m") else "urdf/q.urdf")
    model.write_text(quadruped(MESH.format(name)))
    assert find_mesh(model, name) == (folder / "meshes" / "hat.dae").resolve()
    body = Robot.load(model).model.body("hat")
    assert int(body.geomnum[0]) == 1


@pytest.mark.parametrize(
    "name",
    ["{}/out/hat.stl", "file://{}/out/hat.stl", "../../out/hat.stl", "package://../../out/hat.stl", "link.stl",
     "package://q/../../out/hat.stl", "../secret.txt", "passwd", "", "\0.stl"],
)  # fmt: skip
def test_nothing_is_read_outside_of_the_package(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "hat.stl").write_text("secret")
    model = tmp_path / "q" / "urdf" / "q.urdf"
    model.parent.mkdir(parents=True)
    (tmp_path / "q" / "secret.txt").write_text("secret")
    (model.parent / "link.stl").symlink_to(tmp_path / "out" / "hat.stl")
    assert find_mesh(model, name.format(tmp_path)) is None


def test_meshes_with_y_up_are_turned_only_where_the_joints_say_so(tmp_path: Path) -> None:
    long = CORNERS * [0.02, 0.2, 0.02] - [0.01, 0.0, 0.01]  # along y; the legs of the quadruped hang along -z
    (tmp_path / "leg.dae").write_text(dae(up="Y_UP", points=long))
    shape = '<visual><origin rpy="{}"/><geometry><mesh filename="leg.dae"/></geometry></visual></link>'
    for rpy, turned in (("3.14159 0 0", True), ("-1.5708 0 0", False)):
        text = quadruped()
        for number in (1, 5, 9, 13):
            before, link, after = text.partition(f'<link name="leg{number}_upper">')
            text = before + link + after.replace("</link>", shape.format(rpy), 1)
        (tmp_path / "q.urdf").write_text(text)
        assert any("turned" in line for line in Robot.load(tmp_path / "q.urdf").fixes) == turned


@pytest.mark.parametrize(
    ("points", "kind"),
    [
        (np.random.default_rng(0).normal(size=(2000, 3)), "SPHERE"),
        (np.random.default_rng(0).uniform(-1, 1, size=(2000, 3)) * [1, 2, 3], "BOX"),
        (np.random.default_rng(0).normal(size=(2000, 3)), "CAPSULE"),
    ],
)
def test_a_solid_holds_its_points_and_resembles_them(points: np.ndarray, kind: str) -> None:
    if kind != "BOX":
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    if kind == "CAPSULE":
        points[:, 2] += 3 * np.sign(points[:, 2])
    solid = fitted(points, np.eye(3))
    assert solid.kind.name == f"mjGEOM_{kind}"
    local = (points - solid.centre) @ solid.turn
    if kind == "BOX":
        assert (np.abs(local) <= np.array(solid.size) + 1e-6).all()
    else:
        half = solid.size[1] if kind == "CAPSULE" else 0.0
        local[:, 2] -= np.clip(local[:, 2], -half, half)
        assert (np.linalg.norm(local, axis=1) <= solid.size[0] + 1e-6).all()


def test_what_collides_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "hat.dae").write_text(dae())
    (tmp_path / "q.urdf").write_text(quadruped(MESH.format("hat.dae")))
    assert Robot.load(tmp_path / "q.urdf").model.nmesh == 0
    assert Robot.load(tmp_path / "q.urdf", Description(collision="meshes")).model.nmesh == 1
    with pytest.raises(EmbodiedError, match=r"unknown collision in robot.toml 'mesh'; did you mean 'meshes'"):
        Robot.load(tmp_path / "q.urdf", Description(collision="mesh"))


LINE = "v 0 0 0\nv 1 0 0\nv 2 0 0\nv 3 0 0\nf 1 2 3\nf 2 3 4\n"


@pytest.mark.parametrize(("name", "text"), [("a.obj", ""), ("a.obj", LINE), ("a.stl", "\0" * 84), ("a.msh", "a")])
def test_a_mesh_that_nobody_can_draw_is_left_out_of_the_picture_and_refused_where_it_collides(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    file = tmp_path / "q.urdf"
    hat = MESH.format(name)
    file.write_text(quadruped(hat.replace("collision", "visual")))
    robot = Robot.load(file)
    assert any(line.endswith("does not read, left out of: hat") for line in robot.fixes)
    assert standard_model(robot).compile().nmesh == 0
    file.write_text(quadruped(hat))
    with pytest.raises(EmbodiedError, match="link 'hat'") as caught:
        Robot.load(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["{}", "file://{}", "file:{}"])
def test_an_absolute_path_inside_the_package_is_one_of_its_own(tmp_path: Path, place: str) -> None:
    mesh = tmp_path / "a.obj"
    mesh.write_text(LINE)
    assert find_mesh(tmp_path / "q.urdf", place.format(mesh)) == mesh
    (tmp_path / "q.xml").write_text(f"<mujoco><asset><mesh file='{mesh}'/></asset></mujoco>")
    refuse_unsound(tmp_path / "q.xml", ElementTree.parse(tmp_path / "q.xml").getroot())


@pytest.mark.parametrize("mark", ["package.xml", "pyproject.toml", "__init__.py"])
def test_a_package_reaches_from_its_mark_and_no_further(tmp_path: Path, mark: str) -> None:
    model, mesh = tmp_path / "pack" / "robots" / "one" / "q.xml", tmp_path / "pack" / "meshes" / "a.obj"
    for file in (model, mesh):
        file.parent.mkdir(parents=True)
    mesh.write_text(LINE)
    model.write_text("<mujoco><asset><mesh file='../../meshes/a.obj'/></asset></mujoco>")
    assert find_mesh(model, "../../meshes/a.obj") is None
    with pytest.raises(EmbodiedError, match="outside of"):
        refuse_unsound(model, ElementTree.parse(model).getroot())
    (tmp_path / "pack" / mark).touch()
    assert find_mesh(model, "../../meshes/a.obj") == mesh
    refuse_unsound(model, ElementTree.parse(model).getroot())
    assert find_mesh(model, "../../../a.obj") is None
