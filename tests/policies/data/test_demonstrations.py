"""Demonstrations: recorded whole and successful, read with care, and sampled at their share."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from embodied.errors import EmbodiedError
from policies.data import demonstrations
from tests.kit.imitation import SPEC, homewards, outwards
from tests.kit.learning import PointMass, vectors


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "folder" / "demonstrations.safetensors"
    demonstrations.save(path, demonstrations.record(PointMass(4), homewards, 6))
    return path


def test_whole_episodes_are_recorded_one_after_another():
    steps = demonstrations.record(PointMass(4), homewards, 6)
    ends = (steps.terminated | steps.truncated)[:, 0]
    assert steps.reward.shape == (6 * 20, 1)
    assert ends.nonzero()[:, 0].tolist() == [20 * (i + 1) - 1 for i in range(6)]
    inside = ~ends[:-1]
    assert torch.equal(steps.next_obs["policy"][:-1][inside], steps.obs["policy"][1:][inside])
    assert not torch.equal(steps.next_obs["policy"][19], steps.obs["policy"][20])  # before the reset, not after it
    torch.testing.assert_close(steps.reward, -steps.next_obs["policy"].norm(dim=-1))


def test_failures_are_left_out_unless_wanted():
    with pytest.raises(EmbodiedError, match=r"0 of 1\d episodes succeeded, fewer than the 2 that were asked for"):
        demonstrations.record(PointMass(4), outwards, 2)
    steps = demonstrations.record(PointMass(4), outwards, 2, failures=True)
    assert steps.terminated.sum() == 2


def test_steps_after_success_are_kept_for_as_long_as_is_wanted():
    def recorded(hold: int | None) -> demonstrations.Recording:
        return demonstrations.record_actor(PointMass(4), demonstrations.Demonstrator(homewards), 6, hold=hold)

    whole, cut = recorded(None).steps, recorded(2)
    solved = (whole.next_obs["policy"].norm(dim=-1) < 0.1).reshape(6, 20)
    lengths = [min(20, 1 + int(row.int().argmax()) + 2) for row in solved]
    assert max(lengths) < 20
    ends = (cut.steps.terminated | cut.steps.truncated)[:, 0].nonzero()[:, 0] + 1
    assert ends.tolist() == torch.tensor(lengths).cumsum(0).tolist()
    assert len(cut.source) == sum(lengths)
    assert torch.equal(cut.steps.reward[: lengths[0]], whole.reward[: lengths[0]])
    assert not whole.truncated[lengths[0] - 1]  # cutting left the other recording alone


def test_a_file_gives_back_what_was_saved(file):
    steps = demonstrations.record(PointMass(4), homewards, 6)
    loaded = demonstrations.load(file, SPEC, 2)
    assert torch.equal(loaded.reward, steps.reward)
    assert torch.equal(loaded.obs["critic"], steps.obs["critic"])
    assert torch.equal(loaded.truncated, steps.truncated)


def test_the_last_step_of_a_file_ends_an_episode(file):
    tensors = load_file(file)
    save_file({name: tensor[:13].clone() for name, tensor in tensors.items()}, file)
    loaded = demonstrations.load(file, SPEC, 2)
    assert loaded.truncated[:, 0].tolist() == [False] * 12 + [True]


def test_files_that_do_not_fit_are_refused(file, tmp_path):
    with pytest.raises(EmbodiedError, match=r"cannot read demonstrations from '.*missing.*'"):
        demonstrations.load(tmp_path / "missing", SPEC, 2)
    (tmp_path / "garbage").write_bytes(b"garbage" * 10)
    with pytest.raises(EmbodiedError, match=r"cannot read demonstrations from '.*garbage'"):
        demonstrations.load(tmp_path / "garbage", SPEC, 2)
    with pytest.raises(EmbodiedError, match=r"do not fit: action is \(120, 2\), expected \(120, 5\)"):
        demonstrations.load(file, SPEC, 5)
    with pytest.raises(EmbodiedError, match=r"lack next_obs/touch, obs/touch; they have action, .*reward"):
        demonstrations.load(file, SPEC | vectors(touch=4), 2)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("reward", lambda old: old.to(torch.complex64), "reward holds complex numbers"),
        ("reward", lambda old: old * torch.nan, "reward holds numbers that are not finite"),
        ("reward", lambda old: old + 1e30, r"reward is up to 1e\+30, expected at most 1e\+10"),
        ("reward", lambda old: old[0], r"reward is \(\), expected \(1,\)"),
        ("action", lambda old: 3 + 0 * old, r"action is up to 3, expected \[-1, 1\]"),
        ("obs/policy", lambda old: old * torch.nan, "obs/policy holds numbers that are not finite"),
    ],
)
def test_numbers_that_no_task_gives_are_refused(file, name, values, message):
    tensors = load_file(file)
    tensors[name] = values(tensors[name])
    save_file(tensors, file)
    with pytest.raises(EmbodiedError, match=message):
        demonstrations.load(file, SPEC, 2)


def test_noise_of_demonstrations_lasts_and_has_a_strength_of_each_episode():
    actor = demonstrations.NoisyDemonstrator(lambda obs: 0.0 * obs["policy"], 0.2, 10, seed=1)
    found = torch.stack([actor({"policy": torch.zeros(64, 2)})[0] for _ in range(2_000)])[100:]
    strength = found.std(0)
    assert strength.max() < 0.25
    assert strength.mean() == pytest.approx(0.1, abs=0.02)  # uniform from 0 to 0.2
    assert torch.corrcoef(strength.T)[0, 1] > 0.9  # the same for all components of an action
    unit = found / strength
    correlation = (unit[:-10] * unit[10:]).mean()
    assert correlation == pytest.approx(0.368, abs=0.05)  # 1/e after 10 steps


def test_noise_of_an_episode_that_begins_is_not_that_of_the_one_before():
    actor = demonstrations.NoisyDemonstrator(lambda obs: 0.0 * obs["policy"], 1.0, 1_000, seed=1)
    seen = {"policy": torch.zeros(32, 2)}
    before = [actor(seen)[0] for _ in range(500)][-1]
    ended = torch.arange(32) < 16
    actor.reset(ended)
    after = actor(seen)[0]
    assert (after[ended].abs() < 0.2).all()
    assert (after - before)[~ended].abs().max() < 0.2
    assert before.abs().max() > 0.4


def test_noisy_demonstrations_are_of_what_was_done():
    actor = demonstrations.NoisyDemonstrator(homewards, 0.5, 5)
    steps = demonstrations.record_actor(PointMass(4), actor, 4).steps
    moved = steps.next_obs["policy"] - steps.obs["policy"]
    torch.testing.assert_close(moved, 0.1 * steps.action, atol=1e-5, rtol=0.0)
    assert (steps.action - homewards(steps.obs)).abs().max() > 0.2
