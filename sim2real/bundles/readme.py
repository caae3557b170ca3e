"""The README of a bundle: all that a user who has nothing but the bundle needs to wire it to a robot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from sim2real.bundles import crazyflie_code
from sim2real.bundles.c_code import identifiers
from sim2real.contract.contract import COMMAND, STATE, Command, Contract, Place, Remembered, Step
from sim2real.contract.planner import IMAGE, PLANNED, Planner
from sim2real.deployment.safety_limits import Limits, SafetyConfig

EMPTY = "–"


def readme(contract: Contract, numbers: int, digest: str) -> str:
    """The text.

    Args:
        contract: Of the policy.
        numbers: How many constants the computation holds.
        digest: The policy's SHA-256.
    """
    step = contract.step
    parts = [_head(contract, numbers, digest), _timing(contract), _inputs(contract), _commands(step)]
    parts += [_planner(contract), _state(step), _actuators(contract), _rotors(contract), _joints(contract)]
    parts += [_observation(contract)]
    parts += [_safety(contract), _python(contract), _onnx(step), _c(contract), _crazyflie(contract)]
    return "\n".join(part for part in parts if part)


def _head(contract: Contract, numbers: int, digest: str) -> str:
    return f"""# {contract.task} for {contract.robot}

A policy trained in simulation together with all that stood between measurements and motors there: observation, network,
and what turns actions into targets. One computation of {numbers:,} numbers; its SHA-256 is

`{digest}`

| file | |
| --- | --- |
| `policy.onnx` | the whole control step, for ONNX Runtime; no other package is needed |
| `policy.c`, `policy.h` | the same as C99: static memory, no dependency but math.h |
| `check.c` | proves `policy.c` on your processor |
| `golden.csv` | consecutive steps: inputs, the policy's actions, and targets |
{_planner_files(contract)}| `contract.json` | everything below, at full precision, for programs |
| `manifest.json` | sizes and SHA-256 of all files |

## First

```
pip install "embodied-sim[sim2real]"
python -m sim2real.bundles.bundle .                  # verify hashes and golden steps
python -m sim2real.deploy . --robot mujoco           # a rehearsal in simulation, in real time
```

Order, signs, default pose and units are what deployments most often get wrong: check each row on the robot, motors off,
before the first step. Build and write nothing in this folder: a bundle with other files in it is refused.
{_model_note(contract)}"""


def _model_note(contract: Contract) -> str:
    """Note on the user's model file, which a simulation of the robot needs besides the bundle."""
    if contract.model is None:
        return ""
    return f"""
The rehearsal, and nothing else, needs the robot's model file `{Path(contract.model.path).name}`, of SHA-256
`{contract.model.sha256}`: by itself it looks for `{contract.model.path}`, else say `--robot-file FILE`.
"""


def _timing(contract: Contract) -> str:
    low, high = contract.latency
    delay = f"\nCommands were delayed by {1e3 * low:g} to {1e3 * high:g} ms in training." if high else ""
    return f"""## Timing

{contract.control_hz:g} steps a second, one every {1e3 * contract.period:g} ms: measure, run the step, write the
targets. Keep to absolute deadlines; a loop that sleeps for a period after its work is slow. The robot holds the
targets between steps. Training simulated physics at {contract.physics_hz:g} Hz.{delay}
"""


def _planner_files(contract: Contract) -> str:
    if contract.step.planner is None:
        return ""
    return """| `planner.onnx` | the network that sees, for ONNX Runtime |
| `planner.safetensors` | inputs of it with what it made of them where it was exported |
"""


def _planner(contract: Contract) -> str:
    planner = contract.step.planner
    if planner is None:
        return ""
    rows = [
        (f"{IMAGE}{one.name}", f"{one.height} x {one.width} x 3", f"{one.focal_length:.6g}",
         ", ".join(f"{value:.6g}" for value in one.center), one.body, _numbers(one.position), _numbers(one.quaternion))
        for one in planner.cameras
    ]  # fmt: skip
    rate = contract.control_hz / planner.execute
    return f"""## Seen

`planner.onnx` runs {rate:.4g} times a second, at every step whose number is a multiple of {planner.execute}, and plans
{planner.chunk} actions, `chunk`; {planner.execute} of them are carried out, one in each step, as `{PLANNED}` of
`policy.onnx`. It reads the step's `observation` (an output of `policy.onnx` that does not depend on `{PLANNED}`: hand
it zeros and keep nothing of that call) and these images, uint8, RGB, rows from the top, taken now:

{table(("input", "height, width, colours", "focal length, px", "centre, px", "fixed to", "position, m", "wxyz"), rows)}

Cameras are pinholes: undistort your images, and crop and scale them to this angle of view. A camera's frame is OpenCV's
(x right, y down, z ahead), in the frame of the body it is fixed to. Light, colours and background differ from
training's on any real table: what the policy makes of them, only trying tells.
{_words(planner)}{_noise(contract, planner)}"""


