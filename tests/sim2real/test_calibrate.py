"""A log in, a calibration and its page out; what is stored is read back, and edits are refused."""

import dataclasses
import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from benchmarks import calibration_logs as logs
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.storage.paths import asset
from sim2real import calibrate as cal
from sim2real import preflight
from sim2real.checks.findings import Severity
from sim2real.contract.limits import limits_of
from sim2real.identification import calibration as cb
from sim2real.identification.calibration_page import page, values
from sim2real.identification.parameters import CalibrationError, Kind, Parameter
from sim2real.logs import mcap_log
from sim2real.logs.log import Log
from sim2real.twins.named import make_twin
from tests.kit import commands
from tests.kit import twins as toys

LEG = ("FR_hip", "FR_thigh", "FR_calf")
PAYLOAD = 0.08  # kg on the foot, which the nominal model knows nothing of
QUICK = cal.Settings(fix=("*.mass", "*.encoder_bias", "*.strength", "*hip*", "*thigh*"), held_out=0.4)
"""One joint of the leg, its foot and the delay; `tests/journeys/test_log_to_twin.py` has the whole leg."""


@pytest.fixture(autouse=True)
def _time_one_joint(monkeypatch):
    """What is checked before a calibration finds the delay of one joint, which takes most of the time."""
    monkeypatch.setattr("sim2real.checks.robot.TIMED", 1)


@pytest.fixture(scope="module")
def leg():
    """A leg's truth and log: only what the quick calibration estimates differs from the nominal model."""
    twin: Any = make_twin("go1", logs.empty(("joint_pos", "joint_vel"), LEG))
    drawn = logs.draw(twin.parameters, np.random.default_rng(3))
    kept = [fnmatch.fnmatch(p.name, pattern) for p in twin.parameters for pattern in QUICK.fix]
    kept = np.reshape(kept, (len(twin.parameters), -1)).any(1)
    truth = np.where(kept, [p.nominal for p in twin.parameters], drawn)
    truth[[p.kind is Kind.PAYLOAD for p in twin.parameters]] = PAYLOAD
    return twin, truth, logs.joint_log(twin, truth, logs.GO1_LEG, 3.0, 3)


@pytest.fixture(scope="module")
def calibrated(leg):
    twin, truth, log = leg
    return (*cal.calibrate(log, twin, QUICK), truth)


@pytest.fixture(scope="module")
def file(leg, tmp_path_factory):
    """The leg's log on disk."""
    path = tmp_path_factory.mktemp("leg") / "log.mcap"
    mcap_log.write(path, leg[2])
    return path


def test_a_joint_is_recovered(calibrated):
    result, _, truth = calibrated
    for estimate, true in zip(result.estimates, truth, strict=True):
        if estimate.parameter.free:
            assert estimate.parameter.kind is Kind.LOSS or estimate.value == pytest.approx(true, rel=0.05), (
                estimate.name
            )
            assert abs(estimate.value - true) < 4 * estimate.sd, estimate.name
    assert result.converged
    names = [estimate.name for estimate in result.estimates]
    assert result["delay"].value == pytest.approx(truth[names.index("delay")], rel=0.05)


def test_a_payload_on_the_foot_is_found(calibrated):
    payload = calibrated[0]["FR_foot.payload"]
    assert payload.identified
    assert payload.interval[0] < PAYLOAD < payload.interval[1]
    assert payload.interval[1] - payload.interval[0] < 0.1 * PAYLOAD


def test_held_out_errors_come_down_to_the_noise(calibrated):
    result, track, _ = calibrated
    assert {error.horizon for error in result.errors} == set(cal.HORIZONS)
    for error in result.errors:
        assert error.after < error.before
        assert error.after < 1.25 * logs.NOISE["go1"][error.channel]
        assert error.fitted < 1.03 * logs.NOISE["go1"][error.channel]
    assert track.before[0].shape == track.after[0].shape


