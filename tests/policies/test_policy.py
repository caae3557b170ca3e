import pytest
import torch

from policies import Policy, random_policy, zero_policy
from policies.networks.mlp import Activation, GaussianActor, NetworkConfig
from policies.policy import NormalizedActor


def make_policy() -> Policy:
    config = NetworkConfig((8,), Activation.ELU, output_gain=1.0)
    actor = GaussianActor(3, 2, config, 0.3, torch.Generator().manual_seed(0))
    mean, scale = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.5, 2.0])
    return Policy(NormalizedActor(actor, mean, scale, clip=5.0), config)


def observations(n: int = 50) -> dict[str, torch.Tensor]:
    return {"policy": 3 * torch.randn(n, 3, generator=torch.Generator().manual_seed(1))}


def test_acts_on_the_normalised_and_clipped_observation():
    policy, obs = make_policy(), observations()
    normal = ((obs["policy"] - torch.tensor([1.0, 2.0, 3.0])) * torch.tensor([1.0, 0.5, 2.0])).clamp(-5, 5)
    expected = policy.network.actor(normal).clamp(-1, 1)
    assert torch.equal(policy(obs), expected)
    assert torch.equal(policy(obs["policy"]), expected)


def test_stored_tensors_do_not_follow_the_policy():
    policy = make_policy()
    _, tensors = policy.to_tensors()
    actor = policy.network.actor
    assert isinstance(actor, GaussianActor)
    with torch.no_grad():
        actor.log_std.add_(1)
    assert not torch.equal(tensors["actor.log_std"], actor.log_std)


def test_stochastic_actions_have_the_policy_s_deviation():
    policy = make_policy()
    obs = {"policy": torch.tensor([[1.0, 2.0, 3.0]]).expand(20000, 3)}  # the mean: a zero input, a zero action
    actions = policy.stochastic(0)(obs)
    torch.testing.assert_close(actions.std(0), torch.full((2,), 0.3), rtol=0.03, atol=0)
    assert torch.equal(actions, policy.stochastic(0)(obs))
    assert not torch.equal(actions, policy.stochastic(1)(obs))


def test_zero_and_random_policies():
    obs = observations(1000)
    assert torch.equal(zero_policy(4)(obs), torch.zeros(1000, 4))
    actions = random_policy(4, seed=3)(obs)
    assert actions.shape == (1000, 4)
    assert actions.abs().max() <= 1
    torch.testing.assert_close(actions.var(), torch.tensor(1 / 3), rtol=0.05, atol=0)
    assert torch.equal(actions, random_policy(4, seed=3)(obs))


def test_messages():
    policy = make_policy()
    meta, tensors = policy.to_tensors()
    with pytest.raises(ValueError, match=r"length 4 was given to a policy that reads 3 numbers \(group 'policy'\)"):
        policy(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="kind 'diffusion', expected 'gaussian-mlp'"):
        Policy.from_tensors(meta | {"kind": "diffusion"}, tensors)
    with pytest.raises(ValueError, match=r"actor.log_std has shape \(3,\), expected \(2,\)"):
        Policy.from_tensors(meta, tensors | {"actor.log_std": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"actor.log_std is missing; extra is unknown"):
        Policy.from_tensors(meta, {"extra": torch.zeros(1)} | {k: v for k, v in tensors.items() if "log" not in k})
