"""Logs of robots, calibrations, cameras and pictures: what comes back from a robot, spoiled on the way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bad_input import mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must, Said, call
from sim2real.identification import calibration
from sim2real.logs.read_log import read_log
from sim2real.preflight import preflight

CELLS = (
    "",
    "nan",
    "inf",
    "1e999",
    "x",
    '"',
    "-0",
    "9" * 400,
    "\0",
    "0x10",
    "1,5",
    "None",
    " 1 ",
    "1e-320",
    "true",
    "１",
)


def checked(path: Path) -> Said:
    """What preflight says of a log."""
    return call("sim2real.preflight", str(path), "--robot", "go1")


def complains(result: Said) -> str:
    """Whether a fault went unmentioned."""
    return "" if result.code else f"nothing to complain about: {result.out[-200:]}"


def finite(result: Any) -> str:
    """Whether numbers of commands are none, silently: NaN is a measurement that failed."""
    log = result
    wrong = [name for name, channel in log.channels.items() if np.isinf(channel.values).any()]
    return f"infinite numbers in {wrong} without a finding" if wrong and not preflight(log) else ""


def other_cells(rng: random.Random, box: Box) -> Attempt:
    """Strange cells in a CSV file."""
    path = box.copied("log.csv")
    lines = path.read_text().splitlines()
    for _ in range(rng.choice((1, 3, 50))):
        number = rng.randrange(4, len(lines))
        cells = lines[number].split(",")
        cells[rng.randrange(len(cells))] = rng.choice(CELLS)
        lines[number] = ",".join(cells)
    path.write_text("\n".join(lines))
    return Attempt("strange cells", lambda: read_log(path), wrong=finite)


def other_lines(rng: random.Random, box: Box) -> Attempt:
    """Lines of a CSV file dropped, doubled, exchanged, too long, too short, or of another file."""
    path = box.copied("log.csv")
    lines = path.read_text().splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("time"))
    row = rng.randrange(header + 1, len(lines))
    must = Must.EITHER
    way = rng.choice(
        (
            "header gone",
            "header twice",
            "longer",
            "shorter",
            "backwards",
            "empty",
            "only header",
            "other separator",
            "blank",
            "notes",
        )
    )
    if way == "header gone":
        del lines[header]
        must = Must.REFUSE
    elif way == "header twice":
        lines.insert(row, lines[header])
        must = Must.REFUSE
    elif way == "longer":
        lines[row] += ",1.0"
        must = Must.REFUSE
    elif way == "shorter":
        lines[row] = lines[row].rpartition(",")[0]
        must = Must.REFUSE
    elif way == "backwards":
        lines[header + 1 :] = lines[:header:-1]
        must = Must.REFUSE
    elif way == "empty":
        lines, must = [], Must.REFUSE
    elif way == "only header":
        lines, must = lines[: header + 1], Must.REFUSE
    elif way == "other separator":
        lines, must = [line.replace(",", ";") for line in lines], Must.REFUSE
    elif way == "blank":
        lines.insert(row, "")
    else:
        lines[:header] = [
            rng.choice(("# unit.command: furlong", "#", "# : :", "#" * 10_000, "# unit.joint_pos: deg", "# unit.: rad"))
        ]
    path.write_text("\n".join(lines))
    return Attempt(way, lambda: checked(path), must)


def other_columns(rng: random.Random, box: Box) -> Attempt:
    """Names of a table's columns: double, empty, strange, without a channel, another robot's."""
    path = box.copied("log.csv")
    lines = path.read_text().splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("time"))
    names = lines[header].split(",")
    place = rng.randrange(len(names))
    names[place] = rng.choice(
        (
            "",
            names[0],
            names[-1],
            "x",
            ".",
            "a.b.c",
            "command.",
            ".FR_hip",
            "zeit",
            "joint_pos.NO",
            "joint_pos.FR_hip",
            "gyro.x",
            "\ufefftime",
            "time ",
            "x" * 5000,
        )
    )
    lines[header] = ",".join(names)
    path.write_text("\n".join(lines))
    return Attempt(f"column {place} is {names[place][:40]!r}", lambda: checked(path))


def damaged_file(rng: random.Random, box: Box) -> Attempt:
    """Other bytes in a log, of any kind of file."""
    path = box.copied(rng.choice(("log.csv", "log.mcap")))
    if rng.random() < 0.4:
        path = to_parquet(box)
    data, how = mutate.damaged(path.read_bytes(), rng)
    path.write_bytes(data)
    return Attempt(f"{path.suffix}: {how}", lambda: checked(path))


def to_parquet(box: Box) -> Path:
    """The log as a Parquet file."""
    rows = [line for line in (box.good / "log.csv").read_text().splitlines() if not line.startswith("#")]
    names = rows[0].split(",")
    values = np.array([[float(cell or "nan") for cell in row.split(",")] for row in rows[1:]])
    path = box.work / "log.parquet"
    pq.write_table(pa.table({name: values[:, i] for i, name in enumerate(names)}), path)
    return path


def other_parquet(rng: random.Random, box: Box) -> Attempt:
    """Columns of a Parquet file of other types, empty, double, or gone."""
    path = to_parquet(box)
    table = pq.read_table(path)
    name = rng.choice(table.column_names)
    place, column = table.column_names.index(name), table.column(name)
    ways: dict[str, Callable[[], pa.Table]] = {
        "texts": lambda: table.set_column(place, name, pa.array([str(v) for v in column.to_pylist()])),
        "lists": lambda: table.set_column(place, name, pa.array([[v] for v in column.to_pylist()])),
        "null": lambda: table.set_column(place, name, pa.nulls(len(table))),
        "bools": lambda: table.set_column(place, name, pa.array([True] * len(table))),
        "dates": lambda: table.set_column(place, name, pa.array(range(len(table)), pa.timestamp("us"))),
        "gone": lambda: table.drop_columns([name]),
        "double": lambda: table.append_column(name, column),
        "no rows": lambda: table.slice(0, 0),
        "no columns": lambda: table.select([]),
        "half floats": lambda: table.set_column(place, name, pa.array(column.to_numpy().astype(np.float16))),
        "large integers": lambda: table.set_column(
            place, name, pa.array([2**63 - 1 - i for i in range(len(table))][::-1])
        ),
    }
    way = rng.choice(sorted(ways))
    pq.write_table(ways[way](), path)
    return Attempt(f"{name}: {way}", lambda: checked(path))


def wrong_signals(rng: random.Random, box: Box) -> Attempt:
    """Signals that are whole and mean something else: preflight has to mention it."""
    path = box.copied("log.csv")
    lines = path.read_text().splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("time"))
    names = lines[header].split(",")
    values = np.array([[float(cell or "nan") for cell in line.split(",")] for line in lines[header + 1 :]])
    of = {
        part: [i for i, name in enumerate(names) if name.startswith(part + ".")]
        for part in ("command", "joint_pos", "joint_vel")
    }
    way = rng.choice(
        (
            "degrees",
            "milliseconds",
            "frozen",
            "speed in degrees",
            "speed of other sign",
            "exchanged joints",
            "offset",
            "a hole",
            "far out",
            "still",
        )
    )
    pos, vel, command = of["joint_pos"], of["joint_vel"], of["command"]
    row = rng.randrange(50, 300)
    if way == "degrees":
        values[:, pos] = np.degrees(values[:, pos])
    elif way == "milliseconds":
        values[:, 0] *= 1000
    elif way == "frozen":
        values[row:, pos] = values[row, pos]
    elif way == "speed in degrees":
        values[:, vel] = np.degrees(values[:, vel])
    elif way == "speed of other sign":
        values[:, vel] *= -1
    elif way == "exchanged joints":
        values[:, pos[:2]] = values[:, pos[1::-1]]
    elif way == "offset":
        values[:, pos] += 2.5
    elif way == "a hole":
        values = np.delete(values, np.s_[row : row + 80], 0)
    elif way == "far out":
        values[row, pos] = rng.choice((1e6, -1e30, 100.0))
    else:
        values[:, command] = values[:, pos] = values[0, pos]
    path.write_text("\n".join([*lines[: header + 1], *(",".join(map(repr, line)) for line in values.tolist())]))

    def warns(result: Said) -> str:
        return "" if result.code or "warning" in result.out else complains(result)

    return Attempt(way, lambda: checked(path), wrong=warns)


def no_calibration(rng: random.Random, box: Box) -> Attempt:
    """A log that is no good is refused before anything is estimated from it, and writes nothing."""
    path = box.copied("log.csv")
    lines = path.read_text().splitlines()
    way = rng.choice(
        ("short", "one joint's command", "unknown robot", "no such file", "known what is not", "share", "window")
    )
    words: list[str] = []
    robot = "go1"
    if way == "short":
        lines = lines[:30]
    elif way == "one joint's command":
        lines = [line.replace("command.FR_hip", "command.XX_hip") for line in lines]
    elif way == "unknown robot":
        robot = rng.choice(("", "go7", "go1.urdf", "/", "no/such.xml", "nan", "x" * 300))
    elif way == "no such file":
        path.unlink()
    elif way == "known what is not":
        words = ["--known", "wings", "2.0"]
    elif way == "share":
        words = ["--held-out", rng.choice(("0", "1", "-1", "nan", "inf", "0.95", "x", ""))]
    else:
        words = ["--window", rng.choice(("-1", "nan", "1e9", "inf", "x"))]
    if path.exists():
        path.write_text("\n".join(lines))

    def act() -> Said:
        return call("sim2real.calibrate", str(path), "--robot", robot, "--out", str(box.out / "twin"), *words)

    def nothing(_: Any) -> str:
        return "a result was written" if (box.out / "twin").exists() else ""

    return Attempt(f"{way} {robot} {words}", act, Must.REFUSE, nothing)


def forged_calibration(rng: random.Random, box: Box) -> Attempt:
    """Another value in a calibration, sealed again; or damage, which the seal shows."""
    path = box.copied("calibration.json")
    how = ["damaged"]
    if rng.random() < 0.3:
        data, how[0] = mutate.damaged(path.read_bytes(), rng)
        must = Must.EITHER if data == path.read_bytes() else Must.REFUSE
        path.write_bytes(data)
        if json.loads((box.good / "calibration.json").read_bytes()) == loaded(data):
            must = Must.EITHER  # only spaces differ
        return Attempt(how[0], lambda: calibration.load(path), must)

    def change(document: Any) -> Any:
        new, how[0] = mutate.edited(document, rng)
        return new

    mutate.rewritten(path, change)

    def used() -> Any:
        found = calibration.load(path)
        return found.values, found.root, found.bounds, found.draw(np.random.default_rng(0), 3), found.carries_over

    def sound(result: Any) -> str:
        values, root, _, drawn, _ = result
        whole = np.isfinite(values).all() and np.isfinite(root).all() and np.isfinite(drawn).all()
        return "" if whole else f"accepted values {values}, draws {drawn.tolist()!s:.80}"

    return Attempt(how[0], used, wrong=sound)


def loaded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def other_camera(rng: random.Random, box: Box) -> Attempt:
    """A camera's file with another value, or something else in its place; and a picture that it did not take."""
    camera, photo = box.copied("camera.json"), box.copied("photo.png")
    way = rng.choice(
        ("value", "value", "replaced", "damaged", "photo replaced", "photo damaged", "photo size", "valid")
    )
    must = Must.EITHER
    if way == "value":
        mutate.rewritten(camera, lambda document: mutate.edited(document, rng)[0])
    elif way == "replaced":
        way = mutate.replaced(camera, rng, box.precious)
        must = Must.REFUSE
    elif way == "damaged":
        data, way = mutate.damaged(camera.read_bytes(), rng)
        camera.write_bytes(data)
    elif way == "photo replaced":
        way, must = mutate.replaced(photo, rng, box.precious), Must.REFUSE
    elif way == "photo damaged":
        data, way = mutate.damaged(photo.read_bytes(), rng)
        photo.write_bytes(data)
    elif way == "photo size":
        cv2.imwrite(str(photo), np.full((7, 9, 3), 200, np.uint8))
        must = Must.REFUSE
    words = ("--camera", str(camera), "--blocks", "object=green:0.06x0.06x0.02", "--out", str(box.out / "layout"))

    def sound(result: Said) -> str:
        if result.code:
            return ""
        text = (box.out / "layout.json").read_text()
        return f"the layout holds numbers that are none: {text[:200]}" if "NaN" in text or "Infinity" in text else ""

    return Attempt(way, lambda: call("sim2real.reconstruct", str(photo), *words), must, sound)