def _words(planner: Planner) -> str:
    if planner.words is None:
        return ""
    words = planner.words
    known = "\n".join(f"- {text}" for text in words.instructions)
    return f"""
Its instruction is the input `tokens` ({words.words}, {words.ngrams}) int64, -1 where there is nothing. It was trained
on

{known}

```python
import re, zlib
import numpy as np

def tokens_of(text):
    tokens = np.full(({words.words}, {words.ngrams}), -1, np.int64)
    for row, word in enumerate(re.findall(r"\\w+", text.lower())):
        marked = f"<{{word}}>"
        ngrams = [marked] + [marked[i : i + 3] for i in range(len(marked) - 2) if len(marked) > 3]
        tokens[row, : len(ngrams)] = [zlib.crc32(ngram.encode()) % {words.buckets} for ngram in ngrams]
    return tokens
```
"""


def _noise(contract: Contract, planner: Planner) -> str:
    if not planner.noise:
        return ""
    return f"""
Its input `noise` ({planner.chunk}, {contract.action_size}) is standard normal, drawn anew each time.
"""


def _inputs(contract: Contract) -> str:
    step = contract.step
    rows = [(source.name, str(source.size), source.unit, source.meaning) for source in step.sources]
    return f"""## Measured

At every step, raw: do not scale, clip or normalise. Quaternions are wxyz, z is up. What a camera or an estimator has to
say, such as the place of an object, stands here like any sensor.

{table(("input", "size", "unit", "what it is"), rows)}
{_base(step)}{_imu(contract.imu)}"""


def _base(step: Step) -> str:
    if not step.base:
        return ""
    place, turn = _numbers(step.base[:3], 6), _numbers(step.base[3:], 6)
    return f"""
The world's frame: the robot's base, body `{step.base_body}`, stands at {place} m, turned by the quaternion {turn}.
"""


def _imu(imu: Place | None) -> str:
    if imu is None:
        return ""
    place, turn = _numbers(imu.position, 6), _numbers(imu.quaternion, 6)
    return f"""
The IMU sits on body `{imu.body}` at {place} m, turned by the quaternion {turn}.
"""


def _commands(step: Step) -> str:
    if not step.commands:
        return ""
    rows = []
    for one in step.commands:
        example = ", ".join(f"{value:.4g}" for value in one.example[:8]) + (", ..." if one.size > 8 else "")
        places = ", ".join(map(str, one.places)) if one.places else EMPTY
        rows.append((f"{COMMAND}{one.name}", str(one.size), one.meaning, _range(one), places, example))
    return f"""## Commands

An operator, a planner or an estimator gives these at every step. Ranges and examples are those of training.

{table(("input", "size", "what it is", "range", "which of them", "example"), rows)}
"""


def _range(one: Command) -> str:
    """The numbers of a command between their bounds."""
    return "; ".join(f"{n.name} {n.lower:g} to {n.upper:g} {n.unit}" for n in one.numbers) or EMPTY


def _state(step: Step) -> str:
    if not step.remembered:
        return ""
    rows = [(f"{STATE}{one.name}", str(one.size), _begin(one)) for one in step.remembered]
    return f"""## State

Each step gives `state.NAME:next`, which is `state.NAME` of the next step. Before the first:

{table(("input", "size", "begins with"), rows)}
"""


def _begin(one: Remembered) -> str:
    values = ", ".join(f"{value:.6g}" for value in one.begin[:8]) + (", ..." if one.size > 8 else "")
    if one.given:
        return f"to be given: {one.given}; for example {values}"
    if not one.measured:
        return "zeros" if not any(one.begin) else values
    terms = []
    for part in one.measured:
        factor = "" if part.scale == 1.0 else f"{part.scale:.6g} · "
        offset = f" {part.offset:+.6g}" if part.offset else ""
        terms.append(f"{factor}{part.source}[{part.place}]{offset}")
    return ", ".join(terms)


