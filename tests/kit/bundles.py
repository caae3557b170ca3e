"""Small policies and contracts to export, bundles that are exported once a worker, and C code in this process.

Tests of what reads a bundle take `small_bundle()` and change a copy of it; `reseal` hides a change as a forger would.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embodied.storage import checkpoints
from embodied.storage.configs import to_json
from embodied.storage.files import seal
from embodied.storage.runs import Run
from policies.networks.build import make_actor
from policies.networks.mlp import MLP, Activation, NetworkConfig
from policies.policy import NormalizedActor, Policy
from policies.training.loading import PREFIX
from sim2real import export
from sim2real.bundles.bundle import Bundle
from sim2real.bundles.contents import contents
from sim2real.bundles.files import MANIFEST
from sim2real.bundles.policies import ShippedPolicy
from sim2real.contract.contract import (
    COMMAND,
    NEXT,
    STATE,
    Actuator,
    Command,
    Contract,
    Joint,
    Number,
    Remembered,
    Source,
    Step,
    Term,
)
from sim2real.graphs.control import ACTION, OBSERVATION, TARGET
from sim2real.graphs.describe import Described, describe
from sim2real.graphs.graph import Builder
from sim2real.graphs.tracing.from_torch import PolicyNodes
from tests.kit.budget import sharing
from tests.kit.worlds import task_of

INPUTS, ACTIONS = 9, 3
FLOATS = ctypes.POINTER(ctypes.c_float)


def small_policy(
    activation: Activation = Activation.TANH, hidden: tuple[int, ...] = (21, 5), inputs: int = INPUTS,
    actions: int = ACTIONS,
) -> Policy:  # fmt: skip
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
    command = Command("speed", 1, "forward m/s", (0.5,), (), (Number("forward", "m/s", -1.0, 1.0),))
    return Contract(
        task=task, robot="leg", control_hz=100.0, physics_hz=500.0,
        actuators=tuple(
            Actuator(name, "rad", 0.1 * i - 0.123456789, up[i], down[i], -0.5, upper[i], 10.0, 20.0, 0.5, 9.0, name)
            for i, name in enumerate(names)
        ),
        joints=tuple(Joint(name, 0.1 * i, -0.6, 2.1, 20.0) for i, name in enumerate(names)),
        terms=(
            Term("gyro", 3, "rad/s", "angular velocity, body frame", 0.1, "gyro"),
            Term("joint_pos", 3, "rad", "joint angles", 0.01, "joint_pos"),
            Term("last_action", 2, "1", "two of the last actions"),
            Term("command", 1, "m/s", "forward"),
        ),
        step=Step(
            sources=(
                Source("gyro", 3, "rad/s", "angular velocity, body frame"),
                Source("joint_pos", 3, "rad", "joint angles"),
            ),
            commands=(command,),
            remembered=(Remembered("last_action", 2, (0.0, 0.0)),),
            action_size=3,
        ),
        latency=(0.0, 0.01), max_tilt=1.0,
    )  # fmt: skip


def small_described(policy: Policy | None = None, contract: Contract | None = None) -> Described:
    """The step of `small_policy` and `small_contract`: the rule of the contract's actuators after the network."""
    policy, contract = policy or small_policy(), contract or small_contract()
    build = Builder()
    gyro, joints, last = (
        build.input(name, size) for name, size in (("gyro", 3), ("joint_pos", 3), (f"{STATE}last_action", 2))
    )
    observation = build.concat([gyro, joints, last, build.input(f"{COMMAND}speed", 1)])
    (action,) = PolicyNodes(policy)(build, [observation])
    zero = build.constant(0.0)
    moved = [
        build.binary("mul", build.binary(name, action, zero), build.constant(contract.row(field)))
        for name, field in (("max", "up"), ("min", "down"))
    ]
    target = build.binary("add", build.binary("add", *moved), build.constant(contract.row("offset")))
    for name, field in (("max", "lower"), ("min", "upper")):
        target = build.binary(name, target, build.constant(contract.row(field)))
    outputs = {TARGET: target, OBSERVATION: observation, ACTION: action}
    outputs[f"{STATE}last_action{NEXT}"] = build.take(action, [0, 1])
    start = {"gyro": np.zeros(3), "joint_pos": np.array([0.0, 0.1, 0.2]), f"{COMMAND}speed": np.array([0.5])}
    return Described(contract, build.graph(outputs, whole=start), None, start)  # type: ignore[arg-type]


def small_export(out: Path, policy: Policy | None = None, contract: Contract | None = None) -> Bundle:
    """Write the bundle of a small policy."""
    policy = policy or small_policy()
    made = small_described(policy, contract)
    return export.finished(out, *contents(made, policy), made.contract)


def stored_run(folder: Path, name: str, config: Any, policy: Policy) -> Run:
    """A run of one checkpoint."""
    run = Run.create(folder / "runs", name, {"config": to_json(config)})
    meta, tensors = policy.to_tensors()
    tensors = {PREFIX + part: tensor for part, tensor in tensors.items()}
    checkpoints.save(run.checkpoints, 1000, tensors, {"policy": meta, "task": name})
    return run


def target_of(contract: Contract, action: np.ndarray) -> np.ndarray:
    """(..., A) targets of actions (..., A) by the rule of the contract's actuators."""
    moved = contract.row("up") * np.maximum(action, 0.0) + contract.row("down") * np.minimum(action, 0.0)
    return np.clip(contract.row("offset") + moved, contract.row("lower"), contract.row("upper"))


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
        return small_export(folder_of("small") / "bundle").path


@functools.cache
def shipped_bundle(task: str) -> Path:
    """The bundle of the policy shipped for a task, from the command line; tests change copies only."""
    with sharing(f"bundle of {task}"):
        folder = folder_of(task) / "bundle"
        assert export.main([task, "--out", str(folder)]) == 0
    return folder


def contract_of(task: str) -> Contract:
    """The contract of a registered task with its default options."""
    return described(task).contract


@functools.cache
def described(task: str) -> Described:
    """The control step of a registered task, without a policy."""
    with sharing(f"control step of {task}"):
        return describe(task_of(task), task)


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


def inputs_of(observation: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of the small step that are observed as (9,)."""
    gyro, joints, last, speed = np.split(np.asarray(observation, np.float32), [3, 6, 8])
    return {"gyro": gyro, "joint_pos": joints, f"{STATE}last_action": last, f"{COMMAND}speed": speed}


class Compiled:
    """`policy.c` of the small step in a folder, as a function of an observation."""

    def __init__(self, folder: Path, flags: tuple[str, ...], actions: int = ACTIONS) -> None:
        library = folder / "policy.so"
        compile_c([*flags, "-fPIC", "-shared", str(folder / "policy.c"), "-lm", "-o", str(library)])
        self._step = ctypes.CDLL(str(library)).policy_step
        self._step.argtypes = [FLOATS] * 4
        self.actions = actions
        self.state = np.zeros(2, np.float32)
        """As the last step left it."""

    def __call__(self, observation: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        """Return code, action, target."""
        given = inputs_of(observation)
        outside = np.concatenate([given["gyro"], given["joint_pos"], given[f"{COMMAND}speed"]])
        self.state = np.array(given[f"{STATE}last_action"])
        action, target = np.full((2, self.actions), 7.0, np.float32)
        arrays = (outside, self.state, action, target)
        why = self._step(*(array.ctypes.data_as(FLOATS) for array in arrays))
        return why, action, target


def compile_c(arguments: list[str]) -> None:
    """Run gcc; its messages fail the test."""
    done = subprocess.run(["gcc", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr[:2000]
