"""Robots' files: URDF, MJCF, `robot.toml` and meshes, as people break them and as attackers write them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

import embodied
from benchmarks.bad_input import mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must, Said, call
from embodied.robot import Robot

FILES = ("legged/robot.urdf", "arm/robot.urdf", "legged/robot.xml", "arm/robot.xml", "multirotor/robot.xml")
TASKS = {"legged": "locomotion/velocity", "arm": "manipulation/reach", "multirotor": "swarm/hover"}
Node = ElementTree.Element
NUMBERS = ("nan", "inf", "-inf", "1e308", "-1e308", "1e999", "-1", "0", "", "x", "0x1p3", "1,5", "١", "1e-320",
    "None", "1 2 3 4 5 6 7 8 9", "99999999999999999999")  # fmt: skip


def understood(path: Path) -> Robot:
    """A robot of a file, after three steps of its model."""
    robot = Robot.load(path)
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    for _ in range(3):
        mujoco.mj_step(robot.model, data)
    return robot


def unsound(robot: Any) -> str:
    """What is wrong with a robot that was accepted."""
    if not isinstance(robot, Robot):
        return ""
    for joint in robot.joints:
        numbers = (joint.home, joint.servo.effort, joint.servo.kp, joint.servo.kv)
        if not all(map(math.isfinite, numbers)):
            return f"joint {joint.name}: home, effort, kp, kv {numbers}"
        if not joint.low < joint.high or math.isnan(joint.low + joint.high if math.isfinite(joint.low) else joint.high):
            return f"joint {joint.name}: range {joint.low} to {joint.high}"
        if not (joint.servo.effort > 0 and joint.servo.kp > 0 and joint.speed > 0):
            return f"joint {joint.name}: effort {joint.servo.effort}, kp {joint.servo.kp}, speed {joint.speed}"
        said = any(joint.name in line for line in robot.warnings)
        if not joint.low - 1e-6 <= joint.home <= joint.high + 1e-6 and not said:
            return f"joint {joint.name}: home {joint.home} out of {joint.low} to {joint.high}"
    if not (np.isfinite(robot.home).all() and math.isfinite(robot.mass) and robot.mass > 0):
        return f"home {robot.home}, mass {robot.mass}"
    return ""


def copied(rng: random.Random, box: Box, among: tuple[str, ...] = FILES) -> tuple[Path, Node]:
    """A copy of a robot's folder; its file, and what it holds."""
    name = rng.choice(among)
    box.copied(name.partition("/")[0])
    path = box.work / name
    return path, ElementTree.fromstring(path.read_text())


def attempt(path: Path, root: Node | None, what: str, must: Must = Must.EITHER) -> Attempt:
    """Read the file, which holds `root` if that is given."""
    if root is not None:
        path.write_text(ElementTree.tostring(root, encoding="unicode"))
    return Attempt(f"{path.parent.name}/{path.name}: {what}", lambda: understood(path), must, unsound)


def other_number(rng: random.Random, box: Box) -> Attempt:
    """A number of the file is none, or one that no robot has."""
    path, root = copied(rng, box)
    places = [(node, key) for node in root.iter() for key, value in node.attrib.items() if is_numbers(value)]
    node, key = rng.choice(places)
    numbers = node.get(key, "").split()
    new = rng.choice(NUMBERS)
    numbers[rng.randrange(len(numbers))] = new
    node.set(key, " ".join(numbers))
    never = new in ("nan", "x", "1,5", "None", "inf", "-inf", "1e999") and key in (
        "lower",
        "upper",
        "effort",
        "xyz",
        "rpy",
        "value",
        "range",
        "pos",
        "mass",
        "size",
    )
    return attempt(
        path,
        root,
        f"{node.tag} {key}={node.get(key)!r:.40}",
        Must.REFUSE if never and node.tag != "texture" else Must.EITHER,
    )


def is_numbers(text: str) -> bool:
    """Whether an attribute holds numbers."""
    try:
        return bool([float(word) for word in text.split()])
    except ValueError:
        return False


