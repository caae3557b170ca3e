"""The controller for the drone's firmware sees what the loop in Python sees, does what it does, and knows when to stop.

The firmware's own headers are not here; `FIRMWARE` declares the part of its published interface that a controller uses,
and a PID controller that only leaves its mark.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from policies.policy import Policy
from sim2real import export
from sim2real.bundles import bundle, crazyflie_code
from sim2real.bundles.contents import contents
from sim2real.bundles.files import CRAZYFLIE, ExportError
from sim2real.contract.contract import Contract
from sim2real.deployment.controllers import Controller
from sim2real.graphs.describe import Described, describe
from sim2real.graphs.tracing.from_torch import PolicyNodes
from sim2real.robots.base import Measurement
from tests.kit.bundles import compile_c, contract_of, shipped_bundle, small_policy
from tests.kit.fakes import given
from tests.kit.worlds import task_of

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

THRUST_MAX = 0.15  # N, of the stub's platform
STEPS_PER_ACTION = 20  # of the firmware's 1,000 Hz loop
FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wdouble-promotion", "-fPIC", "-shared")

FIRMWARE = {
    "stabilizer_types.h": """
#ifndef STABILIZER_TYPES_H
#define STABILIZER_TYPES_H
#include <stdbool.h>
#include <stdint.h>
typedef uint32_t stabilizerStep_t;
typedef struct { float x, y, z; } Axis3f;
typedef struct { uint32_t timestamp; float x, y, z; } point_t;
typedef point_t velocity_t;
typedef struct { float x, y, z, w; } quaternion_t;
typedef struct { Axis3f acc, gyro, mag; } sensorData_t;
typedef struct { quaternion_t attitudeQuaternion; point_t position; velocity_t velocity; } state_t;
typedef enum { controlModeLegacy = 0, controlModeForceTorque = 1, controlModeForce = 2 } control_mode_t;
typedef struct {
  union {
    struct { int16_t roll, pitch, yaw; float thrust; };
    float normalizedForces[4];
  };
  control_mode_t controlMode;
} control_t;
typedef enum { modeDisable = 0, modeAbs, modeVelocity } stab_mode_t;
typedef struct {
  point_t position;
  struct { stab_mode_t x, y, z, roll, pitch, yaw, quat; } mode;
} setpoint_t;
#define RATE_MAIN_LOOP 1000
#endif
""",
    "controller.h": """
#include "stabilizer_types.h"
void controllerOutOfTreeInit();
bool controllerOutOfTreeTest();
void controllerOutOfTree(control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors,
                         const state_t *state, const stabilizerStep_t stabilizerStep);
""",
    "controller_pid.h": """
#include "stabilizer_types.h"
void controllerPidInit(void);
bool controllerPidTest(void);
void controllerPid(control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors, const state_t *state,
                   const stabilizerStep_t stabilizerStep);
""",
    "platform_defaults.h": f"#define THRUST_MAX {THRUST_MAX}f\n",
    # Parameters become getters and setters, as the radio would use them.
    "param.h": """
#define PARAM_UINT8 0
#define PARAM_GROUP_START(NAME)
#define PARAM_ADD(TYPE, NAME, ADDRESS) \\
  void set_##NAME(uint8_t value);      \\
  void set_##NAME(uint8_t value) { *(ADDRESS) = value; }
#define PARAM_GROUP_STOP(NAME)
""",
    "log.h": """
#define LOG_UINT8 unsigned char
#define LOG_FLOAT float
#define LOG_GROUP_START(NAME)
#define LOG_ADD(TYPE, NAME, ADDRESS) TYPE get_##NAME(void); TYPE get_##NAME(void) { return *(ADDRESS); }
#define LOG_GROUP_STOP(NAME)
""",
    "loop.c": """
