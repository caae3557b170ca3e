"""Fine-tuning: repeats what was shown, listens, keeps the best, ends, resumes bit for bit."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from embodied.storage.datasets.episode import Episode
from policies.algorithm import DivergedError
from policies.vla.fine_tuning.learner import FineTuning, augmentations_of, shifted_batch
from policies.vla.fine_tuning.settings import FineTuningConfig
from policies.vla.model.config import Head, VLAConfig
from policies.vla.model.token_head import tokenize
from policies.vla.policy import VLAPolicy
from tests.kit.vla import LEFT, QUICK, RIGHT, SMALL, assert_resumed_steps_equal_whole, episode, shown, untrained

COARSE = dataclasses.replace(SMALL, bins=16, chunk=4)
POINTING = dataclasses.replace(COARSE, keypoints=1)
FEW = dataclasses.replace(QUICK, batch_size=16)


def taught(
    demonstrations, config: VLAConfig = COARSE, steps: int = 150, tuning: FineTuningConfig = QUICK
) -> FineTuning:
    torch.manual_seed(0)
    made = FineTuning(untrained(demonstrations, config), demonstrations, tuning, steps)
    while not made.finished:
        made.step()
    return made


@torch.no_grad()
def plans(policy: VLAPolicy, made: FineTuning, instruction: str | None = None):
    """What a policy does at every moment that it was shown, and what was done."""
    dataset = made.training
    batch = dataset.batch(torch.arange(len(dataset)))
    cameras = enumerate(policy.spec.cameras)
    obs = {f"pixels/{camera}": batch.pixels[:, place].permute(0, 3, 1, 2) for place, camera in cameras}
    told = [instruction or dataset.instructions[number] for number in batch.instruction.tolist()]
    return policy.plan(obs | {"proprio": batch.state}, policy.encode_instructions(told)), batch


@pytest.mark.parametrize(("steps", "share"), [(40, 0.35), pytest.param(150, 0.95, marks=pytest.mark.slow)])
def test_two_episodes_are_learned_by_heart(steps, share):
    demonstrations = shown([episode(0, length=6), episode(1, length=8)])
    made = taught(demonstrations, steps=steps, tuning=FEW)
    planned, batch = plans(made.policy, made)
    unit, bins = made.policy.normalization.normalize_action, COARSE.bins
    same = tokenize(unit(planned), bins) == tokenize(unit(batch.action), bins)
    assert same[batch.valid].float().mean() > share  # of 16 bins; untrained: 0.06


@pytest.mark.parametrize(("steps", "error"), [(30, 0.35), pytest.param(150, 0.2, marks=pytest.mark.slow)])
def test_the_flow_head_learns_too(steps, error):
    demonstrations = shown([episode(0, length=6), episode(1, length=8)])
    made = taught(demonstrations, dataclasses.replace(SMALL, head=Head.FLOW, chunk=4), steps, FEW)
    planned, batch = plans(made.policy, made)
    assert (planned - batch.action).abs()[batch.valid].mean() < error  # untrained: 0.7


def test_the_same_picture_with_other_words_is_another_action():
    left = episode(0, action=np.full((12, 2), -0.8, np.float32) + np.linspace(0, 0.1, 12, dtype=np.float32)[:, None])
    right = dataclasses.replace(left, action=-left.action, instruction=RIGHT, task="toy/right")
    made = taught(shown([left, right]), steps=60, tuning=FEW)
    go_left, _ = plans(made.policy, made, LEFT)
    go_right, _ = plans(made.policy, made, RIGHT)
    assert go_left.max() < -0.5
    assert go_right.min() > 0.5
    assert plans(made.policy, made, "Move   RIGHT!")[0].min() > 0.5


def test_the_policy_is_the_best_so_far_and_training_ends_when_it_gets_no_better():
    tuning = dataclasses.replace(FEW, held_out=0.3, validation_interval=2, patience=3)
    demonstrations = shown([episode(i, length=6) for i in range(4)])
    torch.manual_seed(0)
    made = FineTuning(untrained(demonstrations, COARSE), demonstrations, tuning, 100)
    assert made.policy is made.current_policy
    assert made.held_out is not None
    assert len(made.held_out) == 6
    errors: list[float] = []
    best = torch.empty(0)
    while not made.finished:
        measures = made.step()
        if "held_out_error" in measures:
            errors.append(measures["held_out_error"])
            assert measures["best_held_out_error"] == min(errors)
            kept = torch.cat([p.detach().flatten() for p in made.policy.network.parameters()])
            if len(errors) == 1 or errors[-1] < min(errors[:-1]):
                best = made.optimizer.vector.clone()
            assert torch.equal(kept, best)
    assert made.steps < 100
    assert min(errors[-3:]) >= min(errors[:-3])


def test_the_rate_rises_and_falls_along_a_cosine():
    made = taught(shown([episode(0), episode(1)]), steps=1, tuning=dataclasses.replace(QUICK, warmup=10))
    made.total_steps, rates = 100, []
    for made.steps in range(101):
        rates.append(made._rate())
    assert rates[0] == pytest.approx(0.1 * QUICK.learning_rate)
    assert np.argmax(rates) == 9
    assert rates[50] == pytest.approx(QUICK.learning_rate * 0.505)
    assert rates[100] == pytest.approx(0.01 * QUICK.learning_rate)


def test_a_share_of_the_pictures_changes_colours():
    images = torch.randint(0, 256, (400, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for share in (0.25, 1.0):
        (colours,) = augmentations_of(FineTuningConfig(photometric=share))
        made = colours(images, torch.Generator().manual_seed(1))
        changed = (made != images).flatten(1).any(1).float().mean()
        assert changed == pytest.approx(share, abs=0.08)
    assert augmentations_of(FineTuningConfig()) == ()


def pointed(number: int, *, length: int = 12) -> Episode:
    """A toy episode that tells where its dot is in the image of one camera, and that the other does not see it."""
    plain = episode(number, length=length)
    rows, columns = (plain.images["front"][..., 0].max(axis) > 0 for axis in (2, 1))
    middle = np.stack([(columns.argmax(1) + 2) / 32, (rows.argmax(1) + 2) / 32], 1).astype(np.float32)
    return dataclasses.replace(plain, keypoints={"front": middle, "wrist": np.full_like(middle, -1)})


def test_it_learns_to_point_where_demonstrations_say_what_is_meant():
    demonstrations = shown([pointed(number) for number in range(12)])
    assert demonstrations.keypoints == 1
    tuning = dataclasses.replace(QUICK, held_out=0.2, validation_interval=4, batch_size=16)
    made = FineTuning(untrained(demonstrations, POINTING), demonstrations, tuning, 40)
    found = [made.step() for _ in range(12)]
    pointing = [metrics["held_out_pointing"] for metrics in found if "held_out_pointing" in metrics]
    assert pointing[-1] < 0.6 * pointing[0]


def test_half_of_the_samples_are_of_the_first_steps_where_asked():
    demonstrations = shown([episode(number, length=20) for number in range(4)])
    tuning = dataclasses.replace(QUICK, first_steps=2, batch_size=64)
    made = FineTuning(untrained(demonstrations, COARSE), demonstrations, tuning, 10)
    early = torch.cat([made._draw_samples() % 20 < 2 for _ in range(50)]).float().mean()
    assert early == pytest.approx(0.5 + 0.5 * 2 / 20, abs=0.03)


def test_a_shift_of_the_images_moves_what_is_pointed_at_along():
    demonstrations = shown([pointed(0)])
    made = taught(demonstrations, POINTING, 1)
    batch = made.training.batch(torch.arange(12))
    images = batch.pixels.flatten(0, 1).permute(0, 3, 1, 2)
    shifted, moved = shifted_batch(images, batch, 6, torch.Generator().manual_seed(0))
    front = shifted.unflatten(0, (12, 2))[:, 0]
    for image, (column, row) in zip(front, moved.keypoints[:, 0, 0].tolist(), strict=True):
        if 2 / 32 < column < 30 / 32 and 2 / 32 < row < 30 / 32:
            assert image[0, round(32 * row) - 1, round(32 * column) - 1] == 255
    assert not torch.equal(moved.keypoints, batch.keypoints)


@pytest.mark.parametrize("head", list(Head))
def test_a_resumed_training_is_the_same_bit_for_bit(head):
    demonstrations = shown([episode(i, length=6) for i in range(4)])
    tuning = dataclasses.replace(FEW, held_out=0.3, validation_interval=3, shift=2, photometric=0.5, bfloat16=None)

    def fresh(seed: int) -> FineTuning:
        torch.manual_seed(seed)
        return FineTuning(untrained(demonstrations, dataclasses.replace(COARSE, head=head)), demonstrations, tuning, 8)

    assert assert_resumed_steps_equal_whole(fresh, 8).finished


def test_a_loss_that_is_not_finite_is_an_error():
    demonstrations = shown([episode(0), episode(1)])
    made = FineTuning(untrained(demonstrations, COARSE), demonstrations, QUICK, 10)
    with torch.no_grad():
        made.optimizer.vector.fill_(math.nan)
    with pytest.raises(DivergedError, match="training diverged in gradient step 0: loss=nan"):
        made.step()