def _actuators(contract: Contract) -> str:
    columns = ("index", "target", "unit", "offset", "up", "down", "lower", "upper")
    columns += ("max rate /s", "kp", "kd", "max effort")
    rows = []
    for i, a in enumerate(contract.actuators):
        moved = [f"{value:.7g}" if value else EMPTY for value in (a.up, a.down)]
        facts = stated(a, ("max_rate", "stiffness", "damping", "max_effort"))
        rows.append((str(i), a.name, a.unit, f"{a.offset:.7g}", *moved, *_limits((a.lower, a.upper)), *facts))
    gains = any(actuator.stiffness for actuator in contract.actuators)
    note = "\nkp and kd are the servos' gains in training, N m/rad and N m s/rad: the robot's must be the same.\n"
    rule = """
target = offset + up · max(action, 0) + down · min(action, 0), of the action of the same index, within the limits. The
step computes it; do not compute it twice.
"""
    has_rule = any(actuator.up or actuator.down for actuator in contract.actuators)
    return f"""## Targets

In this order, within their limits, to be held until the next. The offset is the target of a robot at rest.
{rule if has_rule else ""}{note if gains else ""}
{table(columns, rows)}
"""


def _limits(values: Iterable[float]) -> list[str]:
    return [EMPTY if math.isinf(value) else f"{value:.7g}" for value in values]


def _rotors(contract: Contract) -> str:
    if not contract.rotors:
        return ""
    unit = contract.actuators[0].unit
    rows = [
        (actuator.name, _numbers(rotor.position), _numbers(rotor.axis),
         "counter-clockwise" if rotor.spin > 0 else "clockwise", _numbers(rotor.thrust), _numbers(rotor.torque))
        for actuator, rotor in zip(contract.actuators, contract.rotors, strict=True)
    ]  # fmt: skip
    return f"""## Rotors

Body frame: x forward, y left, z up, from the centre of mass. Of a target n ({unit}) the thrust is a n + b n² in N, and
the reaction torque about the axis likewise in N m. The drone weighs {contract.mass:.5g} kg.

{table(("target", "position, m", "axis", "spin, seen from where it pushes", "thrust a, b", "torque a, b"), rows)}
"""


def _numbers(values: Iterable[float], digits: int = 5) -> str:
    return " ".join(f"{value:.{digits}g}" for value in values)


def _joints(contract: Contract) -> str:
    if not contract.joints:
        return ""
    rows = []
    for i, (joint, *rest) in enumerate(zip(contract.joints, *contract.rest_range, strict=True)):
        facts = (*_limits((joint.lower, joint.upper)), *stated(joint, ["max_velocity"]), *_limits(rest))
        rows.append((str(i), joint.name, f"{joint.default:.7g}", *facts))
    return f"""## Joints

The order of `joint_pos` and `joint_vel`; rad, or m of slides. From home to the stance and while actions are zero, each
joint stays in `rest from` to `rest to`: between both poses, and further by what its servo's largest effort bends it. A
joint that leaves it does not rest; damped, the robot sinks from there.

{table(("index", "joint", "home", "lower", "upper", "max speed /s", "rest from", "rest to"), rows)}
"""


def _observation(contract: Contract) -> str:
    rows, start = [], 0
    for term in contract.terms:
        noise = f"{term.noise:.3g}" if term.noise else EMPTY
        place = f"{start}–{start + term.size - 1}" if term.size > 1 else str(start)
        rows.append((place, term.name, str(term.size), term.unit or EMPTY, noise, term.meaning or EMPTY))
        start += term.size
    return f"""## Observation

What the network reads. The step computes it from the inputs above and gives it as the output `observation`, for logs
and for comparison with simulation. Noise is the standard deviation that a term had in training.

{table(("index", "term", "size", "unit", "noise", "what it is"), rows)}
"""


def _safety(contract: Contract) -> str:
    limits = Limits.of(contract, SafetyConfig())
    lines = [
        "inputs that are not finite never reach the policy: `policy_step` then returns nonzero and gives the resting "
        "targets, the Python loader gives NaN, the ONNX model does not look",
        "targets stay within the limits above and change by at most the largest rate",
        f"measurements older than {limits.max_age:g} s ({limits.max_age / limits.period:g} control periods), "
        "times of theirs that jump back by more than a period, missed deadlines and joints beyond their limits stop "
        "the policy",
    ]
    if contract.max_tilt < math.pi:
        degrees = math.degrees(contract.max_tilt)
        lines.append(f"the robot has fallen when its z axis leans by more than {degrees:.0f} degrees")
    if contract.workspace:
        space = (f"{axis} {low:g} to {high:g} m" for axis, (low, high) in zip("xyz", contract.workspace, strict=True))
        lines.append(f"the body stays within {', '.join(space)}")
    rules = ";\n".join(f"* {line}" for line in lines)
    return f"""## Safety

A policy knows no limits but those it is given. Whatever loop you write, see to it that

{rules}.

`python -m sim2real.deploy` does all of this, and damps the robot when a rule is broken.
"""


