"""Parts of tasks: what is drawn stays in its range, what is left out is nominal, what is remembered is right."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.parts import ActionHistory, Commands, EncoderBias, Held, Latency, ObservationNoise, Pushes, delayed

KEYS = jax.random.split(jax.random.PRNGKey(0), 2000)
ALL, NONE = frozenset({"latency", "encoder_bias", "observation_noise", "push"}), frozenset[str]()
COMMANDS = Commands(low=(-1.0, 0.2), high=(1.0, 0.4), keep=0.5, interval=2.0)
PUSHES = Pushes(speed=1.0, interval=(1.0, 2.0), duration=(0.1, 0.2))


def test_an_action_history_knows_the_last_action_and_its_change() -> None:
    history = ActionHistory.zeros(2).after(jnp.array([1.0, 0.0])).after(jnp.array([0.5, 0.5]))
    np.testing.assert_array_equal(history.last, [0.5, 0.5])
    np.testing.assert_array_equal(history.change, [-0.5, 0.5])


def test_a_held_condition_counts_and_begins_anew() -> None:
    held = Held.zero()
    for condition, steps in ((True, 1), (True, 2), (False, 0), (True, 1)):
        held = held.after(jnp.asarray(condition))
        assert held.steps == steps
    assert held.steps.dtype == jnp.int32
    assert held.seconds(0.02) == pytest.approx(0.02)


def test_latency_stays_in_its_range_and_is_zero_where_it_is_left_out() -> None:
    late = jax.jit(jax.vmap(lambda key: Latency(0.004, 0.01).draw(key, ALL)))(KEYS)
    assert 0.004 <= late.min() < 0.0041
    assert 0.0099 < late.max() <= 0.01
    assert Latency().draw(KEYS[0], NONE) == 0.0
    assert Latency().term().state_field == "latency"


def test_a_delayed_action_is_the_mean_over_the_control_step() -> None:
    action, last = jnp.array([1.0]), jnp.array([0.0])
    assert delayed(action, last, jnp.zeros(()), 0.02) == 1.0
    assert delayed(action, last, jnp.asarray(0.005), 0.02) == pytest.approx(0.75)
    assert delayed(action, last, jnp.asarray(0.02), 0.02) == 0.0


def test_noise_has_the_width_of_each_term_and_nothing_else_changes() -> None:
    readings = {"joints": jnp.ones(3), "goal": jnp.ones((2, 2)), "speed": jnp.zeros(1)}
    noise = ObservationNoise({"joints": 0.1, "speed": 2.0})
    noisy = jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda key: noise.add(readings, key, ALL)))(KEYS))
    assert list(noisy) == sorted(readings)
    np.testing.assert_array_equal(noisy["goal"], jnp.ones((len(KEYS), 2, 2)))
    for name, width in (("joints", 0.1), ("speed", 2.0)):
        error = noisy[name] - readings[name]
        assert 0.98 * width < np.abs(error).max() <= width
        assert abs(float(error.mean())) < 0.05 * width
    for name, value in noise.add(readings, KEYS[0], NONE).items():
        np.testing.assert_array_equal(value, readings[name])


def test_encoder_bias_is_drawn_for_each_joint() -> None:
    bias = EncoderBias(-0.01, 0.03).draw(KEYS[0], 500, ALL)
    assert -0.01 <= bias.min() < 0.0
    assert 0.02 < bias.max() <= 0.03
    np.testing.assert_array_equal(EncoderBias().draw(KEYS[0], 3, NONE), jnp.zeros(3))


def test_commands_are_in_range_or_zero_and_change_at_their_mean_interval() -> None:
    drawn = np.asarray(jax.jit(jax.vmap(COMMANDS.draw))(KEYS))
    zero = drawn == 0
    assert abs(zero.mean() - 0.5) < 0.05
    assert (np.abs(drawn[:, 0]) <= 1.0).all()
    assert ((drawn[:, 1] >= 0.2) | zero[:, 1]).all()
    assert (drawn[:, 1] <= 0.4).all()
    told = jnp.array([5.0, 5.0])
    renewed = np.asarray(jax.jit(jax.vmap(lambda key: COMMANDS.renewed(told, 0.1, key)))(KEYS))
    assert abs(float((renewed[:, 0] != 5.0).mean()) - 0.1 / 2.0) < 0.02
    lasting = Commands((0.0,), (1.0,), interval=float("inf"))
    assert (jax.jit(jax.vmap(lambda key: lasting.renewed(jnp.array([5.0]), 0.1, key)))(KEYS) == 5.0).all()


def test_a_push_begins_lasts_ends_and_changes_the_velocity_as_promised() -> None:
    dt, mass = 0.01, 3.0
    push = PUSHES.draw(mass, KEYS[0], ALL)
    advanced = jax.jit(lambda push, key: (PUSHES.advanced(push, mass, dt, key, ALL), push.active, push.wrench(2, 1)))
    begun = float(push.wait)
    assert 1.0 <= begun <= 2.0
    size, impulse, time = float(jnp.linalg.norm(push.force)), 0.0, 0.0
    for key in KEYS[:250]:
        before, (push, active, wrench) = push, advanced(push, key)
        if active and float(before.wait) > -1.0:
            impulse += float(np.linalg.norm(wrench[1, :2])) * dt
            np.testing.assert_array_equal(wrench[0], np.zeros(6))
        time += dt
        if push.wait > before.wait:
            break
    assert begun + 0.1 - 2 * dt <= time <= begun + 0.2 + 2 * dt
    assert impulse / mass <= 1.0 + size * 2 * dt / mass
    assert impulse > 0
    assert jnp.all(PUSHES.draw(mass, KEYS[0], NONE).force == 0)


@pytest.mark.parametrize("part", [PUSHES, Latency(), EncoderBias(), ObservationNoise({"joints": 0.1})])
def test_every_part_that_draws_declares_a_variation(part: Pushes | Latency | EncoderBias | ObservationNoise) -> None:
    term = part.term()
    assert term.name in ALL
    assert term.description
    assert term.nominal == 0.0


def test_ranges_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(ValueError, match="smaller number first"):
        Latency(0.02, 0.01)
    with pytest.raises(ValueError, match="smaller number first"):
        EncoderBias(0.02, 0.01)
    with pytest.raises(ValueError, match="as many numbers"):
        Commands((0.0,), (1.0, 2.0))
    with pytest.raises(ValueError, match=r"keep=2.0"):
        Commands((0.0,), (1.0,), keep=2.0)
