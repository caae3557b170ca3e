"""MJX-Warp's room for contacts: as measured with head room, by counting elsewhere, or as it is told."""

from __future__ import annotations

import json

import mujoco
import pytest

import embodied
from embodied.engines.mjx import buffers
from embodied.engines.mjx.buffers import Room, counted, fingerprint, room_for
from embodied.errors import EngineError
from embodied.storage.paths import asset

pytestmark = pytest.mark.timeout(280)

PILE = "<mujoco><worldbody><geom name='f' type='plane' size='0 0 1'/>{}</worldbody></mujoco>"
BALLS = "".join(f"<body name='b{i}'><freejoint/><geom size='.1'/></body>" for i in range(4))


@pytest.fixture
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(PILE.format(BALLS))


def test_a_model_that_nobody_measured_has_room_for_all_that_could_touch(model: mujoco.MjModel) -> None:
    assert room_for(model) == counted(model) == Room(contacts=40, constraints=161)


def test_a_measured_model_has_what_was_seen_and_head_room(
    model: mujoco.MjModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "_measured", lambda: {fingerprint(model): Room(6, 24)})
    assert room_for(model) == Room(contacts=17, constraints=68)
    monkeypatch.setattr(buffers, "_measured", lambda: {fingerprint(model): Room(1000, 1000)})
    assert room_for(model) == counted(model)


def test_a_fingerprint_sees_geoms_and_masks_and_no_sizes(model: mujoco.MjModel) -> None:
    seen = fingerprint(model)
    assert fingerprint(mujoco.MjModel.from_xml_string(PILE.format(BALLS.replace(".1", ".10001")))) == seen
    assert fingerprint(mujoco.MjModel.from_xml_string(PILE.format(BALLS + "<geom size='.1'/>"))) != seen
    assert fingerprint(mujoco.MjModel.from_xml_string(PILE.format(BALLS.replace("<geom", "<geom contype='2'")))) != seen


def test_every_measured_task_still_has_the_model_that_was_measured() -> None:
    rows = json.loads(asset(buffers.MEASURED).read_text())["models"]
    assert len(rows) >= 40
    for row in rows[::12]:
        task = embodied.make(row["task"], 1, engine="mujoco").task
        assert fingerprint(task.model) == row["fingerprint"], f"measure {row['task']} again: benchmarks.contact_buffers"
        assert room_for(task.model).constraints <= row["counted_constraints"]


def test_room_can_be_told() -> None:
    options = {"impl": "warp", "contacts": 3, "constraints": 12}
    env = embodied.make("manipulation/reach", 2, engine="mjx", engine_options=options)
    assert env.engine._limits == {"naconmax": 6, "njmax": 12}
    with pytest.raises(EngineError, match="room for -1 contacts and 0 constraints"):
        embodied.make("manipulation/reach", 2, engine="mjx", engine_options={"impl": "warp", "contacts": -1})
