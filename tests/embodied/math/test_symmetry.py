import jax.numpy as jnp
import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.math.rotations import quat_rotate
from embodied.math.symmetry import PLANAR, PSEUDOVECTOR, QUATERNION, VECTOR, Mirror, Reflection, partners, unchanged

RNG = np.random.default_rng(0)


def test_every_reflection_undoes_itself() -> None:
    swapped = Reflection((1, 0, 2), (-1, -1, 1))
    for reflection in (VECTOR, PSEUDOVECTOR, QUATERNION, swapped, swapped.rows(VECTOR), unchanged(3)):
        values = RNG.normal(size=(5, len(reflection))).astype(np.float32)
        np.testing.assert_array_equal(reflection(reflection(values)), values)


def test_rotation_vectors_and_orientations_go_with_vectors() -> None:
    a, b = RNG.normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(np.cross(VECTOR(a), VECTOR(b)), PSEUDOVECTOR(np.cross(a, b)), rtol=1e-5)
    quat = RNG.normal(size=4)
    quat = jnp.asarray(quat / np.linalg.norm(quat), jnp.float32)
    turned = quat_rotate(QUATERNION(quat), jnp.asarray(VECTOR(a)))
    np.testing.assert_allclose(turned, VECTOR(quat_rotate(quat, jnp.asarray(a))), atol=1e-5)


def test_rows_are_exchanged_and_each_is_reflected() -> None:
    places = RNG.normal(size=(2, 3)).astype(np.float32)
    image = Reflection((1, 0), (1, 1)).rows(VECTOR)(places.reshape(-1)).reshape(2, 3)
    np.testing.assert_array_equal(image, places[::-1] * [1, -1, 1])


def test_groups_are_reflected_term_by_term_in_their_order() -> None:
    mirror = Mirror(unchanged(1), {"a": VECTOR, "b": PLANAR})
    whole = mirror.of_groups({"policy": {"b": (2,), "a": (3,)}, "critic": {"b": (1, 2)}}).observed
    assert whole["policy"].sign == (1, -1, 1, -1, 1)
    assert whole["policy"].index == (0, 1, 2, 3, 4)
    assert whole["critic"] == PLANAR


def test_partners_are_the_nearest_by_pairs() -> None:
    places = np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 0.5], [0.1, -0.21, 0.0]])

    def found(furthest: float) -> tuple[int, ...]:
        return partners(np.linalg.norm(VECTOR(places)[:, None] - places, axis=-1), "abc", furthest)

    assert found(0.02) == (2, 1, 0)
    with pytest.raises(EmbodiedError, match="'a' has no mirror image among a, b, c; nearest: 'c'"):
        found(0.005)


@pytest.mark.parametrize(("index", "sign"), [((1, 2, 0), (1, 1, 1)), ((1, 0), (1, -1)), ((0,), (2,)), ((0, 0), (1, 1))])
def test_what_is_no_reflection_is_refused(index: tuple[int, ...], sign: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="undo nothing when applied twice; expected pairs"):
        Reflection(index, sign)


def test_terms_of_another_length_are_refused() -> None:
    with pytest.raises(EmbodiedError, match=r"'policy/a' has shape \(2,\); its mirror image 3 numbers"):
        Mirror(unchanged(1), {"a": VECTOR}).of_groups({"policy": {"a": (2,)}})