def test_what_was_saved_is_read(calibrated, tmp_path):
    result, _, _ = calibrated
    path = result.save(tmp_path / "twin")
    for place in (path, path.parent):
        assert cb.load(place) == result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-40], "truncated or edited"),
        (lambda text: text.replace('"robot": "go1"', '"robot": "go2"'), "edited after it was written"),
        (lambda text: "[]", "not written by embodied"),
    ],
)
def test_a_damaged_file_is_refused(calibrated, tmp_path, change, message):
    path = calibrated[0].save(tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.raises(CalibrationError, match=message):
        cb.load(tmp_path)


def test_it_is_applied_to_the_whole_robot(calibrated):
    result, _, _ = calibrated
    spec = mujoco.MjSpec.from_file(str(asset("robots/go1/go1.xml")))
    before = spec.compile()
    result.apply(spec)
    after = spec.compile()
    assert after.joint("FR_calf").frictionloss[0] == pytest.approx(result["FR_calf.friction"].value)
    assert after.joint("RL_calf").frictionloss[0] == before.joint("RL_calf").frictionloss[0]
    with pytest.raises(UnknownNameError, match=r"unknown (joint|body)"):
        result.apply(mujoco.MjSpec.from_file(str(asset("robots/panda/panda.xml"))))


def test_draws_follow_the_covariance_within_the_bounds(calibrated):
    result, _, _ = calibrated
    draws = result.draw(np.random.default_rng(0), 4000)
    free = [i for i, e in enumerate(result.estimates) if e.parameter.free]
    lower, upper = result.bounds
    inside = [i for i in free if lower[i] < result.values[i] - 3 * result.estimates[i].sd]
    inside = [i for i in inside if result.values[i] + 3 * result.estimates[i].sd < upper[i]]
    assert len(inside) > len(free) / 2
    np.testing.assert_allclose(draws[:, inside].std(0), [result.estimates[i].sd for i in inside], rtol=0.1)
    fixed = [i for i, e in enumerate(result.estimates) if not e.parameter.free]
    np.testing.assert_array_equal(draws[:, fixed], np.tile(result.values[fixed], (4000, 1)))
    for i in free:
        parameter = result.estimates[i].parameter
        assert (draws[:, i] >= parameter.lower).all()
        assert (draws[:, i] <= parameter.upper).all()


def test_a_parameter_the_log_says_nothing_about_keeps_what_was_believed():
    twin = toys.Toy()
    both = dataclasses.replace(twin, parameters=tuple(dataclasses.replace(p, free=True) for p in twin.parameters))
    result, _ = cal.calibrate(toys.log_of(1, seconds=12), both)
    assert not result["y.strength"].identified
    assert result["x.damping"].identified
    (direction,) = result.unidentified
    assert set(direction.names) == {"x.strength", "y.strength"}


SCALED = (Kind.DRONE_MASS, Kind.DRONE_INERTIA, Kind.THRUST, Kind.TORQUE, Kind.DRAG_XY, Kind.DRAG_Z)
SCALED += (Kind.PROPELLER_INERTIA,)


@pytest.fixture(scope="module")
def drone():
    """A drone of 1.07 times the mass with 1.07 times the thrust: its motions are those of the nominal one."""
    twin = toys.drone()
    truth = np.array([1.07 * p.nominal if p.kind in SCALED else p.nominal for p in twin.parameters])
    return twin, truth, logs.drone_log(twin, truth, 6.0, 0)


@dataclasses.dataclass(frozen=True)
class Scaled(toys.Toy):
    """m x' = -d x + b u: its motions stay the same where all three change by one factor."""

    parameters: tuple[Parameter, ...] = (
        Parameter(Kind.MASS, "x", 1.0, 0.1, 10.0, 0.3, free=False),
        Parameter(Kind.DAMPING, "x", 3.0, 0.1, 10.0, 0.9),
        Parameter(Kind.STRENGTH, "x", 2.0, 0.1, 10.0, 0.6),
        Parameter(Kind.DELAY, "", 0.0, 0.0, toys.LATEST, 0.02, "s"),
    )

    def simulate(self, values, starts, windows):
        mass, damping, strength, delay = values.T
        return super().simulate(np.stack([damping / mass, strength / mass, 0 * mass, delay], 1), starts, windows)


def test_a_scale_that_no_log_shows_is_named_and_nothing_of_it_identified():
    twin = Scaled()
    result, track = cal.calibrate(toys.log_of(1), twin)
    scaled = {"x.mass", "x.damping", "x.strength"}
    assert result["x.strength"].interval[0] < 1.07 * 2.0 < result["x.strength"].interval[1]
    assert not any(result[name].identified for name in scaled)
    assert result["delay"].identified
    (scale,) = [direction for direction in result.unidentified if direction.scale]
    assert set(scale.names) == scaled
    text = page(result, twin, track, "")
    assert "scale, all by one factor" in text
    assert "Assumed: x.mass" in text


def test_what_is_known_from_elsewhere_identifies_the_rest():
    """Of two gains only the sum shows; `test_a_weighed_drone_has_a_known_thrust` is the same of a robot."""
    twin = toys.Toy()
    both = dataclasses.replace(
        twin, parameters=tuple(dataclasses.replace(p, free=True, known=False) for p in twin.parameters)
    )
    result, _ = cal.calibrate(toys.log_of(1), both, cal.Settings(known={"y.strength": 0.5}))
    assert result["y.strength"].value == 0.5
    assert not result["y.strength"].parameter.free
    assert result["x.strength"].identified
    assert result["x.strength"].value == pytest.approx(toys.TRUTH[1] - 0.5, abs=4 * result["x.strength"].sd)
    assert not result.unidentified


@pytest.mark.slow
def test_a_weighed_drone_has_a_known_thrust(drone):
    """And any other only up to a factor."""
    twin, truth, log = drone
    result, _ = cal.calibrate(log, twin)
    assert result["thrust"].interval[0] < 1.07 < result["thrust"].interval[1]
    assert not any(result[kind.value].identified for kind in SCALED)
    assert result["speed_up"].identified
    (scale,) = [direction for direction in result.unidentified if direction.scale]
    assert set(scale.names) == {kind.value for kind in SCALED}
    weighed, _ = cal.calibrate(log, twin, cal.Settings(known={"drone_mass": truth[0]}))
    assert weighed["thrust"].identified
    assert weighed["thrust"].value == pytest.approx(1.07, rel=5e-3)
    assert not any(direction.scale for direction in weighed.unidentified)


@pytest.mark.slow
def test_motor_strength_against_all_masses_is_named():
    """A leg of which nothing is known: masses, friction, rotors and motors by one factor move alike."""
    twin: Any = make_twin("go1", logs.empty(("joint_pos", "joint_vel"), LEG))
    truth = logs.draw(twin.parameters, np.random.default_rng([0, 1]))
    result, _ = cal.calibrate(logs.joint_log(twin, truth, logs.GO1_LEG, 8.0, 0), twin)
    (scale,) = [direction for direction in result.unidentified if direction.scale]
    assert {f"{joint}.{kind}" for joint in LEG for kind in ("strength", "mass")} <= set(scale.names)
    scaled = (Kind.FRICTION, Kind.DAMPING, Kind.ARMATURE, Kind.MASS)
    assert not any(e.identified for e in result.free if e.parameter.kind in scaled)
    assert all(e.identified for e in result.free if e.parameter.kind in (Kind.ENCODER_BIAS, Kind.DELAY))


def test_the_page_says_everything(calibrated, leg):
    result, track, _ = calibrated
    text = page(dataclasses.replace(result, source="<run>.mcap"), leg[0], track, "python -m x --out a&b")
    for estimate in result.estimates:
        assert estimate.name in text
    assert "&lt;run&gt;.mcap" in text
    assert "a&amp;b" in text
    assert "nan" not in text
    assert text.count("<figure>") == 6
    assert "http" not in text
    unsure = dataclasses.replace(
        result, converged=False, unidentified=(cb.Direction(("a", "b"), (0.7, -0.7), float("inf")),)
    )
    text = page(unsure, leg[0], track, "")
    assert "did not converge" in text
    assert "all of it" in text


@pytest.mark.parametrize(
    ("kind", "unit", "numbers", "said"),
    [
        (Kind.DELAY, "s", (0.0, 0.0087, 0.0002), ("0.00000", "0.00870", "0.00039", "s")),
        (Kind.PROPELLER_INERTIA, "kg m^2", (2.697e-8, 0.0, 1e-10), ("2.697", "0.000", "0.020", "10⁻⁸ kg m²")),
        (Kind.LOSS, "1", (0.0, 0.015, 0.01), ("0.000", "0.015", "0.020", "share")),
        (Kind.THRUST, "1", (1.0, 0.8996, 0.0014), ("1.0000", "0.8996", "0.0027", "factor")),
    ],
)
def test_a_value_and_its_interval_have_the_same_digits(kind, unit, numbers, said):
    nominal, value, sd = numbers
    assert values(cb.Estimate(Parameter(kind, "", nominal, 0.0, 2.0, 1.0, unit), value, sd)) == said


def test_the_command_line(leg, tmp_path, capsys):
    twin, truth, log = leg
    mcap_log.write(tmp_path / "log.mcap", log.between(0.0, 2.5))
    friction = truth[[p.name for p in twin.parameters].index("FR_calf.friction")]
    words = f"{tmp_path}/log.mcap --robot go1 --out {tmp_path}/twin --window 0.5 --fit.iterations 1 --fit.weightings 1"
    words += f" --known FR_calf.friction {friction} --fix *.mass *.encoder_bias *hip* *thigh* *.armature *.payload"
    cal.main([*words.split(), "*.friction_time", "loss", "delay"])
    assert capsys.readouterr().out.strip().endswith("index.html")
    result = cb.load(tmp_path / "twin")
    assert result.source == "log.mcap"
    assert {e.name for e in result.free} == {"FR_calf.damping"}
    assert (tmp_path / "twin" / "index.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "twin" / cb.FILE).read_text())["format"] == cb.FORMAT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--robot", "go3"], "unknown robot to calibrate 'go3'; known: crazyflie, g1, go1, go2, panda"),
        (["--robot", "go1", "--held-out", "1.5"], "held_out=1.5 must be more than 0"),
        (["--robot", "go1", "--fix", "nothing"], "unknown parameter 'nothing'"),
        (["--robot", "panda"], "the log lacks joint1"),
        (["--robot", ""], "unknown robot to calibrate ''"),
        (["--robot", "go1", "--fit.weightings", "0"], "weightings=0 must be at least 1"),
        (["--robot", "go1", "--fit.iterations", "-1"], "iterations=-1 must be at least 1"),
        (["--robot", "go1", "--search.population", "0"], "population=0 must be from 2 to 4096"),
        (["--robot", "go1", "--search.population", "1"], "population=1 must be from 2 to 4096"),
        (["--robot", "go1", "--search.population", "1000000000"], "population=1000000000 must be from 2 to 4096"),
        (["--robot", "go1", "--search.generations", "-1"], "generations=-1 must be 0 or more"),
        (["--robot", "go1", "--search.windows", "-1"], "windows=-1 must be 0 or more"),
        (["--robot", "go1", "--search.seed", "-1"], "seed=-1 must be from 0"),
        (["--robot", "go1", "--search.seed", "4294967296"], "seed=4294967296 must be from 0"),
        (["--robot", "go1", "--timestep", "1e-9"], "timestep=1e-09 must be 0, or from 0.0001 to 0.1"),
        (["--robot", "go1", "--despite-errors", "--window", "1e-9"], "windows of 1e-09 s, and has"),
        (["--robot", "go1", "--despite-errors", "--window", "1e-300"], "windows of 1e-300 s, and has"),
    ],
)
def test_mistakes_are_one_line(file, tmp_path, words, message):
    assert message in commands.refused(cal.main, str(file), "--out", str(tmp_path), *words)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("file", "it is a file; expected a folder"),
        ("file/below/it", "ot a directory|is a file|is no folder"),
        ("/dev/null", "is a device or a pipe; expected a folder"),
        ("dangling", "is a link to nothing"),
        ("x" * 300, "name too long"),
        ("twin", "twin/index.html' is the same file as '.*log.mcap', which it would replace"),
    ],
)
def test_where_nothing_can_be_written_nothing_is_begun(file, tmp_path, monkeypatch, out, message):
    monkeypatch.setattr(cal, "read_log", lambda path: pytest.fail(f"read {path}"))
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "index.html").symlink_to(file)
    said = commands.refused(cal.main, str(file), "--robot", "go1", "--out", str(tmp_path / out))
    assert re.search(message, said, re.IGNORECASE), said


