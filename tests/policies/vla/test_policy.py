"""A stored policy is the same one, knows where it fits, and what others would be told."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from embodied.core.facets import Language
from embodied.core.instruction import Instruction
from embodied.env.options import EnvOptions
from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from embodied.rendering.camera_config import CameraConfig
from embodied.storage import checkpoints
from policies.training.loading import load_policy, policy_for_env, policy_from_checkpoint, with_needs
from policies.vla.action_chunks import ChunkedPolicy
from policies.vla.data.normalization import Normalization
from policies.vla.model.config import SIZES, Head, Size
from policies.vla.model.network import VLANetwork
from policies.vla.policy import VLAPolicy
from tests.kit import learning
from tests.kit.vla import LEFT, RIGHT, SMALL, episode, shown, untrained

DEMONSTRATIONS = shown([episode(0), episode(1, instruction=RIGHT, task="toy/right")])


def said(*instruction: str) -> SimpleNamespace:
    return SimpleNamespace(language=Language(instruction))


VECTORS, SEEN = {"policy": 9, "proprio": 3}, {"pixels/front": (3, 32, 32), "pixels/wrist": (3, 32, 32)}


def room(vectors: dict[str, int] = VECTORS, images: dict[str, tuple[int, ...]] = SEEN, **changes: Any) -> Any:
    """What a policy asks of an `Env`, and what it observes there."""

    def observe() -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        options: dict[str, Any] = {"generator": generator, "dtype": torch.uint8}
        pixels = {group: torch.randint(256, (3, *shape), **options) for group, shape in images.items()}
        return pixels | {"proprio": torch.randn(3, 3, generator=generator)}

    spec = {group: ObservationSpec(shape, torch.uint8) for group, shape in images.items()}
    usual = {"name": "toy/left", "num_envs": 3, "action_size": 2, "control_dt": 0.05, "device": torch.device("cpu"),
             "episode_length": torch.zeros(3), "task": said(LEFT, "leftwards, please"), "observe": observe}  # fmt: skip
    return SimpleNamespace(**{**usual, "observation_spec": learning.vectors(**vectors) | spec, **changes})


@pytest.fixture(scope="module", params=list(Head))
def stored(request, tmp_path_factory):
    policy = untrained(DEMONSTRATIONS, dataclasses.replace(SMALL, head=request.param), execute=5)
    meta, tensors = policy.to_tensors()
    contents = {f"policy/{name}": tensor for name, tensor in tensors.items()}
    return policy, checkpoints.save(tmp_path_factory.mktemp("stored"), 1, contents, {"policy": meta, "task": "toy"})


def test_a_checkpoint_gives_the_same_policy_with_its_statistics(stored):
    policy, path = stored
    again = policy_from_checkpoint(checkpoints.load(path), "it")
    assert isinstance(again, VLAPolicy)
    assert (again.spec, again.training_tasks, again.execute) == (policy.spec, policy.training_tasks, 5)
    assert again.network.config == policy.network.config
    for name in Normalization.names():
        assert torch.equal(getattr(again.normalization, name), getattr(policy.normalization, name))
    env = room()
    assert torch.equal(load_policy(path, env)(env.observe()), policy.bind(env)(env.observe()))
    blind = EnvOptions("toy/left")
    assert with_needs(blind, path).camera_config == CameraConfig(("front", "wrist"), (32, 32))
    assert with_needs(blind, "zero") == with_needs(blind, "no/such/path") == blind


def test_each_environment_is_told_its_own_task_or_what_one_says_or_another_task(stored):
    policy, path = stored
    env = room(num_envs=2)
    assert policy.bind(env).instructions == (LEFT, LEFT)
    assert policy.bind(env, instruction="up").instructions == ("up", "up")
    assert policy.bind(env, wrong_instruction=True).instructions == (RIGHT, RIGHT)
    silent = load_policy(path, room(task=said()))
    assert isinstance(silent, ChunkedPolicy)
    assert silent.instructions == (LEFT,) * 3  # as it was demonstrated
    unknown = room(name="toy/up", num_envs=3, task=said("up"))
    assert policy.bind(unknown, wrong_instruction=True).instructions == (LEFT, RIGHT, LEFT)


def test_where_instruction_varies_each_episode_is_told_its_own_or_something_wrong_or_what_one_says(stored):
    policy, _ = stored

    def episode_instruction(state):
        number = int(state["number"])
        return Instruction((f"go to {number}", "please go"), (f"go to {number + 1}",) if number else ())

    task = SimpleNamespace(language=Language(("go",), episode_instruction))
    env = room(task=task, task_state={"number": np.arange(3)})
    expected = {
        "own": (policy.bind(env), ("go to 0", "go to 1", "go to 2")),
        "wrong": (policy.bind(env, wrong_instruction=True), ("go to 0", "go to 2", "go to 3")),
        "said": (policy.bind(env, instruction="stop"), ("stop",) * 3),
        "heard": (policy.bind(env, source=lambda rows, obs: [f"{row}!" for row in rows]), ("0!", "1!", "2!")),
    }
    for rule, told in expected.values():
        rule(env.observe())
        assert rule.instructions == told
    env.task_state, env.episode_length = {"number": np.array([5, 5, 5])}, torch.tensor([1, 0, 1])
    rule, _ = expected["own"]
    rule(env.observe())
    assert rule.instructions == ("go to 0", "go to 5", "go to 2")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": {"pixels/front": (3, 32, 32)}}, r"'toy/left' was made without wrist: embodied.make\('toy/left', c"),
        ({"vectors": {"policy": 9}}, "reads the observation group 'proprio', but 'toy/left' has policy"),
        ({"vectors": {"proprio": 4}}, "does not fit 'toy/left', which has state_size 4, expected 3"),
        ({"action_size": 7, "control_dt": 0.1}, "action_size 7, expected 2; control_dt 0.1, expected 0.05"),
        ({"images": {"pixels/front": (3, 64, 48), "pixels/wrist": (3, 64, 48)}}, "resolution 48, 64, expected 32, 32"),
        ({"name": "toy/up", "task": said()}, "'toy/up' has no instruction, which policy"),
    ],
)
def test_where_it_does_not_fit_it_says_why(stored, changes, message):
    with pytest.raises(EmbodiedError, match=message):
        load_policy(stored[1], room(**changes))


def test_other_messages(stored):
    with pytest.raises(EmbodiedError, match="the policy 'zero' is not told what to do"):
        load_policy("zero", room(), instruction="go")
    alone = untrained(shown([episode(0)]))
    with pytest.raises(
        EmbodiedError, match="knows no task but toy/left, so there is no wrong instruction for 'toy/left'"
    ):
        alone.bind(room(), wrong_instruction=True)
    checkpoint = checkpoints.load(stored[1])
    checkpoint.tensors.pop("policy/network.queries")
    with pytest.raises(EmbodiedError, match=r"cannot be rebuilt .* queries is missing"):
        policy_for_env(checkpoint, room(), "it")


def test_sizes_are_what_they_are_said_to_be():
    counts = {}
    for size in (Size.TINY, Size.SMALL):
        network = VLANetwork(SIZES[size], cameras=2, resolution=(64, 64), state_size=11, action_size=4)
        counts[size] = sum(p.numel() for p in network.parameters())
    assert 2.9e6 < counts[Size.TINY] < 3.3e6
    assert 1.5e7 < counts[Size.SMALL] < 2e7
