"""The README of a bundle with a whole control step: what somebody who has nothing but the bundle needs to wire it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sim2real.bundles.c_code import identifiers
from sim2real.bundles.readme import EMPTY, joints_table, model_note, stated, table, timing
from sim2real.contract.contract import COMMAND, STATE, Contract, Remembered, Step


def readme(contract: Contract, numbers: int, digest: str) -> str:
    """The text.

    Args:
        contract: With a step.
        numbers: How many constants the computation holds.
        digest: The policy's SHA-256.
    """
    step = contract.step
    assert step is not None
    parts = [_head(contract, numbers, digest), timing(contract), _inputs(step), _told(step), _state(step)]
    parts += [_actuators(contract), joints_table(contract), _safety(), _onnx(step), _c(contract)]
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
| `contract.json` | everything below, at full precision, for programs |
| `manifest.json` | sizes and SHA-256 of all files |

## First

```
pip install "embodied-sim[sim2real]"
python -m sim2real.bundles.bundle .                  # verify hashes and golden steps
python -m sim2real.deploy . --robot mujoco           # a rehearsal in simulation, in real time
```

Order, signs, default pose and units are what deployments most often get wrong: check each row on the robot, motors off,
before the first step. Build and write nothing in this folder: a bundle with other files in it is refused.
{model_note(contract)}"""


def _inputs(step: Step) -> str:
    rows = [(source.name, str(source.size), source.unit, source.meaning) for source in step.sources]
    return f"""## Measured

At every step, raw: do not scale, clip or normalise. Quaternions are wxyz, z is up. What a camera or an estimator has to
say, such as the place of an object, stands here like any sensor.

{table(("input", "size", "unit", "what it is"), rows)}
{_base(step)}"""


def _base(step: Step) -> str:
    if not step.base:
        return ""
    place, turn = (" ".join(f"{value:.6g}" for value in part) for part in (step.base[:3], step.base[3:]))
    return f"""
The world's frame: the robot's base, body `{step.base_body}`, stands at {place} m, turned by the quaternion {turn}.
"""


def _told(step: Step) -> str:
    if not step.told:
        return ""
    rows = []
    for one in step.told:
        example = ", ".join(f"{value:.4g}" for value in one.example[:8]) + (", ..." if one.size > 8 else "")
        places = ", ".join(map(str, one.places)) if one.places else EMPTY
        rows.append((f"{COMMAND}{one.name}", str(one.size), one.meaning, places, example))
    return f"""## Told

What an operator, a planner or an estimator gives at every step. Examples are those of one episode of training.

{table(("input", "size", "what it is", "which of them", "example"), rows)}
"""


def _state(step: Step) -> str:
    if not step.remembered:
        return ""
    rows = [(f"{STATE}{one.name}", str(one.size), _begin(one)) for one in step.remembered]
    return f"""## Remembered

Each step gives `state.NAME:next`, which is `state.NAME` of the next step. Before the first:

{table(("input", "size", "begins with"), rows)}
"""


def _begin(one: Remembered) -> str:
    values = ", ".join(f"{value:.6g}" for value in one.begin[:8]) + (", ..." if one.size > 8 else "")
    if one.told:
        return f"to be told: {one.told}; for example {values}"
    if not one.measured:
        return "zeros" if not any(one.begin) else values
    terms = []
    for part in one.measured:
        factor = "" if part.scale == 1.0 else f"{part.scale:.6g} · "
        offset = f" {part.offset:+.6g}" if part.offset else ""
        terms.append(f"{factor}{part.source}[{part.place}]{offset}")
    return ", ".join(terms)


def _actuators(contract: Contract) -> str:
    rows = [
        (
            str(i),
            a.name,
            a.unit,
            f"{a.offset:.7g}",
            *_limits((a.lower, a.upper)),
            *stated(a, ("stiffness", "damping", "max_effort")),
        )
        for i, a in enumerate(contract.actuators)
    ]
    note = "\nkp and kd are the servos' gains in training: the robot's must be the same.\n"
    gains = any(actuator.stiffness for actuator in contract.actuators)
    columns = ("index", "target", "unit", "at rest", "lower", "upper", "kp", "kd", "max effort")
    return f"""## Targets

In this order, within their limits, to be held until the next.
{note if gains else ""}
{table(columns, rows)}
"""


def _limits(values: Iterable[float]) -> list[str]:
    return [EMPTY if math.isinf(value) else f"{value:.7g}" for value in values]


def _safety() -> str:
    return """## Safety

A policy knows no limits but those it is given. Whatever loop you write, see to it that inputs that are not finite never
reach the policy (`policy_step` then returns nonzero; the ONNX model does not look), that old measurements and missed
deadlines stop it, and that joints beyond their limits do. `python -m sim2real.deploy` does all of this.
"""


def _onnx(step: Step) -> str:
    outside = [source.name for source in step.sources] + [f"{COMMAND}{one.name}" for one in step.told]
    given = ", ".join(f'"{name}": ...' for name in outside[:3]) + (", ..." if len(outside) > 3 else "")
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

outputs = [entry.name for entry in session.get_outputs()]
state = None
while running():
    given = {{{given}}}  # float32 arrays, by the names above
    state = state or begin(given)
    result = dict(zip(outputs, session.run(outputs, {{**given, **state}})))
    state = {{name: result[name + ":next"] for name in state}}
    write(result["target"])
```
"""


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
    if (policy_step(&input, &state, action, target) != POLICY_OK) {{
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
