import dataclasses
import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.kinematics import Chain, ChainError, Pose, damped_least_squares, inverse_kinematics_step
from embodied.rotations import quat_angle, quat_conjugate, quat_multiply, quat_rotate

# MuJoCo's classes come from a compiled module, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

# Seven joints with tilted axes, anchors off the body's origin, references other than zero, a
# slide, a joint without limits, a body without joints and a body with two; a second branch and
# a free body shift the addresses.
ARM = """
<mujoco>
  <compiler angle="radian"/>
  <default><geom size="0.02" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="crate" pos="1 1 1"><freejoint name="crate_free"/><geom/></body>
    <body name="base" pos="0.1 -0.2 0.3" euler="0.1 0.2 -0.3">
      <geom/>
      <body name="link1" pos="0 0 0.1" euler="0.2 0 0.1">
        <joint name="joint1" axis="0.1 0.2 1" range="-2.8 2.8"/><geom/>
        <body name="link2" pos="0.05 0 0.2" euler="1.2 0.3 0">
          <joint name="joint2" axis="0 1 0.3" pos="0.02 -0.01 0.03" ref="0.3" range="-1.7 1.7"/><geom/>
          <body name="bracket" pos="0 0.02 0.1" euler="0 -0.4 0.2">
            <geom/>
            <body name="link3" pos="0.1 0 0.1">
              <joint name="joint3" type="slide" axis="1 1 0.2" ref="0.05" range="-0.2 0.3"/><geom/>
              <body name="link4" pos="0 0.1 0.15" euler="-0.9 0 0.5">
                <joint name="joint4" axis="1 0 0" pos="-0.03 0 0" range="-3 0"/>
                <joint name="joint5" axis="0 0.6 0.8" pos="0 0.04 0"/><geom/>
                <body name="link5" pos="0.1 0.05 0.2" euler="0.4 0.4 0.4">
                  <joint name="joint6" axis="0 -1 1" range="-0.1 3.7"/><geom/>
                  <body name="hand" pos="0 0 0.15" euler="0 0 0.8">
                    <joint name="joint7" axis="0 0 1" ref="-0.2" range="-2.9 2.9"/><geom/>
                    <site name="grip" pos="0.02 0.03 0.1" euler="0.5 -0.2 0.1"/>
                    <body name="finger"><joint type="slide" axis="0 1 0"/><geom/></body>
                  </body>
                </body>
              </body>
            </body>
          </body>
        </body>
      </body>
      <body name="camera" pos="0 0.3 0.3"><geom/><site name="lens"/></body>
    </body>
    <body name="marker" mocap="true"><site name="mark"/>
      <body name="needle"><joint name="needle_joint"/><geom/><site name="needle_tip" pos="0 0.1 0"/></body>
    </body>
    <body name="pendulum"><joint name="ball_joint" type="ball"/><geom/>
      <body name="bob" pos="0 0 -0.3"><joint axis="1 0 0"/><geom/></body>
    </body>
  </worldbody>
</mujoco>
"""
compiled = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})  # quick to compile
JOINTS = tuple(f"joint{i}" for i in range(1, 8))


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(ARM)


@pytest.fixture(scope="module")
def chain(model) -> Chain:
    return Chain.from_model(model, "grip")


@pytest.fixture(autouse=True)
def no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


def configurations(model: mujoco.MjModel, count: int = 20) -> np.ndarray:
    """Random joint positions, deliberately also beyond the limits."""
    return np.random.default_rng(0).uniform(-2.0, 2.0, (count, model.nq))


def posed(model: mujoco.MjModel, qpos: np.ndarray) -> mujoco.MjData:
    data = mujoco.MjData(model)
    data.qpos = qpos
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return data


def same_rotation(actual, expected, atol=2e-6):
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    np.testing.assert_allclose(np.sign(actual @ expected) * actual, expected, atol=atol)


def site_quat(data: mujoco.MjData, name: str) -> np.ndarray:
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, data.site(name).xmat)
    return quat


