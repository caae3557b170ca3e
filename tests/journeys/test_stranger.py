"""Somebody with nothing but a bundle shuts a drawer: numpy, onnxruntime and json; the robot is C MuJoCo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import pytest

from sim2real.graphs.control import nominal
from tests.kit.bundles import shipped_bundle
from tests.kit.stranger import stranger
from tests.kit.worlds import task_of

pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_stranger_shuts_a_drawer_with_the_bundle_alone(tmp_path: Path) -> None:
    """The robot is a plain MuJoCo simulation that is stepped here without our engines."""
    name = "manipulation/drawer-close"
    contract = json.loads((shipped_bundle(name) / "contract.json").read_text())
    task: Any = nominal(task_of(name))
    reset = jax.jit(task.reset)
    for seed in range(3):
        start = reset(jax.random.PRNGKey(seed))
        model = task.model.__copy__()
        model.opt.timestep = 1 / contract["physics_hz"]
        data = mujoco.MjData(model)
        data.qpos, data.mocap_pos = start.qpos, start.mocap_pos
        mujoco.mj_forward(model, data)
        goal = np.asarray(start.task_state.goal)
        with stranger(shipped_bundle(name), tmp_path) as ask:
            for _ in range(round(5 * contract["control_hz"])):
                measured = {"joint_pos": [data.joint(joint["name"]).qpos[0] for joint in contract["joints"]]}
                for source in contract["step"]["sources"][1:]:
                    measured[source["name"]] = data.sensor(source["name"]).data.tolist()
                measured["command.goal"] = goal.tolist()
                data.ctrl = ask(measured)
                mujoco.mj_step(model, data, nstep=round(contract["physics_hz"] / contract["control_hz"]))
                mujoco.mj_forward(model, data)  # sensors of this instant
        assert np.linalg.norm(data.sensor("object1_pos").data - goal) <= task.reached