def other_word(rng: random.Random, box: Box) -> Attempt:
    """A name, type or reference that is another."""
    path, root = copied(rng, box)
    places = [(node, key) for node in root.iter() for key, value in node.attrib.items() if not is_numbers(value)]
    node, key = rng.choice(places)
    words = sorted({value for other in root.iter() for name, value in other.attrib.items() if name == key})
    node.set(
        key,
        rng.choice(
            (
                *words,
                "",
                "x" * 5000,
                "floor",
                "world",
                "..",
                "a/b",
                "\u202e",
                " ",
                "fixed",
                "ball",
                "free",
                "planar",
                "continuous",
                "nan",
            )
        ),
    )
    return attempt(path, root, f"{node.tag} {key}={node.get(key)!r:.40}")


def other_tree(rng: random.Random, box: Box) -> Attempt:
    """Elements dropped, doubled, moved, renamed, or inside themselves."""
    path, root = copied(rng, box)
    parents = {child: parent for parent in root.iter() for child in parent}
    node = rng.choice(list(parents))
    way = rng.choice(
        ("dropped", "doubled", "moved", "renamed", "emptied", "inside itself", "unknown inside", "reversed")
    )
    parent = parents[node]
    if way == "dropped":
        parent.remove(node)
    elif way == "doubled":
        parent.append(node)
    elif way == "moved":
        parent.remove(node)
        rng.choice(list(root.iter())).append(node)
    elif way == "renamed":
        node.tag = rng.choice(
            (
                "joint",
                "link",
                "body",
                "geom",
                "foo",
                "include",
                "mujoco",
                "robot",
                "plugin",
                "composite",
                "replicate",
                "flexcomp",
            )
        )
    elif way == "emptied":
        node.attrib.clear()
    elif way == "inside itself":
        text = ElementTree.tostring(node)
        node.append(ElementTree.fromstring(text))
    elif way == "unknown inside":
        ElementTree.SubElement(
            node, rng.choice(("gazebo", "transmission", "sensor", "foo", "drake:x", "mimic", "safety_controller"))
        ).set("name", "x")
    else:
        parent[:] = list(parent)[::-1]
    return attempt(path, root, f"{node.tag} {node.get('name', '')} {way}")


def other_joints(rng: random.Random, box: Box) -> Attempt:
    """Joints of a URDF in a circle, of two parents, of themselves, without limits, with mimics of any kind."""
    path, root = copied(rng, box, FILES[:2])
    joints = root.findall("joint")
    joint, other = rng.sample(joints, 2)
    way = rng.choice(
        (
            "circle",
            "itself",
            "two parents",
            "nobody",
            "limits upside down",
            "no limit",
            "no axis",
            "zero axis",
            "mimic itself",
            "mimics in a circle",
            "mimic nobody",
            "mimic nan",
            "mimic 0",
            "types",
            "same name",
        )
    )
    must = Must.REFUSE
    if way == "circle":
        joints[0].find("parent").set("link", joints[2].find("child").get("link"))  # type: ignore[union-attr,arg-type]
    elif way == "itself":
        joint.find("parent").set("link", joint.find("child").get("link"))  # type: ignore[union-attr,arg-type]
    elif way == "two parents":
        joint.find("child").set("link", other.find("child").get("link"))  # type: ignore[union-attr,arg-type]
    elif way == "nobody":
        joint.find(rng.choice(("parent", "child"))).set("link", "nobody")  # type: ignore[union-attr]
    elif way == "limits upside down":
        limit = joint.find("limit")
        assert limit is not None
        low, high = limit.get("lower", ""), limit.get("upper", "")
        limit.set("lower", high)
        limit.set("upper", low)
    elif way == "no limit":
        joint.remove(joint.find("limit"))  # type: ignore[arg-type]
    elif way == "no axis":
        joint.remove(joint.find("axis"))  # type: ignore[arg-type]
        must = Must.EITHER
    elif way == "zero axis":
        joint.find("axis").set("xyz", "0 0 0")  # type: ignore[union-attr]
    elif way == "same name":
        joint.set("name", other.get("name", ""))
    elif way == "types":
        joint.set("type", rng.choice(("spherical", "", "prismatic", "floating", "planar", "continuous", "fixed")))
        must = Must.EITHER
    else:
        of = {"mimic itself": joint.get("name"), "mimic nobody": "nobody"}.get(way, other.get("name"))
        mimic = ElementTree.SubElement(joint, "mimic", {"joint": str(of)})
        if way == "mimic nobody":
            must = Must.EITHER  # it goes, which is said
        elif way == "mimic nan":
            mimic.set(rng.choice(("multiplier", "offset")), rng.choice(("nan", "inf", "x", "")))
        elif way == "mimic 0":
            mimic.set("multiplier", "0")
            must = Must.EITHER
        elif way == "mimics in a circle":
            ElementTree.SubElement(other, "mimic", {"joint": str(joint.get("name"))})
    return attempt(path, root, f"{joint.get('name')}: {way}", Must.EITHER if way == "no limit" else must)


