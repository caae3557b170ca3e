"""SVEA and SGQN: half of the critics' loss on augmented images, targets and policy on plain ones, salient pixels."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from embodied.env.pixels import PixelEnv
from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.networks.image_encoder import ImageLayout
from policies.networks.mlp import Activation, NetworkConfig
from policies.networks.pixel_actor_critic import PixelActor
from policies.off_policy.critics import ValueLearner
from policies.off_policy.learner import OffPolicy
from policies.off_policy.svea import Augmentation, AugmentedValues, SVEAConfig, salient
from policies.policy import Policy
from policies.training.loop import train
from tests.policies.toys import PointMass

SMALL = NetworkConfig((32, 32), Activation.RELU)
SIDE = 16  # pixels
LAYOUT = ImageLayout(2, 3, SIDE, SIDE)
CONFIG = SVEAConfig(actor=SMALL, critic=SMALL, gamma=0.9, batch_size=8, warm_up=32, unroll=4, buffer_size=2_000,
                    image_shape=(3, SIDE, SIDE), features=8)  # fmt: skip


class SeenPointMass(PointMass):
    """The point as a white square on black, of which the flat group says nothing."""

    observation_spec = {**PointMass.observation_spec, "pixels/above": ObservationSpec((3, SIDE, SIDE), torch.uint8)}  # noqa: RUF012

    def _observe(self) -> dict[str, Tensor]:
        at = ((self.position / 2 + 1) / 2 * (SIDE - 2)).long().clamp(0, SIDE - 2)
        images = torch.zeros(self.num_envs, 3, SIDE, SIDE, dtype=torch.uint8)
        each = torch.arange(self.num_envs)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            images[each, :, at[:, 0] + row, at[:, 1] + column] = 255
        return super()._observe() | {"policy": torch.zeros(self.num_envs, 2), "pixels/above": images}


def some(rows: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Observations, actions and scalar targets of two critics."""
    generator = torch.Generator().manual_seed(0)
    obs = torch.rand(rows, LAYOUT.size, generator=generator)
    return obs, obs[:, :2] * 2 - 1, torch.rand(1, rows, 1, generator=generator)


def values_of(**changes: Any) -> AugmentedValues:
    learner = OffPolicy({"policy": LAYOUT.size}, 2, 4, dataclasses.replace(CONFIG, **changes))
    assert isinstance(learner.values, AugmentedValues)
    return learner.values


def gradient(values: AugmentedValues, loss: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(values.critic.parameters()))])


def test_without_augmentation_it_is_the_plain_loss_bit_for_bit():
    values = values_of(augmentation=Augmentation.NONE)
    obs, action, target = some()
    _, loss, _ = values.loss(obs, action, target, torch.Generator())
    _, plain, _ = ValueLearner.loss(values, obs, action, target, torch.Generator())
    assert torch.equal(loss, plain)
    assert torch.equal(gradient(values, loss), gradient(values, plain))


@pytest.mark.parametrize("augmentation", [kind for kind in Augmentation if kind is not Augmentation.NONE])
def test_half_of_the_loss_is_that_of_changed_images_and_own_numbers_stay(augmentation):
    values = values_of(augmentation=augmentation)
    obs, action, target = some()
    _, loss, _ = values.loss(obs, action, target, torch.Generator().manual_seed(1))
    changed = values.augmented(obs, torch.Generator().manual_seed(1))
    own, images = LAYOUT.split(changed)
    assert torch.equal(own, LAYOUT.split(obs)[0])
    assert not torch.equal(images, LAYOUT.split(obs)[1])
    halves = [values.head.loss(values.critic(seen, action), target) for seen in (obs, changed)]
    torch.testing.assert_close(loss, sum(halves) / 2)


def test_targets_are_of_plain_images_and_have_no_gradient(monkeypatch):
    values = values_of(augmentation=Augmentation.CONVOLUTION)
    assert isinstance(values, AugmentedValues)
    seen: list[Tensor] = []
    loss = values.loss
    monkeypatch.setattr(values, "loss", lambda obs, action, target, generator: (
        seen.append(target) or loss(obs, action, target, generator)))  # fmt: skip
    obs, action, _ = some()
    learner = OffPolicy({"policy": LAYOUT.size}, 2, 8, CONFIG)
    ends = torch.zeros(8, dtype=torch.bool)
    groups = {"policy": obs}
    learner.memory.extend(recorded(groups, action, ends))
    batch = learner.memory.buffer.gather(torch.arange(8))
    expected = values.head.target(
        values.target_critic(obs, action).amin(0, keepdim=True), batch.reward, batch.discount, 0
    )
    values.learn(batch, obs, obs, action, 0.0, torch.Generator().manual_seed(0))
    assert not seen[0].requires_grad
    torch.testing.assert_close(seen[0], expected)


