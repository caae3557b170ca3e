"""Forward kinematics, Jacobian and inverse kinematics of one serial chain, in pure JAX.

A `Chain` is read from a MuJoCo model once and then needs neither the model nor a
simulator: an operational-space controller, a scripted expert or a deployed robot can
carry it. Everything is expressed in the frame of the chain's root body.
"""

# MuJoCo's classes come from a compiled module, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from embodied.errors import ModelError, closest, listing
from embodied.rotations import quat_error, quat_from_axis_angle, quat_multiply, quat_rotate

__all__ = ["Chain", "ChainError", "Pose", "damped_least_squares", "inverse_kinematics_step"]


class ChainError(ModelError, ValueError):
    """A model that holds no such chain: an unknown name, bodies not in line, a joint of another type."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Pose:
    """Position and orientation of one frame in another."""

    pos: Array
    """(3,) m."""
    quat: Array
    """(4,) wxyz, unit: turns coordinates of the frame into those of the other."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """The joints between a root body and a tip, each a hinge or a slide.

    A pytree: the geometry may be traced or batched, the names and joint types are static.
    Between two joints the chain is one rigid piece, given as the pose of a joint's frame in
    the frame of the joint before it (of the root, for the first), all joints at `reference`.
    A joint's frame has its origin on the joint's axis. Couplings by equality constraints
    are not seen.
    """

    joint_names: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    """Names of the n joints, from root to tip; `joint <id>` where the model gives none."""
    is_slide: tuple[bool, ...] = dataclasses.field(metadata={"static": True})
    """Whether each joint slides along its axis (q in m) or turns about it (q in rad)."""
    qpos_address: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    """Index of each joint in the model's qpos."""
    dof_address: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    """Index of each joint in the model's qvel."""
    offset_pos: Array
    """(n, 3) m, position of each joint's frame in the frame of the joint before it."""
    offset_quat: Array
    """(n, 4) wxyz, its orientation there."""
    axis: Array
    """(n, 3) unit, each joint's axis in its own frame."""
    reference: Array
    """(n,) m or rad, joint position in which the model was drawn (qpos0)."""
    lower: Array
    """(n,) m or rad, lower limit; -inf for a joint without limits."""
    upper: Array
    """(n,) m or rad, upper limit; inf for a joint without limits."""
    tip_pos: Array
    """(3,) m, position of the tip in the frame of the last joint."""
    tip_quat: Array
    """(4,) wxyz, its orientation there."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel, tip: str, root: str = "world") -> "Chain":
        """Read the chain from a compiled model.

        Args:
            model: Compiled MuJoCo model; it is not kept.
            tip: Name of the site whose frame is the tip, or of a body if no site has that name.
            root: Name of the body whose frame poses are given in. The joints that carry the
                root itself do not belong to the chain, so that a leg can hang on a floating trunk.

        Raises:
            ChainError: unknown `tip` or `root`; `root` does not carry `tip`; no joint between
                them; a ball or free joint, or a mocap body, between them. A ValueError.
        """
        bodies = [model.body(i).name for i in range(model.nbody)]
        sites = [model.site(i).name for i in range(model.nsite)]
        if tip in sites and tip:
            site = model.site(tip)
            tip_body, tip_pos, tip_quat = int(site.bodyid[0]), np.array(site.pos), np.array(site.quat)
        elif tip in bodies and tip:
            tip_body, tip_pos, tip_quat = bodies.index(tip), np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
        else:
            raise ChainError(f"unknown site or body {tip!r}{_exists(tip, sites=sites, bodies=bodies)}")
        if root not in bodies or not root:
            raise ChainError(f"unknown body {root!r}{_exists(root, bodies=bodies)}")
        path = _path(model, tip, tip_body, root)

        joints, slides, offsets, axes = [], [], [], []
        pos, quat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
        for body in path:
            if model.body_mocapid[body] >= 0:
                raise ChainError(
                    f"mocap body {bodies[body]!r} between {root!r} and {tip!r} is placed from outside, by no joint"
                    f"{_beyond(bodies[body], body == path[-1])}"
                )
            pos, quat = _compose(pos, quat, model.body_pos[body], model.body_quat[body])
            for joint in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
                kind = mujoco.mjtJoint(int(model.jnt_type[joint]))
                if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
                    raise ChainError(
                        f"joint {_joint_name(model, joint)!r} between {root!r} and {tip!r} is of type "
                        f"{kind.name.removeprefix('mjJNT_').lower()}; expected hinge or slide"
                        f"{_beyond(bodies[body], body == path[-1])}"
                    )
                joints.append(joint)
                slides.append(kind == mujoco.mjtJoint.mjJNT_SLIDE)
                # Move to the joint's anchor, and back from it into what the joint carries.
                offsets.append((pos + _rotated(quat, model.jnt_pos[joint]), quat))
                axes.append(np.array(model.jnt_axis[joint]))
                pos, quat = -np.array(model.jnt_pos[joint]), np.array([1.0, 0.0, 0.0, 0.0])
        if not joints:
            raise ChainError(f"no joint between {root!r} and {tip!r}; expected at least one hinge or slide")
        tip_pos, tip_quat = _compose(pos, quat, tip_pos, tip_quat)

        addresses = model.jnt_qposadr[joints]
        limited = model.jnt_limited[joints].astype(bool)
        return cls(
            joint_names=tuple(_joint_name(model, joint) for joint in joints),
            is_slide=tuple(slides),
            qpos_address=tuple(int(i) for i in addresses),
            dof_address=tuple(int(i) for i in model.jnt_dofadr[joints]),
            offset_pos=_array([pos for pos, _ in offsets]),
            offset_quat=_array([quat for _, quat in offsets]),
            axis=_array(axes),
            reference=_array(model.qpos0[addresses]),
            lower=_array(np.where(limited, model.jnt_range[joints, 0], -np.inf)),
            upper=_array(np.where(limited, model.jnt_range[joints, 1], np.inf)),
            tip_pos=_array(tip_pos),
            tip_quat=_array(tip_quat),
        )

    @property
    def size(self) -> int:
        """Number of joints, n."""
        return len(self.joint_names)

    def joint_positions(self, qpos: Array) -> Array:
        """The chain's joint positions (n,), m or rad, out of the model's qpos (nq,)."""
        return qpos[np.array(self.qpos_address)]

    def joint_velocities(self, qvel: Array) -> Array:
        """The chain's joint velocities (n,), m/s or rad/s, out of the model's qvel (nv,)."""
        return qvel[np.array(self.dof_address)]

    def clip(self, q: Array) -> Array:
        """Joint positions (n,), m or rad, brought within the limits."""
        return jnp.clip(q, self.lower, self.upper)

    def forward(self, q: Array) -> Pose:
        """Pose of the tip for given joint positions.

        Args:
            q: `(n,)` m or rad, in the order of `joint_names`. Limits are not applied.

        Returns:
            The tip's pose in the root frame.
        """
        return self._tip(self._joints(q))

    def jacobian(self, q: Array) -> Array:
        """Geometric Jacobian of the tip: its velocity per joint velocity.

        Args:
            q: `(n,)` m or rad, in the order of `joint_names`.

        Returns:
            `(6, n)` in the root frame: rows 0-2 the linear velocity of the tip's origin
            (m/s), rows 3-5 its angular velocity (rad/s), per m/s or rad/s of each joint.

        Source: Siciliano et al., "Robotics: Modelling, Planning and Control", section 3.1.
        """
        joints = self._joints(q)
        return self._jacobian(joints, self._tip(joints))

    def _joints(self, q: Array) -> Pose:
        """Poses of the joints' frames in the root frame, `(n, 3)` and `(n, 4)`, each after its own motion."""
        if q.shape != (self.size,):
            raise ValueError(f"q has shape {q.shape}; expected ({self.size},): {listing(self.joint_names)}")
        is_slide = np.array(self.is_slide)
        moved = q - self.reference
        slid = jnp.where(is_slide, moved, 0.0)[:, None] * self.axis
        turned = jax.vmap(quat_from_axis_angle)(self.axis, jnp.where(is_slide, 0.0, moved))
        links = Pose(
            self.offset_pos + jax.vmap(quat_rotate)(self.offset_quat, slid),
            jax.vmap(quat_multiply)(self.offset_quat, turned),
        )

        # A loop, because XLA's CPU compiler fuses an unrolled chain into one expression and computes
        # the first links over again for every later one: seconds instead of microseconds.
        def append(carrier: Pose, link: Pose) -> tuple[Pose, Pose]:
            pose = _carried(carrier, link)
            return pose, pose

        first = jax.tree.map(lambda leaf: leaf[0], links)
        _, poses = jax.lax.scan(append, first, jax.tree.map(lambda leaf: leaf[1:], links))
        return jax.tree.map(lambda start, others: jnp.concatenate([start[None], others]), first, poses)

    def _tip(self, joints: Pose) -> Pose:
        """The tip's pose once the joints' poses are known."""
        last = jax.tree.map(lambda leaf: leaf[-1], joints)
        return _carried(last, Pose(self.tip_pos, self.tip_quat))

    def _jacobian(self, joints: Pose, tip: Pose) -> Array:
        """The Jacobian once the joints' and the tip's poses are known."""
        is_slide = np.array(self.is_slide)[:, None]
        axis = jax.vmap(quat_rotate)(joints.quat, self.axis)
        linear = jnp.where(is_slide, axis, jnp.cross(axis, tip.pos[None, :] - joints.pos))
        return jnp.concatenate([linear, jnp.where(is_slide, 0.0, axis)], axis=1).T


