"""Three policies on one robot: trained on the nominal model, on its calibrated twin, and randomised around that twin.

The robot is simulated, with hidden parameters: in PyBullet, with latency and noise. Its log (the Go1
hung up and swung, the Crazyflie flown by the shipped policy) calibrates the twin. All three policies are trained with
the same steps and seed, exported, and deployed on that robot behind the safety chain.

python -m benchmarks.calibrated_training --robots crazyflie --json FILE
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from benchmarks import calibration_logs as logs
from benchmarks import deploy_standin as standin
from sim2real.bundles.policies import load
from sim2real.identification import calibration as cb
from sim2real.identification.parameters import Kind
from sim2real.logs.read_log import write_log
from sim2real.twins import joints
from sim2real.twins.named import make_twin

DYNAMICS = ("floor_friction", "link_mass", "payload", "centre_of_mass", "joint_friction", "armature", "motor_strength",
            "latency", "encoder_bias")  # fmt: skip
"""Variations of the robot and its ground in a walking task; noise and pushes stay."""
WIDTH = 3.0  # standard deviations' factor: intervals do not cover the differences of PyBullet from MuJoCo


@dataclasses.dataclass(frozen=True)
class Case:
    """One robot."""

    task: str
    calibrated_as: str
    """Name for `sim2real.calibrate`."""
    mismatch: Mapping[str, float]
    """Options of the simulated robot: in what it differs from the model."""
    still: tuple[str, ...]
    """Flags without which training would vary the robot's physics."""
    calibrate: tuple[str, ...]
    """Flags of the calibration: what is known of the robot from elsewhere."""
    steps: int
    log: Callable[[Case, Path], None]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    robots: tuple[str, ...] = ("crazyflie", "go1")
    """Which."""
    runs: int = 32
    """Deployments of each policy, with seeds from 0."""
    engines: tuple[str, ...] = ("pybullet",)
    """Of the deployments."""
    seconds: float = 8.0
    """s that each deployment lasts."""
    steps: int = 0
    """Of each training; 0: the robot's own number."""
    out: Path = Path("runs/calibrated")
    """Folder for logs, twins, runs and bundles; what is there is used again."""
    json: Path | None = None
    """File for the results; written after every policy."""


