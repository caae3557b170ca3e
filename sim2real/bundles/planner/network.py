"""A policy that sees as one network in torch with its description, and that network as ONNX.

The exporter is torch's own, and there is no C: three million weights as source code serve nobody.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor, nn

from embodied.core.hooks import PROPRIO
from embodied.core.instruction import MAX_WORDS
from embodied.core.task import Task
from embodied.math import transforms
from policies.networks.pixels import PixelObservation
from policies.pixel_policy import PixelPolicy
from policies.vla.model.text_encoder import HashedTextEncoder
from policies.vla.policy import VLAPolicy
from sim2real.bundles.files import ExportError
from sim2real.bundles.planner.golden import CHUNK, COUNT, OBSERVATION, TOKENS, GoldenPlans, shapes
from sim2real.bundles.planner.runtime import tokens_of
from sim2real.cameras.mujoco_camera import MUJOCO_TO_OPENCV, number_of
from sim2real.contract.contract import Contract
from sim2real.contract.planner import Planner, PolicyCamera, Words
from sim2real.graphs.onnx_check import onnx_package

NGRAMS = 32  # of a word: words of up to 31 letters
CANDIDATES = 8  # inputs tried for each golden one
NUDGE = 1e-3  # by which the observation of a candidate is moved, relative to the larger of 1 and each number


@dataclasses.dataclass(frozen=True)
class PlannerNetwork:
    """A planner's description, and what computes it."""

    planner: Planner
    group: str
    """Observation group that it reads beside images."""
    module: nn.Module
    """Images (height, width, 3) uint8, the observation (n,), then tokens and noise where there are any -> (chunk, k)"""

    def serialised(self, contract: Contract) -> bytes:
        """The ONNX model, without metadata, with opset and operators as torch writes them.

        Raises:
            ExportError: the network has no translation.
        """
        inputs = shapes(self.planner, contract)
        example = tuple(torch.zeros(shape, dtype=DTYPES[kind]) for shape, kind in inputs.values())
        onnx_package()
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            try:
                program: Any = torch.onnx.export(
                    self.module, example, dynamo=True, input_names=[*inputs], output_names=[CHUNK], verbose=False
                )
            except ImportError as error:
                needed = f'policies that see need {error.name}: pip install "embodied-sim[sim2real]"'
                raise ExportError(needed) from None
            except Exception as error:  # whatever torch could not do, the policy cannot be exported
                raise ExportError(f"torch cannot export the network: {str(error).splitlines()[0]}") from error
        model = program.model_proto
        for node in model.graph.node:
            del node.metadata_props[:]  # lines of source files
        for value in (*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer):
            del value.metadata_props[:]
        del model.graph.metadata_props[:]
        del model.graph.value_info[:]
        model.producer_name, model.producer_version, model.graph.name = "embodied", "", "planner"
        return model.SerializeToString(deterministic=True)

    def golden(self, contract: Contract) -> GoldenPlans:
        """Inputs and what torch makes of them: of many at random those whose chunk a small change moves least.

        So that rounding on another machine, where two tokens are almost equally likely, does not look like damage.
        """
        rng, found = np.random.default_rng(0), []
        for _ in range(COUNT * CANDIDATES):
            given = self._drawn(rng, contract)
            seen = given[OBSERVATION]
            moved = (seen + NUDGE * np.maximum(1.0, np.abs(seen)) * rng.standard_normal(seen.shape)).astype(np.float32)
            chunk = self.run(given)
            found.append((float(np.abs(self.run({**given, OBSERVATION: moved}) - chunk).max()), given, chunk))
        best = sorted(found, key=lambda one: one[0])[:COUNT]
        inputs = {name: np.stack([given[name] for _, given, _ in best]) for name in best[0][1]}
        return GoldenPlans(inputs, np.stack([chunk for *_, chunk in best]))

    def run(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """(chunk, k) float32 in torch."""
        with torch.no_grad():
            return self.module(*(torch.from_numpy(value) for value in inputs.values())).numpy()

    def _drawn(self, rng: np.random.Generator, contract: Contract) -> dict[str, np.ndarray]:
        words = self.planner.words
        given: dict[str, np.ndarray] = {}
        for name, (shape, kind) in shapes(self.planner, contract).items():
            if kind is np.uint8:
                given[name] = rng.integers(0, 256, shape, np.uint8)
            elif name == TOKENS:
                assert words is not None
                given[name] = tokens_of(str(rng.choice(words.instructions)), words)
            else:
                given[name] = rng.standard_normal(shape).astype(np.float32)
        return given


DTYPES: Mapping[type, torch.dtype] = {np.uint8: torch.uint8, np.float32: torch.float32, np.int64: torch.int64}


def with_metadata(data: bytes, metadata: Mapping[str, str]) -> bytes:
    """A serialised model with this metadata."""
    onnx = onnx_package()
    model = onnx.load_model_from_string(data)
    onnx.helper.set_model_props(model, dict(metadata))
    return model.SerializeToString(deterministic=True)


class _ChunkNetwork(nn.Module):
    """A vision-language-action policy's most likely chunk, or that of some noise."""

    def __init__(self, policy: VLAPolicy) -> None:
        super().__init__()
        self.network, self.normalization = policy.network, policy.normalization
        self.cameras = len(policy.spec.cameras)

    def forward(self, *inputs: Tensor) -> Tensor:
        images, (state, tokens, *noise) = inputs[: self.cameras], inputs[self.cameras :]
        encoder = self.network.text_encoder
        assert isinstance(encoder, HashedTextEncoder)
        text = self.network.text_projection(encoder.encode(tokens[None]))
        seen = torch.stack(images)[None]
        features = self.network(seen, self.normalization.normalize_state(state[None]), text)
        decoded = self.network.head.decode(features, noise[0][None] if noise else None)
        return self.normalization.denormalize_action(decoded).clamp(-1.0, 1.0)[0]


class _PixelNetwork(nn.Module):
    """The most likely action of a policy from pixels, as a chunk of one."""

    def __init__(self, policy: PixelPolicy) -> None:
        super().__init__()
        self.network = policy.network

    def forward(self, *inputs: Tensor) -> Tensor:
        *images, vector = inputs
        stacked = torch.cat([image.permute(2, 0, 1) for image in images])[None].float() / 255
        return self.network(PixelObservation(vector[None], stacked)).clamp(-1.0, 1.0)  # type: ignore[arg-type]


def of_vla(policy: VLAPolicy, task: Task[Any], name: str) -> PlannerNetwork:
    """Planner network of a vision-language-action policy."""
    encoder, noisy = policy.network.text_encoder, policy.network.head.noise_shape is not None
    if not isinstance(encoder, HashedTextEncoder):
        raise ExportError("the policy's text encoder is pretrained, whose tokens have no translation")
    known = [text for trained in policy.training_tasks if trained.task == name for text in trained.instructions]
    instructions = tuple(dict.fromkeys([*known, *(task.language.instructions if task.language else ())]))
    if not instructions:
        raise ExportError(f"'{name}' has no instruction, which the policy needs")
    words = Words(MAX_WORDS, NGRAMS, encoder.buckets, instructions)
    cameras = cameras_of(task, policy.spec.cameras, policy.spec.resolution)
    planner = Planner(cameras, policy.chunk, policy.execute, noisy, words)
    return PlannerNetwork(planner, PROPRIO, _ChunkNetwork(policy).eval().cpu().float())


def of_pixels(policy: PixelPolicy, task: Task[Any], name: str) -> PlannerNetwork:
    """Planner network of a policy from pixels."""
    del name
    cameras = cameras_of(task, policy.groups.cameras, policy.groups.resolution)
    planner = Planner(cameras, 1, 1, False, None)
    return PlannerNetwork(planner, policy.groups.actor, _PixelNetwork(policy).eval().cpu().float())


SEEING: Mapping[type, Callable[[Any, Task[Any], str], PlannerNetwork]] = {VLAPolicy: of_vla, PixelPolicy: of_pixels}
"""Kind of policy that sees -> what makes its network of it, the task and the task's name."""


def cameras_of(task: Task[Any], names: Sequence[str], size: tuple[int, int]) -> tuple[PolicyCamera, ...]:
    """Cameras of a task at a width and height in pixels; those that each agent carries as the first one does.

    Raises:
        ExportError: one travels along by itself, or is described by more than its angle of view.
        UnknownNameError: there is no such camera.
    """
    carried = task.pictures.agent_cameras if task.pictures else {}
    return tuple(_camera(task.visual_model, name, carried.get(name, (name,))[0], *size) for name in names)


def _camera(model: mujoco.MjModel, called: str, name: str, width: int, height: int) -> PolicyCamera:
    """The model's camera `name` as the one that a policy calls so."""
    number = number_of(model, name)
    if model.cam_mode[number] != mujoco.mjtCamLight.mjCAMLIGHT_FIXED or model.cam_sensorsize[number].any():
        raise ExportError(f"camera '{name}' is not fixed to a body, or no plain pinhole; a robot has no such camera")
    focal = height / (2 * math.tan(math.radians(float(model.cam_fovy[number])) / 2))
    turned = np.zeros(9)
    mujoco.mju_quat2Mat(turned, model.cam_quat[number])
    quaternion = transforms.wxyz_from_matrix(turned.reshape(3, 3) @ MUJOCO_TO_OPENCV[:3, :3])
    position = tuple(float(value) for value in model.cam_pos[number])
    return PolicyCamera(
        name=called,
        width=width,
        height=height,
        focal_length=focal,
        center=((width - 1) / 2, (height - 1) / 2),
        body=model.body(int(model.cam_bodyid[number])).name,
        position=position,  # type: ignore[arg-type]
        quaternion=tuple(float(value) for value in quaternion),  # type: ignore[arg-type]
    )
