"""Small policies and contracts to export, bundles that are exported once a worker, and C code in this process.

Tests of what reads a bundle take `small_bundle()` and change a copy of it; `reseal` hides a change as a forger would.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch

from embodied.core.task import Task
from embodied.storage.files import seal
from policies.networks.build import make_actor
from policies.networks.mlp import MLP, Activation, NetworkConfig
from policies.policy import NormalizedActor, Policy
from sim2real import export
from sim2real.bundles.files import MANIFEST
from sim2real.contract.contract import Actuator, Contract, Joint, Term
from sim2real.contract.describe import describe, is_whole_step
from sim2real.deployment.policies import ShippedPolicy
from sim2real.graphs.control import nominal
from sim2real.graphs.describe_step import Described, describe_step
from tests.kit.budget import sharing
from tests.kit.worlds import task_of

INPUTS, ACTIONS = 9, 3
FLOATS = ctypes.POINTER(ctypes.c_float)


def small_policy(
    activation: Activation = Activation.TANH,
    hidden: tuple[int, ...] = (21, 5),
    inputs: int = INPUTS,
    actions: int = ACTIONS,
) -> Policy:
    """A network whose every number matters: random biases and statistics, and actions beyond [-1, 1]."""
    generator = torch.Generator().manual_seed(3)
    config = NetworkConfig(hidden, activation, output_gain=1.5)
    actor = make_actor(inputs, actions, config, generator=generator)
    assert isinstance(actor.mean, MLP)
    for layer in actor.mean.linears:
        layer.bias.data.normal_(std=0.3, generator=generator)
    mean = torch.empty(inputs).normal_(generator=generator)
    scale = torch.empty(inputs).uniform_(0.3, 3.0, generator=generator)
    return Policy(NormalizedActor(actor, mean, scale, 5.0), config)


def small_contract(task: str = "family/task") -> Contract:
    """Three joints, of which one has a narrow range and one moves further up than down."""
    names = ("hip", "knee", "ankle roll")
    up, down, upper = (0.5, 0.3, 1.1), (0.5, 0.7, 1.1), (2.0, 0.2, 2.0)
    return Contract(
        task=task,
        robot="leg",
        control_hz=100.0,
        physics_hz=500.0,
        actuators=tuple(
            Actuator(name, "rad", 0.1 * i - 0.123456789, up[i], down[i], -0.5, upper[i], 10.0, 20.0, 0.5, 9.0, name)
            for i, name in enumerate(names)
        ),
        joints=tuple(Joint(name, 0.1 * i, -0.6, 2.1, 20.0) for i, name in enumerate(names)),
        terms=(
            Term("gyro", "gyro", 3, "rad/s", 0.1),
            Term("joint_pos", "joint_offset", 3, "rad", 0.01, 2),
        ),
        command=("forward m/s",),
        command_ranges=((-1.0, 1.0),),
        latency=(0.0, 0.01),
        max_tilt=1.0,
    )


@functools.cache
def _shelf() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bundles-")


def folder_of(name: str) -> Path:
    """A folder for what tests share; it goes when the worker ends."""
    folder = Path(_shelf().name) / name
    folder.mkdir(parents=True)
    return folder


@functools.cache
def small_bundle() -> Path:
    """The bundle of `small_policy` and `small_contract`; tests that change anything change a copy."""
    with sharing("small bundle"):
        return export.write(folder_of("small") / "bundle", small_policy(), small_contract()).path


@functools.cache
def shipped_bundle(task: str) -> Path:
    """The bundle of the policy shipped for a task, from the command line; tests change copies only."""
    with sharing(f"bundle of {task}"):
        folder = folder_of(task) / "bundle"
        assert export.main([task, "--out", str(folder)]) == 0
    return folder


@functools.cache
def contract_of(task: str) -> Contract:
    """The contract of a registered task with its default options."""
    if is_whole_step(task_of(task)):
        return described(task).contract
    with sharing(f"contract of {task}"):
        return describe(task_of(task), task)


def quick(task: Task[Any]) -> Task[Any]:
    """A task without variations whose reset is one program, instead of hundreds of single operations."""
    plain = copy.copy(nominal(task))
    setattr(plain, "reset", jax.jit(plain.reset))  # noqa: B010  (no type checker lets a method be replaced)
    return plain


@functools.cache
def described(task: str) -> Described:
    """The whole control step of a registered task, without a policy."""
    with sharing(f"control step of {task}"):
        return describe_step(quick(task_of(task)), task)


@functools.cache
def shipped_policy(task: str) -> ShippedPolicy:
    """The policy shipped for a task, with its contract."""
    with sharing(f"policy of {task}"):
        return ShippedPolicy(task)


def reseal(folder: Path) -> None:
    """Make the manifest agree with whatever the files hold now: what a forger would do."""
    document = json.loads((folder / MANIFEST).read_bytes())
    del document["sha256"]
    for name, entry in document["files"].items():
        data = (folder / name).read_bytes()
        entry["bytes"], entry["sha256"] = len(data), hashlib.sha256(data).hexdigest()
    (folder / MANIFEST).write_bytes(seal(document))


def observations(policy: Policy, count: int = 300) -> np.ndarray:
    """(count + 60, n) float32: usual ones, and single numbers as large and as small as float32 goes."""
    rng = np.random.default_rng(0)
    size = policy.observation_size
    usual = 2 * rng.standard_normal((count, size))
    strange = rng.standard_normal((60, size))
    values = [0.0, -0.0, 1e30, -1e30, 3.4e38, -3.4e38, 1e-40, -1e-40, 1e6, -1e6]
    strange[np.arange(60), rng.integers(0, size, 60)] = np.resize(values, 60)
    return np.concatenate([usual, strange]).astype(np.float32)


class Compiled:
    """`policy.c` in a folder, as a function."""

    def __init__(self, folder: Path, flags: tuple[str, ...], actions: int = ACTIONS) -> None:
        library = folder / "policy.so"
        compile_c([*flags, "-fPIC", "-shared", str(folder / "policy.c"), "-lm", "-o", str(library)])
        self._step = ctypes.CDLL(str(library)).policy_step
        self._step.argtypes = [FLOATS] * 3
        self.actions = actions

    def __call__(self, observation: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        """Return code, action, target."""
        observation = np.ascontiguousarray(observation, np.float32)
        action, target = np.full((2, self.actions), 7.0, np.float32)
        why = self._step(*(array.ctypes.data_as(FLOATS) for array in (observation, action, target)))
        return why, action, target


def compile_c(arguments: list[str]) -> None:
    """Run gcc; its messages fail the test."""
    done = subprocess.run(["gcc", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr[:2000]
