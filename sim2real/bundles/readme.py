"""The README of a bundle: what somebody who has nothing but the bundle needs to deploy it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from sim2real.bundles.c_code import identifiers, whole_rate
from sim2real.bundles.network import Network
from sim2real.contract.contract import Contract, Term
from sim2real.deployment.safety_limits import Limits, SafetyConfig

PARTS = {
    "gyro": ("gyro",),
    "gravity": ("orientation",),
    "up": ("orientation",),
    "linvel": ("linvel", "orientation"),
    "joint_offset": ("joint_pos",),
    "joint_vel": ("joint_vel",),
    "to_command": ("position", "orientation"),
}
"""Source of a term -> the parts of a measurement it takes."""
EMPTY = "–"


def readme(contract: Contract, network: Network, digest: str) -> str:
    parts = [_head(contract, network, digest), _start(contract), timing(contract), _observation(contract)]
    parts += [_commands(contract), _actuators(contract), joints_table(contract), _safety(contract)]
    parts += [_python(contract), _onnx(), _c(contract), _crazyflie(contract)]
    return "\n".join(part for part in parts if part)


def _head(contract: Contract, network: Network, digest: str) -> str:
    widths = " → ".join(str(size) for size in (len(network.mean), *(len(layer.bias) for layer in network.layers)))
    end = ", a hyperbolic tangent at its end" if network.squashed else ""
    return f"""# {contract.task} for {contract.robot}

A policy trained in simulation, with all that a robot must have in common with it. The network is {widths},
{network.activation}{end}, {network.parameters:,} numbers; its SHA-256 is

`{digest}`

| file | |
| --- | --- |
| `policy.onnx` | the network with normaliser and limits inside, for ONNX Runtime |
| `policy.c`, `policy.h` | the same as C99: static memory, no dependency but math.h |
| `check.c` | proves `policy.c` on your processor |
| `golden.csv` | observations, and the actions and targets PyTorch gave for them |
| `contract.json` | everything below, at full precision, for programs |
| `manifest.json` | sizes and SHA-256 of all files |
"""


def _start(contract: Contract) -> str:
    return f"""## First

```
pip install "embodied-sim[sim2real]"
python -m sim2real.bundles.bundle .                  # verify hashes and golden vectors
python -m sim2real.deploy . --robot mujoco           # a rehearsal in simulation, in real time
```

The robot must be a {contract.robot} with joints and rotors in the order of the tables below. Order, signs, default pose
and units are what deployments most often get wrong: check each row on the robot, motors off, before the first step.
Build and write nothing in this folder: a bundle with other files in it is refused.
{model_note(contract)}"""


def model_note(contract: Contract) -> str:
    """What a simulation of a robot of one's own needs besides the bundle."""
    if contract.model is None:
        return ""
    return f"""
The rehearsal, and nothing else, needs the robot's model file `{Path(contract.model.path).name}`, of SHA-256
`{contract.model.sha256}`: by itself it looks for `{contract.model.path}`, else say `--robot-file FILE`.
"""


def timing(contract: Contract) -> str:
    low, high = contract.latency
    delay = f"\nCommands were delayed by {1e3 * low:g} to {1e3 * high:g} ms in training." if high else ""
    return f"""## Timing

{contract.control_hz:g} steps a second, one every {1e3 * contract.period:g} ms: measure, observe, run the policy, write
the targets. Keep to absolute deadlines; a loop that sleeps for a period after its work is slow. The robot holds the
targets between steps. Training simulated physics at {contract.physics_hz:g} Hz.{delay}
"""


def _observation(contract: Contract) -> str:
    rows, start = [], 0
    for term in contract.terms:
        size = term.size * term.history
        noise = f"{term.noise:.3g}" if term.noise else EMPTY
        rows.append((f"{start}–{start + size - 1}", term.name, str(size), term.unit, noise, _formula(term)))
        start += size
    return f"""## Observation

{start} numbers, raw: do not scale, clip or normalise them, the network does. Body frame: x forward, y left, z up.
Quaternions: {", ".join(contract.quaternion)}. Noise is the standard deviation that the term had in training.

{table(("index", "term", "size", "unit", "noise", "what it is"), rows)}
"""


def _formula(term: Term) -> str:
    past = f"; the last {term.history} steps, newest last, all the same at the start" if term.history > 1 else ""
    return (term.meaning or term.source) + past


def _commands(contract: Contract) -> str:
    rows = [
        (name, f"{low:g} to {high:g}")
        for name, (low, high) in zip(contract.command, contract.command_ranges, strict=True)
    ]
    return f"""## Commands

In this order. Ranges are those of training.

{table(("command", "range"), rows)}
"""