def recorded(groups: dict[str, Tensor], action: Tensor, ends: Tensor) -> Any:
    from policies.off_policy.replay_buffer import Transitions

    rows = {group: values[None] for group, values in groups.items()}
    return Transitions(rows, action[None], torch.ones(1, len(action)), ends[None], ends[None], rows)


def test_the_policy_s_loss_does_not_teach_the_encoder_and_the_critics_does():
    learner = OffPolicy({"policy": LAYOUT.size}, 2, 4, CONFIG)
    actor = learner.rule.actor
    assert isinstance(actor, PixelActor)
    obs, action, target = some()
    own = list(actor.encoder.parameters())
    parts = torch.autograd.grad(actor(obs).sum(), own, allow_unused=True)
    assert all(part is None for part in parts)
    assert isinstance(learner.values, AugmentedValues)
    assert next(learner.values.critic.encoder.parameters()) is own[0]
    _, loss, _ = learner.values.loss(obs, action, target, torch.Generator())
    before, features = actor.encoder(obs).detach(), actor(obs).detach()
    learner.values.simulator.descend(loss)
    assert not torch.equal(actor.encoder(obs), before)
    assert not torch.equal(actor(obs), features)


def test_salient_pixels_are_those_that_a_value_depends_on():
    images = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    matters = torch.zeros(SIDE, SIDE)
    matters[4:8, 2:6] = 1.0  # 16 of 256 pixels
    mask = salient(lambda x: (x.square().sum(1) * (matters + 1e-3)).sum((1, 2)), images, 16 / 256)
    assert torch.equal(mask, matters.expand(2, -1, -1))
    assert not mask.requires_grad


def test_with_saliency_values_come_to_rest_on_the_salient_pixels():
    values = values_of(saliency=True, augmentation=Augmentation.NONE, critic_learning_rate=3e-3, saliency_share=0.25)
    obs, action, target = some()
    first = last = {}
    for _ in range(40):
        _, loss, last = values.loss(obs, action, target, torch.Generator())
        first = first or last
        values.simulator.descend(loss)
    assert last["saliency_loss"] < first["saliency_loss"]
    assert last["consistency_loss"] < 0.05


def test_a_run_from_pixels_goes_on_bit_for_bit_and_its_policy_is_rebuilt_from_numbers():
    env = PixelEnv(SeenPointMass(4))
    assert env.observation.image_shape == CONFIG.image_shape
    whole = train(env, CONFIG, total_steps=4 * 16)
    half = train(PixelEnv(SeenPointMass(4)), CONFIG, total_steps=2 * 16)
    saved = trees.unflatten(trees.flatten(half.state()))
    resumed = train(PixelEnv(SeenPointMass(4, seed=9)), CONFIG, total_steps=4 * 16, seed=9, resume=saved)
    expected, found = trees.flatten(whole.state()), trees.flatten(resumed.state())
    assert expected.keys() == found.keys()
    assert not [key for key, tensor in expected.items() if not torch.equal(tensor, found[key])]
    meta, tensors = whole.policy.to_tensors()
    assert meta["kind"] == "squashed-pixels"
    obs = env.reset()
    assert torch.equal(Policy.from_tensors(meta, tensors)(obs), whole.policy(obs))


def test_messages():
    with pytest.raises(ValueError, match=r"image_shape=\(3, 16, 16\) does not fit observations of 9 numbers"):
        OffPolicy({"policy": 9}, 2, 4, CONFIG)
    with pytest.raises(ValueError, match=r"image_shape=\(4, 16, 16\) must be channels, a multiple of 3"):
        SVEAConfig(image_shape=(4, 16, 16))
    blind = SeenPointMass(4)
    blind.observation_spec = PointMass.observation_spec
    with pytest.raises(EmbodiedError, match="images are none; expected cameras, of one resolution"):
        PixelEnv(blind)
