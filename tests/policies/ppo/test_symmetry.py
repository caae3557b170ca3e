"""Symmetry in PPO: exact, and refused where there is none."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from embodied.errors import EmbodiedError
from embodied.math.symmetry import PLANAR, Mirror, Reflection
from policies import PPO, PPOConfig, Trainer, train
from policies.networks.mlp import NetworkConfig
from policies.ppo.config import SymmetryConfig
from policies.ppo.ppo import SYMMETRY
from policies.ppo.symmetry import TorchReflection
from tests.kit.learning import PointMass, algorithm_of, assert_resumed_run_equals_whole, vectors

NETWORK = SymmetryConfig(network=True)
SMALL = NetworkConfig((16, 15))
CRITIC = dataclasses.replace(SMALL, output_gain=1.0)
QUICK = PPOConfig(unroll=8, epochs=2, minibatches=2, actor=SMALL, critic=CRITIC, symmetry=NETWORK)
FLIP = torch.tensor([1.0, -1.0])


def asymmetry(ppo: PPO) -> tuple[float, float]:
    """Largest difference between mirrored actions and actions in the mirror, and between values there and here."""
    obs = torch.randn(200, 2, generator=torch.Generator().manual_seed(1))
    policy, there = ppo.policy, obs * FLIP
    by_action = (policy.network(there) - policy.network(obs) * FLIP).abs().max().item()
    timed = torch.cat([obs, obs[:, :1]], -1)
    seen = [ppo.normalizers["critic"](x) for x in (timed, timed * torch.tensor([1.0, -1.0, 1.0]))]
    return by_action, (ppo.critic(seen[0]) - ppo.critic(seen[1])).abs().max().item()


def trained(symmetry: SymmetryConfig, iterations: int = 12) -> PPO:
    config = dataclasses.replace(QUICK, symmetry=symmetry)
    return algorithm_of(train(PointMass(64), config, total_steps=iterations * 8 * 64), PPO)


def test_a_symmetric_network_stays_symmetric_while_it_learns() -> None:
    fresh = algorithm_of(Trainer(PointMass(64), QUICK, total_steps=1), PPO)
    begun = fresh.optimizer.vector.clone()
    ppo = trained(NETWORK)
    assert max(*asymmetry(fresh), *asymmetry(ppo)) < 1e-5
    assert (ppo.optimizer.vector - begun).abs().max() > 0.01
    assert min(asymmetry(trained(SymmetryConfig()))) > 0.01


def test_fresh_symmetric_weights_have_the_spread_of_others() -> None:
    wide = dataclasses.replace(
        QUICK, actor=NetworkConfig((128, 128)), critic=NetworkConfig((128, 128), output_gain=1.0)
    )
    plain, symmetric = (
        algorithm_of(Trainer(PointMass(4), dataclasses.replace(wide, symmetry=symmetry), total_steps=1), PPO).actor
        for symmetry in (SymmetryConfig(), NETWORK)
    )
    for one, other in zip(plain.parameters(), symmetric.parameters(), strict=True):
        assert other.square().mean().item() == pytest.approx(one.square().mean().item(), rel=0.3, abs=1e-12)


def test_the_averaged_gradient_is_that_of_transitions_and_their_images() -> None:
    ppo = algorithm_of(Trainer(PointMass(64), QUICK, total_steps=1), PPO)
    rollout = ppo.rollout
    for buffer in (rollout.actor_obs, rollout.critic_obs, rollout.action, rollout.advantage, rollout.returns):
        buffer.normal_(generator=ppo.noise_generator)
    index = torch.arange(len(rollout))
    averaged = ppo._gradient(index)[:-4]
    ppo.additions[SYMMETRY].gradient(averaged)
    there, mirror = ppo._gradient(index)[:-4], PointMass(1).mirror()
    observed = {group: TorchReflection(mirror.observed[group], ppo.device) for group in ("policy", "critic")}
    rollout.actor_obs.copy_(observed["policy"](rollout.actor_obs))
    rollout.critic_obs.copy_(observed["critic"](rollout.critic_obs))
    for buffer in (rollout.action, rollout.mean):
        buffer.copy_(TorchReflection(mirror.action, ppo.device)(buffer))
    torch.testing.assert_close(averaged, (there + ppo._gradient(index)[:-4]) / 2, rtol=1e-4, atol=1e-6)


def test_statistics_of_observations_are_those_of_both_images() -> None:
    ppo = trained(NETWORK, 2)
    normalizer = ppo.normalizers["policy"]
    assert normalizer.mean[1] == 0
    plain = trained(SymmetryConfig(), 1).normalizers["policy"]
    assert plain.mean[1] != 0


def test_what_has_no_mirror_is_refused_in_one_line() -> None:
    with pytest.raises(EmbodiedError, match=r"no mirror of the environment was given; expected VecEnv.mirror"):
        PPO(vectors(policy=2), 2, 4, QUICK)


@pytest.mark.parametrize("symmetric", [True, False])
def test_training_from_a_policy_that_is_not_symmetric_does_without_and_resumes_so(symmetric: bool) -> None:
    start = trained(SymmetryConfig(network=symmetric), 1).policy
    whole = assert_resumed_run_equals_whole(lambda seed: PointMass(64, seed), QUICK, start_from=start)
    assert (asymmetry(algorithm_of(whole, PPO))[0] < 1e-5) == symmetric


def test_joints_and_units_are_paired_whatever_their_number() -> None:
    swap = Reflection((1, 0, 2), (-1, -1, -1))
    config = dataclasses.replace(QUICK, actor=NetworkConfig((7,)), critic=NetworkConfig((5, 4)))
    mirror = Mirror(swap, {"policy": PLANAR})
    ppo = PPO(vectors(policy=2), 3, 4, config, mirror=lambda: mirror)
    obs = torch.randn(50, 2)
    torch.testing.assert_close(ppo.actor(obs * FLIP), -ppo.actor(obs)[:, [1, 0, 2]], rtol=1e-5, atol=1e-7)
