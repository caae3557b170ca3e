"""A program that wires a bundle with numpy, onnxruntime and json alone, with lines of JSON for sensors and motors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

WIRING = """
import json, sys
import numpy as np
import onnxruntime

folder, pipe = sys.argv[1], sys.stdin.buffer
step = json.load(open(folder + "/contract.json"))["step"]
session = onnxruntime.InferenceSession(folder + "/policy.onnx", providers=["CPUExecutionProvider"])
outputs = [entry.name for entry in session.get_outputs()]

def begin(measured):
    state = {}
    for one in step["remembered"]:
        parts = [part["scale"] * measured[part["source"]][part["place"]] + part["offset"] for part in one["measured"]]
        state["state." + one["name"]] = np.array(parts or one["begin"], np.float32)
    return state

state = None
for line in sys.stdin:
    given = {name: np.array(value, np.float32) for name, value in json.loads(line).items()}
    state = state or begin(given)
    result = dict(zip(outputs, session.run(outputs, {**given, **state})))
    state = {name: result[name + ":next"] for name in state}
    print(json.dumps(result["target"].tolist()), flush=True)
assert not {"embodied", "sim2real", "jax", "torch", "mujoco"} & set(sys.modules)
"""
"""The README's; it imports nothing of ours."""


class Ask(Protocol):
    """Measurements by name -> targets."""

    def __call__(self, measured: Mapping[str, Sequence[float]], /) -> list[float]: ...


@contextmanager
def stranger(bundle: Path, folder: Path) -> Iterator[Ask]:
    """Run the program on a bundle; what it is asked, it answers."""
    command = [sys.executable, "-c", WIRING, str(bundle)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
    assert process.stdin
    assert process.stdout
    asked, answers = process.stdin, process.stdout

    def ask(measured: Mapping[str, Sequence[float]]) -> list[float]:
        asked.write(json.dumps(measured) + "\n")
        asked.flush()
        return json.loads(answers.readline())

    with process:
        yield ask
        asked.close()
        assert process.wait(30) == 0