def other_text(rng: random.Random, box: Box) -> Attempt:
    """Files in other encodings, with entities, declarations and bytes of all kinds."""
    path, _ = copied(rng, box)
    text = path.read_text()
    body = text.partition("?>\n")[2] if text.startswith("<?xml") else text
    bomb = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    ways: dict[str, Callable[[], bytes]] = {
        "UTF-16": lambda: text.encode("utf-16"),
        "a mark": lambda: b"\xef\xbb\xbf" + text.encode(),
        "latin": lambda: ('<?xml version="1.0" encoding="latin-1"?>\n<!-- é -->' + body).encode("latin-1"),
        "wrong encoding": lambda: ('<?xml version="1.0" encoding="klingon"?>\n' + body).encode(),
        "billion laughs": lambda: (
            f'<!DOCTYPE x [<!ENTITY a0 "ha">{bomb}]>\n'.encode()
            + body.replace("name=", 'note="&a11;" name=', 1).encode()
        ),
        "outer entity": lambda: (
            f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{box.precious}/thesis.txt">]>\n'.encode()
            + body.replace("</", "&e;</", 1).encode()
        ),
        "deep": lambda: b"<a>" * 20_000 + b"</a>" * 20_000,
        "deep bodies": lambda: b"<mujoco><worldbody>" + b"<body>" * 3000 + b"</body>" * 3000 + b"</worldbody></mujoco>",
        "damaged": lambda: mutate.damaged(text.encode(), rng)[0],
        "damaged again": lambda: mutate.damaged(text.encode(), rng)[0],
        "JSON": lambda: b'{"robot": 1}',
        "HTML": lambda: b"<!doctype html><html><body><p>404</body></html>",
        "another root": lambda: b"<sdf><model/></sdf>",
        "nothing": lambda: b"",
        "Windows lines": lambda: text.replace("\n", "\r\n").encode(),
        "xacro": lambda: text.replace('name="', 'name="${prefix}', 1).encode(),
    }
    way = rng.choice(sorted(ways))
    path.write_bytes(ways[way]())
    refuse = way in (
        "wrong encoding",
        "billion laughs",
        "deep",
        "deep bodies",
        "JSON",
        "HTML",
        "another root",
        "nothing",
    )
    must = Must.REFUSE if refuse else Must.WORK if way in ("Windows lines", "a mark") else Must.EITHER
    return attempt(path, None, way, must)


