"""A bundle of every task, and what it computes against the task's own functions in JAX and its policy in torch.

The policy is the shipped one, else an untrained network of the task's own architecture. For each bundle, ONNX and C run
through `inputs` control steps whose measurements, commands and memory lie around an episode's start (2 % of the larger
of 1 and the number, 0.1 rad/s of joint velocities), each by itself. Differences are relative to the larger of 1 and the
number. How long a step takes, and what it needs on a microcontroller, is measured by `benchmarks.export_parity`.

python -m benchmarks.export_every_task --json FILE
"""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import ctypes

import numpy as np
import torch
import tyro

from embodied.env.registry import join_content
from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError
from embodied.storage.paths import shipped
from policies.networks.build import make_actor
from policies.networks.mlp import NetworkConfig
from policies.policy import NormalizedActor, Policy
from policies.ppo.ppo import PPOConfig
from policies.training.loading import open_checkpoint, policy_from_checkpoint
from sim2real import export
from sim2real.bundles import bundle, c_code
from sim2real.bundles.contents import contents
from sim2real.bundles.planner.network import SEEING
from sim2real.contract.contract import STATE
from sim2real.graphs.describe import describe
from sim2real.graphs.golden import outside
from sim2real.graphs.graph import Graph
from sim2real.graphs.reference import Reference
from sim2real.graphs.to_c import identifier
from sim2real.graphs.tracing.from_torch import PolicyNodes

ASKED = 1e-5  # largest difference


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = ()
    """Names; by default every task."""
    inputs: int = 10_000
    """Control steps to compare."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print a line for each task."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name in settings.tasks or tuple(join_content()):
        begin = time.perf_counter()
        try:
            results[name] = measure(name, settings.inputs)
        except EmbodiedError as error:
            results[name] = {"refused": str(error), "seconds": time.perf_counter() - begin}
        cli.show(f"{name}: {results[name]} {time.perf_counter() - begin:.1f} s")
    cli.write_result(settings.json, cli.command_line("benchmarks.export_every_task"), summary(results, settings.inputs))


def summary(results: Mapping[str, Any], inputs: int) -> dict[str, Any]:
    """Counts, and the largest differences."""
    exported = [row for row in results.values() if "refused" not in row]
    compared = [row for row in exported if "onnx" in row]
    return {
        "tasks": len(results),
        "exported": len(exported),
        "refused_seconds": max((row["seconds"] for row in results.values() if "refused" in row), default=0.0),
        "compared": len(compared),
        "inputs": inputs,
        "asked": ASKED,
        "onnx": max((row["onnx"] for row in compared), default=0.0),
        "c": max((row["c"] for row in compared), default=0.0),
        "results": dict(results),
    }


def measure(name: str, inputs: int) -> dict[str, Any]:
    """One task's bundle."""
    task = join_content()[name].load()()
    policy, how = policy_for(name, task)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "bundle"
        if type(policy) in SEEING:  # its network is a planner, verified by golden plans; the step is the task's alone
            export.write(folder, policy, task, name)
            return {"policy": how, "planner": True, "golden": True, "c_check": c_code.prove(folder)}
        described = describe(task, name, PolicyNodes(policy))
        made = export.finished(folder, *contents(described, policy), described.contract)
        checked = c_code.prove(folder)
        figures = compared(made, described.graph, folder, Path(place), policy, described.task, inputs)
    return {"policy": how, "golden": True, "c_check": checked, **figures}


def policy_for(name: str, task: Any) -> tuple[Policy, str]:
    """A task's shipped policy, else an untrained one; and which."""
    if name in shipped():
        policy = policy_from_checkpoint(open_checkpoint(shipped()[name]), name)
        assert isinstance(policy, Policy)
        return policy, "shipped"
    training = join_content()[name].load_training()
    own = (
        next((one for one in training.algorithms if isinstance(one, PPOConfig)), PPOConfig())
        if training
        else PPOConfig()
    )
    return untrained(task, own.actor), "untrained"


