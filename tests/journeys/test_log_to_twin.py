"""From a log to the twin of a whole robot: an arm of somebody's own, and a leg of which half is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import calibration_logs as logs
from sim2real import calibrate as cal
from sim2real.identification import calibration as cb
from sim2real.identification.excitation import ExcitationConfig, excite
from sim2real.identification.parameters import Kind
from sim2real.logs.read_log import write_log
from sim2real.twins.joints import JointTwin
from sim2real.twins.named import make_twin
from tests.kit.robots import arm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]

JOINTS = ("j1", "j2", "j3")
LEG = ("FR_hip", "FR_thigh", "FR_calf")
NOISE = {"joint_pos": 1e-3, "joint_vel": 0.05}  # rad, rad/s
PAYLOAD = 0.08  # kg


def test_a_strangers_arm_is_recovered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "strange.urdf"
    file.write_text(arm(joints=3))
    twin = make_twin(str(file), logs.empty(("joint_pos", "joint_vel"), JOINTS))
    assert isinstance(twin, JointTwin)
    truth = logs.draw(twin.parameters, np.random.default_rng(5))
    command = excite(ExcitationConfig(str(file), seconds=6.0)).log["command"]
    rng = np.random.default_rng(0)
    write_log(tmp_path / "run.mcap", logs.played(twin, truth, command.time, command.columns(twin.joints), NOISE, rng))
    words = [str(tmp_path / "run.mcap"), "--robot", str(file), "--out", str(tmp_path / "twin")]
    assert cal.main([*words, "--known", "*.strength", "1"]) == 0
    assert "open-loop error on held-out data" in capsys.readouterr().out
    result = cb.load(tmp_path / "twin")
    delay = [estimate.name for estimate in result.estimates].index("delay")
    assert result["delay"].value == pytest.approx(truth[delay], rel=0.05)
    for estimate, true in zip(result.estimates, truth, strict=True):
        if estimate.parameter.kind is Kind.FRICTION:
            assert abs(estimate.value - true) < 0.2 * estimate.parameter.spread, estimate.name
        assert abs(estimate.value - true) < 5 * max(estimate.sd, 1e-9), estimate.name
    assert {f"{joint}.{kind}" for joint in JOINTS for kind in ("friction", "damping")} <= {
        estimate.name for estimate in result.free if estimate.identified
    }
    for error in result.errors:
        assert error.after < 0.5 * error.before


def test_a_leg_is_recovered() -> None:
    twin: Any = make_twin("go1", logs.empty(("joint_pos", "joint_vel"), LEG))
    drawn = logs.draw(twin.parameters, np.random.default_rng(3))
    kept = (Kind.MASS, Kind.ENCODER_BIAS)
    truth = np.array([p.nominal if p.kind in kept else v for p, v in zip(twin.parameters, drawn, strict=True)])
    truth[[p.kind is Kind.PAYLOAD for p in twin.parameters]] = PAYLOAD
    settings = cal.Settings(fix=("*.mass", "*.encoder_bias", "*.strength"))
    result, _ = cal.calibrate(logs.joint_log(twin, truth, logs.GO1_LEG, 6.0, 3), twin, settings)
    for estimate, true in zip(result.estimates, truth, strict=True):
        if estimate.parameter.free:
            assert estimate.parameter.kind is Kind.LOSS or estimate.value == pytest.approx(true, rel=0.05), (
                estimate.name
            )
            assert abs(estimate.value - true) < 4 * estimate.sd, estimate.name
    assert result.converged
    payload = result["FR_foot.payload"]
    assert payload.identified
    assert payload.interval[1] - payload.interval[0] < 0.1 * PAYLOAD
    for error in result.errors:
        assert error.after < 1.25 * logs.NOISE["go1"][error.channel]
        assert error.fitted < 1.03 * logs.NOISE["go1"][error.channel]