def other_mesh(rng: random.Random, box: Box) -> Attempt:
    """A mesh that is missing, damaged, of another format, elsewhere, or not a file."""
    path, root = copied(rng, box, FILES[:2])
    mesh, node = path.parent / "meshes" / "box.stl", next(root.iter("mesh"))
    way = rng.choice(("replaced", "damaged", "names", "scale", "formats"))
    if way == "replaced":
        way = mutate.replaced(mesh, rng, box.precious)
    elif way == "damaged":
        data, way = mutate.damaged(mesh.read_bytes(), rng)
        mesh.write_bytes(data)
    elif way == "names":
        node.set(
            "filename",
            rng.choice(
                (
                    "",
                    "/",
                    "box.stl",
                    "../../precious/thesis.txt",
                    "package://x/box.stl",
                    "file:///etc/passwd",
                    "http://x/y.stl",
                    "meshes",
                    "meshes/BOX.STL",
                    str(mesh),
                    "model://a",
                    "meshes\\box.stl",
                    "x" * 5000,
                    "meshes/box.stl ",
                    "/dev/zero",
                    "package://../../etc/passwd",
                )
            ),
        )
        way = node.get("filename", "")
    elif way == "scale":
        node.set(
            "scale",
            rng.choice(("0 0 0", "-1 1 1", "nan 1 1", "1e30 1e30 1e30", "1 1", "x", "", "1e-30 1 1", "inf 1 1")),
        )
        way = f"scale {node.get('scale')}"
    else:
        name, data = rng.choice((("box.obj", b"v 0 0 0\nf 1 2 3\n"), ("box.obj", b""), ("box.dae", b"<COLLADA/>"), (
            "box.dae", b"<a>" * 1000), ("box.stl", b"solid x\nendsolid x\n"), ("box.stl", bytes(84)), ("box.stl",
            bytes(80) + b"\xff\xff\xff\xff"), ("box.ply", b"ply\n"), ("box.obj",
            b"v nan inf 0\n" * 4 + b"f 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n")))  # fmt: skip
        (mesh.parent / name).write_bytes(data)
        node.set("filename", f"meshes/{name}")
        way = f"{name}: {data[:20]!r}"
    path.write_text(ElementTree.tostring(root, encoding="unicode"))

    return Attempt(f"mesh {way}"[:120], lambda: understood(path), wrong=unsound)


def other_description(rng: random.Random, box: Box) -> Attempt:
    """A `robot.toml` with another value, key or text."""
    path, _ = copied(rng, box)
    toml = path.parent / "robot.toml"
    Robot.load(path).description().write(toml)
    lines = [line for line in toml.read_text().splitlines() if line and not line.startswith("#")]
    place = rng.randrange(len(lines))
    key, _, value = lines[place].partition(" = ")
    way = rng.choice(("value", "value", "number", "names", "key", "dropped", "doubled", "bytes", "digits", "link"))
    if way == "value":
        lines[place] = f"{key} = " + rng.choice(("nan", "inf", "-1", "0", '""', "[]", "{}", "true", "1e300", '"x"',
            '["x"]', '{ "*" = nan }', '{ "*" = -1 }', '{ "*" = 1e30 }', '{ "nobody" = 1.0 }', "[[0, 0, nan]]",
            "[1, 2]", "1979-05-27", '["a", "a"]', '{ "*" = 0 }', '{ "" = 1 }', "99999999999999999999999"))  # fmt: skip
    elif way == "number":
        lines[place] = f"{key} = " + "".join(
            rng.choice("0-9e") if c.isdigit() and rng.random() < 0.2 else c for c in value
        )
    elif way == "names":
        lines[place] = f"{key} = " + value.replace("_", rng.choice(("-", "", "*", "?", "[")))
    elif way == "key":
        lines[place] = rng.choice((f"{key}s", key.upper(), "é", "a.b.c", "", '"\\u0000"')) + f" = {value}"
    elif way == "dropped":
        del lines[place]
    elif way == "doubled":
        lines.append(lines[place])
    elif way == "digits":
        lines[place] = f"{key} = {rng.choice(('', '0x'))}{'9' * 5000}"
    elif way == "link":
        toml.unlink()
        toml.symlink_to("gone.toml")
        return attempt(path, None, "robot.toml, a broken link", Must.REFUSE)
    text = "\n".join(lines).encode()
    toml.write_bytes(mutate.damaged(text, rng)[0] if way == "bytes" else text)
    return attempt(path, None, f"robot.toml, {way}: {lines[place][:60] if place < len(lines) else ''}")


