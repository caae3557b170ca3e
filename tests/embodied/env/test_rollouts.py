"""A rollout as one program does what as many steps do."""

import jax
import numpy as np
import pytest
import torch

import embodied
from embodied.env.rollout import PerceptronActor
from embodied.env.step import array_from_tensor
from embodied.errors import ActionError
from policies.networks.mlp import Activation, GaussianActor, NetworkConfig

STEPS = 6


def network(env):
    spec = env.observation_spec["policy"]
    config = NetworkConfig((16, 16), output_gain=1.0)
    return GaussianActor(spec.shape[0], env.action_size, config, 0.5, torch.Generator().manual_seed(3))


def perceptron(actor, mean, scale, clip=2.0):
    return PerceptronActor(
        weights=tuple(layer.weight.detach() for layer in actor.mean.linears),
        biases=tuple(layer.bias.detach() for layer in actor.mean.linears),
        log_std=actor.log_std.detach(),
        observation_mean=mean,
        observation_scale=scale,
        observation_clip=clip,
        activation=actor.mean.activation.value,
    )


def rolled_out(env, observation, actor, noise):
    assert env.roll_out is not None
    return env.roll_out(observation, actor, noise)


@pytest.mark.parametrize("activation", list(Activation))
def test_the_actor_is_torchs(activation):
    config = NetworkConfig((16, 16), activation, output_gain=1.0)
    actor = GaussianActor(5, 3, config, 0.5, torch.Generator().manual_seed(3))
    obs = 3 * torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    mean, scale = torch.linspace(-0.5, 0.5, 5), torch.linspace(0.5, 2.0, 5)
    arrays = jax.tree.map(array_from_tensor, perceptron(actor, mean, scale))
    with torch.no_grad():
        expected = actor.mean(((obs - mean) * scale).clamp(-2.0, 2.0))
    found = torch.from_numpy(np.array(arrays.mean(array_from_tensor(obs))))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_rollout_is_as_many_steps():
    envs = [embodied.make("swarm/hover", num_envs=96, engine="rigid", seed=4) for _ in range(2)]
    stepped, rolled = envs
    actor, noise = network(stepped), torch.randn(STEPS, 96, 4, generator=torch.Generator().manual_seed(1))
    mean, scale = torch.linspace(-0.1, 0.1, 16), torch.linspace(0.5, 2.0, 16)
    observations = [env.reset() for env in envs]
    for env in envs:  # some end in every step: restarts, of which each is drawn from the environment's own key
        env.episode_length = 400 - 1 - torch.arange(96) % (2 * STEPS)
    following, data = rolled_out(rolled, observations[1], perceptron(actor, mean, scale), noise)
    obs = observations[0]
    for t in range(STEPS):
        torch.testing.assert_close(data.observation["policy"][t], obs["policy"], atol=1e-4, rtol=1e-4)
        with torch.no_grad():
            preferred = actor.mean(((obs["policy"] - mean) * scale).clamp(-2.0, 2.0))
            action = preferred + noise[t] * actor.log_std.exp()
        torch.testing.assert_close(data.mean[t], preferred, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(data.action[t], action, atol=1e-4, rtol=1e-4)
        step = stepped.step(data.action[t].clone())
        torch.testing.assert_close(data.reward[t], step.reward, atol=1e-4, rtol=1e-4)
        assert data.terminated[t].equal(step.terminated)
        assert data.truncated[t].equal(step.truncated)
        for group, values in step.final_obs.items():
            torch.testing.assert_close(data.final_observation[group][t], values, atol=1e-4, rtol=1e-4)
        obs = dict(step.obs)
    torch.testing.assert_close(following["critic"], obs["critic"], atol=1e-4, rtol=1e-4)
    assert data.truncated.any(1).all()
    assert rolled.statistics() == pytest.approx(stepped.statistics(), rel=1e-4)
    assert rolled.state()["steps"] == stepped.state()["steps"] == STEPS


def test_what_cannot_be_rolled_out_says_so():
    with embodied.make("swarm/hover", num_envs=2, engine="mujoco") as host:
        assert host.roll_out is None
    with embodied.make("swarm/formation", num_envs=2, engine="rigid") as team:
        assert team.roll_out is None
    env = embodied.make("swarm/hover", num_envs=2, engine="rigid")
    actor = perceptron(network(env), torch.zeros(16), torch.ones(16))
    with pytest.raises(ActionError, match=r"roll_out\(\) before reset\(\)"):
        rolled_out(env, {}, actor, torch.zeros(3, 2, 4))
    obs = env.reset()
    with pytest.raises(ActionError, match=r"noise has shape \(3, 5, 4\); expected"):
        rolled_out(env, obs, actor, torch.zeros(3, 5, 4))
    env.close()
    with pytest.raises(ActionError, match=r"roll_out\(\) after close\(\)"):
        rolled_out(env, obs, actor, torch.zeros(3, 2, 4))


def test_diverged_and_lost_environments_restart_within_a_rollout():
    env = embodied.make("swarm/hover", num_envs=64, engine="rigid", seed=1)
    obs = env.reset()
    actor = perceptron(network(env), torch.zeros(16), torch.ones(16))
    noise = torch.full((200, 64, 4), -10.0)  # no thrust: every drone falls to the floor, again and again
    following, data = rolled_out(env, obs, actor, noise)
    assert (data.terminated.sum(0) >= 1).all()
    assert all(torch.isfinite(values).all() for values in jax.tree.leaves((following, data)))
    assert env.statistics()["episodes"] == int(data.terminated.sum())
