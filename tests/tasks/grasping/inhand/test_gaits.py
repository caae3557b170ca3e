"""Gaits repeat themselves, stay in an action's range, and turn cubes to the left."""

import numpy as np
import pytest

from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from tasks.grasping.hands.models import HANDS, hand_named
from tasks.grasping.inhand import gaits
from tasks.grasping.inhand.gaits import HARMONICS, Gait, gait_of, try_gaits


def random_gait(scale: float, size: int = 16, seed: int = 0) -> Gait:
    vector = scale * np.random.default_rng(seed).normal(size=(1 + 2 * HARMONICS) * size + 1)
    return Gait.from_vector(vector)


def test_a_gait_repeats_itself_within_the_range_of_actions() -> None:
    gait = random_gait(1.0)
    for seconds in (0.0, 0.13, 0.4):
        action = gait(seconds)
        assert action.shape == (16,)
        assert np.abs(action).max() <= 1
        np.testing.assert_allclose(gait(seconds + 1 / gait.frequency), action, atol=1e-4)
    assert np.abs(gait(0.2) - gait(0.0)).max() > 0.1


def test_the_numbers_that_are_searched_are_all_of_the_gait() -> None:
    vector = np.arange(81.0) / 100
    gait = Gait.from_vector(vector)
    assert gait.frequency == pytest.approx(np.exp(0.8))
    again = np.concatenate([part.ravel() for part in (gait.mean, gait.sine, gait.cosine)])
    np.testing.assert_allclose(again, vector[:-1], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("hand", [hand for hand in HANDS if gaits.file_of(hand_named(hand)).exists()])
def test_the_kept_gait_turns_cubes_to_the_left_and_stillness_does_not(hand: str) -> None:
    join_content()
    env = make(f"grasping/{hand}-rotate-z", 32, "mujoco", seed=3)
    still = random_gait(0.0, env.action_size)
    trials = try_gaits(env, [gait_of(hand_named(hand)), still], seconds=5.0)
    assert trials.turned[0] > 0.5
    assert abs(trials.turned[1]) < 0.3


def test_a_hand_without_a_gait_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(gaits, "asset", lambda name: tmp_path / name)
    gait_of.cache_clear()
    with pytest.raises(EmbodiedError, match=r"python -m tasks\.grasping\.inhand\.gaits leap"):
        gait_of(hand_named("leap"))
    gait_of.cache_clear()