def other_place(rng: random.Random, box: Box) -> Attempt:
    """Something else in the place of the file, or a path or name of none."""
    path, _ = copied(rng, box)
    if rng.random() < 0.5:
        how = mutate.replaced(path, rng, box.precious)
        return attempt(path, None, how, Must.EITHER if "folder of others" in how else Must.REFUSE)
    text = rng.choice(
        (
            "",
            ".",
            "/",
            "no/such.xml",
            "go7",
            "GO1",
            "x" * 5000,
            "legged",
            "robot.toml",
            "/dev/zero",
            "a\nb.xml",
            "~",
            "go1 ",
            "../go1",
            "go1.xml",
            "robot.sdf",
        )
    )
    if rng.random() < 0.5:
        return Attempt(f"Robot.load({text[:30]!r})", lambda: understood(Path(text)), Must.REFUSE)
    return Attempt(f"embodied.robot {text[:30]!r}", lambda: call("embodied.robot", text), Must.REFUSE)


def unusual_place(rng: random.Random, box: Box) -> Attempt:
    """A valid robot at an unusual place, on the command line, with a description written beside it."""
    name = rng.choice(FILES)
    folder, _, file = name.partition("/")
    path = (
        box.copied(
            folder, f"out/{rng.choice(('with space', 'ключ', '[1]', '*', 'a' * 150, 'robot.xml', '%d', chr(39)))}"
        )
        / file
    )
    words = rng.choice(((), ("--write",)))

    def written(result: Said) -> str:
        toml = path.parent / "robot.toml"
        if not words:
            return "robot.toml was written unasked" if toml.exists() else ""
        before, after = Robot.load(box.good / name), Robot.load(path)
        same = [alike(one, other) for one, other in zip(before.joints, after.joints, strict=True)]
        kept = (before.kind, before.feet, before.tip) == (after.kind, after.feet, after.tip)
        return "" if all(same) and kept else "what was written beside the file changes the robot"

    return Attempt(
        f"{path.parent.name[:20]}/{file} {words}", lambda: call("embodied.robot", str(path), *words), Must.WORK, written
    )


def alike(one: Any, other: Any) -> bool:
    """Whether two joints are the same to the digits that are written."""
    pairs = ((one.home, other.home), (one.servo.kp, other.servo.kp), (one.servo.kv, other.servo.kv))
    close = all(math.isclose(left, right, rel_tol=1e-3, abs_tol=1e-3) for left, right in pairs)
    return close and (one.name, one.low, one.high) == (other.name, other.low, other.high)


def as_a_task(rng: random.Random, box: Box) -> Attempt:
    """A robot's file that was edited, built into the task of its kind."""
    path, root = copied(rng, box)
    parents = {child: parent for parent in root.iter() for child in parent}
    for _ in range(rng.choice((0, 1, 1, 2))):
        node = rng.choice(list(parents))
        kinds = (
            ("light", "camera", "geom", "site", "body")
            if root.tag == "mujoco"
            else ("gazebo", "material", "transmission")
        )
        extra = ElementTree.SubElement(
            node if rng.random() < 0.3 else root.find("worldbody") or root, rng.choice(kinds)
        )
        extra.set("name", rng.choice(("floor", "trunk", "imu", "light", "x", "", "track", "table", "ball", "target")))
        if extra.tag == "geom":
            extra.set("size", rng.choice(("0.1", "1 1 1", "0")))
    path.write_text(ElementTree.tostring(root, encoding="unicode"))

    def built() -> Any:
        robot = understood(path)
        env = embodied.make(TASKS[path.parent.name], robot=str(path), engine="mujoco")
        data = mujoco.MjData(env.task.model)
        mujoco.mj_step(env.task.model, data)
        return robot

    return Attempt(f"task of {path.parent.name}/{path.name} with additions", built, wrong=unsound)