def test_a_folder_that_the_system_does_not_make_is_one_line(calibrated, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CalibrationError, match=r"cannot make the folder '.*below' of the calibration: Not a directory"):
        calibrated[0].save(tmp_path / "file" / "below")


def changed(log: Log, change, *names: str) -> Log:
    """A log with the values (n, k) of some channels changed."""
    with_values = lambda channel: dataclasses.replace(channel, values=change(channel.values.copy()))  # noqa: E731
    return dataclasses.replace(log, channels={**log.channels, **{name: with_values(log[name]) for name in names}})


def swapped(values: np.ndarray) -> np.ndarray:
    """The first two columns in each other's place."""
    return values[:, [1, 0, *range(2, values.shape[1])]]


def still(values: np.ndarray) -> np.ndarray:
    """The first row and a little noise."""
    return values[:1] + np.random.default_rng(0).normal(0, 1e-4, values.shape)


BAD_LEGS = {
    "too short": (lambda log: log.between(0.0, 1.2), "share 1.1|lasts 0"),
    "nothing moves": (lambda log: changed(log, still, "joint_pos", "joint_vel"), "joint_pos.FR_hip: moves 0.0"),
    "joints swapped": (lambda log: changed(log, swapped, "joint_pos", "joint_vel"), "joint_pos.FR_hip: f"),
    "speeds swapped": (
        lambda log: changed(log, swapped, "joint_vel"),
        "joint_vel.FR_hip: the slope of joint_pos.FR_th",
    ),
}
BAD_FLIGHTS = {
    "nothing moves": (lambda log: changed(log, still, "gyro", "position", "linvel"), "gyro: turns at 0.0"),
    "gyro swapped": (lambda log: changed(log, swapped, "gyro"), "gyro: unlike the turning of orientation"),
    "world swapped": (
        lambda log: changed(log, swapped, "position", "linvel"),
        "position.y: follows the leaning along x",
    ),
    "speeds swapped": (lambda log: changed(log, swapped, "linvel"), "linvel.x: the slope of position.y"),
}


