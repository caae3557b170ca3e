"""A chain of joints moves as MuJoCo moves it, and least squares end at a minimum within bounds."""

import mujoco
import numpy as np
import pytest

from embodied.robot.derivation.chain import Chain, least_squares

ARM = """<mujoco><worldbody><body pos="0 0 .3" euler="20 0 40"><geom size=".1"/>
<joint axis="0 0 1"/><joint axis="0 1 0" pos=".1 0 .05"/>
<body pos=".2 .1 .3" euler="0 35 0"><geom size=".1"/><joint type="slide" axis="1 0 1"/>
<body pos="0 .2 .1"><geom size=".1"/><joint axis="1 1 0" pos="0 0 .1"/></body></body></body></worldbody></mujoco>"""


def test_what_a_chain_carries_is_where_mujoco_has_it():
    model = mujoco.MjModel.from_xml_string(ARM)
    data, joints, rng = mujoco.MjData(model), tuple(range(model.njnt)), np.random.default_rng(0)
    data.qpos[:] = rng.uniform(-1, 1, model.nq)
    mujoco.mj_kinematics(model, data)
    chain, inside = Chain(model, data, joints), np.array([0.1, -0.2, 0.3])
    point, axes = data.xpos[-1] + data.xmat[-1].reshape(3, 3) @ inside, data.xmat[-1].reshape(3, 3).copy()
    angles = rng.uniform(-2, 2, (5, model.nq))
    chain.place(angles)
    ends, jacobian = chain.point(point), np.zeros((3, model.nv))
    for row, qpos in enumerate(angles):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        np.testing.assert_allclose(chain.anchors[row], data.xanchor, atol=1e-12)
        np.testing.assert_allclose(chain.axes[row], data.xaxis, atol=1e-12)
        np.testing.assert_allclose(chain.turn[row] @ axes, data.xmat[-1].reshape(3, 3), atol=1e-12)
        np.testing.assert_allclose(ends[row], data.xpos[-1] + data.xmat[-1].reshape(3, 3) @ inside, atol=1e-12)
        mujoco.mj_jac(model, data, jacobian, None, ends[row], model.nbody - 1)
        np.testing.assert_allclose(chain.slopes(ends, len(joints))[row], jacobian, atol=1e-12)
        mujoco.mj_jac(model, data, jacobian, None, data.xanchor[-1], int(model.jnt_bodyid[-2]))
        np.testing.assert_allclose(chain.slopes(chain.anchors[:, -1], len(joints) - 1)[row], jacobian, atol=1e-12)


@pytest.mark.parametrize(("high", "expected"), [(5.0, (1.0, 1.0)), (0.5, (0.5, 0.25))])
def test_least_squares_end_at_the_minimum_of_rosenbrock_within_bounds(high, expected):
    def residuals(x):
        left = np.stack([1 - x[:, 0], 10 * (x[:, 1] - x[:, 0] ** 2)], axis=1)
        slopes = np.zeros((len(x), 2, 2))
        slopes[:, 0, 0], slopes[:, 1, 0], slopes[:, 1, 1] = -1, -20 * x[:, 0], 10
        return left, slopes

    costs, found = least_squares(residuals, np.array([[-1.2, 1.0], [0.0, 0.0]]), np.full(2, -5.0), np.full(2, high))
    np.testing.assert_allclose(found, [expected] * 2, atol=1e-6)
    np.testing.assert_allclose(costs, (1 - expected[0]) ** 2 / 2, atol=1e-9)
