"""Criteria of success: the table SUCCESS, whose terms must all hold, and its evaluation.

Thresholds are in m (distance, axis, and joint of a slide) or rad (joint of a hinge); pads_touch compares 0 or 1, and
observed_opening the observation's gripper opening in [0, 1].
"""

import numpy as np

from .slots import position


def near(threshold, weights=(1, 1, 1), what="obj1", op="<=", **more):
    """The length of weights * (what + offset - goal), in m in the world frame, compared with the threshold.

    `more` may hold `offset` (3,) and `goal_z`, a height that takes the place of the goal's own.
    """
    return {"kind": "distance", "what": what, "weights": list(weights), "op": op, "threshold": threshold, **more}


def axis(what, coordinate, op, reference, threshold=0.0, absolute=False):
    """One world coordinate's difference what - reference, in m, compared with the threshold."""
    return {
        "kind": "axis",
        "what": what,
        "axis": coordinate,
        "reference": reference,
        "absolute": absolute,
        "op": op,
        "threshold": threshold,
    }


def joint(name, op, threshold, reference=None):
    """A joint's position, m or rad, or its absolute distance from the reference, compared with the threshold."""
    return {"kind": "joint", "joint": name, "reference": reference, "op": op, "threshold": threshold}


X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
SUCCESS = {
    "assembly": [near(0.02, (1, 1, 0), "site:RoundNut", "<"), axis("site:RoundNut", "z", "<", "goal")],
    "basketball": [near(0.08, (1, 1, 2), goal_z=0.3)],
    "bin-picking": [near(0.05)],
    "box-close": [near(0.08, op="<")],
    "button-press-topdown": [near(0.024, Z)],
    "button-press-topdown-wall": [near(0.024, Z)],
    "button-press": [near(0.02, Y)],
    "button-press-wall": [near(0.03, Y)],
    "coffee-button": [near(0.02, Y)],
    "coffee-pull": [near(0.07)],
    "coffee-push": [near(0.07)],
    "dial-turn": [near(0.07)],
    "disassemble": [axis("obj1", "z", ">", "goal")],
    "door-close": [near(0.08)],
    "door-lock": [near(0.02, Z)],
    "door-open": [near(0.08, X)],
    "door-unlock": [near(0.02, X)],
    "drawer-close": [near(0.065)],
    "drawer-open": [near(0.03)],
    "faucet-close": [near(0.07)],
    "faucet-open": [near(0.07, offset=[-0.04, 0, 0.03])],
    "hammer": [joint("NailSlideJoint", ">", 0.09)],
    "hand-insert": [near(0.05)],
    "handle-press-side": [near(0.02, Z)],
    "handle-press": [near(0.02, Z)],
    "handle-pull-side": [near(0.08)],
    "handle-pull": [near(0.05, Z)],
    "lever-pull": [joint("LeverAxis", "<=", np.pi / 24, reference=-np.pi / 2)],
    "peg-insert-side": [near(0.07, (1, 2, 2), "site:pegHead")],
    "peg-unplug-side": [near(0.07)],
    "pick-out-of-hole": [near(0.07)],
    "pick-place": [near(0.07)],
    "pick-place-wall": [near(0.07)],
    "plate-slide-back-side": [near(0.07)],
    "plate-slide-back": [near(0.07)],
    "plate-slide-side": [near(0.07)],
    "plate-slide": [near(0.07)],
    "push-back": [near(0.07)],
    "push": [near(0.05)],
    "push-wall": [near(0.07)],
    "reach": [near(0.05, what="tcp")],
    "reach-wall": [near(0.05, what="tcp")],
    "shelf-place": [near(0.07)],
    "soccer": [near(0.07)],
    "stick-pull": [
        near(0.12, what="obj2"),
        axis("site:stick_end", "x", ">=", "obj2"),
        axis("site:stick_end", "y", "<=", "obj2", 0.04, absolute=True),
        axis("site:stick_end", "z", "<=", "obj2", 0.06, absolute=True),
    ],
    "stick-push": [
        near(0.12, what="obj2"),
        {"kind": "pads_touch", "geom": "objGeom", "op": ">", "threshold": 0.0},
        {"kind": "observed_opening", "op": ">", "threshold": 0.0},
        axis("obj1", "z", ">", "stick_init_pos", 0.01),
    ],
    "sweep-into": [near(0.05, (1, 1, 0))],
    "sweep": [near(0.05)],
    "window-close": [near(0.05, X)],
    "window-open": [near(0.05, X)],
}
COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def measure(env, obs, term):
    """The number that a term of a success condition compares with its threshold, in the threshold's unit."""
    if term["kind"] == "pads_touch":
        return float(env.touching_object(env.model.geom(term["geom"]).id))
    if term["kind"] == "observed_opening":
        return obs[3]
    if term["kind"] == "joint":
        value = env.data.joint(term["joint"]).qpos[0]
        return value if term["reference"] is None else abs(value - term["reference"])
    if term["kind"] == "axis":
        value = (position(env, obs, term["what"]) - position(env, obs, term["reference"]))["xyz".index(term["axis"])]
        return abs(value) if term["absolute"] else value
    goal = np.array(env._target_pos)
    goal[2] = term.get("goal_z", goal[2])
    error = position(env, obs, term["what"]) + term.get("offset", 0) - goal
    return np.linalg.norm(np.array(term["weights"]) * error)


def succeeded(env, obs, terms):
    """Whether all terms of a success condition hold."""
    return all(bool(COMPARE[term["op"]](measure(env, obs, term), term["threshold"])) for term in terms)