def refused(log, robot, message):
    """In one line; preflight finds an error too."""
    command = cal.Command(log=Path("log.mcap"), robot=robot, out=Path("twin"))

    def begin():
        twin = make_twin(robot, log)
        cal.refuse(log, twin, command)
        cal.calibrate(log, twin, command)

    with pytest.raises(EmbodiedError, match=message) as caught:
        begin()
    assert "\n" not in str(caught.value)
    findings = (*preflight.preflight(log, limits_of(robot)), *preflight.uncalibratable(log, robot))
    assert any(finding.severity is Severity.ERROR for finding in findings)


@pytest.mark.parametrize("fault", BAD_LEGS)
def test_a_leg_s_log_that_would_mislead_is_refused(leg, fault):
    change, message = BAD_LEGS[fault]
    refused(change(leg[2]), "go1", message)


@pytest.mark.parametrize("fault", BAD_FLIGHTS)
def test_a_flight_s_log_that_would_mislead_is_refused(drone, fault):
    change, message = BAD_FLIGHTS[fault]
    refused(change(drone[2]), "crazyflie", message)


@pytest.mark.parametrize(("whose", "robot"), [("leg", "panda"), ("leg", "crazyflie"), ("drone", "go1")])
def test_a_log_of_another_robot_is_refused(leg, drone, whose, robot):
    refused({"leg": leg, "drone": drone}[whose][2], robot, "the log lacks|unknown channel|commands of a")