def _actuators(contract: Contract) -> str:
    columns = ("index", "actuator", "unit", "offset", "up", "down", "lower", "upper")
    optional = {"max rate /s": "max_rate", "kp": "stiffness", "kd": "damping", "max effort": "max_effort"}
    rows = []
    for i, actuator in enumerate(contract.actuators):
        exact = [f"{getattr(actuator, name):.7g}" for name in columns[3:]]
        rows.append((str(i), actuator.name, actuator.unit, *exact, *(stated(actuator, optional.values()))))
    gains = any(actuator.stiffness for actuator in contract.actuators)
    note = "\nkp and kd are the servos' gains in training, N m/rad and N m s/rad: the robot's must be the same.\n"
    return f"""## Actuators

target = offset + up · max(action, 0) + down · min(action, 0), then limited to [lower, upper]. The networks here give
the target beside the action; do not compute it twice.
{note if gains else ""}
{table((*columns, *optional), rows)}
"""


def joints_table(contract: Contract) -> str:
    if not contract.joints:
        return ""
    columns = ("default", "lower", "upper")
    rows = [
        (str(i), joint.name, *(f"{getattr(joint, name):.7g}" for name in columns), *stated(joint, ["max_velocity"]))
        for i, joint in enumerate(contract.joints)
    ]
    return f"""## Joints

Angles are observed from the default pose.

{table(("index", "joint", *(f"{name} rad" for name in columns), "max rad/s"), rows)}
"""


def _safety(contract: Contract) -> str:
    limits = Limits.of(contract, SafetyConfig())
    lines = [
        "numbers that are not finite never reach the robot: `policy_step` then returns nonzero and gives the resting "
        "targets, the Python loader gives NaN",
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
    needed = dict.fromkeys(part for term in contract.terms for part in PARTS.get(term.source, ()))
    measured = ", ".join(f"{part}=..." for part in needed)
    return f"""## In Python

```python
import numpy as np
from sim2real.bundles.bundle import load
from sim2real.robots.base import Measurement
from sim2real.deployment.terms import Observer

policy = load(".")  # hashes and golden vectors verified
observer, action, command = Observer(policy.contract), np.zeros({contract.action_size}), np.array([...])
while running():
    measured = Measurement(time=now(), {measured})
    action, target = policy.run(observer(measured, action, command))
    write(target)
```

`sim2real.robots.base.Measurement` states units and frames.
"""


def _onnx() -> str:
    return """## With ONNX Runtime alone

```python
import onnxruntime

session = onnxruntime.InferenceSession("policy.onnx", providers=["CPUExecutionProvider"])
action, target = session.run(["action", "target"], {"observation": observation[None]})
contract = session.get_modelmeta().custom_metadata_map["contract"]  # contract.json
```

Inputs and outputs are float32 with a leading batch axis. The limits turn an infinite observation into a plausible
action: check that it is finite before you run the model.
"""


def _c(contract: Contract) -> str:
    first = next(iter(identifiers("POLICY_ACTUATOR", (actuator.name for actuator in contract.actuators)).values()))
    return f"""## In C

```c
#include "policy.h"

float observation[POLICY_OBSERVATIONS], action[POLICY_ACTIONS], target[POLICY_ACTIONS];

if (policy_step(observation, action, target) != POLICY_OK) {{
    stop(); /* something is not finite; target holds the resting targets */
}}
write_{contract.actuators[0].name}(target[{first}]); /* {contract.actuators[0].unit} */
```

Prove it on the processor that will run it; a step may take {1e3 / whole_rate(contract):g} ms at most:

```
cc -std=c99 -O2 check.c policy.c -lm -o /tmp/check && /tmp/check
```
"""


def _crazyflie(contract: Contract) -> str:
    if contract.robot != "crazyflie":
        return ""
    return """## On the drone itself

`crazyflie/` builds into the firmware as an out-of-tree controller; see its README.
"""


def stated(item: object, names: Iterable[str]) -> list[str]:
    """Values of fields, of which 0 and inf mean that there is none."""
    values = [getattr(item, name) for name in names]
    return [f"{value:.6g}" if value and not math.isinf(value) else EMPTY for value in values]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, without the columns that are empty in every row."""
    kept = [i for i in range(len(columns)) if not rows or any(row[i] != EMPTY for row in rows)]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line[i].replace("|", "\\|") for i in kept) + " |" for line in lines)
