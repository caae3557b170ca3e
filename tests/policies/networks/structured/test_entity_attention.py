"""Attention over entities: any number, any order, nothing seen of rows that are not there."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from embodied.core.entity_rows import COLUMNS, WIDTH, Kind, entity_rows, rows_in
from embodied.env.vec_env import ObservationSpec
from policies import PPO, Policy, PPOConfig
from policies.networks.build import make_actor, make_critic
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.ppo.ppo import REPORTED
from policies.training.loop import Trainer
from tests.kit.learning import PointMass, vectors

OWN = 5
ENTITIES = NetworkConfig((16, 16), Activation.SILU, architecture=Architecture.ENTITIES, heads=2, own=OWN)
CRITIC = dataclasses.replace(ENTITIES, output_gain=1.0)
CONFIG = PPOConfig(
    unroll=8, epochs=2, minibatches=2, actor=ENTITIES, critic=CRITIC, normalize_observations=False,
    observation_clip=1000.0,
)  # fmt: skip


def crowd(rows: int, count: int = 6, seed: int = 0) -> torch.Tensor:
    """(count, OWN + rows x WIDTH) random observations with every row present."""
    obs = torch.randn(count, OWN + rows * WIDTH, generator=torch.Generator().manual_seed(seed))
    obs[:, OWN:].unflatten(-1, (rows, WIDTH))[..., COLUMNS["present"]] = 1.0
    return obs


@pytest.fixture
def networks() -> list[torch.nn.Module]:
    generator = torch.Generator().manual_seed(1)
    size = OWN + 4 * WIDTH
    loud = dataclasses.replace(ENTITIES, output_gain=1.0)
    return [make_actor(size, 3, loud, generator=generator), make_critic(size, CRITIC, generator)]


def test_the_order_of_entities_does_not_matter(networks) -> None:
    obs = crowd(4)
    rows = obs[:, OWN:].unflatten(-1, (4, WIDTH))
    turned = torch.cat([obs[:, :OWN], rows[:, [2, 0, 3, 1]].flatten(1)], 1)
    for network in networks:
        torch.testing.assert_close(network(turned), network(obs))


def test_absent_rows_change_nothing_and_present_ones_do(networks) -> None:
    obs = crowd(4)
    more = torch.cat([obs, torch.zeros(len(obs), 3 * WIDTH)], 1)
    for network in networks:
        torch.testing.assert_close(network(more), network(obs))
        assert (network(obs) - network(obs[:, : OWN + 3 * WIDTH])).abs().max() > 1e-3


def test_an_agent_alone_acts(networks) -> None:
    alone, empty = crowd(0), torch.cat([crowd(0), torch.zeros(6, 2 * WIDTH)], 1)
    for network in networks:
        assert network(alone).isfinite().all()
        torch.testing.assert_close(network(empty), network(alone))


def test_rows_say_what_they_are() -> None:
    offset = jnp.array([[3.0, 0.0, 4.0], [1.0, 0.0, 0.0]])
    rows = np.asarray(
        entity_rows(Kind.OBSTACLE, offset, jnp.ones((2, 3)), jnp.array([1.0, 0.5]), jnp.array([True, False]))
    )
    assert rows.shape == (2, WIDTH)
    assert rows[0, COLUMNS["present"]] == 1
    assert rows[0, COLUMNS["kind"]].tolist() == [0, 1, 0]
    assert rows[0, COLUMNS["offset"]].tolist() == [3, 0, 4]
    assert rows[0, COLUMNS["closeness"]] == pytest.approx(np.exp(-4.0))
    assert rows[0, COLUMNS["size"]] == 1
    # It comes nearer by 1 m/s along each axis: nearest 3.5 s from now, of which a second counts.
    away = np.asarray(entity_rows(Kind.TEAMMATE, offset, -jnp.ones((2, 3)), 0.0, jnp.array([True, True])))
    np.testing.assert_allclose(away[0, COLUMNS["passing"]], [2, -1, 3], atol=1e-6)
    # However slowly it comes, it comes nearer.
    slowly = np.asarray(entity_rows(Kind.TEAMMATE, offset, -5e-4 * jnp.ones((2, 3)), 0.0, jnp.array([True, True])))
    np.testing.assert_allclose(slowly[0, COLUMNS["passing"]], offset[0] - 5e-4, atol=1e-6)
    # Straight at each other, they touch within the second.
    straight = np.asarray(entity_rows(Kind.TEAMMATE, offset, -2 * offset, 0.1, jnp.array([True, True])))
    np.testing.assert_allclose(straight[0, COLUMNS["passing"]], 0, atol=1e-5)
    assert straight[0, COLUMNS["threat"]] == 1
    assert not rows[1].any()


def test_lengths_that_are_no_rows_are_refused() -> None:
    assert rows_in(OWN, OWN) == 0
    with pytest.raises(ValueError, match=f"length {OWN + 7} is not {OWN} numbers .* rows of {WIDTH}"):
        rows_in(OWN + 7, OWN)
    with pytest.raises(ValueError, match="length 3 is not 5 numbers"):
        make_actor(3, 2, ENTITIES)


def test_a_stored_policy_acts_among_more_than_it_was_trained_with() -> None:
    learner = PPO(vectors(policy=OWN + 4 * WIDTH), 3, 6, CONFIG)
    rebuilt = Policy.from_tensors(*learner.policy.to_tensors())
    torch.testing.assert_close(rebuilt(crowd(4)), learner.policy(crowd(4)))
    assert rebuilt.fits(OWN + 40 * WIDTH, 3)
    assert not rebuilt.fits(OWN + 40 * WIDTH + 1, 3)
    assert not rebuilt.fits(OWN + 4 * WIDTH, 4)
    worlds = crowd(9, 12).unflatten(0, (3, 4))  # worlds of four agents
    assert rebuilt(worlds).shape == (3, 4, 3)
    torch.testing.assert_close(rebuilt(worlds).flatten(0, 1), rebuilt(crowd(9, 12)))


class AmongOthers(PointMass):
    """The point mass, whose way to the origin is told by an entity and not by its own numbers."""

    observation_spec = {"policy": ObservationSpec((OWN + 2 * WIDTH,))}  # noqa: RUF012

    def _observe(self) -> dict[str, torch.Tensor]:
        obs = torch.zeros(self.num_envs, OWN + 2 * WIDTH)
        rows = obs[:, OWN:].unflatten(-1, (2, WIDTH))
        rows[:, 1, COLUMNS["present"]] = 1.0
        rows[:, 1, COLUMNS["offset"].start : COLUMNS["offset"].start + 2] = -self.position
        return {"policy": obs}


def test_it_learns_to_go_to_an_entity() -> None:
    config = dataclasses.replace(CONFIG, unroll=20, gamma=0.9, initial_std=0.6, epochs=4, learning_rate=1e-2)
    trainer = Trainer(AmongOthers(16), config, total_steps=16 * 20 * 10, seed=0)
    trainer.iterate()  # of episodes that began within
    second = last = trainer.iterate()
    while not trainer.done:
        last = trainer.iterate()
    assert set(REPORTED) <= set(last)
    assert last["return"] > 0.6 * second["return"]  # negative: distances
