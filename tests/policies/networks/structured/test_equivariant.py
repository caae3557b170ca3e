"""The transformer over parts: it needs no order, no size and no compass, and it learns."""

import pytest
import torch

from embodied.core.body_rows import COLUMNS, SLOTS, WIDTH
from embodied.env.suites import JoinedEnv
from embodied.env.vec_env import ObservationSpec, StepData, vector_sizes
from policies import PPO, Policy, PPOConfig
from policies.networks.build import make_actor, make_critic
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.networks.structured.equivariant import PartsActor, canonical, kinship
from policies.ppo.ppo import REPORTED
from tests.kit.learning import PointMass, vectors

PARTS = NetworkConfig((16, 16), Activation.SILU, output_gain=1.0, architecture=Architecture.PARTS, heads=2)
CONFIG = PPOConfig(
    unroll=8, epochs=2, minibatches=2, actor=PARTS, critic=PARTS, normalize_observations=False, observation_clip=1000.0
)


def bodies(parents: list[int], count: int = 5, seed: int = 0) -> torch.Tensor:
    """(count, parts, WIDTH) random rows of a body whose parts hang on these rows, counted from 1."""
    rows = torch.randn(count, len(parents), WIDTH, generator=torch.Generator().manual_seed(seed))
    rows[..., COLUMNS["parent"]] = torch.tensor(parents, dtype=torch.float32)[:, None]
    rows[..., COLUMNS["present"]] = 1
    rows[..., COLUMNS["target"].stop - 1] = 0
    rows[..., COLUMNS["strength"]] = 100 * (rows[..., COLUMNS["strength"]] > -0.5)
    return rows


def actor_for(parts: int) -> PartsActor:
    actor = make_actor(parts * WIDTH, SLOTS * (parts - 1), PARTS, generator=torch.Generator().manual_seed(1))
    assert isinstance(actor, PartsActor)
    return actor


LEGS = [0, 1, 2, 3, 1, 5, 6]  # a torso on two legs of thigh, shin and foot


def test_kinship_of_two_legs() -> None:
    found = {name: kinship(bodies(LEGS, 1))[0, ..., i].nonzero().tolist() for i, name in enumerate(
        ("self", "parent", "child", "sibling", "grandparent", "grandchild"))}  # fmt: skip
    assert found["self"] == [[i, i] for i in range(7)]
    assert found["parent"] == [[1, 0], [2, 1], [3, 2], [4, 0], [5, 4], [6, 5]]
    assert found["child"] == sorted([b, a] for a, b in found["parent"])
    assert found["sibling"] == [[1, 4], [4, 1]]
    assert found["grandparent"] == [[2, 0], [3, 1], [5, 0], [6, 4]]
    assert found["grandchild"] == sorted([b, a] for a, b in found["grandparent"])


def test_canonical_rows_have_their_target_ahead_and_keep_lengths() -> None:
    rows = bodies(LEGS)
    found = canonical(rows)
    target = found[..., COLUMNS["target"]]
    torch.testing.assert_close(target[..., 0], rows[..., COLUMNS["target"]].norm(dim=-1))
    torch.testing.assert_close(target[..., 1], torch.zeros(5, 7), atol=1e-6, rtol=0)
    assert torch.equal(found[..., COLUMNS["present"].start :], rows[..., COLUMNS["present"].start :])
    velocity = COLUMNS["velocity"]
    torch.testing.assert_close(found[..., velocity].norm(dim=-1), rows[..., velocity].norm(dim=-1))


def test_the_order_of_parts_does_not_matter() -> None:
    rows, order = bodies(LEGS), [0, 4, 2, 6, 1, 5, 3]
    moved = rows[:, order].clone()
    places = torch.tensor([0, *(1 + order.index(i) for i in range(7))], dtype=torch.float32)
    moved[..., COLUMNS["parent"]] = places[moved[..., COLUMNS["parent"]].long()]
    actor = actor_for(7)
    before = actor(rows.flatten(1)).view(5, 6, SLOTS)
    after = actor(moved.flatten(1)).view(5, 6, SLOTS)
    torch.testing.assert_close(after, before[:, [i - 1 for i in order[1:]]], atol=1e-5, rtol=1e-5)
    critic = make_critic(7 * WIDTH, PARTS, torch.Generator().manual_seed(1))
    torch.testing.assert_close(critic(moved.flatten(1)), critic(rows.flatten(1)), atol=1e-5, rtol=1e-5)


def test_absent_parts_change_nothing() -> None:
    rows = bodies(LEGS)
    filled = torch.cat([rows, torch.zeros(5, 4, WIDTH)], 1)
    actor, critic = actor_for(7), make_critic(7 * WIDTH, PARTS, torch.Generator().manual_seed(1))
    actions = actor(filled.flatten(1))
    torch.testing.assert_close(actions[:, :18], actor(rows.flatten(1)), atol=1e-6, rtol=1e-6)
    assert not actions[:, 18:].any()
    torch.testing.assert_close(critic(filled.flatten(1)), critic(rows.flatten(1)), atol=1e-6, rtol=1e-6)


def test_form_matters() -> None:
    """The same features on another tree are another body."""
    actor = actor_for(7)
    rows, other = bodies(LEGS), bodies([0, 1, 2, 3, 4, 5, 6])
    assert (actor(rows.flatten(1)) - actor(other.flatten(1))).abs().max() > 1e-3