def test_chain_lists_its_joints(model, chain):
    assert chain.joint_names == JOINTS
    assert chain.size == 7
    assert chain.is_slide == (False, False, True, False, False, False, False)
    np.testing.assert_allclose(chain.lower, [-2.8, -1.7, -0.2, -3, -np.inf, -0.1, -2.9], rtol=1e-6)
    np.testing.assert_allclose(chain.upper, [2.8, 1.7, 0.3, 0, np.inf, 3.7, 2.9], rtol=1e-6)
    qpos, qvel = jnp.arange(model.nq), jnp.arange(model.nv)
    assert list(chain.joint_positions(qpos)) == [model.joint(name).qposadr[0] for name in JOINTS]
    assert list(chain.joint_velocities(qvel)) == [model.joint(name).dofadr[0] for name in JOINTS]


def test_forward_agrees_with_mujoco_for_a_site_and_a_body(model, chain):
    hand = Chain.from_model(model, "hand")
    forward = compiled(
        lambda qpos: (chain.forward(chain.joint_positions(qpos)), hand.forward(hand.joint_positions(qpos)))
    )
    for qpos in configurations(model):
        data = posed(model, qpos)
        of_site, of_body = forward(qpos)
        np.testing.assert_allclose(of_site.pos, data.site("grip").xpos, atol=3e-6)
        same_rotation(of_site.quat, site_quat(data, "grip"))
        np.testing.assert_allclose(of_body.pos, data.body("hand").xpos, atol=3e-6)
        same_rotation(of_body.quat, data.body("hand").xquat)


def test_forward_in_the_frame_of_another_root(model):
    chain = Chain.from_model(model, "grip", root="link2")
    assert chain.joint_names == JOINTS[2:]
    data = posed(model, configurations(model)[0])
    pose = compiled(chain.forward)(data.qpos[list(chain.qpos_address)])
    root_quat = jnp.asarray(data.body("link2").xquat)
    world = quat_rotate(root_quat, pose.pos) + jnp.asarray(data.body("link2").xpos)
    np.testing.assert_allclose(world, data.site("grip").xpos, atol=3e-6)
    same_rotation(quat_multiply(root_quat, pose.quat), site_quat(data, "grip"))


def test_a_chain_may_start_below_a_ball_a_free_or_a_mocap_body(model):
    assert Chain.from_model(model, "needle_tip", root="marker").joint_names == ("needle_joint",)
    bob = Chain.from_model(model, "bob", root="pendulum")
    assert bob.joint_names == (f"joint {model.body('bob').jntadr[0]}",)
    np.testing.assert_allclose(compiled(bob.forward)(jnp.array([0.4])).pos, [0.0, 0.0, -0.3], atol=1e-7)


def test_jacobian_agrees_with_mujoco(model, chain):
    jacobian = compiled(chain.jacobian)
    for qpos in configurations(model):
        data = posed(model, qpos)
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, model.site("grip").id)
        expected = np.vstack([linear, angular])[:, list(chain.dof_address)]
        np.testing.assert_allclose(jacobian(qpos[list(chain.qpos_address)]), expected, atol=5e-6)


def test_jacobian_agrees_with_finite_differences_and_automatic_derivatives(model):
    with jax.enable_x64(True):
        chain = Chain.from_model(model, "grip", root="base")
        q = chain.joint_positions(jnp.asarray(configurations(model)[0]))
        jacobian, forward = compiled(chain.jacobian)(q), compiled(chain.forward)
        derivative = compiled(jax.jacfwd(chain.forward))(q)
        for i in range(chain.size):
            h = 1e-6
            ahead, behind = forward(q.at[i].add(h)), forward(q.at[i].add(-h))
            np.testing.assert_allclose(jacobian[:3, i], (ahead.pos - behind.pos) / (2 * h), atol=1e-8)
            spin = quat_multiply(ahead.quat, quat_conjugate(behind.quat))
            np.testing.assert_allclose(jacobian[3:, i], spin[1:] / h, atol=1e-8)
            np.testing.assert_allclose(jacobian[:3, i], derivative.pos[:, i], atol=1e-12)


