"""Policies that see, as small as they can be, and their bundles for a drawer: each exported once a worker."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import torch

from embodied.core.hooks import PIXELS, PROPRIO
from embodied.env.vec_env import ObservationSpec
from policies.networks.mlp import NetworkConfig
from policies.networks.pixels import ImageEncoder, PixelActor
from policies.pixel_policy import NormalizedPixelActor, PixelGroups, PixelPolicy
from policies.vla.data.normalization import Normalization
from policies.vla.data.robot_spec import RobotSpec, TrainingTask
from policies.vla.model.config import Head, VLAConfig
from policies.vla.model.token_head import TokenHead
from policies.vla.policy import VLAPolicy
from sim2real import export
from sim2real.bundles.bundle import Bundle
from sim2real.bundles.contents import contents
from sim2real.bundles.planner.network import SEEING, PlannerNetwork
from sim2real.contract.contract import Contract
from sim2real.contract.planner import Planner
from sim2real.graphs.describe import Described, describe
from sim2real.robots.base import Measurement
from tests.kit.budget import sharing
from tests.kit.bundles import folder_of
from tests.kit.fakes import given
from tests.kit.worlds import task_of

TASK = "manipulation/drawer-open"
SIZE, CONTROL_DT = (32, 32), 0.0125
STATE, ACTIONS = 11, 4
CAMERAS = ("view", "wrist")
TINY = VLAConfig(
    width=16, layers=1, attention_heads=2, channels=(4, 4, 4), text_width=8, text_layers=1, text_buckets=256,
    flow_steps=2, bins=32, keypoints=2,
)  # fmt: skip


def vla(head: Head = Head.TOKENS, execute: int = 3) -> VLAPolicy:
    torch.manual_seed(0)
    ones = torch.ones(STATE)
    normalization = Normalization(-ones[:ACTIONS], 0.5 * ones[:ACTIONS], 0.1 * ones, 2.0 * ones)
    spec = RobotSpec(CAMERAS, SIZE, STATE, ACTIONS, CONTROL_DT)
    known = [TrainingTask(TASK, ("open the drawer", "pull it")), TrainingTask("manipulation/reach", ("reach",))]
    policy = VLAPolicy.untrained(dataclasses.replace(TINY, head=head), normalization, spec, known, execute)
    if isinstance(policy.network.head, TokenHead):  # whose medians all lie in the middle while it knows nothing
        torch.nn.init.normal_(policy.network.head.out.weight, std=2.0)
    return policy


def pixels() -> PixelPolicy:
    generator = torch.Generator().manual_seed(0)
    image = ObservationSpec((3, *SIZE), torch.uint8)
    groups = PixelGroups.of({PROPRIO: ObservationSpec((STATE,)), **{PIXELS + name: image for name in CAMERAS}})
    encoder = ImageEncoder(STATE, groups.image_shape, 16, generator)
    actor = PixelActor(encoder, ACTIONS, NetworkConfig((32,)), stochastic=True, generator=generator)
    network = NormalizedPixelActor(actor, torch.zeros(STATE), torch.ones(STATE), 5.0)
    return PixelPolicy(network, NetworkConfig((32,)), groups)


def network_of(policy: Any) -> PlannerNetwork:
    return SEEING[type(policy)](policy, task_of(TASK), TASK)


@functools.cache
def _described() -> Described:
    """The control step of the task for a policy that reads the robot's own state, without a planner."""
    with sharing(f"control step of {TASK}"):
        return describe(task_of(TASK), TASK, group=PROPRIO)


def described_for(planner: Planner) -> Described:
    """The same with a planner, which changes nothing of the graph: `export.write` describes it anew."""
    described = _described()
    step = dataclasses.replace(described.contract.step, planner=planner)
    return dataclasses.replace(described, contract=dataclasses.replace(described.contract, step=step))


@functools.cache
def seeing() -> tuple[Bundle, VLAPolicy]:
    """A bundle of a policy with instructions, by action tokens."""
    return _exported(vla(), "vla")


@functools.cache
def looking() -> tuple[Bundle, PixelPolicy]:
    """A bundle of a policy from pixels, which takes no instruction."""
    return _exported(pixels(), "pixels")


class _FromNoise(torch.nn.Module):
    """A flow head's chunk of the network's inputs, without the network before it."""

    def __init__(self, head: torch.nn.Module) -> None:
        super().__init__()
        self.head, self.features = head, torch.linspace(-1, 1, TINY.chunk * TINY.width)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.head.decode(self.features.reshape(1, TINY.chunk, -1), inputs[-1][None])[0]  # type: ignore[operator]


@functools.cache
def from_noise() -> tuple[PlannerNetwork, PlannerNetwork, bytes]:
    """A network whose flow head makes a chunk of noise in one step, the head alone, and the head's ONNX."""
    policy = vla(Head.FLOW)
    # Each step is a graph of its own; torch types what modules hold as tensors.
    policy.network.head.steps = 1  # pyright: ignore[reportArgumentType]
    whole = network_of(policy)
    head = PlannerNetwork(whole.planner, whole.group, _FromNoise(policy.network.head).eval())
    contract = described_for(whole.planner).contract
    with sharing("ONNX of a flow head"):
        return whole, head, head.serialised(contract)


def _exported(policy: Any, name: str) -> tuple[Bundle, Any]:
    network = network_of(policy)
    described = described_for(network.planner)
    with sharing(f"bundle of a policy that sees, {name}"):
        out = folder_of(name) / "bundle"
        return export.finished(out, *contents(described, network=network), described.contract), policy


def planner_of(contract: Contract) -> Planner:
    return given(contract.step.planner)


def seen(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Images and an observation."""
    rng = np.random.default_rng(seed)
    images = {name: rng.integers(0, 256, (*SIZE[::-1], 3), np.uint8) for name in CAMERAS}
    return images, rng.standard_normal(STATE).astype(np.float32)


def groups_of(images: dict[str, np.ndarray], observation: np.ndarray) -> dict[str, torch.Tensor]:
    """The same as an environment observes it."""
    rows = {PIXELS + name: torch.from_numpy(image).permute(2, 0, 1)[None] for name, image in images.items()}
    return {**rows, PROPRIO: torch.from_numpy(observation)[None]}


def home_of(contract: Contract) -> np.ndarray:
    """(n,) rad, where the joints are at first."""
    return np.array([joint.default for joint in contract.joints], np.float32)


def measured(contract: Contract, images: dict[str, np.ndarray], pose: np.ndarray | None = None) -> Measurement:
    """The robot at rest, by default where it begins, with images in its readings."""
    pose = home_of(contract) if pose is None else pose
    readings = {f"image.{name}": image for name, image in images.items()}
    return Measurement(0.0, joint_pos=pose, joint_vel=0 * pose, readings=readings)
