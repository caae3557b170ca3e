"""Noise that is cut from few random words."""

from __future__ import annotations

import jax
import numpy as np

from embodied.math.sampling import coarse_noise


def test_coarse_noise_is_uniform_with_a_deviation_of_one_and_two_numbers_share_a_word() -> None:
    drawn = np.asarray(coarse_noise(jax.random.PRNGKey(0), 20_001))
    assert drawn.shape == (20_001,)
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.std() - 1) < 0.02
    assert np.abs(drawn).max() < np.sqrt(3)
    thirds = np.histogram(drawn, bins=3, range=(-np.sqrt(3), np.sqrt(3)))[0]
    np.testing.assert_allclose(thirds, 20_001 / 3, rtol=0.05)
    of_one_word = drawn[:10_000], drawn[10_001:]
    assert abs(np.corrcoef(*of_one_word)[0, 1]) < 0.05


def test_coarse_noise_draws_no_more_words_than_it_needs() -> None:
    program = str(jax.make_jaxpr(lambda key: coarse_noise(key, 7))(jax.random.key(0)))
    assert "shape=(4,)" in program, program
