"""Calibration of a robot that is known by its model file alone: Unitree's A1 from pybullet_data.

Every trial draws a robot anywhere in a wide range about the file's: friction, damping and rotor inertia of each group
of joints, masses of each group of links, every encoder's bias, a delay of about 10 ms. It plays the trajectory that
`sim2real.excitation` makes of the file, its base held; the log has sensor noise. The log is calibrated from the file.

python -m benchmarks.calibration_robot_file --json FILE
"""

import dataclasses
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from benchmarks import calibration as bench
from benchmarks import calibration_logs as logs
from sim2real import calibrate as cal
from sim2real.identification.calibration import improvement
from sim2real.identification.excitation import ExcitationConfig, excite
from sim2real.logs.log import Channel, Log
from sim2real.twins.joints import JointTwin
from sim2real.twins.named import make_twin
from sim2real.twins.robot import Groups

NOISE = {"joint_pos": 1e-3, "joint_vel": 0.05}  # rad, rad/s, as of the Go1 in `benchmarks.calibration`


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    robot: Path | None = None
    """Model file; by default the A1 of pybullet_data."""
    trials: int = 5
    """Robots drawn."""
    seconds: float = 20.0
    """s of each log, of which a quarter is held out."""
    apart: bool = False
    """Every joint has its own parameters, drawn and estimated, instead of those of its group."""
    seed: int = 0
    json: Path | None = None
    """File for the results; written after every trial."""


def main(settings: Settings) -> None:
    """Measure and print."""
    file = str(settings.robot or usual())
    made = excite(ExcitationConfig(file, seconds=settings.seconds))
    command = made.log["command"]
    silent = Channel(np.arange(2.0), np.zeros((2, len(command.names))), command.names)
    twin: Any = make_twin(file, Log(dict.fromkeys(("command", *NOISE), silent)), Groups(apart=settings.apart))
    shown = dataclasses.asdict(settings) | {"robot": Path(file).name}
    rows = []
    for seed in range(settings.seed, settings.seed + settings.trials):
        rows.append(trial(twin, command, seed))
        summary = bench.summary(rows)
        document = {"settings": {name: value for name, value in shown.items() if name != "json"}, "results": summary}
        cli.write_result(settings.json, cli.command_line("benchmarks.calibration_robot_file"), document)
    bench.show(Path(file).name, bench.summary(rows))


def usual() -> Path:
    """The A1's URDF in pybullet_data."""
    import pybullet_data  # pyright: ignore[reportMissingImports] - has no wheels for newer Pythons

    return Path(pybullet_data.getDataPath()) / "a1" / "a1.urdf"


def trial(twin: JointTwin, command: Channel, seed: int) -> dict[str, Any]:
    """One robot drawn, logged and calibrated."""
    rng = np.random.default_rng([seed, 1])
    truth = logs.draw(twin.parameters, rng)
    targets = command.columns(twin.joints)
    log = logs.played(twin, truth, command.time, targets, NOISE, np.random.default_rng(seed))
    result, _ = cal.calibrate(log, twin, cal.Settings(known={"*.strength": 1.0}))
    half = [error for error in result.errors if error.horizon == 0.5]
    errors = {
        "over_noise": {e.channel: e.after / NOISE[e.channel] for e in half},
        "fitted_over_noise": {e.channel: e.fitted / NOISE[e.channel] for e in half},
        "left": {e.channel: improvement(result.errors, e.channel, 0.5) for e in half},
    }
    row = {**bench.compared(result, truth), **errors, "seconds": result.took, "converged": result.converged}
    wrong = max((abs(error), name) for name, error in row["error"].items())
    cli.show(f"{seed}: {result.took:.1f} s, worst identified {wrong[1]}, {100 * wrong[0]:.2f} % off")
    return row


if __name__ == "__main__":
    main(tyro.cli(Settings))
