"""Content of each observation slot: the table POINTS, and its comparison with an observation.

An observation is a (39,) vector: hand position (3), gripper opening (1), two object slots of position (3) and
quaternion (4), the same 18 numbers one step earlier, and the goal (3). Positions are in m in the world frame.
"""

import mujoco
import numpy as np


def point(frame, quat, offset=(0, 0, 0)):
    """Describes one object slot.

    `frame` is 'kind:name' with kind body, geom or site; `offset` (3,) in m is added along the world's axes; `quat` is
    'w:frame' (wxyz), 'x:frame' (xyzw), 'identity' or 'zeros'.
    """
    return {"frame": frame, "offset": list(offset), "quat": quat}


BUTTON_FRONT = point("body:button", "w:body:button", (0, -0.193, 0))
BUTTON_TOP = point("body:button", "w:body:button", (0, 0, 0.193))
OBJ_W = point("body:obj", "w:body:obj")
OBJ_X = point("body:obj", "x:geom:objGeom")
GEOM_X = point("geom:objGeom", "x:geom:objGeom")
PUCK = point("geom:puck", "x:geom:puck")
NUT = point("site:RoundNut-8", "w:body:RoundNut")
MUG = point("body:obj", "x:geom:mug")
DOOR = point("geom:handle", "x:geom:handle")
STICK = point("body:stick", "x:body:stick")

# The slots of each task, obj1 first; dial-turn adds a point that runs on a circle about its frame.
POINTS = {
    "assembly": [NUT],
    "basketball": [point("body:bsktball", "w:body:bsktball")],
    "bin-picking": [OBJ_W],
    "box-close": [point("body:top_link", "w:body:top_link")],
    "button-press-topdown": [BUTTON_TOP],
    "button-press-topdown-wall": [BUTTON_TOP],
    "button-press": [BUTTON_FRONT],
    "button-press-wall": [BUTTON_FRONT],
    "coffee-button": [point("site:buttonStart", "identity")],
    "coffee-pull": [MUG],
    "coffee-push": [MUG],
    "dial-turn": [{**point("body:dial", "w:body:dial"), "circle": {"joint": "knob_Joint_1", "radius": 0.05}}],
    "disassemble": [NUT],
    "door-close": [DOOR],
    "door-lock": [point("site:lockStartLock", "w:body:door_link")],
    "door-open": [DOOR],
    "door-unlock": [point("site:lockStartUnlock", "w:body:door_link")],
    "drawer-close": [point("body:drawer_link", "zeros", (0, -0.16, 0.05))],
    "drawer-open": [point("body:drawer_link", "w:body:drawer_link", (0, -0.16, 0))],
    "faucet-close": [point("site:handleStartClose", "w:body:faucetBase", (0, 0, -0.01))],
    "faucet-open": [point("site:handleStartOpen", "w:body:faucetBase", (0, 0, -0.01))],
    "hammer": [point("body:hammer", "w:body:hammer"), point("body:nail_link", "w:body:nail_link")],
    "hand-insert": [OBJ_W],
    "handle-press-side": [point("site:handleStart", "zeros")],
    "handle-press": [point("site:handleStart", "zeros")],
    "handle-pull-side": [point("site:handleCenter", "zeros")],
    "handle-pull": [point("site:handleRight", "zeros")],
    "lever-pull": [point("site:leverStart", "x:geom:objGeom")],
    "peg-insert-side": [point("site:pegGrasp", "x:site:pegGrasp")],
    "peg-unplug-side": [point("site:pegEnd", "w:body:plug1")],
    "pick-out-of-hole": [OBJ_W],
    "pick-place": [OBJ_X],
    "pick-place-wall": [GEOM_X],
    "plate-slide-back-side": [PUCK],
    "plate-slide-back": [PUCK],
    "plate-slide-side": [PUCK],
    "plate-slide": [PUCK],
    "push-back": [GEOM_X],
    "push": [OBJ_X],
    "push-wall": [GEOM_X],
    "reach": [OBJ_X],
    "reach-wall": [OBJ_X],
    "shelf-place": [OBJ_X],
    "soccer": [point("body:soccer_ball", "x:body:soccer_ball")],
    "stick-pull": [STICK, point("site:insertion", "zeros")],
    "stick-push": [STICK, point("site:insertion", "zeros", (0, 0.09, 0))],
    "sweep-into": [OBJ_X],
    "sweep": [OBJ_W],
    "window-close": [point("site:handleCloseStart", "zeros")],
    "window-open": [point("site:handleOpenStart", "zeros")],
}


def position(env, obs, what):
    """Position of a named point, (3,) in m in the world frame.

    `what` is obj1 or obj2 (as observed in `obs`), tcp, goal, stick_init_pos, or 'kind:name' of the model.
    """
    if what in ("obj1", "obj2"):
        return obs[4:7] if what == "obj1" else obs[11:14]
    if what in ("tcp", "goal", "stick_init_pos"):
        return getattr(env, {"tcp": "tcp_center", "goal": "_target_pos"}.get(what, what))
    kind, name = what.split(":")
    return getattr(env.data, kind)(name).xpos


def quaternion(env, how):
    """The (4,) numbers that a slot's quat entry promises: world orientation, in the order that the entry names."""
    if how in ("identity", "zeros"):
        return np.array([float(how == "identity"), 0, 0, 0])
    order, kind, name = how.split(":")
    frame = getattr(env.data, kind)(name)
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, frame.xmat.ravel())
    return quat if order == "w" else np.roll(quat, -1)


def slot_error(env, obs, points):
    """The largest difference between the observed slots and those by `points`: m, or a quaternion's component.

    Quaternions of opposite sign count as equal.
    """
    worst = 0.0
    for slot, entry in enumerate(points):
        seen = obs[4 + 7 * slot : 11 + 7 * slot]
        expected = position(env, obs, entry["frame"]) + entry["offset"]
        if "circle" in entry:
            angle = env.data.joint(entry["circle"]["joint"]).qpos[0]
            expected = expected + entry["circle"]["radius"] * np.array([np.sin(angle), -np.cos(angle), 0])
        quat = quaternion(env, entry["quat"])
        turned = min(np.abs(seen[3:] - quat).max(), np.abs(seen[3:] + quat).max())
        worst = max(worst, np.abs(seen[:3] - expected).max(), turned)
    return worst