def _carried(carrier: Pose, link: Pose) -> Pose:
    """Pose of a link, given in its carrier's frame, in the frame of the carrier's pose."""
    return Pose(carrier.pos + quat_rotate(carrier.quat, link.pos), quat_multiply(carrier.quat, link.quat))


def damped_least_squares(jacobian: Array, error: Array, damping: ArrayLike) -> Array:
    """The step that best reduces an error without growing large near a singularity.

    Minimises |J step - error|^2 + damping^2 |step|^2.

    Args:
        jacobian: `(m, n)`.
        error: `(m,)`, in the units of the Jacobian's rows.
        damping: Scalar > 0, in the units of the rows per step. The singular value s of the
            Jacobian is followed by the share s^2 / (s^2 + damping^2).

    Returns:
        `(n,)` step of the joints.

    Raises:
        ValueError: `damping` is not positive. Only checked where it is known before `jax.jit`.

    Source: Wampler, IEEE Transactions on Systems, Man, and Cybernetics 16 (1986); Nakamura and Hanafusa (1986).
    """
    _expect_positive("damping", damping)
    rows, columns = jacobian.shape
    # Both forms give the same step; the smaller system is the cheaper one.
    wide = rows <= columns
    gram = jacobian @ jacobian.T if wide else jacobian.T @ jacobian
    gram = gram + jnp.square(damping) * jnp.eye(min(rows, columns), dtype=gram.dtype)
    factor = jax.scipy.linalg.cho_factor(gram)
    if wide:
        return jacobian.T @ jax.scipy.linalg.cho_solve(factor, error)
    return jax.scipy.linalg.cho_solve(factor, jacobian.T @ error)


