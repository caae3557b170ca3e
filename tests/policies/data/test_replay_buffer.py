"""The buffer gives back what was stored, and adds up n-step returns as a slow loop would."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.data.replay_buffer import BufferDtype, ReplayBuffer, Transitions, combined
from tests.kit.learning import vectors

GAMMA = 0.9
SIZES = {"policy": 2, "critic": 3}


def steps(count: int, num_envs: int, seed: int = 0, ends: float = 0.2) -> Transitions:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.empty(count, num_envs, *shape).normal_(generator=generator)

    over = torch.rand(2, count, num_envs, generator=generator) < ends / 2
    groups = {group: normal(size) for group, size in SIZES.items()}
    following = {group: normal(size) for group, size in SIZES.items()}
    return Transitions(groups, normal(1).tanh(), normal(), over[0], over[1] & ~over[0], following)


def buffer(capacity: int, num_envs: int, n_step: int = 1, dtype: BufferDtype = BufferDtype.FLOAT32) -> ReplayBuffer:
    return ReplayBuffer(capacity, num_envs, vectors(**SIZES), 1, gamma=GAMMA, n_step=n_step, dtype=dtype)


def row_range(of: Transitions, begin: int, end: int) -> Transitions:
    return combined([of], lambda tensors: tensors[0][begin:end])


def row(of: Transitions, t: int) -> Transitions:
    return row_range(of, t, t + 1)


def slow(of: Transitions, t: int, env: int, n: int, first: int) -> tuple[float, float, int]:
    """Return, discount and last step of a transition from step t, where steps before `first` are forgotten."""
    assert t >= first
    total, last = 0.0, len(of.reward) - 1
    for k in range(n):
        total += GAMMA**k * float(of.reward[t + k, env])
        if bool(of.terminated[t + k, env]):
            return total, 0.0, t + k
        if bool(of.truncated[t + k, env]) or t + k == last:
            return total, GAMMA ** (k + 1), t + k
    return total, GAMMA**n, t + n - 1


@pytest.mark.parametrize("n_step", [1, 3, 5])
@pytest.mark.parametrize("count", [5, 12, 19, 31])  # unfilled, exactly full, and around twice
def test_n_step_targets_equal_a_slow_loop_before_and_after_wrapping(n_step, count):
    num_envs, rows = 3, 12
    made, data = buffer(rows * num_envs, num_envs, n_step), steps(count, num_envs)
    for t in range(count):
        made.extend(row(data, t))
    first = max(0, count - rows)
    assert len(made) == min(count, rows) * num_envs
    index = torch.arange(len(made))
    batch = made.gather(index)
    for i in index.tolist():
        t, env = first + i // num_envs, i % num_envs
        reward, discount, last = slow(data, t, env, n_step, first)
        assert batch.reward[i].item() == pytest.approx(reward, abs=1e-5)
        assert batch.discount[i].item() == pytest.approx(discount, abs=1e-6)
        assert torch.equal(batch.obs["critic"][i], data.obs["critic"][t, env])
        assert torch.equal(batch.action[i], data.action[t, env])
        assert torch.equal(batch.next_obs["policy"][i], data.next_obs["policy"][last, env])


def test_a_batch_of_steps_is_stored_as_one_after_another():
    data, one, many = steps(17, 2), buffer(20, 2), buffer(20, 2)
    for t in range(17):
        one.extend(row(data, t))
    many.extend(row_range(data, 0, 9))
    many.extend(row_range(data, 9, 17))
    index = torch.arange(20)
    assert torch.equal(one.gather(index).reward, many.gather(index).reward)
    assert torch.equal(one.gather(index).obs["policy"], many.gather(index).obs["policy"])


def test_samples_are_uniform_and_repeat_with_their_generator():
    made, data = buffer(40, 4), steps(10, 4)
    made.extend(data)
    drawn = made.sample(20_000, torch.Generator().manual_seed(1))
    again = made.sample(20_000, torch.Generator().manual_seed(1))
    assert torch.equal(drawn.reward, again.reward)
    shares = torch.stack([(drawn.reward == reward).float().mean() for reward in data.reward.flatten()])
    assert shares.min() > 0.7 / 40
    assert shares.max() < 1.3 / 40


@pytest.mark.parametrize("dtype", BufferDtype)
def test_images_are_stored_as_bytes_beside_vectors(dtype):
    spec = {**vectors(proprio=2), "pixels/front": ObservationSpec((3, 4, 5), torch.uint8)}
    made = ReplayBuffer(6, 2, spec, 1, gamma=GAMMA, dtype=dtype)
    images = torch.arange(240).reshape(2, 2, 60).byte().unflatten(-1, (3, 4, 5))
    groups = {"proprio": torch.ones(2, 2, 2), "pixels/front": images}
    following = {"proprio": torch.zeros(2, 2, 2), "pixels/front": 255 - images}
    over = torch.zeros(2, 2, dtype=torch.bool)
    made.extend(Transitions(groups, torch.zeros(2, 2, 1), torch.zeros(2, 2), over, over, following))
    batch = made.gather(torch.arange(4))
    assert batch.obs["pixels/front"].dtype == torch.uint8
    assert torch.equal(batch.obs["pixels/front"], images.flatten(0, 1))
    assert torch.equal(batch.next_obs["pixels/front"], 255 - images.flatten(0, 1))
    assert batch.obs["proprio"].dtype == torch.float32
    restored = ReplayBuffer(6, 2, spec, 1, gamma=GAMMA, dtype=dtype)
    restored.load_state(trees.unflatten(trees.flatten(made.state())))
    assert torch.equal(restored.gather(torch.arange(4)).obs["pixels/front"], batch.obs["pixels/front"])
    assert made.state()["obs-pixels.front"].nbytes == 4 * 60


def test_half_numbers_halve_observations_and_keep_rewards():
    whole, half = buffer(20, 2), buffer(20, 2, dtype=BufferDtype.FLOAT16)
    data = steps(10, 2)
    data.obs["policy"][0, 0, 0] = 1e9  # beyond what half numbers hold
    for made in (whole, half):
        made.extend(data)
    a, b = (made.gather(torch.arange(20)) for made in (whole, half))
    assert torch.equal(a.reward, b.reward)
    assert b.obs["policy"].dtype == torch.float32
    assert b.obs["policy"].isfinite().all()
    torch.testing.assert_close(a.obs["critic"], b.obs["critic"], rtol=1e-3, atol=1e-3)
    assert not torch.equal(a.obs["critic"], b.obs["critic"])
    size = {name: made.state()["obs-critic"].nbytes for name, made in (("whole", whole), ("half", half))}
    assert size["half"] * 2 == size["whole"]


def test_messages():
    with pytest.raises(EmbodiedError, match=r"10 transitions holds 2 steps of 4 .* n_step=3: buffer_size=12 or more"):
        buffer(10, 4, n_step=3)
    made = buffer(20, 2)
    with pytest.raises(EmbodiedError, match="the replay buffer is empty"):
        made.sample(3, torch.Generator())
    with pytest.raises(EmbodiedError, match="11 steps were given to a buffer of 10"):
        made.extend(steps(11, 2))
    made.extend(steps(4, 2))
    with pytest.raises(EmbodiedError, match=r"10 steps of 3 environments cannot take over .*other shapes: .*action"):
        buffer(30, 3).load_state(made.state())
    with pytest.raises(EmbodiedError, match=r"of 3 steps .*\(4 steps\)"):
        buffer(6, 2).load_state(made.state())


def test_rewards_of_a_teams_agents_add_up_as_in_buffers_of_their_own():
    data, others = steps(19, 3), steps(19, 3, seed=1)
    options: dict[str, Any] = {"gamma": GAMMA, "n_step": 3}
    whole = ReplayBuffer(36, 3, vectors(**SIZES), 1, reward_size=2, **options)
    each = [ReplayBuffer(36, 3, vectors(**SIZES), 1, **options) for _ in range(2)]
    rewards = torch.stack([data.reward, others.reward], -1)
    for t in range(19):
        own = row(data, t)
        whole.extend(dataclasses.replace(own, reward=rewards[t : t + 1]))
        for agent, made in enumerate(each):
            made.extend(dataclasses.replace(own, reward=rewards[t : t + 1, :, agent]))
    index = torch.arange(36)
    batch, parts = whole.gather(index), [made.gather(index) for made in each]
    torch.testing.assert_close(batch.reward, torch.stack([part.reward for part in parts], -1))
    assert torch.equal(batch.discount, parts[0].discount)
    assert whole.newest(4).reward.shape == (4, 3, 2)
    with pytest.raises(EmbodiedError, match=r"other shapes: .*reward"):
        each[0].load_state(whole.state())


@pytest.mark.parametrize("count", [5, 12, 19])
def test_the_newest_steps_come_in_order_and_end_cut_off(count):
    made, data = buffer(36, 3), steps(count, 3)
    for t in range(count):
        made.extend(row(data, t))
    newest = made.newest(4)
    torch.testing.assert_close(newest.reward, data.reward[-4:])
    torch.testing.assert_close(newest.next_obs["critic"], data.next_obs["critic"][-4:])
    torch.testing.assert_close(newest.truncated[:-1], data.truncated[-4:-1])
    assert bool((newest.truncated[-1] | newest.terminated[-1]).all())
    assert len(made.newest(99).reward) == min(count, 12)