def test_gradients_reach_every_parameter() -> None:
    rows = bodies(LEGS).flatten(1)
    for network in (actor_for(7), make_critic(7 * WIDTH, PARTS)):
        network(rows).square().sum().backward()
        without = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()]
        assert [name for name in without if name != "spread"] == []


def test_an_update_is_finite_and_moves_the_policy() -> None:
    ppo, random = PPO(vectors(policy=7 * WIDTH), 18, 64, CONFIG), torch.Generator().manual_seed(2)
    never = torch.zeros(64, dtype=torch.bool)
    before = ppo.optimizer.vector.clone()
    for t in range(CONFIG.unroll):
        obs = {"policy": bodies(LEGS, 64, seed=t).flatten(1)}
        ppo.act(obs)
        ppo.record(StepData(obs, torch.randn(64, generator=random), never, never, never, obs))
    metrics = ppo.update({"policy": bodies(LEGS, 64).flatten(1)})
    assert set(metrics) == set(REPORTED)
    assert not torch.equal(before, ppo.optimizer.vector)


def test_a_stored_policy_acts_on_bodies_of_other_sizes() -> None:
    ppo = PPO(vectors(policy=7 * WIDTH), 18, 4, CONFIG)
    meta, tensors = ppo.policy.to_tensors()
    rebuilt = Policy.from_tensors(meta, tensors)
    assert meta["kind"] == "gaussian-parts"
    for parents in (LEGS, [0, 1, 1, 1]):
        obs = bodies(parents).flatten(1)
        assert rebuilt.fits(obs.shape[1], SLOTS * (len(parents) - 1))
        assert torch.equal(rebuilt(obs), ppo.policy(obs))
        assert rebuilt.stochastic(0)(obs).shape == (5, SLOTS * (len(parents) - 1))
    assert not rebuilt.fits(WIDTH * 7, 17)
    assert not rebuilt.fits(WIDTH * 7 + 1, 18)
    with pytest.raises(ValueError, match=f"length 7 is not a list of body parts, which take {WIDTH} numbers each"):
        rebuilt(torch.zeros(1, 7))


def test_actions_that_no_body_has_are_refused() -> None:
    with pytest.raises(ValueError, match="5 actions: a body of 7 parts takes 18"):
        make_actor(7 * WIDTH, 5, PARTS)


def test_it_learns_what_depends_on_the_angle_to_the_target() -> None:
    """Each joint is to act as fast as its own part moves towards the target: a product of two vectors."""
    actor = actor_for(3)
    descent = torch.optim.Adam(actor.mean.parameters(), lr=1e-2)
    errors = []
    for step in range(60):
        rows = bodies([0, 1, 1], 128, seed=step)
        rows[..., COLUMNS["strength"]] = 100
        ahead = torch.nn.functional.normalize(rows[..., COLUMNS["target"]], dim=-1)
        speed = (rows[..., COLUMNS["velocity"]] * ahead).sum(-1)
        error = (actor(rows.flatten(1)).view(-1, 2, SLOTS) - 0.5 * speed[:, 1:, None]).square().mean()
        descent.zero_grad()
        error.backward()
        descent.step()
        errors.append(float(error.detach()))
    assert sum(errors[-10:]) / 10 < 0.05  # the mean square of what it is to say is 0.25


class Narrow(PointMass):
    """The point mass, seen without its second coordinate and moved along the first."""

    observation_spec = {"policy": ObservationSpec((1,)), "critic": ObservationSpec((2,))}  # noqa: RUF012
    action_size = 1

    def step(self, action: torch.Tensor) -> StepData:
        return super().step(torch.cat([action, torch.zeros_like(action)], -1))

    def _observe(self) -> dict[str, torch.Tensor]:
        whole = super()._observe()
        return {"policy": whole["policy"][:, :1], "critic": whole["critic"][:, :2]}


def test_joined_environments_are_filled_up_and_cut() -> None:
    env = JoinedEnv({"wide": PointMass(3), "narrow": Narrow(2)})
    assert (env.num_envs, env.action_size, vector_sizes(env.observation_spec)) == (5, 2, {"policy": 2, "critic": 3})
    obs = env.reset()
    assert obs["policy"].shape == (5, 2)
    assert not obs["policy"][3:, 1].any()
    saved = env.state()
    action = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
    step = env.step(action)
    separated = env.separated(step.obs)
    for place, (own, rows) in enumerate(((PointMass(3), slice(3)), (Narrow(2), slice(3, 5)))):
        own.reset()
        alone = own.step(action[rows, : own.action_size])
        assert torch.equal(step.reward[rows], alone.reward)
        assert torch.equal(step.obs["critic"][rows, : alone.obs["critic"].shape[1]], alone.obs["critic"])
        assert all(torch.equal(separated[place][group], values) for group, values in alone.obs.items())
    env.load_state(saved)
    assert torch.equal(env.step(action).reward, step.reward)
    for _ in range(20):
        env.step(torch.zeros(5, 2))
    statistics = env.statistics()
    assert statistics["return"] == pytest.approx((statistics["wide/return"] + statistics["narrow/return"]) / 2)


def test_no_environments_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="no environments to join"):
        JoinedEnv({})