def huge(rng: random.Random, box: Box) -> Attempt:
    """Very many elements of a kind, very long chains."""
    path, _ = copied(rng, box, FILES[:1])
    count = rng.choice((300, 2000, 20_000))
    way = rng.choice(("links", "chain", "attributes", "text", "joints of one link"))
    from benchmarks.bad_input.examples import joint, link

    sphere = '<sphere radius="0.01"/>'
    if way == "chain":
        parts = [link("l0", 1.0, sphere)]
        for i in range(count):
            parts += [link(f"l{i + 1}", 0.01, sphere), joint(f"j{i}", f"l{i}", f"l{i + 1}", "0 0 0.01", "0 1 0", -1, 1)]
    elif way == "links":
        parts = [link(f"l{i}", 1.0, sphere) for i in range(count)]
    elif way == "attributes":
        parts = [f'<link name="a" {" ".join(f"b{i}=" + chr(34) * 2 for i in range(count))}/>']
    elif way == "text":
        parts = ["<link name='a'>" + "x" * (100 * count) + "</link>"]
    else:
        parts = [link("l0", 1.0, sphere)] + [
            part
            for i in range(count)
            for part in (link(f"k{i}", 0.1, sphere), joint(f"j{i}", "l0", f"k{i}", "0 0 0", "1 0 0", -1, 1))
        ]
    path.write_text(f'<robot name="big">{"".join(parts)}</robot>')
    return attempt(path, None, f"{count} {way}")


def other_files(rng: random.Random, box: Box) -> Attempt:
    """An MJCF that includes or attaches files: some that are not there, lie elsewhere or refer to each other."""
    path, root = copied(rng, box, tuple(name for name in FILES if name.endswith(".xml")))
    part, word = path.parent / "part.xml", rng.choice(("include", "model"))
    names = ("part.xml", path.name, "gone.xml", "../part.xml", "../../../part.xml", "/etc/passwd", "", ".", "a\nb")
    said = [rng.choice(names) for _ in range(rng.choice((1, 2, 30)))]
    inside = rng.choice(("", "<worldbody><body/></worldbody>", '<option timestep="1e-9"/>', '<size nkey="1e8"/>', "<"))
    part.write_text(f"<mujoco>{inside}{''.join(f'<include file={name!r}/>' for name in said[:-1])}</mujoco>")
    place = root if word == "include" else ElementTree.SubElement(root, "asset")
    for number, name in enumerate(said):
        ElementTree.SubElement(place, word, {"file": name} | ({"name": f"m{number}"} if word == "model" else {}))
    return attempt(path, root, f"{word} {said[:3]}, of {inside}")


def large_counts(rng: random.Random, box: Box) -> Attempt:
    """More keys, pixels or iterations than a machine has memory or time for."""
    path, root = copied(rng, box, tuple(name for name in FILES if name.endswith(".xml")))
    element, key = rng.choice(
        [
            *(("size", key) for key in ("nkey", "nuserdata", "nuser_geom", "nuser_jnt", "memory", "njmax", "nconmax")),
            *(("option", key) for key in ("iterations", "ls_iterations", "noslip_iterations", "sdf_initpoints")),
            *(("statistic", key) for key in ("extent", "meansize")),
        ]
    )
    number = rng.choice(("1e9", "2000000000", "99999999999999999999", "-2000000000", "0", "1T", "100001"))
    ElementTree.SubElement(root, element, {key: number})
    return attempt(path, root, f"{key} of {element}: {number}")


KINDS: Kinds = {
    "other files": other_files,
    "large counts": large_counts,
    "other number": other_number,
    "other word": other_word,
    "other tree": other_tree,
    "other joints": other_joints,
    "other text": other_text,
    "other mesh": other_mesh,
    "other description": other_description,
    "other place": other_place,
    "unusual place": unusual_place,
    "as a task": as_a_task,
    "huge": huge,
}