#include "controller.h"
#include "controller_pid.h"
int pid_inits, pid_steps;
void controllerPidInit(void) { pid_inits++; }
bool controllerPidTest(void) { return true; }
void controllerPid(control_t *control, const setpoint_t *setpoint, const sensorData_t *sensors, const state_t *state,
                   const stabilizerStep_t step)
{
  (void)setpoint; (void)sensors; (void)state; (void)step;
  control->thrust = 31000.0f;
  pid_steps++;
}
/* in: gyro deg/s, attitude xyzw, position, velocity, setpoint; out: normalised forces; returns the mode of control. */
int loop(const float in[16], int mode, uint32_t step, float out[4]);
int loop(const float in[16], int mode, uint32_t step, float out[4])
{
  static control_t control;
  sensorData_t sensors = {.gyro = {in[0], in[1], in[2]}};
  state_t state = {{in[3], in[4], in[5], in[6]}, {0, in[7], in[8], in[9]}, {0, in[10], in[11], in[12]}};
  setpoint_t setpoint = {.position = {0, in[13], in[14], in[15]}};
  setpoint.mode.x = setpoint.mode.y = setpoint.mode.z = (stab_mode_t)mode;
  controllerOutOfTree(&control, &setpoint, &sensors, &state, step);
  for (int i = 0; i < 4; i++) out[i] = control.normalizedForces[i];
  return (int)control.controlMode;
}
""",
}
LEGACY, FORCE = 0, 2
DISABLED, ABSOLUTE = 0, 1


class Drone:
    """The controller in the stub of the firmware."""

    def __init__(self, folder, place) -> None:
        for name, text in FIRMWARE.items():
            (place / name).write_text(text)
        library = place / "drone.so"
        files = [str(folder / "crazyflie" / name) for name in ("controller_embodied.c", "policy.c")]
        compile_c([*FLAGS, f"-isystem{place}", *files, str(place / "loop.c"), "-lm", "-o", str(library)])
        self.code = ctypes.CDLL(str(library))
        for i in range(4):
            getattr(self.code, f"get_thrust{i + 1}").restype = ctypes.c_float
        self.code.controllerOutOfTreeInit()
        self.step = 0

    def enable(self, value):
        self.code.set_enable(value)

    def __call__(self, seen: Measurement, command, mode=ABSOLUTE):
        """One step of the main loop; mode of control and forces."""
        w, *axis = given(seen.orientation)
        numbers = [*np.degrees(given(seen.gyro)), *axis, w, *given(seen.position), *given(seen.linvel), *command]
        out = (ctypes.c_float * 4)()
        mode = self.code.loop((ctypes.c_float * 16)(*numbers), mode, self.step, out)
        self.step += 1
        return mode, np.array(out)

    @property
    def tripped(self):
        return self.code.get_tripped()


def flying(rng, spread=1.0) -> Measurement:
    """Somewhere in the air, in any attitude."""
    quat = rng.standard_normal(4)
    return Measurement(
        time=0.0,
        gyro=3 * rng.standard_normal(3),
        orientation=quat / np.linalg.norm(quat),
        position=np.array([0.0, 0.0, 2.0]) + spread * rng.uniform(-1, 1, 3),
        linvel=rng.standard_normal(3),
    )


LEVEL = Measurement(0.0, gyro=np.zeros(3), orientation=np.eye(4)[0], position=np.array([0, 0, 2.0]), linvel=np.zeros(3))
TARGET = (0.0, 0.0, 2.0)


HOVER = "swarm/hover"


def thrusts(contract: Contract, target: np.ndarray) -> np.ndarray:
    """(4,) N of rotors at speeds (4,), by the curve that the contract states."""
    linear, square = np.array([rotor.thrust for rotor in contract.rotors]).T
    return linear * target + square * target**2


@functools.cache
def small() -> tuple[Described, Policy]:
    """The control step of hover under a small policy."""
    policy = small_policy(inputs=16, actions=4)
    return describe(task_of(HOVER), HOVER, PolicyNodes(policy)), policy


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    return bundle.load(shipped_bundle(HOVER)), tmp_path_factory.mktemp("shipped")


@pytest.fixture
def drone(shipped):
    made, place = shipped
    flyer = Drone(made.path, place)
    assert flyer.code.controllerOutOfTreeTest()
    return flyer


def compare(drone, made, steps):
    """Fly random states in C and in Python, side by side."""
    rng = np.random.default_rng(0)
    controller, force = Controller(made), np.zeros(4)
    drone.enable(1)
    for _ in range(steps):
        seen, command = flying(rng), rng.uniform(-1, 1, 3) + TARGET
        force = thrusts(made.contract, controller.decide(seen, command)[2])
        for i in range(STEPS_PER_ACTION):
            later = flying(rng) if i else seen  # between its steps the policy looks at nothing
            mode, forces = drone(later, command)
            assert mode == FORCE
            np.testing.assert_allclose(forces, np.minimum(force / THRUST_MAX, 1), atol=1e-5)
    logged = [getattr(drone.code, f"get_thrust{i + 1}")() for i in range(4)]
    np.testing.assert_allclose(logged, force, atol=1e-6)


def test_the_shipped_policy_flies_as_in_python_and_begins_anew_with_each_flight(drone, shipped):
    compare(drone, shipped[0], 50)
    drone.enable(0)
    drone(LEVEL, TARGET)
    drone.step = 0  # on its next step the policy acts
    compare(drone, shipped[0], 5)  # as if nothing had been remembered


def test_pid_flies_until_the_operator_enables_the_policy(drone):
    for _ in range(STEPS_PER_ACTION + 1):
        assert drone(LEVEL, TARGET)[0] == LEGACY
    drone.enable(1)
    modes = [drone(LEVEL, TARGET)[0] for _ in range(STEPS_PER_ACTION)]
    assert modes == [LEGACY] * (STEPS_PER_ACTION - 1) + [FORCE]
    drone.enable(0)
    before = ctypes.c_int.in_dll(drone.code, "pid_inits").value
    assert drone(LEVEL, TARGET)[0] == LEGACY
    assert ctypes.c_int.in_dll(drone.code, "pid_inits").value == before + 1, "PID begins anew"


def test_without_a_position_setpoint_pid_flies(drone):
    drone.enable(1)
    assert drone(LEVEL, TARGET)[0] == FORCE
    assert drone(LEVEL, TARGET, DISABLED)[0] == LEGACY
    assert drone.tripped == 0


FAULTS = {
    "gyro": (dataclasses.replace(LEVEL, gyro=np.array([0, np.nan, 0])), 1),
    "attitude": (dataclasses.replace(LEVEL, orientation=np.full(4, np.nan)), 1),
    "position": (dataclasses.replace(LEVEL, position=np.array([np.nan, 0, 2])), 1),
    "infinite": (dataclasses.replace(LEVEL, linvel=np.array([0, 0, np.inf])), 1),
    "beside": (dataclasses.replace(LEVEL, position=np.array([0, 3.1, 2])), 3),
    "below": (dataclasses.replace(LEVEL, position=np.array([0, 0, -0.1])), 3),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_hands_over_to_pid_until_the_operator_resets(drone, fault):
    seen, reason = FAULTS[fault]
    drone.enable(1)
    before = np.zeros(4)
    for _ in range(STEPS_PER_ACTION):
        mode, before = drone(LEVEL, TARGET)
        assert mode == FORCE
    assert np.isfinite(before).all()
    mode, after = drone(seen, TARGET)
    assert mode == LEGACY
    assert drone.tripped == reason
    assert not np.array_equal(before, after)
    for _ in range(2 * STEPS_PER_ACTION):
        assert drone(LEVEL, TARGET)[0] == LEGACY, "it forgot that it had tripped"
    drone.enable(0)
    drone(LEVEL, TARGET)
    drone.enable(1)
    drone.step = 0
    assert drone(LEVEL, TARGET)[0] == FORCE


def test_a_setpoint_that_is_not_a_number_trips(drone):
    drone.enable(1)
    assert drone(LEVEL, (0.0, np.nan, 2.0))[0] == LEGACY
    assert drone.tripped == 1


def test_setpoints_are_limited_to_those_of_training(drone, shipped):
    made, _ = shipped
    drone.enable(1)
    limits = np.array([number.upper for number in made.contract.command])
    expected = thrusts(made.contract, Controller(made).decide(LEVEL, limits)[2])
    np.testing.assert_allclose(drone(LEVEL, 100 * limits)[1], np.minimum(expected / THRUST_MAX, 1), atol=1e-5)


@pytest.mark.parametrize(("degrees", "trips"), [(50, False), (70, True), (180, True)])
def test_tilt_is_limited_where_the_contract_limits_it(tmp_path, degrees, trips):
    described, policy = small()
    contract = dataclasses.replace(described.contract, max_tilt=math.radians(60))
    made = export.finished(
        tmp_path / "b", *contents(dataclasses.replace(described, contract=contract), policy), contract
    )
    drone, half = Drone(made.path, tmp_path), math.radians(degrees) / 2
    drone.enable(1)
    drone(dataclasses.replace(LEVEL, orientation=np.array([math.cos(half), 0, math.sin(half), 0])), TARGET)
    assert drone.tripped == (4 if trips else 0)


def test_upside_down_is_no_fault_without_a_limit(drone):
    drone.enable(1)
    assert drone(dataclasses.replace(LEVEL, orientation=np.array([0, 1.0001, 0, 0])), TARGET)[0] == FORCE


def test_damaged_flash_fails_the_firmwares_self_test(shipped, tmp_path):
    made, _ = shipped
    copy = shutil.copytree(made.path, tmp_path / "copy")
    code = (copy / "crazyflie" / "policy.c").read_text()
    (copy / "crazyflie" / "policy.c").write_text(code.replace("tanhf(", "0.9f * tanhf("))
    assert not Drone(copy, tmp_path).code.controllerOutOfTreeTest() & 1


def test_it_fits_into_the_drone(shipped, tmp_path):
    made, place = shipped
    place_of = {name: tmp_path / f"{name}.o" for name in ("controller_embodied", "policy")}
    for name, target in place_of.items():
        source = str(made.path / "crazyflie" / f"{name}.c")
        compile_c(["-std=c99", "-Os", "-fno-pie", f"-isystem{place}", "-c", source, "-o", str(target)])
    assert sum(target.stat().st_size for target in place_of.values()) < 100_000  # bytes, of 1 MB flash


def test_the_folder_is_what_the_firmwares_build_expects(shipped):
    folder = shipped[0].path / "crazyflie"
    assert {path.name for path in folder.iterdir()} == set(CRAZYFLIE)
    assert (folder / "Kbuild").read_text() == "obj-y += controller_embodied.o policy.o\n"
    assert (folder / "app-config").read_text() == "CONFIG_CONTROLLER_OOT=y\n"
    assert "include $(CRAZYFLIE_BASE)/tools/make/oot.mk" in (folder / "Makefile").read_text()
    text = (folder / "README.md").read_text()
    assert "x -3 to 3 m, y -3 to 3 m, z 0 to 5 m" in text
    assert "$" not in text.replace("$HOME", "")


def sources_of(contract: Contract) -> dict[str, str]:
    made, _ = small()
    golden = bundle.load(shipped_bundle(HOVER)).golden
    return crazyflie_code.sources(made.graph, contract, golden, {"policy.c": "", "policy.h": ""}, "0" * 64)


def with_first(part: str, **changes: Any) -> Callable[[Contract], Contract]:
    """A contract whose step has only the first of its sources or commands, changed."""

    def change(contract: Contract) -> Contract:
        first = dataclasses.replace(getattr(contract.step, part)[0], **changes)
        return dataclasses.replace(contract, step=dataclasses.replace(contract.step, **{part: (first,)}))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: dataclasses.replace(c, control_hz=30.0), "control_hz=30 does not divide the firmware's 1000 Hz"),
        (
            with_first("sources", name="joint_pos"),
            "does not know joint_pos; it knows gyro, orientation, position, linvel_w",
        ),
        (with_first("commands", numbers=()), "a position setpoint has 3 numbers; the contract's command has 0"),
        (lambda c: dataclasses.replace(c, actuators=c.actuators[:3]), "4 rotors; the contract has targets of rotor1"),
        (lambda c: dataclasses.replace(c, rotors=c.rotors[:3]), "the Crazyflie has 4 rotors"),
    ],
)
def test_what_the_firmware_cannot_do_is_refused(change, message):
    with pytest.raises(ExportError, match=message):
        sources_of(change(contract_of(HOVER)))


def test_other_robots_and_drones_without_a_command_have_no_controller():
    contract = contract_of(HOVER)
    assert sources_of(contract)
    still = dataclasses.replace(contract, step=dataclasses.replace(contract.step, commands=()))
    for other in (dataclasses.replace(contract, robot="hexa"), dataclasses.replace(contract, rotors=()), still):
        assert not sources_of(other)
