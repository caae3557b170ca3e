"""What JAX computes, the graph computes: one property, over the primitives that tasks use."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sim2real.graphs.graph import Builder, Graph, GraphError
from sim2real.graphs.tracing.from_jax import Argument, inline

pytestmark = pytest.mark.timeout(120)
X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def graph_of(function: Callable[..., jax.Array], *arrays: np.ndarray) -> Graph:
    build = Builder()
    arguments = [Argument(build.input(f"x{i}", array.size), array.shape, array.dtype) for i, array in enumerate(arrays)]
    return build.graph({"y": inline(build, function, *arguments)}, whole=[f"x{i}" for i in range(len(arrays))])


FUNCTIONS: dict[str, Callable[..., jax.Array]] = {
    "arithmetic": lambda x: (x * 2 - x / 3 + 1) ** 2 - x**-2,
    "functions": lambda x: jnp.sin(x) + jnp.arctan2(x, x - 1) + jnp.exp(-x) + jnp.sqrt(jnp.abs(x)) + jnp.tanh(x),
    "bounds": lambda x: jnp.clip(x, -0.5, 0.5) + jnp.maximum(x, 0.1) - jnp.sign(x) * jnp.floor(x),
    "comparisons": lambda x: jnp.where((x > 0) & ~(x > 1) | (x < -1), x, -x) + (x != 0) + (x >= 0.5),
    "whole numbers": lambda x: (x * 10).astype(jnp.int32) % 3 + (x * 7).astype(jnp.int32) // 2,
    "slices": lambda x: x[1:, ::2] + x[:2, 1::2][::-1],
    "shapes": lambda x: x.T.reshape(2, 6)[:, ::-1] + jnp.tile(x.reshape(-1)[:6], (2, 1)),
    "broadcasts": lambda x: x[:, None, :] - x[None, :, :] + x.sum(0),
    "sums": lambda x: jnp.stack([x.sum(), x.max(), x.min(), jnp.prod(x), x.mean()]),
    "norms": lambda x: jnp.linalg.norm(x, axis=-1) + jnp.cumsum(x[:, 0]),
    "products": lambda x: x @ x.T + jnp.einsum("ij,kj->ki", x, x),
    "joins": lambda x: jnp.concatenate([x, jnp.pad(x[:1], ((0, 1), (0, 0)), constant_values=7.0)], 0),
    "updates": lambda x: x.at[1].set(5.0).at[:, 2].add(x[:, 0]),
    "computed places": lambda x: (
        x[jnp.argmax(x[:, 0]), jnp.argmin(x[0])] + jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    ),
    "written at computed places": lambda x: x.at[jnp.argmax(x[:, 0])].set(9.0),
    "sorting": lambda x: jnp.concatenate([jax.lax.top_k(x, 2)[0].ravel(), jnp.sort(x, axis=1).ravel()]),
    "loops": lambda x: jax.lax.fori_loop(0, 4, lambda i, y: y * 0.5 + x, x),
    "scans": lambda x: jax.lax.scan(lambda c, row: (c + row, c * row), x[0], x)[1],
    "branches": lambda x: jax.lax.cond(x[0, 0] > 0, lambda y: y + 1, lambda y: y * 2, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graph_computes_what_jax_does(name: str) -> None:
    function = FUNCTIONS[name]
    for scale in (1.0, -0.7):
        x = (scale * X).astype(np.float32)
        ours = graph_of(function, x).run(x0=x)["y"]
        np.testing.assert_allclose(ours, np.asarray(function(jnp.asarray(x))).ravel(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_some_numbers_of_a_result_need_no_more_than_they_must(name: str) -> None:
    """Narrowing changes nothing: any selection of a result equals that of the whole."""
    build = Builder()
    y = inline(build, FUNCTIONS[name], Argument(build.input("x0", X.size), X.shape))
    whole = build.graph({"y": y}, whole=["x0"]).run(x0=X)["y"]
    rng = np.random.default_rng(1)
    for _ in range(4):
        some = rng.integers(0, whole.size, 1 + rng.integers(whole.size))
        part = build.graph({"y": build.take(y, some)})
        given = X.ravel()[part.kept["x0"]] if "x0" in part.kept else X
        np.testing.assert_allclose(part.run(x0=given)["y"], whole[some], rtol=1e-6, atol=1e-6)


def test_what_is_not_needed_is_not_asked_for() -> None:
    build = Builder()
    y = inline(build, lambda x: (2 * x[0, 1:3], jnp.sin(x)), Argument(build.input("x0", X.size), X.shape))
    graph = build.graph({"y": y[0]})
    assert graph.kept["x0"].tolist() == [1, 2]
    assert len(graph.nodes) == 3  # the input, the constant, their product


def test_products_with_zero_disappear_with_what_they_need() -> None:
    build = Builder()
    y = inline(build, lambda x: x[0] + 0.0 * jnp.sin(x[1]), Argument(build.input("x0", X.size), X.shape))
    assert len(build.graph({"y": y}).nodes) == 1


def test_random_draws_are_their_average() -> None:
    key = jax.random.PRNGKey(0)

    def noisy(x: jax.Array) -> jax.Array:
        return x + jax.random.uniform(key, x.shape, minval=1.0, maxval=3.0) + jax.random.normal(key, x.shape)

    np.testing.assert_allclose(graph_of(noisy, X).run(x0=X)["y"], X.ravel() + 2)


def test_what_has_no_translation_is_an_error_only_where_it_is_needed() -> None:
    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.cos(x), jnp.linalg.svd(x)[1]

    build = Builder()
    fine, odd = inline(build, both, Argument(build.input("x0", X.size), X.shape))
    assert build.graph({"y": fine}, whole=["x0"]).run(x0=X)["y"].shape == (12,)
    with pytest.raises(GraphError, match=r"'svd' of .* has no translation"):
        build.graph({"y": odd})


def test_an_input_of_another_size_is_refused() -> None:
    with pytest.raises(GraphError, match="input 'x0' has 3 numbers; expected 12"):
        graph_of(jnp.sin, X).run(x0=np.zeros(3))