def test_jit_equals_eager_and_vmap_equals_loop(chain):
    def both(q):
        return chain.forward(q), chain.jacobian(q)

    batch = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 7)).astype(np.float32)
    single, mapped = compiled(both), compiled(jax.vmap(both))(batch)
    for i, q in enumerate(batch):
        once, from_map = single(q), jax.tree.map(lambda leaf, i=i: leaf[i], mapped)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6), once, from_map)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6), single(batch[0]), both(jnp.asarray(batch[0]))
    )


def test_chain_is_a_pytree_of_its_geometry(chain):
    # Each environment may carry its own geometry, as domain randomisation wants it.
    scales = jnp.array([1.0, 1.1])
    forward = compiled(jax.vmap(lambda chain, scale, q: _scaled(chain, scale).forward(q).pos, (None, 0, None)))
    pos = forward(chain, scales, jnp.full(7, 0.3))
    np.testing.assert_allclose(pos[0], compiled(chain.forward)(jnp.full(7, 0.3)).pos, atol=1e-6)
    assert np.abs(pos[1] - pos[0]).max() > 0.01
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(chain))


def _scaled(chain: Chain, factor: jax.Array) -> Chain:
    return dataclasses.replace(chain, offset_pos=chain.offset_pos * factor)


def test_wrong_number_of_joints(chain):
    with pytest.raises(ValueError, match=r"q has shape \(6,\); expected \(7,\): joint1, joint2"):
        chain.forward(jnp.zeros(6))


# Inverse kinematics.

_ik_step = compiled(inverse_kinematics_step)


def ik_step(chain, q, target, damping=0.05, max_step=0.2, orientation_weight=0.3) -> np.ndarray:
    """One compiled step, with every option passed so that all tests share one program."""
    options = {"damping": damping, "max_step": max_step, "orientation_weight": orientation_weight}
    return np.asarray(_ik_step(chain, jnp.asarray(q), target, **options))


@pytest.mark.parametrize("shape", [(6, 7), (6, 4), (3, 3)])
def test_damped_least_squares_minimises_its_cost(shape):
    generator = np.random.default_rng(0)
    jacobian, error = generator.normal(size=shape), generator.normal(size=shape[0])
    step = np.asarray(compiled(damped_least_squares)(jacobian, error, 0.3), float)
    # The derivative of |J step - error|^2 + 0.3^2 |step|^2 vanishes.
    np.testing.assert_allclose(jacobian.T @ (jacobian @ step - error) + 0.3**2 * step, 0.0, atol=1e-5)


