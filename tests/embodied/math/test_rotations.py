from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from jax.typing import ArrayLike

from embodied.math import rotations as rot

# MuJoCo's functions come from a compiled module, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

COUNT = 200
QUICK = {"xla_backend_optimization_level": 0}  # compiling takes longer here than running
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])
X, Y, Z = np.eye(3)


@pytest.fixture(autouse=True)
def no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def precision(request):
    """Run a test in both precisions: the double one shows errors that rounding hides in the single one."""
    with jax.enable_x64(request.param):
        yield


def tolerance(factor: float = 16.0) -> float:
    return factor * float(jnp.finfo(jnp.zeros(()).dtype).eps)


def close(actual, expected, factor: float = 16.0):
    np.testing.assert_allclose(np.asarray(actual, float), np.asarray(expected, float), rtol=0, atol=tolerance(factor))


def same_rotation(actual, expected, factor: float = 16.0):
    """Equal up to the sign that a quaternion leaves open."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    sign = np.sign(np.sum(actual * expected, axis=-1, keepdims=True))
    close(sign * actual, expected, factor)


def quats(seed: int = 0, count: int = COUNT) -> np.ndarray:
    quat = np.random.default_rng(seed).normal(size=(count, 4))
    return quat / np.linalg.norm(quat, axis=-1, keepdims=True)


def vectors(seed: int = 0, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(100 + seed).normal(size=(count, 3))


def each(function: Callable[..., Any], *batch: ArrayLike) -> Any:
    """Apply a function of one rotation to every row, compiled; results as NumPy arrays."""
    compiled = jax.jit(jax.vmap(function), compiler_options=QUICK)
    return jax.tree.map(np.asarray, compiled(*(jnp.asarray(rows, float) for rows in batch)))


def mju(name: str, size: int, *args: ArrayLike) -> np.ndarray:
    """A `mju_*` function that writes its result into its first argument, row by row."""
    results = []
    for row in zip(*(np.asarray(arg, float) for arg in args), strict=True):
        result = np.zeros(size)
        getattr(mujoco, name)(result, *(float(each) if each.ndim == 0 else each for each in row))
        results.append(result)
    return np.array(results)


def test_normalize_scales_to_unit_length():
    a = quats()
    close(each(rot.quat_normalize, a * np.linspace(0.01, 50.0, COUNT)[:, None]), a)
    assert np.isnan(rot.quat_normalize(jnp.zeros(4))).all()


# Agreement with MuJoCo.


def test_agrees_with_mujoco(precision):
    """So products are associative, have inverses, and are those of matrices; a quaternion and its negative are one."""
    a, b, v = quats(0), quats(1), vectors()
    axis, angle = v / np.linalg.norm(v, axis=-1, keepdims=True), np.linspace(-7.0, 7.0, COUNT)

    def functions(a, b, v, axis, angle):
        return (
            rot.quat_multiply(a, b),
            rot.quat_conjugate(a),
            rot.quat_rotate(a, v),
            rot.quat_rotate(-a, v),
            rot.quat_rotate_inverse(a, v),
            rot.matrix_from_quat(a).reshape(9),
            rot.up_vector(a),
            rot.quat_from_axis_angle(axis, angle),
            rot.quat_error(a, b),
            rot.rotation_vector_from_quat(a),
            rot.quat_integrate(a, v, 0.3),
        )

    integrated = a.copy()
    for quat, velocity in zip(integrated, v, strict=True):
        mujoco.mju_quatIntegrate(quat, velocity, 0.3)
    inverse, turned, matrix = mju("mju_negQuat", 4, a), mju("mju_rotVecQuat", 3, v, a), mju("mju_quat2Mat", 9, a)
    expected = (
        mju("mju_mulQuat", 4, a, b),
        inverse,
        turned,
        turned,
        mju("mju_rotVecQuat", 3, v, inverse),
        matrix,
        matrix[:, 2::3],
        mju("mju_axisAngle2Quat", 4, axis, angle),
        mju("mju_subQuat", 3, b, a),
        mju("mju_quat2Vel", 3, a, np.ones(COUNT)),
        integrated,
    )
    for ours, theirs in zip(each(functions, a, b, v, axis, angle), expected, strict=True):
        close(ours, theirs, 64)
        assert ours.dtype == jnp.zeros(()).dtype


def test_quat_from_matrix_agrees_with_mujoco_and_inverts():
    a = quats()
    matrix = mju("mju_quat2Mat", 9, a).reshape(COUNT, 3, 3)
    result = each(rot.quat_from_matrix, matrix)
    same_rotation(result, mju("mju_mat2Quat", 4, matrix.reshape(COUNT, 9)))
    same_rotation(result, a)
    assert np.all(result[:, 0] >= 0)


def test_euler_is_what_mjcf_means_by_euler():
    euler = np.array([0.3, -0.5, 1.1])
    expected = np.zeros(4)
    mujoco.mju_euler2Quat(expected, euler, "xyz")
    close(rot.quat_from_euler(jnp.asarray(euler)), expected)
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><compiler angle="radian"/><worldbody><body name="b" euler="0.3 -0.5 1.1"/></worldbody></mujoco>'
    )
    close(expected, model.body("b").quat)


def test_rpy_turns_about_fixed_axes():
    rpy = np.array([0.3, -0.5, 1.1])
    expected = np.zeros(4)
    mujoco.mju_euler2Quat(expected, rpy, "XYZ")  # Capitals: axes that stay.
    close(rot.quat_from_rpy(jnp.asarray(rpy)), expected)


# Round trips.


def test_log_inverts_exp(precision):
    angle = np.array([0.0, 1e-12, 1e-7, 1e-4, 1e-3, 0.01, 0.018, 0.019, 0.1, 1.0, 3.0, 3.1415, np.pi - 1e-6])
    axis = vectors(count=len(angle))
    vector = angle[:, None] * axis / np.linalg.norm(axis, axis=-1, keepdims=True)
    result = each(lambda v: rot.rotation_vector_from_quat(rot.quat_from_rotation_vector(v)), vector)
    close(result, vector, 64)
    # Small rotations keep their relative accuracy.
    np.testing.assert_allclose(result[:9], vector[:9], rtol=tolerance(64), atol=1e-30)


def test_exp_inverts_log():
    a = quats()
    log, log_of_negative, log_of_longer, again = each(
        lambda q: (
            rot.rotation_vector_from_quat(q),
            rot.rotation_vector_from_quat(-q),
            rot.rotation_vector_from_quat(3.0 * q),
            rot.quat_from_rotation_vector(rot.rotation_vector_from_quat(q)),
        ),
        a,
    )
    same_rotation(again, a)
    # The shortest way, whatever the sign and the length.
    assert np.linalg.norm(log, axis=-1).max() <= np.pi + tolerance()
    close(log_of_negative, log)
    close(log_of_longer, log)


def test_exp_and_log_at_zero_and_at_half_a_turn():
    half_turns = np.hstack([np.zeros((3, 1)), np.eye(3)])
    exp, log = rot.quat_from_rotation_vector, rot.rotation_vector_from_quat
    close(each(exp, np.zeros((3, 3))), np.broadcast_to(IDENTITY, (3, 4)))
    close(each(log, np.vstack([IDENTITY, -IDENTITY, half_turns])), np.vstack([np.zeros((2, 3)), np.pi * np.eye(3)]))
    close(np.abs(each(log, half_turns - 1e-20 * IDENTITY)), np.pi * np.eye(3))


def test_quat_from_matrix_at_half_turns_and_with_noise():
    # Half turns have w = 0: the trace alone would divide by zero.
    axes = np.array([X, Y, Z, (X + Y) / np.sqrt(2), (X + Y + Z) / np.sqrt(3), (X - 2 * Z) / np.sqrt(5)])
    half_turns = 2.0 * axes[:, :, None] * axes[:, None, :] - np.eye(3)
    same_rotation(each(rot.quat_from_matrix, half_turns), np.hstack([np.zeros((len(axes), 1)), axes]))

    noise = 1e-3 * np.random.default_rng(0).normal(size=(COUNT, 3, 3))
    clean = quats()
    noisy = each(rot.quat_from_matrix, mju("mju_quat2Mat", 9, clean).reshape(COUNT, 3, 3) + noise)
    assert np.abs(np.sum(noisy * clean, axis=-1)).min() > np.cos(0.005)
    close(np.linalg.norm(noisy, axis=-1), np.ones(COUNT))


@pytest.mark.parametrize(
    ("build", "read"), [(rot.quat_from_euler, rot.euler_from_quat), (rot.quat_from_rpy, rot.rpy_from_quat)]
)
def test_euler_round_trips(build, read):
    a = quats()
    shares = np.random.default_rng(0).uniform(-0.97, 0.97, (COUNT, 3))
    angles = shares * np.array([np.pi, np.pi / 2, np.pi])
    close(each(lambda e: read(-2.0 * build(e)), angles), angles, 256)
    same_rotation(each(lambda q: build(read(q)), a), a, 32)


def test_gimbal_lock_keeps_the_rotation():
    build, read = rot.quat_from_rpy, rot.rpy_from_quat
    pitches = (np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-3, 1e-3 - np.pi / 2)
    angles = np.array([[a, b, c] for b in pitches for a in (-2.0, 0.0, 0.7) for c in (-3.0, 0.4, 2.9)])
    quat = each(build, angles)
    result, jacobian = each(lambda q: (read(q), jax.jacrev(read)(q)), quat)
    same_rotation(each(build, result), quat, 64)
    close(result[:18, 0], np.zeros(18))
    assert np.isfinite(jacobian).all()


def test_yaw_is_the_third_fixed_angle():
    rpy = np.random.default_rng(0).uniform(-0.9, 0.9, (COUNT, 3)) * np.array([np.pi, np.pi / 2, np.pi])
    yaw, flat = each(
        lambda e: (rot.yaw_from_quat(rot.quat_from_rpy(e)), rot.yaw_from_quat(rot.quat_from_yaw(e[2]))), rpy
    )
    close(yaw, rpy[:, 2], 256)
    close(flat, rpy[:, 2])
    close(rot.quat_from_yaw(0), IDENTITY)
    nose_down = jnp.array([np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0])
    assert np.isfinite(rot.yaw_from_quat(nose_down))
    assert np.isfinite(jax.grad(rot.yaw_from_quat)(nose_down)).all()


def test_orders_of_the_entries():
    quat = jnp.array([0.1, 0.2, 0.3, 0.4])
    close(rot.xyzw_from_wxyz(quat), [0.2, 0.3, 0.4, 0.1])
    close(rot.wxyz_from_xyzw(rot.xyzw_from_wxyz(quat)), quat)


# Motion.


def test_integration_is_exact_and_keeps_unit_length():
    start, velocity = jnp.asarray(quats()[0]), jnp.array([3.0, -40.0, 11.0])

    @jax.jit
    def both(start):
        many = jax.lax.fori_loop(0, 100, lambda _, quat: rot.quat_integrate(quat, velocity, 0.001), start)
        return rot.quat_integrate(start, velocity, 0.1), many

    once, many = both(start)
    same_rotation(many, once, 512)
    close(jnp.linalg.norm(many), 1.0)


def test_error_is_the_velocity_that_reaches_the_target():
    a, b = quats(0), quats(1)
    error, none, reached, angle, angle_to_negative = each(
        lambda a, b: (
            rot.quat_error(a, b),
            rot.quat_error(a, a),
            rot.quat_integrate(a, rot.quat_error(a, b), 1.0),
            rot.quat_angle(a, b),
            rot.quat_angle(a, -b),
        ),
        a,
        b,
    )
    same_rotation(reached, b, 64)
    close(none, np.zeros((COUNT, 3)))
    close(angle, np.linalg.norm(error, axis=-1), 64)
    close(angle_to_negative, angle)


def test_slerp_meets_both_ends_at_constant_speed():
    a, b = quats(0), quats(1)

    def ways(a, b):
        quarter = rot.slerp(a, b, 0.25)
        angles = rot.quat_angle(a, b), rot.quat_angle(a, quarter), rot.quat_angle(quarter, b)
        return rot.slerp(a, b, 0.0), rot.slerp(a, b, 1.0), rot.slerp(a, a, 0.5), angles

    start, end, still, (angle, before, after) = each(ways, a, b)
    same_rotation(start, a)
    same_rotation(end, b, 64)
    same_rotation(still, a)
    close(before, 0.25 * angle, 128)
    close(after, 0.75 * angle, 128)


# Random orientations.


def test_random_quat_is_uniform():
    a = np.asarray(jax.jit(jax.vmap(rot.random_quat))(jax.random.split(jax.random.key(3), 40_000)), float)
    close(np.linalg.norm(a, axis=-1), np.ones(len(a)))
    # On the unit 3-sphere: zero mean, second moments 1/4, fourth moment of an entry 3/24.
    np.testing.assert_allclose(a.mean(0), 0.0, atol=0.01)
    np.testing.assert_allclose(a.T @ a / len(a), np.eye(4) / 4, atol=0.01)
    np.testing.assert_allclose((a**4).mean(0), 0.125, atol=0.01)


def test_random_tilt_has_no_twist_and_stays_within_its_angle():
    keys = jax.random.split(jax.random.key(0), 5000)
    tilt = np.asarray(jax.jit(jax.vmap(rot.random_tilt, (0, None)))(keys, 0.5))
    up = each(rot.up_vector, tilt)
    angle = np.arccos(np.clip(up[:, 2], -1, 1))
    assert angle.max() <= 0.5 + 1e-3
    assert angle.max() > 0.48
    np.testing.assert_allclose(angle.mean(), 0.25, atol=0.01)
    np.testing.assert_allclose(up[:, :2].mean(axis=0), 0.0, atol=0.01)
    close(tilt[:, 3], np.zeros(5000))
    close(np.linalg.norm(tilt, axis=-1), np.ones(5000))
    close(rot.random_tilt(jax.random.key(0), 0.0), IDENTITY)


# Derivatives.


def test_gradients_at_identity_are_finite():
    functions = {
        "log": rot.rotation_vector_from_quat,
        "rpy": rot.rpy_from_quat,
        "yaw": rot.yaw_from_quat,
        "matrix": lambda q: rot.quat_from_matrix(rot.matrix_from_quat(q)),
        "error": lambda q: rot.quat_error(q, jnp.asarray(IDENTITY)),
        "angle": lambda q: rot.quat_angle(q, jnp.asarray(IDENTITY)),
        "slerp": lambda q: rot.slerp(q, jnp.asarray(IDENTITY), 0.5),
    }
    gradients = each(
        lambda q: {name: jax.grad(lambda q, f=function: jnp.sum(f(q)))(q) for name, function in functions.items()},
        np.vstack([IDENTITY, -IDENTITY]),
    )
    assert [name for name, gradient in gradients.items() if not np.isfinite(gradient).all()] == []


def test_derivatives_of_exp_and_log_at_zero():
    def derivatives(zero):
        exp, log = rot.quat_from_rotation_vector, rot.rotation_vector_from_quat
        one = jnp.asarray(IDENTITY, zero.dtype)
        curvature = jax.hessian(lambda v: exp(v)[0])(zero)
        slope = jax.grad(lambda v: rot.quat_angle(exp(v), one))(zero)
        return jax.jacfwd(exp)(zero), jax.jacrev(exp)(zero), jax.jacrev(log)(one)[:, 1:], curvature, slope

    forward, reverse, of_log, curvature, slope = (row[0] for row in each(derivatives, np.zeros((1, 3))))
    half = np.vstack([np.zeros(3), np.eye(3) / 2])
    close(forward, half)
    close(reverse, half)
    close(of_log, 2 * np.eye(3))
    close(curvature, -np.eye(3) / 4)
    close(slope, np.zeros(3))


def test_derivative_of_the_round_trip_is_the_identity(precision):
    vector = np.outer([1e-3, 0.015, 0.02, 0.5, 3.0], [0.6, 0.0, 0.8])
    jacobian = each(jax.jacfwd(lambda v: rot.rotation_vector_from_quat(rot.quat_from_rotation_vector(v))), vector)
    close(jacobian, np.broadcast_to(np.eye(3), jacobian.shape), 256)