def untrained(task: Any, config: NetworkConfig) -> Policy:
    """Random weights whose actions are not all zero."""
    generator = torch.Generator().manual_seed(7)
    size = sum(int(np.prod(shape)) for shape in task.observation_terms[POLICY].values())
    actor = make_actor(size, task.action_size, dataclasses.replace(config, output_gain=0.5), generator=generator)
    sizes = actor.sizes[0] if actor.sizes[0] == size else 1
    mean, scale = torch.zeros(sizes), torch.ones(sizes)
    return Policy(NormalizedActor(actor, mean, scale, 10.0), config)


def compared(
    made: bundle.Bundle, graph: Graph, folder: Path, place: Path, policy: Policy, task: Any, inputs: int
) -> dict[str, float]:
    """Largest differences and times of a bundle's step."""
    step = made.contract.step
    reference = Reference(task, step, [joint.name for joint in made.contract.joints], graph)
    steps = reference.steps(inputs)
    observation, state = reference.observe(steps)
    with torch.no_grad():
        action = policy(torch.from_numpy(observation)).numpy()
    lower, upper = made.contract.row("lower"), made.contract.row("upper")
    exact = {
        "observation": observation,
        "action": action,
        "target": np.clip(reference.act(steps, state, action), lower, upper),
    }
    library = Library(folder, place, made)
    found: dict[str, dict[str, list[np.ndarray]]] = {way: {name: [] for name in exact} for way in ("onnx", "c")}
    seconds = {"onnx": 0.0, "c": 0.0}
    for row in range(inputs):
        one = {name: value[row] for name, value in steps.given.items()}
        for way, run in (("onnx", made.step), ("c", library.step)):
            start = time.perf_counter()
            outputs = run(one)
            seconds[way] += time.perf_counter() - start
            for name in found[way]:
                if name in outputs:
                    found[way][name].append(np.asarray(outputs[name]))
    figures = {way: max(_off(exact[name], values) for name, values in found[way].items() if values) for way in found}
    detail = {f"onnx_{name}": _off(exact[name], values) for name, values in found["onnx"].items()}
    return {**figures, **detail, "onnx_ms": 1e3 * seconds["onnx"] / inputs, "c_ms": 1e3 * seconds["c"] / inputs}


def _off(exact: np.ndarray, values: list[np.ndarray]) -> float:
    return float((np.abs(np.array(values) - exact) / np.maximum(1.0, np.abs(exact))).max(initial=0.0))


class Library:
    """`policy.c` of a bundle as a shared library."""

    def __init__(self, folder: Path, place: Path, made: bundle.Bundle) -> None:
        library = place / "policy.so"
        command = ["gcc", *c_code.COMPILE, "-fPIC", "-shared", str(folder / "policy.c"), "-lm", "-o", str(library)]
        subprocess.run(command, check=True, timeout=300)
        step = made.contract.step
        self._inputs = _struct([*outside(step).items()])
        self._state = _struct([(STATE + one.name, one.size) for one in step.remembered])
        self._step = ctypes.CDLL(str(library)).policy_step
        self._action = np.zeros(step.action_size, np.float32)
        self._target = np.zeros(len(made.contract.actuators), np.float32)

    def step(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Action and target of one step."""
        inputs, state = (_filled(names, given) for names in (self._inputs, self._state))
        arrays = (inputs, state, self._action, self._target)
        if self._step(*(array.ctypes.data_as(ctypes.c_void_p) for array in arrays)):
            raise RuntimeError("policy_step refused finite inputs")
        return {"action": self._action.copy(), "target": self._target.copy()}


def _struct(fields: list[tuple[str, int]]) -> list[str]:
    """Names of the floats of a struct, in its order: no padding lies between floats."""
    assert len({identifier(name) for name, _ in fields}) == len(fields)
    return [name for name, _ in fields]


def _filled(names: list[str], given: Mapping[str, np.ndarray]) -> np.ndarray:
    parts = [given[name] for name in names]
    return np.ascontiguousarray(np.concatenate(parts) if parts else np.zeros(1), np.float32)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
