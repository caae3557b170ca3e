"""Runs of shipped policies on simulated robots, with a fault and without."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.deploy_standin import FaultyRobot, Spoilt, commanded
from benchmarks.faults.kinds import FAULTS, OUTPUTS, STOP
from embodied.env.registry import join_content
from sim2real.bundles.policies import load
from sim2real.contract.contract import Contract, DeployablePolicy
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.deployment.safety import Cycle, State
from sim2real.deployment.safety_limits import Limits, SafetyConfig
from sim2real.deployment.safety_steps import inside, upright
from sim2real.robots.base import Measurement
from sim2real.robots.simulation.simulated import SimulatedOptions

LEGGED = 12  # joints of a robot with four legs of three
CAMERA = 1e-3  # m and rad, noise of a camera's estimate of an object
RESTART = 20.0  # s of a run without a fault, at most; an episode, where that is shorter


@dataclasses.dataclass(frozen=True)
class Scene:
    """A robot in motion."""

    command: tuple[float, ...]
    fault_at: float
    """s of the policy's time."""
    seconds: float
    """s that the policy runs after the fault, where nothing latches."""


SCENES: Mapping[str, Scene] = {
    "locomotion/go1-joystick-flat": Scene((0.5, 0.0, 0.3), 2.0, 12.0),
    "swarm/hover": Scene((0.0, 0.0, 2.0), 0.5, 8.0),
    "manipulation/reach": Scene((), 0.3, 4.0),
}
CLEAN = ("locomotion/go1-joystick-flat", "swarm/hover", "manipulation/reach", "grasping/leap-rotate-z")
"""Tasks whose shipped policies run without a fault."""


@functools.cache
def policy_of(task: str) -> DeployablePolicy:
    """The policy shipped for a task, loaded once a worker."""
    return load(task)


def outcome(task: str, name: str, runs: int) -> dict[str, Any] | None:
    """All runs of a fault; None where the robot lacks what it spoils."""
    tries = [tried(policy_of(task), task, name, seed) for seed in range(runs)]
    return None if None in tries else summed([run for run in tries if run])


def summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Over all runs of a fault: which step latched, how often, after how long at most, and the rest in sum."""
    steps = collections.Counter(run["step"] or "none" for run in runs)
    latched: dict[str, float] = {}
    for run in runs:
        if run["step"]:
            latched[run["step"]] = max(latched.get(run["step"], 0.0), run["seconds"])
    return {
        "latched_by": dict(steps),
        "seconds": latched,
        "longest_seconds": max(latched.values(), default=None),
        "unsafe_targets": sum(run["unsafe"] for run in runs),
        "unlatched_falls": sum(run["fell"] for run in runs),
    }


def tried(policy: DeployablePolicy, task: str, name: str, seed: int) -> dict[str, Any] | None:
    """One run; None where the robot has no such part."""
    scene = SCENES[task]
    robot = FaultyRobot(policy, "mujoco", SimulatedOptions(realtime=False, seed=seed))
    robot.fault_at, robot.sense = scene.fault_at, seen_by_camera(policy.contract, seed)
    acting: Any = policy
    if name in FAULTS:
        if not hits(robot, name):
            return None
        FAULTS[name](robot)
    elif name in OUTPUTS:
        acting = Spoilt(robot, OUTPUTS[name])
    stop = (lambda: "key" if robot.acting else "") if name == STOP else str
    fallen = falls_of(robot)
    seconds = scene.fault_at + scene.seconds
    run = robot.deploy(np.array(scene.command), seconds, acting, stop, evaluated=False)
    return {
        "step": run.report.step,
        "seconds": round(run.report.seconds - scene.fault_at, 3),
        "unsafe": run.outside,
        "fell": bool(fallen) and not run.report.step,
    }


def falls_of(robot: FaultyRobot) -> list[float]:
    """Times at which the true sensors show a robot that fell or left its workspace; it grows while the robot runs."""
    fallen: list[float] = []
    limits = Limits.of(robot.policy.contract, SafetyConfig())

    def judge(measured: Measurement) -> None:
        cycle = Cycle(measured.time, measured)
        if upright(limits, State(), cycle) or inside(limits, State(), cycle):
            fallen.append(measured.time)

    robot.truth = judge
    return fallen


ANYWHERE = ("lost", "dropped", "cycles", "pause")
"""In names of faults that any robot may have, though the first measurement does not show them."""


def hits(robot: FaultyRobot, name: str) -> bool:
    """Whether the robot has the part that a fault spoils."""
    if "legs" in name and len(robot.policy.contract.joints) != LEGGED:
        return False
    camera = robot.sense
    FAULTS[name](robot)
    measured = robot.sense(robot.robot.read())
    try:
        return robot.measure(measured) is not measured or any(word in name for word in ANYWHERE)
    except IndexError:  # it has fewer joints
        return False
    finally:
        robot.sense = camera


def seen_by_camera(contract: Contract, seed: int) -> Callable[[Measurement], Measurement]:
    """What adds a camera's noise to the places of objects."""
    rng, places = np.random.default_rng([seed, 5]), Limits.of(contract, SafetyConfig()).things
    newest: list[Measurement] = [Measurement(-np.inf)]

    def see(measured: Measurement) -> Measurement:
        if measured.time > newest[0].time:
            seen = {name: np.asarray(measured.readings[name], float) for name in places if name in measured.readings}
            noisy = {name: value + CAMERA * rng.standard_normal(value.shape) for name, value in seen.items()}
            newest[0] = dataclasses.replace(measured, readings={**measured.readings, **noisy}) if noisy else measured
        return newest[0]

    return see


def alarms(task: str, part: int, minutes: float) -> dict[str, Any]:
    """Runs without a fault, each with another seed and command, until they make so many minutes.

    A robot that fell by its policy's doing is latched rightly: a fall, and no alarm.
    """
    policy, seconds, seed = policy_of(task), 0.0, 1000 * part
    latched: dict[str, list[str]] = {"alarms": [], "falls": []}
    episode = min(RESTART, join_content()[task].load()().timing.episode_seconds)
    while seconds < 60 * minutes:
        robot = FaultyRobot(policy, "mujoco", SimulatedOptions(realtime=False, seed=seed))
        robot.sense, fallen = seen_by_camera(policy.contract, seed), falls_of(robot)
        report = Loop(robot, policy, commanded(policy, seed), LoopSettings(seconds=episode, damp=0.1)).run()
        if report.reason:
            latched["falls" if fallen else "alarms"].append(f"seed {seed}, {report.step}: {report.reason}")
        seconds, seed = seconds + report.seconds, seed + 1
    counts = {what: len(reasons) for what, reasons in latched.items()}
    return {"minutes": seconds / 60, "restarts": seed - 1000 * part, **counts, "reasons": latched}