def flown(case: Case, path: Path) -> None:
    """Flights by the shipped policy; the first that lasts is the log."""
    wrong = [word for name, value in case.mismatch.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    for seed in range(100, 108):
        try:
            command("sim2real.deploy", case.task, "--robot", "pybullet", "--no-realtime", "--seconds", "8", "--log",
                    str(path), "--seed", str(seed), *wrong)  # fmt: skip
        except subprocess.CalledProcessError:
            continue  # it crashed; the next start may be kinder
        return
    raise RuntimeError("no flight of the shipped policy lasted")


def swung(case: Case, path: Path) -> None:
    """All legs of a Go1 on its rack, by chirps."""
    names = [f"{leg}_{link}" for leg in ("FR", "FL", "RR", "RL") for link in ("hip", "thigh", "calf")]
    twin: Any = make_twin("go1", logs.empty(("joint_pos", "joint_vel"), tuple(names)))
    leg = logs.GO1_LEG
    motion = dataclasses.replace(leg, middle=4 * leg.middle, amplitude=4 * leg.amplitude)
    write_log(path, logs.bullet_log(twin, truth(case, twin), motion, 20.0, seed=100))


def truth(case: Case, twin: joints.JointTwin) -> np.ndarray:
    """(p,) the true values of a twin's parameters."""
    robot = options(case, 0).model_mismatch(len(twin.joints))
    bias = dict(zip(twin.joints, robot.encoder_bias or np.zeros(len(twin.joints)), strict=True))
    values = {
        Kind.FRICTION: lambda p: p.nominal * robot.joint_friction,
        Kind.DAMPING: lambda p: p.nominal * robot.joint_damping,
        Kind.ARMATURE: lambda p: p.nominal * robot.armature,
        Kind.MASS: lambda p: p.nominal * robot.mass,
        Kind.STRENGTH: lambda p: robot.motor_strength,
        Kind.ENCODER_BIAS: lambda p: bias[p.target],
        Kind.DELAY: lambda p: case.mismatch["latency"],
    }
    return np.array([values[p.kind](p) for p in twin.parameters])


CASES: Mapping[str, Case] = {
    "crazyflie": Case(
        task="swarm/hover",
        calibrated_as="crazyflie",
        # A deck and a used battery: lift to weight of 1.28 instead of 1.54; late by half a control step.
        mismatch={"mass": 1.08, "motor_strength": 0.9, "latency": 0.01},
        still=("--config.latency", "0", "0", "--config.thrust-spread", "0", "--config.mass-spread", "0"),
        calibrate=("--known", "drone_mass", str(round(1.08 * 0.0318, 6)), "--timestep", "0.002"),
        steps=5_000_000,
        log=flown,
    ),
    "go1": Case(
        task="locomotion/go1-joystick-flat",
        calibrated_as="go1",
        # Worn, cold gears, a weak battery, and a slow bus.
        mismatch={
            "motor_strength": 0.75,
            "joint_friction": 2.5,
            "joint_damping": 2.0,
            "armature": 1.3,
            "latency": 0.016,
        },
        still=("--config.without", *DYNAMICS),
        # Masses from CAD: without torque sensors, only their ratio to the motors' strength shows.
        calibrate=("--fix", "*.mass", "--free", "*.strength", "--timestep", "0.002"),
        steps=6_000_000,
        log=swung,
    ),
}


def options(case: Case, seed: int) -> standin.SimulatedOptions:
    """The robot of a case; the seed is that of its sensors, losses and start."""
    return standin.SimulatedOptions(realtime=False, seed=seed, **case.mismatch)  # type: ignore[arg-type]


def main(settings: Settings) -> None:
    """Log, calibrate, train, deploy, print."""
    results: dict[str, Any] = {}
    for robot in settings.robots:
        case, folder = CASES[robot], settings.out / robot
        folder.mkdir(parents=True, exist_ok=True)
        results[robot] = {"hidden": dict(case.mismatch), "policies": {}}
        twin = folder / "calibration"
        if not twin.exists():
            case.log(case, folder / "log.mcap")
            command("sim2real.calibrate", str(folder / "log.mcap"), "--robot", case.calibrated_as, "--out", str(twin),
                    *case.calibrate)  # fmt: skip
        found = cb.load(twin)
        results[robot]["calibration"] = {e.name: [e.value, *e.interval] for e in found.free}
        results[robot]["held_out_left_at_0.5_s"] = {
            e.channel: cb.improvement(found.errors, e.channel, 0.5) for e in found.errors if e.horizon == 0.5
        }
        around = ("--calibration", str(twin), "--calibration-width")
        ways = {"nominal": case.still, "twin": (*case.still, *around, "0"), "randomised": (*around, str(WIDTH))}
        for way, flags in ways.items():
            results[robot]["policies"][way] = row = measured(case, folder / way, flags, settings)
            cli.show(f"{robot}, {way}: {row}")
            document = {"settings": shown(settings), "width": WIDTH, "results": results}
            cli.write_result(settings.json, cli.command_line("benchmarks.calibrated_training"), document)


def shown(settings: Settings) -> dict[str, Any]:
    """The settings without paths."""
    return {name: value for name, value in dataclasses.asdict(settings).items() if name not in ("json", "out")}


def measured(case: Case, folder: Path, flags: tuple[str, ...], settings: Settings) -> dict[str, Any]:
    """Train a policy, export it, deploy it."""
    result, run, bundle = folder.with_suffix(".json"), folder, folder.with_name(f"{folder.name}-bundle")
    steps = settings.steps or case.steps
    if not result.exists():
        command("embodied.train", case.task, "--steps", str(steps), "--out", str(run), "--json", str(result), *flags)
    command("sim2real.export", str(run), "--out", str(bundle))
    trained = json.loads(result.read_text())
    row: dict[str, Any] = {"command": trained["command"], "success_in_training": trained["success"]}
    deployments = standin.Settings(runs=settings.runs, seconds=settings.seconds)
    for engine in settings.engines:
        row[engine] = standin.rate(load(str(bundle)), engine, dict(case.mismatch), deployments)
    return row


def command(module: str, *words: str) -> None:
    """Run a command of the package.

    Raises:
        CalledProcessError: it failed.
    """
    cli.say(f"python -m {module} {' '.join(words)}")
    subprocess.run([sys.executable, "-m", module, *words], check=True)


if __name__ == "__main__":
    main(tyro.cli(Settings))
