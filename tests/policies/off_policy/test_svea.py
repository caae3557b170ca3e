"""SVEA and SGQN: half of the critics' loss on augmented images, targets and policy on plain ones, salient pixels."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from policies.data.replay_buffer import Transitions
from policies.networks.optim.cpu_settings import products
from policies.networks.pixels import PixelActor, PixelObservation
from policies.off_policy.critics import BellmanUpdate, bellman_target, critic_loss
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.svea import Augmentation, SVEAConfig, SVEAUpdate, salient
from policies.pixel_policy import PixelGroups, PixelPolicy
from policies.policy import rebuild
from tests.kit.learners import QUICK
from tests.kit.learning import SIDE, PointMass, vectors

IMAGE = ObservationSpec((3, SIDE, SIDE), torch.uint8)
SPEC = {**vectors(policy=5, proprio=2), "pixels/above": IMAGE}
CONFIG = SVEAConfig(**{**QUICK, "batch_size": 8}, features=8)


def some(rows: int = 8) -> tuple[PixelObservation, Tensor, Tensor]:
    """Observations, actions and scalar targets of two critics."""
    generator = torch.Generator().manual_seed(0)
    vector = torch.rand(rows, 2, generator=generator)
    obs = PixelObservation(vector, torch.rand(rows, *IMAGE.shape, generator=generator))
    return obs, vector * 2 - 1, torch.rand(1, rows, 1, generator=generator)


def critics_of(**changes: Any) -> SVEAUpdate:
    learner = OffPolicyLearner(SPEC, 2, 4, dataclasses.replace(CONFIG, **changes))
    assert isinstance(learner.critic_update, SVEAUpdate)
    return learner.critic_update


def gradient(critics: SVEAUpdate, loss: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(critics.critic.parameters()))])


def test_without_augmentation_it_is_the_plain_loss_bit_for_bit():
    critics = critics_of(augmentation=Augmentation.NONE)
    obs, action, target = some()
    _, loss, _ = critics.loss(obs, action, target, torch.Generator())
    _, plain, _ = BellmanUpdate.loss(critics, obs, action, target, torch.Generator())
    assert torch.equal(loss, plain)
    assert torch.equal(gradient(critics, loss), gradient(critics, plain))


def test_encoded_observations_are_worth_what_the_pictures_are():
    learner = OffPolicyLearner(SPEC, 2, 4, CONFIG)
    critics, actor = learner.critic_update, learner.actor_update.actor
    obs, action, _ = some()
    encoded = critics.encoded(obs)
    assert not encoded.requires_grad
    assert torch.equal(critics.critic(encoded, action), critics.critic(obs, action))
    assert torch.equal(actor(encoded), actor(obs))


def test_rounded_products_reach_the_convolutions_and_change_little():
    encoder = critics_of().critic.encoder
    images = some()[0].images
    exact = encoder.maps(images)
    with products(rounded=True):
        rounded = encoder.maps(images)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.02)
    assert torch.equal(encoder.maps(images), exact)


@pytest.mark.parametrize("augmentation", [kind for kind in Augmentation if kind is not Augmentation.NONE])
def test_half_of_the_loss_is_that_of_changed_images_and_own_numbers_stay(augmentation):
    critics = critics_of(augmentation=augmentation)
    obs, action, target = some()
    _, loss, _ = critics.loss(obs, action, target, torch.Generator().manual_seed(1))
    changed = critics.augmented(obs, torch.Generator().manual_seed(1))
    assert torch.equal(changed.vector, obs.vector)
    assert not torch.equal(changed.images, obs.images)
    halves = [critic_loss(critics.critic(seen, action), target) for seen in (obs, changed)]
    torch.testing.assert_close(loss, sum(halves) / 2)


def test_targets_are_of_plain_images_and_have_no_gradient(monkeypatch):
    critics = critics_of(augmentation=Augmentation.CONVOLUTION)
    assert isinstance(critics, SVEAUpdate)
    seen: list[Tensor] = []
    loss = critics.loss
    monkeypatch.setattr(critics, "loss", lambda obs, action, target, generator: (
        seen.append(target) or loss(obs, action, target, generator)))  # fmt: skip
    obs, action, _ = some()
    learner = OffPolicyLearner(SPEC, 2, 8, CONFIG)
    ends = torch.zeros(8, dtype=torch.bool)
    groups = {"proprio": obs.vector, "pixels/above": (255 * obs.images).byte()}
    rows = {group: values[None] for group, values in groups.items()}
    learner.replay.extend(Transitions(rows, action[None], torch.ones(1, 8), ends[None], ends[None], rows))
    batch = learner.replay.buffer.gather(torch.arange(8))
    expected = bellman_target(critics.target_critic(obs, action).amin(0, keepdim=True), batch.reward, batch.discount, 0)
    critics.update(batch, obs, obs, action, 0.0, torch.Generator().manual_seed(0))
    assert not seen[0].requires_grad
    torch.testing.assert_close(seen[0], expected)


def test_the_policy_s_loss_does_not_teach_the_encoder_and_the_critics_does():
    learner = OffPolicyLearner(SPEC, 2, 4, CONFIG)
    actor = learner.actor_update.actor
    assert isinstance(actor, PixelActor)
    obs, action, target = some()
    own = list(actor.encoder.parameters())
    parts = torch.autograd.grad(actor(obs).sum(), own, allow_unused=True)
    assert all(part is None for part in parts)
    assert isinstance(learner.critic_update, SVEAUpdate)
    assert next(learner.critic_update.critic.encoder.parameters()) is own[0]
    _, loss, _ = learner.critic_update.loss(obs, action, target, torch.Generator())
    before, features = actor.encoder(obs).detach(), actor(obs).detach()
    learner.critic_update.optimizer.descend(loss)
    assert not torch.equal(actor.encoder(obs), before)
    assert not torch.equal(actor(obs), features)


def test_salient_pixels_are_those_that_a_value_depends_on():
    images = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)).requires_grad_()
    matters = torch.zeros(SIDE, SIDE)
    matters[4:8, 2:6] = 1.0  # 16 of 256 pixels
    mask = salient((images.square().sum(1) * (matters + 1e-3)).sum((1, 2)), images, 16 / 256)
    assert torch.equal(mask, matters.expand(2, -1, -1))
    assert not mask.requires_grad


def test_with_saliency_values_come_to_rest_on_the_salient_pixels():
    critics = critics_of(saliency=True, augmentation=Augmentation.NONE, critic_learning_rate=3e-3, saliency_share=0.25)
    obs, action, target = some()
    first = last = {}
    for _ in range(40):
        _, loss, last = critics.loss(obs, action, target, torch.Generator())
        first = first or last
        critics.optimizer.descend(loss)
    assert last["saliency_loss"] < first["saliency_loss"]
    assert last["consistency_loss"] < 0.05


def test_it_reads_proprioception_and_all_cameras_and_stores_images_as_they_are():
    spec = {**SPEC, "pixels/wrist": IMAGE, "critic": ObservationSpec((7,))}
    learner = OffPolicyLearner(spec, 2, 4, CONFIG)
    stored = learner.replay.buffer.state()
    groups = {name for name in stored if name.startswith("obs-")}
    assert groups == {"obs-proprio", "obs-pixels.above", "obs-pixels.wrist"}
    assert stored["obs-pixels.wrist"].dtype == torch.uint8
    assert stored["obs-proprio"].dtype == torch.float16
    obs = {group: torch.zeros(4, *of.shape, dtype=of.dtype) for group, of in spec.items()}
    obs["pixels/wrist"] += 51
    policy = learner.policy
    assert isinstance(policy, PixelPolicy)
    seen = policy.groups.observation(obs)
    assert torch.equal(seen.vector, torch.zeros(4, 2))
    assert torch.equal(seen.images, torch.cat([torch.zeros(4, 3, SIDE, SIDE), torch.full((4, 3, SIDE, SIDE), 0.2)], 1))
    assert policy(obs).shape == learner.act(obs).shape == (4, 2)
    assert not torch.equal(policy.stochastic(0)(obs), policy(obs))


def test_how_images_lie_in_memory_does_not_change_actions():
    policy, generator = OffPolicyLearner(SPEC, 2, 4, CONFIG).policy, torch.Generator().manual_seed(0)
    image = torch.randint(256, (4, *IMAGE.shape), generator=generator, dtype=torch.uint8)
    obs = {"proprio": torch.zeros(4, 2), "pixels/above": image}
    drawn = obs | {"pixels/above": image.contiguous(memory_format=torch.channels_last)}
    assert torch.equal(policy(obs), policy(drawn))


def test_each_agent_of_a_team_sees_with_a_camera_of_its_own():
    policy = OffPolicyLearner(SPEC, 2, 4, CONFIG).policy
    assert isinstance(policy, PixelPolicy)
    team = {group: ObservationSpec((2, *spec.shape), spec.dtype) for group, spec in SPEC.items()}
    assert PixelGroups.of(team | {"pixels/overview": IMAGE}) == policy.groups
    rows = {group: torch.rand(4, *spec.shape).mul(255).to(spec.dtype) for group, spec in SPEC.items()}
    acted = policy({group: values.unflatten(0, (2, 2)) for group, values in rows.items()})
    assert torch.equal(acted.flatten(0, 1), policy(rows))


def test_messages():
    sizes = {**SPEC, "pixels/wrist": ObservationSpec((3, SIDE, 2 * SIDE), torch.uint8)}
    nobodys = {**SPEC, "pixels/above": ObservationSpec((2, *IMAGE.shape), torch.uint8)}
    for spec, what in ((PointMass.observation_spec, "none"), (sizes, ".*wrist.*"), (nobodys, ".*above.*")):
        with pytest.raises(EmbodiedError, match=f"images are {what}; expected cameras, of one resolution"):
            OffPolicyLearner(spec, 2, 4, CONFIG)
    team = {group: ObservationSpec((2, *spec.shape), spec.dtype) for group, spec in SPEC.items()}
    with pytest.raises(EmbodiedError, match="expected each agent's cameras, of one resolution"):
        PixelGroups.of(team | {"pixels/above": IMAGE})
    with pytest.raises(ValueError, match="critic_group=policy: these critics read what the policy does"):
        OffPolicyLearner(SPEC, 2, 4, dataclasses.replace(CONFIG, critic_group="policy"))


def test_a_policy_of_an_earlier_version_says_so():
    meta, tensors = OffPolicyLearner(SPEC, 2, 4, CONFIG).policy.to_tensors()
    del meta["features"]
    with pytest.raises(ValueError, match=r"an earlier version of this library wrote it; train again: .*--algorithm sv"):
        rebuild(meta, tensors)