def other_blocks(rng: random.Random, box: Box) -> Attempt:
    """Words for blocks, base and table that mean nothing."""
    camera, photo = box.copied("camera.json"), box.copied("photo.png")
    flag, value = rng.choice(
        (
            (
                "--blocks",
                rng.choice(
                    (
                        "",
                        "=",
                        "a=",
                        "=green",
                        "a=pink",
                        "a=green:",
                        "a=green:0",
                        "a=green:-1",
                        "a=green:nan",
                        "a=green:1x2",
                        "a=green:infx1x1",
                        "a=green:1e400",
                        "a",
                    )
                ),
            ),
            ("--table", rng.choice(("nan", "inf", "x", "", "10", "-inf"))),
            ("--base", rng.choice(("0 0 nan 0", "0 0 0", "inf 0 0 0", "a b c d", "0 0 0 1e999"))),
            ("--task", rng.choice(("", "no/such", "swarm/hover", "manipulation/pus"))),
            ("--joints", rng.choice(("a", "=", "object=nothing"))),
        )
    )
    words = {"--blocks": "object=green:0.06x0.06x0.02"} | {flag: value}
    if flag == "--joints":
        words["--task"] = "manipulation/push"
    flat = [word for name, text in words.items() for word in (name, *(text.split() if name == "--base" else [text]))]
    out = ("--camera", str(camera), "--out", str(box.out / "layout"))
    return Attempt(f"{flag} {value!r}", lambda: call("sim2real.reconstruct", str(photo), *out, *flat), Must.REFUSE)


def recovered(rng: random.Random, box: Box) -> Attempt:
    """A recording that was cut off: what is whole of it is recovered, and equals what was recorded."""
    path = box.copied("log.mcap")
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])
    target = box.out / rng.choice(("r.csv", "r.mcap"))

    def act() -> Any:
        said = call("sim2real.preflight", str(path), "--recover", str(target))
        return said if not target.exists() else read_log(target)

    def part(result: Any) -> str:
        if isinstance(result, Said):
            return ""
        whole = read_log(box.good / "log.mcap")
        for name, channel in result.channels.items():
            if not np.array_equal(channel.values, whole[name].values[: len(channel)]):
                return f"{name} is not what was recorded"
        return ""

    return Attempt("cut off", act, wrong=part)


KINDS: Kinds = {
    "other cells": other_cells,
    "other lines": other_lines,
    "other columns": other_columns,
    "damaged file": damaged_file,
    "other parquet": other_parquet,
    "wrong signals": wrong_signals,
    "no calibration": no_calibration,
    "forged calibration": forged_calibration,
    "other camera": other_camera,
    "other blocks": other_blocks,
    "recovered": recovered,
}