def inverse_kinematics_step(
    chain: Chain,
    q: Array,
    target: Pose,
    *,
    damping: ArrayLike = 0.05,
    max_step: ArrayLike = 0.2,
    orientation_weight: ArrayLike = 0.3,
) -> Array:
    """One step of the joints towards a target pose, within their limits.

    Repeat it until the pose is reached, or call it once per control step as a servo. A joint
    at its limit that would be pushed beyond is held there and the others are solved for
    again, so that they make up for it. Differentiable.

    Args:
        chain: The chain.
        q: `(n,)` m or rad, joint positions now.
        target: Wanted pose of the tip in the root frame.
        damping: m, scalar > 0; see `damped_least_squares`. More is slower and calmer.
        max_step: m or rad, scalar > 0; the step is shortened, in its direction, until no joint
            moves further than this.
        orientation_weight: m/rad, scalar: how much a radian counts beside a metre. 0 asks for
            the position alone.

    Returns:
        `(n,)` m or rad, the next joint positions, within the limits.

    Raises:
        ValueError: `damping` or `max_step` is not positive, or `q` has the wrong shape.
    """
    _expect_positive("max_step", max_step)
    q = chain.clip(q)
    joints = chain._joints(q)
    tip = chain._tip(joints)
    turn = quat_rotate(tip.quat, quat_error(tip.quat, target.quat))
    error = jnp.concatenate([target.pos - tip.pos, orientation_weight * turn])
    jacobian = chain._jacobian(joints, tip)
    jacobian = jnp.concatenate([jacobian[:3], orientation_weight * jacobian[3:]])

    step = damped_least_squares(jacobian, error, damping)
    held = ((q <= chain.lower) & (step < 0.0)) | ((q >= chain.upper) & (step > 0.0))
    free = jnp.where(held, 0.0, 1.0)
    step = free * damped_least_squares(jacobian * free[None, :], error, damping)
    return chain.clip(q + step * (max_step / jnp.maximum(jnp.max(jnp.abs(step)), max_step)))


