"""Small policies and contracts to export, and C code compiled into this process."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import torch

from policies.networks.build import make_actor
from policies.networks.mlp import MLP, Activation, NetworkConfig
from policies.policy import NormalizedActor, Policy
from sim2real.contract.contract import Actuator, Contract, Joint, Term

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
