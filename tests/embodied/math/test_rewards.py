import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.math.rewards import Sigmoid, gaussian_kernel, limit_violation, squared_norm, tolerance, weigh

FINITE_SUPPORT = (Sigmoid.COSINE, Sigmoid.LINEAR, Sigmoid.QUADRATIC)
SIZE = 400
VALUES = (0.01, 0.1, 0.5, 0.9)

sigmoids = pytest.mark.parametrize("sigmoid", list(Sigmoid), ids=str)


@pytest.fixture(autouse=True)
def no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


def at(x, *args) -> np.ndarray:
    """Tolerance at many x, padded to one length so that JAX compiles each operation only once."""
    padded = np.zeros(SIZE, np.float32)
    padded[: len(x)] = x
    return np.asarray(tolerance(padded, *args))[: len(x)]


@sigmoids
@pytest.mark.parametrize("value", VALUES)
def test_tolerance_has_the_value_asked_for_at_the_margin(sigmoid, value):
    np.testing.assert_allclose(at([-3.0, 5.5], -1.0, 3.5, 2.0, sigmoid, value), value, rtol=2e-5)


@sigmoids
@pytest.mark.parametrize("value", VALUES)
def test_tolerance_is_one_inside_bounded_and_falls_with_distance(sigmoid, value):
    np.testing.assert_array_equal(at(np.linspace(-1.0, 2.0, 31), -1.0, 2.0, 0.5, sigmoid, value), 1.0)
    for x in (np.linspace(2.0, 8.0, SIZE), -np.linspace(1.0, 7.0, SIZE)):
        outside = at(x, -1.0, 2.0, 0.5, sigmoid, value)
        assert outside.min() >= 0.0
        assert outside.max() <= 1.0
        assert np.all(np.diff(outside) <= 1e-7)
        assert np.all(np.diff(outside[: SIZE // 12]) < 0.0)


@sigmoids
def test_tolerance_is_symmetric_and_scales_with_its_unit(sigmoid):
    x = np.linspace(0.0, 3.0, SIZE)
    np.testing.assert_allclose(at(x, 0.0, 0.0, 1.0, sigmoid), at(-x, 0.0, 0.0, 1.0, sigmoid), atol=1e-7)
    np.testing.assert_allclose(at(1000 * x, -500.0, 500.0, 700.0, sigmoid), at(x, -0.5, 0.5, 0.7, sigmoid), atol=1e-5)


@sigmoids
def test_tolerance_far_away(sigmoid):
    far = at([1e3, 1e30, -1e30, np.inf, -np.inf], 0.0, 0.0, 1.0, sigmoid)
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far, 0.0, atol=1e-7 if sigmoid in FINITE_SUPPORT else 1e-2)


@sigmoids
def test_derivatives_jit_and_vmap(sigmoid):
    def reward(x, margin):
        return tolerance(x, -1.0, 1.0, margin, sigmoid)

    x = np.array([*np.linspace(-5.0, 5.0, SIZE - 7), -1.0, 1.5, 100.0, -1e6, 1.0, 1.2, 1.4], np.float32)
    both = jax.value_and_grad(reward, (0, 1))
    value, (slope, margin_slope) = jax.jit(jax.vmap(both, (0, None)))(x, 0.5)
    np.testing.assert_allclose(value, at(x, -1.0, 1.0, 0.5, str(sigmoid)), rtol=1e-5, atol=1e-7)
    assert np.isfinite(slope).all()
    assert np.isfinite(margin_slope).all()
    # Towards the interval the reward rises, on both sides; a wider margin never lowers it.
    assert np.all(slope[-2:] < 0.0)
    assert np.all(np.sign(slope) * x <= 0.0)
    assert np.all(margin_slope >= 0.0)


def test_tolerance_without_margin_is_a_step():
    np.testing.assert_array_equal(tolerance(jnp.array([-0.1, 0.0, 0.5, 1.0, 1.1]), 0.0, 1.0), [0, 1, 1, 1, 0])
    # Also where the margin is known only at run time.
    margins = jnp.array([0.0, 1.0])
    values = jax.jit(jax.vmap(lambda m: tolerance(2.0, 0.0, 1.0, m, "linear", 0.3)))(margins)
    np.testing.assert_allclose(values, [0.0, 0.3], rtol=1e-6)
    assert np.isfinite(jax.vmap(jax.grad(lambda m: tolerance(2.0, 0.0, 1.0, m)))(margins)).all()


def test_tolerance_with_open_ends():
    x = jnp.array([-np.inf, -5.0, 1.0, 2.0, 1e30, np.inf])
    at_least = tolerance(x, 1.0, np.inf, 1.0, "linear", 0.5)
    np.testing.assert_array_equal(at_least, [0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(tolerance(x, -np.inf, 1.0), [1, 1, 1, 0, 0, 0])
    assert float(jax.grad(lambda x: tolerance(x, 1.0, np.inf, 1.0, "linear", 0.5))(0.5)) == pytest.approx(0.5)


@sigmoids
@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_tolerance_does_not_hide_nan(sigmoid, margin):
    assert np.isnan(tolerance(np.nan, 0.0, 1.0, margin, sigmoid))


def test_tolerance_takes_integers_and_keeps_single_precision():
    assert tolerance(jnp.array(2), 0, 1, 2).dtype == jnp.float32
    np.testing.assert_allclose(tolerance(jnp.array(3), 0, 1, 2), 0.1, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"sigmoid": "gausian"}, ["unknown sigmoid 'gausian'", "did you mean 'gaussian'", *Sigmoid]),
        ({"sigmoid": "step"}, ["unknown sigmoid 'step'", "choices", *Sigmoid]),
        ({"margin": -0.5}, ["margin is -0.5", ">= 0"]),
        ({"margin": np.nan}, ["margin is nan", ">= 0"]),
        ({"lower": 2.0, "upper": 1.0}, ["lower is 2.0", "upper is 1.0", "lower <= upper"]),
        ({"value_at_margin": 0.0}, ["value_at_margin is 0.0", "between 0 and 1"]),
        ({"value_at_margin": 1.0}, ["value_at_margin is 1.0", "between 0 and 1"]),
        ({"value_at_margin": -3.0}, ["value_at_margin is -3.0"]),
    ],
)
def test_tolerance_refuses(arguments, parts):
    with pytest.raises(ValueError, match=parts[0]) as caught:
        tolerance(0.0, **arguments)
    for part in parts:
        assert part in str(caught.value)


def test_gaussian_kernel():
    np.testing.assert_allclose(gaussian_kernel(jnp.array([0.0, 0.25, 0.5]), 0.25), np.exp([0.0, -1.0, -2.0]), rtol=1e-6)
    assert float(gaussian_kernel(jnp.array(1e9), 0.25)) == 0.0
    with pytest.raises(ValueError, match=r"sigma is 0\.0; expected a number > 0"):
        gaussian_kernel(1.0, 0.0)
    np.testing.assert_allclose(jax.jit(gaussian_kernel)(0.5, 0.5), np.exp(-1.0), rtol=1e-6)


def test_squared_norm_sums_over_the_last_axis():
    x = jnp.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_array_equal(squared_norm(x), [25.0, 0.0])
    np.testing.assert_array_equal(jax.vmap(squared_norm)(x), squared_norm(x))
    np.testing.assert_array_equal(jax.grad(squared_norm)(jnp.zeros(3)), np.zeros(3))


def test_limit_violation():
    lower, upper = jnp.array([-1.0, -np.inf, 0.0]), jnp.array([1.0, 2.0, np.inf])
    assert float(limit_violation(jnp.array([0.5, -1e9, 1e9]), lower, upper)) == 0.0
    assert float(limit_violation(jnp.array([-1.5, 2.25, -1.0]), lower, upper)) == pytest.approx(1.75)
    assert float(limit_violation(jnp.array([3.0, -3.0]), -1.0, 1.0)) == pytest.approx(4.0)
    assert np.isnan(limit_violation(jnp.array([np.nan, 0.0, 0.0]), lower, upper))
    slope = jax.grad(lambda x: limit_violation(x, lower, upper))(jnp.array([-1.5, 2.25, 1.0]))
    np.testing.assert_array_equal(slope, [-1.0, 1.0, 0.0])


@dataclasses.dataclass(frozen=True)
class Weights:
    tracking: float = 2.0
    energy: float = -0.5


@pytest.mark.parametrize("weights", [Weights(), {"energy": -0.5, "tracking": 2.0}], ids=["dataclass", "mapping"])
def test_weigh_multiplies_terms_by_name(weights):
    terms = {"tracking": jnp.array(0.5), "energy": jnp.array([3.0, 4.0])}
    weighted = jax.jit(lambda terms: weigh(terms, weights))(terms)
    assert float(weighted["tracking"]) == 1.0
    np.testing.assert_array_equal(weighted["energy"], [-1.5, -2.0])
    assert list(weigh(terms, weights)) == ["tracking", "energy"]
    assert weigh({}, {}) == {}


@pytest.mark.parametrize(
    ("terms", "parts"),
    [
        (["tracking"], ["weight 'energy' has no term", "Terms: tracking.", "Weights: tracking, energy."]),
        (["tracking", "energy", "slip"], ["term 'slip' has no weight", "Terms: tracking, energy, slip."]),
        (["tracking", "enrgy"], ["term 'enrgy' has no weight (did you mean 'energy'?)", "weight 'energy' has no term"]),
        ([], ["weight 'tracking' has no term", "Terms: none."]),
    ],
)
def test_weigh_refuses_names_that_differ(terms, parts):
    with pytest.raises(ValueError, match="reward terms and weights differ") as caught:
        weigh({name: jnp.array(1.0) for name in terms}, Weights())
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("weights", [Weights, 3.0, ["tracking"]])
def test_weigh_refuses_weights_without_names(weights):
    with pytest.raises(ValueError, match="expected a mapping from name to number, or a dataclass instance"):
        weigh({"tracking": jnp.array(1.0)}, weights)