def _expect_positive(name: str, value: ArrayLike) -> None:
    """Check a number that is known before compilation."""
    if not isinstance(value, Tracer) and not np.all(np.greater(value, 0.0)):
        raise ValueError(f"{name} is {value}; expected a number > 0")


def _array(values: object) -> Array:
    """A floating-point array in JAX's default precision."""
    return jnp.asarray(np.asarray(values, dtype=np.float64), dtype=float)


def _path(model: mujoco.MjModel, tip: str, tip_body: int, root: str) -> list[int]:
    """Bodies from below the root to the one that holds the tip."""
    root_body = model.body(root).id
    path, body = [], tip_body
    while body != root_body:
        if body == 0:
            carriers = ["world", *(model.body(i).name for i in path[:0:-1])]
            raise ChainError(f"body {root!r} does not carry {tip!r}; bodies that do: {listing(filter(None, carriers))}")
        path.append(body)
        body = int(model.body_parentid[body])
    return path[::-1]


def _exists(name: str, **known: Sequence[str]) -> str:
    """Which names there are, by kind, after the one that `name` may be a misspelling of."""
    guesses = closest(name, {each for names in known.values() for each in names if each}, limit=1)
    guess = f"; did you mean {guesses[0]!r}?" if guesses else ";"
    lists = (f"{kind}: {listing(each for each in names if each) or 'none'}" for kind, names in known.items())
    return f"{guess} {'; '.join(lists)}"


def _beyond(body: str, last: bool) -> str:
    """The way out of a body that no chain can pass: begin at it."""
    return "" if last or not body else f"; use root={body!r} for the part beyond it"


def _joint_name(model: mujoco.MjModel, joint: int) -> str:
    """The joint's name, or its number where it has none."""
    return model.joint(joint).name or f"joint {joint}"


def _rotated(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """`quat_rotate` in double precision on the host."""
    result = np.zeros(3)
    mujoco.mju_rotVecQuat(result, vector, quat)
    return result


def _compose(
    pos: np.ndarray, quat: np.ndarray, child_pos: np.ndarray, child_quat: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pose of a child frame in the frame that `pos` and `quat` are in, in double precision on the host."""
    product = np.zeros(4)
    mujoco.mju_mulQuat(product, quat, child_quat)
    return pos + _rotated(quat, child_pos), product / np.linalg.norm(product)
