import cv2
import numpy as np
import pytest

from embodied.math import transforms


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, 1.0, 3.0, np.pi - 1e-6])
def test_exponential_is_rodrigues_formula_and_logarithm_its_inverse(size: float) -> None:
    for vector in size * np.array([[1.0, 0, 0], [0.6, 0, -0.8], [0.48, 0.6, 0.64]]):
        rotation = transforms.exponential(vector)
        np.testing.assert_allclose(rotation, cv2.Rodrigues(vector)[0], atol=1e-12)
        np.testing.assert_allclose(transforms.logarithm(rotation), vector, atol=1e-8)


def test_inverse_undoes_stacks_of_transforms() -> None:
    rng = np.random.default_rng(0)
    stack = np.array([transforms.pose(rng.normal(size=3), rng.normal(size=3)) for _ in range(5)])
    np.testing.assert_allclose(transforms.inverse(stack) @ stack, np.broadcast_to(np.eye(4), (5, 4, 4)), atol=1e-12)


def test_quaternions_are_wxyz_and_may_have_any_length() -> None:
    quarter = transforms.matrix_from_wxyz(np.array([3.0, 0, 0, 3.0]))  # a quarter turn about z
    np.testing.assert_allclose(quarter, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(np.abs(transforms.wxyz_from_matrix(quarter)), np.sqrt([0.5, 0, 0, 0.5]), atol=1e-12)