def test_of_a_log_that_is_refused_nothing_is_written(leg, tmp_path):
    file, (change, message) = tmp_path / "log.mcap", BAD_LEGS["nothing moves"]
    mcap_log.write(file, change(leg[2]))
    said = commands.refused(cal.main, str(file), "--robot", "go1", "--out", str(tmp_path / "twin"))
    assert re.search(message, said), said
    assert not (tmp_path / "twin").exists()
    assert preflight.main([str(file), "--robot", "go1"]) == 1


def test_what_does_not_hold_in_the_held_out_part_is_said(monkeypatch, tmp_path, capsys):
    """As where a battery sags: the same result, with errors on held-out data above and below the nominal ones."""
    result, track = cal.calibrate(toys.log_of(0), toys.Toy(), cal.Settings())
    assert result.carries_over
    worse = tuple(dataclasses.replace(error, after=1.5 * error.before) for error in result.errors)
    file = tmp_path / "log.mcap"
    mcap_log.write(file, toys.log_of(0))
    monkeypatch.setattr(cal, "make_twin", lambda *_: toys.Toy())
    for errors, code in ((result.errors, 0), (worse, cal.EXIT_DOUBTFUL)):
        monkeypatch.setattr(
            cal, "calibrate", lambda *_, errors=errors: (dataclasses.replace(result, errors=errors), track)
        )
        words = [str(file), "--robot", "go1", "--despite-errors", "--out", str(tmp_path / f"{code}")]
        assert cal.main(words) == code
        assert ("held-out errors are 1.50 times the nominal ones" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize(("upper", "fine"), [(10.0, True), (2.0, False)])
def test_a_fit_that_ran_into_a_bound_is_not_called_converged(upper, fine):
    """The toy's decay is 3 1/s: with a bound below that there is no right answer, whatever the fit began with."""
    toy = toys.Toy()
    decay = dataclasses.replace(toy.parameters[0], upper=upper)
    said = []
    bounded = dataclasses.replace(toy, parameters=(decay, *toy.parameters[1:]))
    result, _ = cal.calibrate(toys.log_of(0), bounded, cal.Settings(), said.append)
    assert result.converged == fine
    assert any("ran into a bound; once more from elsewhere" in line for line in said) == (not fine)
    assert [estimate.name for estimate in result.estimates if estimate.at_bound] == ([] if fine else [decay.name])