def test_damping_bounds_the_step_at_a_singularity():
    singular = jnp.array([[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(damped_least_squares(singular, jnp.ones(2), 0.1), [1 / 1.01, 0.0], atol=1e-6)
    with pytest.raises(ValueError, match="damping is 0; expected a number > 0"):
        damped_least_squares(singular, jnp.ones(2), 0)


def test_inverse_kinematics_reaches_reachable_poses_within_the_limits(chain):
    generator = np.random.default_rng(0)
    lower, upper = np.maximum(chain.lower, -3.0), np.minimum(chain.upper, 3.0)
    goal = lower + (upper - lower) * generator.uniform(0.15, 0.85, (16, 7))
    start = np.clip(goal + 0.4 * generator.normal(size=(16, 7)), lower, upper)

    @compiled
    @jax.vmap
    def solve(q, goal):
        target = chain.forward(goal)
        q = jax.lax.fori_loop(0, 60, lambda _, q: inverse_kinematics_step(chain, q, target, damping=0.02), q)
        tip = chain.forward(q)
        return q, jnp.linalg.norm(tip.pos - target.pos), quat_angle(tip.quat, target.quat)

    q, distance, angle = map(np.asarray, solve(start, goal))
    assert np.all((q >= np.asarray(chain.lower)) & (q <= np.asarray(chain.upper)))
    assert np.mean((distance < 1e-3) & (angle < 1e-2)) >= 0.9


def test_step_is_bounded_and_returns_from_beyond_the_limits(chain):
    far = Pose(jnp.array([5.0, 5.0, 5.0]), jnp.array([0.0, 1.0, 0.0, 0.0]))
    q = np.clip(np.full(7, 0.1, np.float32), chain.lower, chain.upper)
    moved = np.abs(ik_step(chain, q, far, max_step=0.05) - q)
    assert moved.max() <= 0.05 + 1e-6
    assert moved.max() > 0.04
    outside = ik_step(chain, np.full(7, 10.0, np.float32), far)
    assert np.all((outside >= np.asarray(chain.lower)) & (outside <= np.asarray(chain.upper)))


def test_step_holds_still_at_the_target(chain):
    q = chain.clip(jnp.full(7, 0.1))
    target = compiled(chain.forward)(q)
    np.testing.assert_allclose(ik_step(chain, q, target), q, atol=1e-5)
    # The derivative is finite there, though the error is zero and a joint touches its limit.
    assert np.isfinite(
        compiled(jax.grad(lambda q: inverse_kinematics_step(chain, q, target) @ jnp.arange(7.0)))(q)
    ).all()


def test_other_joints_make_up_for_one_at_its_limit():
    # Two slides along nearly the same axis; the first is at its end.
    model = mujoco.MjModel.from_xml_string("""
    <mujoco><worldbody>
      <body name="a"><joint type="slide" axis="1 0 0" range="-1 0.5"/><geom size="0.1"/>
        <body name="b"><joint type="slide" axis="1 0 0" range="-1 2"/><geom size="0.1"/></body>
      </body>
    </worldbody></mujoco>""")
    chain = Chain.from_model(model, "b")
    target = Pose(jnp.array([1.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.0, 0.0]))
    q = ik_step(chain, jnp.array([0.5, 0.0]), target, damping=0.01, max_step=1.0)
    np.testing.assert_allclose(q, [0.5, 0.5], atol=1e-3)


def test_position_alone_can_be_asked_for(chain):
    q = chain.clip(jnp.full(7, 0.2))
    tip = compiled(chain.forward)(q)
    turned = Pose(tip.pos, quat_multiply(jnp.array([0.8, 0.6, 0.0, 0.0]), tip.quat))
    np.testing.assert_allclose(ik_step(chain, q, turned, orientation_weight=0.0), q, atol=1e-4)
    assert np.abs(ik_step(chain, q, turned) - q).max() > 0.01


def test_a_step_needs_a_length(chain):
    q = jnp.zeros(7)
    with pytest.raises(ValueError, match=r"max_step is -1\.0; expected a number > 0"):
        inverse_kinematics_step(chain, q, Pose(jnp.zeros(3), jnp.array([1.0, 0.0, 0.0, 0.0])), max_step=-1.0)


# Messages.


@pytest.mark.parametrize(
    ("tip", "root", "parts"),
    [
        ("grp", "world", ["unknown site or body 'grp'", "did you mean 'grip'?", "sites: ", "lens", "bodies: ", "hand"]),
        ("", "world", ["unknown site or body ''"]),
        ("grip", "bse", ["unknown body 'bse'", "did you mean 'base'?", "bodies: world, crate, base"]),
        ("grip", "camera", ["body 'camera' does not carry 'grip'", "world, base, link1, link2, bracket"]),
        ("lens", "world", ["no joint between 'world' and 'lens'"]),
        ("hand", "hand", ["no joint between 'hand' and 'hand'"]),
        ("crate", "world", ["joint 'crate_free'", "type free", "expected hinge or slide"]),
        ("bob", "world", ["joint 'ball_joint'", "type ball", "expected hinge or slide", "root='pendulum'"]),
        ("needle_tip", "world", ["mocap body 'marker'", "root='marker'"]),
    ],
)
def test_what_is_no_chain_is_refused(model, tip, root, parts):
    with pytest.raises(ValueError, match=parts[0]) as caught:
        Chain.from_model(model, tip, root)
    assert isinstance(caught.value, ChainError)
    for part in parts:
        assert part in str(caught.value)
