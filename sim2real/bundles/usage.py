"""How to run a bundle, as its README says: in Python, with ONNX Runtime alone, in C, on the drone."""

from __future__ import annotations

from sim2real.bundles.c_code import identifiers, whole_rate
from sim2real.contract.contract import Contract

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


def usage(contract: Contract) -> str:
    """Markdown."""
    parts = [_python(contract), _onnx(), _c(contract), _crazyflie(contract)]
    return "\n".join(part for part in parts if part)


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
