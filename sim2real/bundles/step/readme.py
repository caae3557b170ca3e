"""The README of a bundle with a whole control step: what somebody who has nothing but the bundle needs to wire it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sim2real.bundles.c_code import identifiers
from sim2real.bundles.readme import EMPTY, joints_table, model_note, stated, table, timing
from sim2real.contract.contract import COMMAND, STATE, Contract, Remembered, Step
from sim2real.contract.planner import IMAGE, PLANNED, Planner


def readme(contract: Contract, numbers: int, digest: str) -> str:
    """The text.

    Args:
        contract: With a step.
        numbers: How many constants the computation holds.
        digest: The policy's SHA-256.
    """
    step = contract.step
    assert step is not None
    parts = [_head(contract, numbers, digest), timing(contract), _inputs(step), _told(step), _planner(contract)]
    parts += [_state(step), _actuators(contract), joints_table(contract), _safety(), _onnx(step), _c(contract)]
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
{model_note(contract)}"""


def _planner_files(contract: Contract) -> str:
    assert contract.step is not None
    if contract.step.planner is None:
        return ""
    return """| `planner.onnx` | the network that sees, for ONNX Runtime |
| `planner.safetensors` | inputs of it with what it made of them where it was exported |
"""


def _planner(contract: Contract) -> str:
    assert contract.step is not None
    planner = contract.step.planner
    if planner is None:
        return ""
    rows = [
        (f"{IMAGE}{one.name}", f"{one.height} x {one.width} x 3", f"{one.focal_length:.6g}", _pair(one.center),
         one.body, " ".join(f"{v:.5g}" for v in one.position), " ".join(f"{v:.5g}" for v in one.quaternion))
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


def _pair(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)


def _words(planner: Planner) -> str:
    if planner.words is None:
        return ""
    words = planner.words
    known = "\n".join(f"- {text}" for text in words.instructions)
    return f"""
It is told what to do by `tokens` ({words.words}, {words.ngrams}) int64, -1 where there is nothing. It was trained on

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

outputs = [entry.name for entry in session.get_outputs()]
state = None
{setup}while running():
    given = {{{given}}}  # float32 arrays, by the names above
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
    told = "" if planner.words is None else f', "tokens": tokens_of("{planner.words.instructions[0]}")'
    if not planner.noise:
        return told
    return f'{told}, "noise": np.random.randn({planner.chunk}, {step.action_size}).astype("f")'


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
    assert contract.step is not None
    if contract.step.planner is None:
        return ""
    return """    if (policy_observe(&input, &state, observation) != POLICY_OK) break;
    next_action(observation, input.planned_action); /* of the chunk; planner.onnx makes a new one when it is used up */
"""
