"""`SafetyConfig` and `Limits`: thresholds of the safety chain, and what they are for one contract."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from embodied.errors import EmbodiedError
from embodied.robot.derivation.ends import FINGERS
from sim2real.contract.contract import UNSTATED_SPEED, Contract, Source
from sim2real.robots.base import PARTS, Measurement

AXES = 3  # of the world
FIRM = 0.1  # rad, our choice: the largest effort bends an arm's servos by 0.03, a finger's or a leg's by 0.25 and more


@dataclasses.dataclass(frozen=True)
class SafetyConfig:
    """Thresholds. None takes what the contract says, or a number of control periods."""

    margin: float = 0.02
    """Fraction of each joint's range that targets keep from either end. Clips."""
    overrun: float = 0.2
    """rad, a joint measured further than this outside its limits trips: a broken encoder or a broken joint."""
    brake_from: float = 0.9
    """Fraction of a motor's top speed from which the effort along its motion fades out, to none at top speed. Clips."""
    overspeed: float = 1.5
    """Fraction of a motor's top speed that trips, if it lasts for `overspeed_cycles`."""
    overspeed_cycles: int = 2
    """Control cycles in a row; a swinging leg may peak for one, after a lost command."""
    effort: float = 1.0
    """Fraction of each actuator's largest effort that a target may ask of its servo. Clips; not of a stiff servo, such
    as an arm's, see `stiffness_of`: it keeps its own limit, and is only braked near top speed."""
    rate: float = 1.0
    """Fraction of each actuator's largest rate at which targets may move. Clips."""
    workspace: tuple[tuple[float, float], ...] | None = None
    """m, x, y and z between which the body must stay; outside trips. None: the contract's."""
    max_tilt: float | None = None
    """rad between the body's z axis and up; beyond trips. None: the contract's."""
    max_age: float | None = None
    """s, age of a measurement that trips. None: 5 control periods."""
    max_frozen: float | None = None
    """s for which a reading may repeat to the last bit before it trips. None: 10 control periods."""
    frozen_motion: float = 0.1
    """rad, way of the targets during which joints may not have moved at all; less proves nothing about an encoder."""
    turn_window: float = 0.5
    """s over which gyro and orientation are compared."""
    max_turn_error: float = 0.35
    """rad by which the rotation that the gyro tells may differ from that of the orientations within `turn_window`."""
    predictions: bool = True
    """Compare what sensors and commands tell of the same motion (`sim2real.deployment.predictions`)."""
    max_still: float = 1.0
    """s for which the place of a thing that moved, or whose estimate has noise, may repeat to the last bit."""
    max_speed: float = 5.0
    """m/s, a thing whose place changes faster trips: it falls no faster from a table."""
    max_late: float | None = None
    """s, a single cycle that wakes this much too late trips. None: 5 control periods."""
    misses: float = 5.0
    """Missed deadlines that trip; each cycle in time takes back `forgive` of one."""
    forgive: float = 0.1
    """See `misses`."""
    max_clipped: float = 0.5
    """s for which actions or rates may be beyond their limits without a break before that trips."""
    tolerance: float = 1e-4
    """Fraction of an actuator's range by which a policy's own target may miss it; more trips. Rounding is less."""

    def __post_init__(self) -> None:
        for name in (
            "overrun", "overspeed", "overspeed_cycles", "effort", "rate", "misses", "max_clipped", "brake_from",
            "turn_window", "max_turn_error", "max_still", "max_speed", "max_tilt", "max_age", "max_frozen", "max_late",
            "frozen_motion",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise EmbodiedError(f"safety: {name}={value}; expected a positive number")
        for name in ("forgive", "tolerance"):
            if not getattr(self, name) >= 0:
                raise EmbodiedError(f"safety: {name}={getattr(self, name)}; expected 0 or more")
        box = self.workspace
        if box is not None and (len(box) != AXES or not all(len(ends) == 2 and ends[0] < ends[1] for ends in box)):
            raise EmbodiedError(f"safety: workspace={box}; expected x, y and z in m, of each the smaller end first")
        if not 0 <= self.margin < 0.5:
            raise EmbodiedError(f"safety: margin={self.margin}; expected a fraction in [0, 0.5) of a joint's range")
        if not self.brake_from < 1:
            raise EmbodiedError(f"safety: brake_from={self.brake_from}; expected less than 1, the top speed")


@dataclasses.dataclass(frozen=True)
class Limits:
    """Thresholds of the safety chain for one contract: arrays (A,) in the order of actions, (n,) of joints."""

    config: SafetyConfig
    names: tuple[str, ...]
    lower: np.ndarray
    """(A,) smallest target, margin included."""
    upper: np.ndarray
    """(A,) largest target, margin included."""
    stated: tuple[np.ndarray, np.ndarray]
    """(A,), (A,) smallest and largest target that a policy may give, as the contract states them."""
    step: np.ndarray
    """(A,) largest change of a target in one control period; inf where there is no limit."""
    stiffness: np.ndarray
    """(A,) N m/rad; 0 where the actuator is not a servo on a joint."""
    damping: np.ndarray
    """(A,) N m s/rad."""
    effort: np.ndarray
    """(A,) N m."""
    lead: np.ndarray
    """(A,) rad by which the target of a stiff servo, see `stiffness_of`, may be ahead of a joint near its top speed:
    what its largest effort takes, and the way of a control period; inf where `effort` bounds it."""
    driven: np.ndarray
    """(A,) index of the joint, -1 for none."""
    servos: np.ndarray
    """(s,) actuators that are such drivers, with a stiffness."""
    servo_rate: np.ndarray
    """(s,) 1/s at which an unloaded servo follows its target, at most that of control."""
    firm: np.ndarray
    """(s,) bool, those that no load bends by `FIRM`: each follows its targets."""
    limbs: tuple[np.ndarray, ...]
    """(joints, limbs) rows among `servos`, of limbs with the same joints; empty where there are none."""
    noise: Mapping[str, float]
    """Source -> standard deviation of its noise in training."""
    things: tuple[str, ...]
    """Measured places and orientations of what is not the robot."""
    driver: np.ndarray
    """(n,) actuator whose target moves a joint; -1 for none, and for fingers, which a held object may block."""
    axis: np.ndarray
    """(A,) 0, 1 or 2 where the actuator is a place along x, y or z in the world, as a setpoint of a drone; else -1."""
    joint_names: tuple[str, ...]
    joint_range: tuple[np.ndarray, np.ndarray]
    """(n,), (n,) rad."""
    top_speed: np.ndarray
    """(n,) rad/s."""
    workspace: np.ndarray
    """(3, 2) m, or (0, 2)."""
    max_tilt: float
    max_age: float
    max_frozen: float
    max_late: float
    period: float

    @classmethod
    def of(cls, contract: Contract, config: SafetyConfig) -> Limits:
        joints = [joint.name for joint in contract.joints]
        driven = np.array([joints.index(a.joint) if a.joint else -1 for a in contract.actuators], int)
        low, high = contract.joint_row("lower"), contract.joint_row("upper")
        margin = config.margin * (high - low)
        lower, upper, servo = contract.row("lower"), contract.row("upper"), driven >= 0
        stated = lower.copy(), upper.copy()
        lower[servo] = np.maximum(lower[servo], (low + margin)[driven[servo]])
        upper[servo] = np.minimum(upper[servo], (high - margin)[driven[servo]])
        period = contract.period
        stiff, reach, way = stiffness_of(contract)
        places = ["xyz".find(a.name) if a.unit == "m" and not a.joint else -1 for a in contract.actuators]
        drivers = _drivers(joints, driven)
        servos = np.array(
            [a for a, j in enumerate(driven) if j >= 0 and drivers[j] == a and contract.actuators[a].stiffness], int
        )
        firm = contract.row("max_effort")[servos] < FIRM * contract.row("stiffness")[servos]
        noise = {term.source: term.noise for term in contract.terms if term.source}
        box = contract.workspace if config.workspace is None else config.workspace

        def chosen(value: float | None, default: float) -> float:
            return default if value is None else value

        return cls(
            config=config,
            names=tuple(actuator.name for actuator in contract.actuators),
            lower=lower,
            upper=upper,
            stated=stated,
            step=config.rate * contract.row("max_rate") * period,
            stiffness=np.where(servo, contract.row("stiffness"), 0.0),
            damping=np.where(servo, contract.row("damping"), 0.0),
            effort=np.where(stiff, np.inf, config.effort * contract.row("max_effort")),
            lead=np.where(stiff, reach + way, np.inf),
            driven=driven,
            driver=drivers,
            servos=servos,
            servo_rate=_rates(contract)[servos],
            firm=firm,
            limbs=limbs_of(contract, servos[~firm], np.flatnonzero(~firm)),
            noise={"linvel": noise.get("linvel_w", 0.0), **noise},
            things=tuple(one.name for one in contract.step.sources if one.name not in PARTS and _is_place(one)),
            axis=np.array(places, int),
            joint_names=tuple(joints),
            joint_range=(low, high),
            top_speed=contract.joint_row("max_velocity"),
            workspace=np.array(box, float).reshape(-1, 2),
            max_tilt=chosen(config.max_tilt, contract.max_tilt),
            max_age=chosen(config.max_age, 5 * period),
            max_frozen=chosen(config.max_frozen, 10 * period),
            max_late=chosen(config.max_late, 5 * period),
            period=period,
        )

    def pose(self, measured: Measurement) -> np.ndarray:
        """(A,) where the actuators are, in terms of their targets; NaN where nothing measures that, as for rotors."""
        pose = np.full(len(self.names), np.nan)
        for index, values in ((self.driven, measured.joint_pos), (self.axis, measured.position)):
            if values is not None:
                pose[index >= 0] = np.asarray(values, float)[index[index >= 0]]
        return pose


def stiffness_of(contract: Contract) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A,) bool, stiff servos; (A,) rad, errors at which servos give their largest effort; (A,) rad, ways of a period.

    A stiff servo, such as an arm's, gives its largest effort at an error that is less than its joint moves in a control
    period at top speed: targets within that error would hold it back. Its own limit does that better, in training as on
    the robot.
    """
    joints = [joint.name for joint in contract.joints]
    speeds = contract.joint_row("max_velocity")
    kp, most = contract.row("stiffness"), contract.row("max_effort")
    servo = np.array([bool(a.joint) for a in contract.actuators]) & (kp > 0)
    speed = np.array([speeds[joints.index(a.joint)] if a.joint else np.inf for a in contract.actuators], float)
    reach = np.where(servo, most / np.where(kp > 0, kp, 1.0), np.inf)
    way = np.where(np.isfinite(speed), speed, UNSTATED_SPEED) * contract.period
    return servo & (reach < way), reach, np.where(np.isfinite(speed), way, np.inf)


def _is_place(source: Source) -> bool:
    return (source.unit, source.size) in {("m", 3), ("1", 4)}


def _rates(contract: Contract) -> np.ndarray:
    """(A,) 1/s at which an unloaded servo follows its target, at most that of control."""
    damping = contract.row("damping")
    rate = np.divide(contract.row("stiffness"), damping, out=np.full(len(damping), np.inf), where=damping > 0)
    return np.minimum(rate, contract.control_hz)


def limbs_of(contract: Contract, servos: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """(joints, limbs) rows of limbs that may be taken for each other: joints of equal motors and ranges.

    Args:
        contract: Of the robot.
        servos: (k,) actuators of the joints to look among.
        rows: (k,) what stands for each of them in the result.
    """
    kinds: dict[tuple[float, ...], list[int]] = {}
    joints = {joint.name: joint for joint in contract.joints}
    for row, actuator in zip(rows, (contract.actuators[number] for number in servos), strict=True):
        joint = joints[actuator.joint]
        kind = (joint.upper - joint.lower, joint.max_velocity, actuator.stiffness, actuator.max_effort)
        kinds.setdefault(tuple(round(value, 6) for value in kind), []).append(int(row))
    sizes = {len(kind) for kind in kinds.values() if len(kind) > 1}
    return tuple(np.array([kind for kind in kinds.values() if len(kind) == size]) for size in sorted(sizes))


def _drivers(joints: list[str], driven: np.ndarray) -> np.ndarray:
    """(n,) actuator of each joint, -1 for none and for what is a finger by its name."""
    drivers = np.full(len(joints), -1)
    for actuator, joint in enumerate(driven):
        if joint >= 0 and not any(word in joints[joint].lower() for word in FINGERS):
            drivers[joint] = actuator
    return drivers