def _python(contract: Contract) -> str:
    if contract.step.planner is not None:
        return ""
    return """## In Python

```python
import numpy as np
from sim2real.bundles.bundle import load
from sim2real.deployment.controllers import controller_of
from sim2real.robots.base import Measurement

controller = controller_of(load("."))  # hashes and golden steps verified
command = np.array([])  # the numbers of all commands, one after the other
while running():
    measured = Measurement(time=now(), readings=measure())  # arrays by the names of the inputs above
    observation, action, target = controller.decide(measured, command)
    write(target)
```
"""


def _onnx(step: Step) -> str:
    planner = step.planner
    setup = "" if planner is None else PLANNER_SETUP.format(noise=_drawn(step, planner))
    planned = "" if planner is None else PLANNER_STEP
    return f"""## With ONNX Runtime alone

```python
import json
import numpy as np
import onnxruntime

step = json.load(open("contract.json"))["step"]
session = onnxruntime.InferenceSession("policy.onnx", providers=["CPUExecutionProvider"])

def begin(measured):  # what is remembered, before the first step
    state = {{}}
    for one in step["remembered"]:
        parts = [part["scale"] * measured[part["source"]][part["place"]] + part["offset"] for part in one["measured"]]
        state["state." + one["name"]] = np.array(parts or one["begin"], np.float32)
    return state

inputs = [one["name"] for one in step["sources"]] + ["command." + one["name"] for one in step["commands"]]
outputs = [entry.name for entry in session.get_outputs()]
state = None
{setup}while running():
    given = {{name: np.asarray(measure(name), np.float32) for name in inputs}}
    state = state or begin(given)
{planned}    result = dict(zip(outputs, session.run(outputs, {{**given, **state}})))
    state = {{name: result[name + ":next"] for name in state}}
    write(result["target"])
```
"""


PLANNER_SETUP = """planner = onnxruntime.InferenceSession("planner.onnx", providers=["CPUExecutionProvider"])
chunk = []

def plan(observation):
    seen = {{"image." + one["name"]: photograph(one["name"]) for one in step["planner"]["cameras"]}}
    return planner.run(None, {{**seen, "observation": observation{noise}}})[0]

"""
PLANNER_STEP = """    if not len(chunk):
        nothing = np.zeros(step["action_size"], np.float32)
        observation = session.run(["observation"], {**given, **state, "planned.action": nothing})[0]
        chunk = plan(observation)[: step["planner"]["execute"]]
    given["planned.action"], chunk = chunk[0], chunk[1:]
"""


def _drawn(step: Step, planner: Planner) -> str:
    """Further inputs of a planner, in Python."""
    words = "" if planner.words is None else f', "tokens": tokens_of("{planner.words.instructions[0]}")'
    if not planner.noise:
        return words
    return f'{words}, "noise": np.random.randn({planner.chunk}, {step.action_size}).astype("f")'


def _c(contract: Contract) -> str:
    first = next(iter(identifiers("POLICY_ACTUATOR", (actuator.name for actuator in contract.actuators)).values()))
    return f"""## In C

```c
#include "policy.h"

struct policy_input input;
struct policy_state state;
float action[POLICY_ACTIONS], target[POLICY_TARGETS];

measure(&input);
policy_begin(&input, &state);
for (;;) {{
{_c_planner(contract)}    if (policy_step(&input, &state, action, target) != POLICY_OK) {{
        stop(); /* something is not finite; target holds the resting targets */
    }}
    write_first(target[{first}]);
    measure(&input);
}}
```

Prove it on the processor that will run it; a step may take {1e3 * contract.period:.4g} ms at most:

```
cc -std=c99 -O2 check.c policy.c -lm -o /tmp/check && /tmp/check
```
"""


def _c_planner(contract: Contract) -> str:
    if contract.step.planner is None:
        return ""
    return """    if (policy_observe(&input, &state, observation) != POLICY_OK) break;
    next_action(observation, input.planned_action); /* of the chunk; planner.onnx makes a new one when it is used up */
"""


def _crazyflie(contract: Contract) -> str:
    if not crazyflie_code.applies(contract):
        return ""
    return """## On the drone itself

`crazyflie/` builds into the firmware as an out-of-tree controller; see its README.
"""


def stated(item: object, names: Iterable[str]) -> list[str]:
    """Values of fields; 0 and inf mean that there is none."""
    values = [getattr(item, name) for name in names]
    return [f"{value:.6g}" if value and not math.isinf(value) else EMPTY for value in values]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, without the columns that are empty in every row."""
    kept = [i for i in range(len(columns)) if not rows or any(row[i] != EMPTY for row in rows)]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line[i].replace("|", "\\|") for i in kept) + " |" for line in lines)
