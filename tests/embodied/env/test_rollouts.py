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
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import build_env, toy_world

NUM_ENVS, STEPS = 8, 6


@pytest.fixture(scope="module")
def env():
    """Specks, whose every test resets them; both ways to step are compiled."""
    env = toy_world(Speck, "rigid", NUM_ENVS)
    rolled_out(env, env.reset(), usual_perceptron(network(env)), torch.zeros(STEPS, NUM_ENVS, 3))
    return env


def network(env):
    spec = env.observation_spec["policy"]
    config = NetworkConfig((16, 16), output_gain=0.1)  # whose actions do not explode
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


def usual_perceptron(actor):
    size = actor.mean.linears[0].in_features
    return perceptron(actor, torch.linspace(-0.1, 0.1, size), torch.linspace(0.5, 2.0, size))


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


def test_a_rollout_is_as_many_steps(env):
    actor, noise = network(env), 0.4 * torch.randn(STEPS, NUM_ENVS, 3, generator=torch.Generator().manual_seed(1))

    def begun():
        observation = {group: values.clone() for group, values in env.reset(4).items()}
        # Some end in every step: restarts, of which each is drawn from the environment's own key.
        env.episode_length = env.max_episode_steps - 1 - torch.tensor([0, 1, 2, 3, 4, 5, 3, 4])
        return observation

    perceives = usual_perceptron(actor)
    mean, scale = perceives.observation_mean, perceives.observation_scale
    following, data = rolled_out(env, begun(), perceives, noise)
    statistics, steps = env.statistics(), env.state()["steps"]
    obs = begun()
    for t in range(STEPS):
        torch.testing.assert_close(data.observation["policy"][t], obs["policy"], atol=1e-4, rtol=1e-4)
        with torch.no_grad():
            preferred = actor.mean(((obs["policy"] - mean) * scale).clamp(-2.0, 2.0))
            action = preferred + noise[t] * actor.log_std.exp()
        torch.testing.assert_close(data.mean[t], preferred, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(data.action[t], action, atol=1e-4, rtol=1e-4)
        step = env.step(data.action[t].clone())
        torch.testing.assert_close(data.reward[t], step.reward, atol=1e-4, rtol=1e-4)
        assert data.terminated[t].equal(step.terminated)
        assert data.truncated[t].equal(step.truncated)
        for group, values in step.final_obs.items():
            torch.testing.assert_close(data.final_observation[group][t], values, atol=1e-4, rtol=1e-4)
        obs = dict(step.obs)
    torch.testing.assert_close(following["critic"], obs["critic"], atol=1e-4, rtol=1e-4)
    assert data.truncated.any(1).all()
    assert data.terminated.any()
    assert statistics == pytest.approx(env.statistics(), rel=1e-4)
    assert steps == env.state()["steps"] == STEPS


def test_what_cannot_be_rolled_out_says_so():
    assert toy_world(Speck, "mujoco", 2).roll_out is None
    with embodied.make("swarm/formation", num_envs=2, engine="rigid") as team:
        assert team.roll_out is None
    env = build_env(Speck(), "rigid", 2)
    actor = usual_perceptron(network(env))
    with pytest.raises(ActionError, match=r"roll_out\(\) before reset\(\)"):
        rolled_out(env, {}, actor, torch.zeros(3, 2, 3))
    env.close()
    with pytest.raises(ActionError, match=r"roll_out\(\) after close\(\)"):
        rolled_out(env, {}, actor, torch.zeros(3, 2, 3))


def test_noise_of_another_shape_is_refused(env):
    with pytest.raises(ActionError, match=r"noise has shape \(3, 5, 3\); expected"):
        rolled_out(env, env.reset(), usual_perceptron(network(env)), torch.zeros(3, 5, 3))


def test_diverged_and_failed_environments_restart_within_a_rollout(env):
    obs, actor, noise = env.reset(1), usual_perceptron(network(env)), torch.zeros(STEPS, NUM_ENVS, 3)
    noise[2, 1] = 1e3  # an action that explodes
    ended = torch.zeros(NUM_ENVS)
    for number in range(4):
        obs, data = rolled_out(env, obs, actor, noise)
        assert all(torch.isfinite(values).all() for values in jax.tree.leaves((obs, data)))
        if number == 0:
            assert data.terminated[2, 1]
            assert data.reward[2, 1] == 0
            noise = torch.zeros_like(noise)
        ended += (data.terminated | data.truncated).sum(0)
    assert (ended >= 1).all()
    statistics = env.statistics()
    assert (statistics["episodes"], statistics["diverged"]) == (int(ended.sum()), 1)
