"""Starts of tasks, response of the hand to an action, and episodes of the package's scripted policies.

An action is a (4,) vector in [-1, 1]: the hand's displacement along the world's axes, in units of `action_scale` m per
step, and the gripper (1 closes, -1 opens).
"""

import mujoco
import numpy as np
from metaworld.policies import ENV_POLICY_MAP  # pyright: ignore[reportMissingImports] - of another environment

from .draws import place
from .scenes import describe_pose, label, task_bodies
from .slots import POINTS, position, slot_error
from .success import SUCCESS, measure, succeeded

HORIZON = 500
FULL_ACTIONS = {"x": (1, 0, 0, -1), "y": (0, 1, 0, -1), "z": (0, 0, -1, -1), "close": (0, 0, 0, 1)}
REST, CLOSE = (0, 0, 0, -1), (0, 0, 0, 1)


def step(env, action):
    """Applies an action (4,) and returns the observation (39,) and the info dictionary."""
    obs, _, _, _, info = env.step(np.array(action, dtype=np.float32))
    return obs, info


def responses(env, draw):
    """Response of hand and fingers to actions from rest, each a list over 20 steps.

    x, y and z: the hand's displacement in m along that world axis, in ten steps of full action and ten of none (z
    downwards); close and reopen: the observed opening while closing, and while opening after 20 steps of closing.
    """
    result = {}
    for key, action in FULL_ACTIONS.items():
        place(env, draw)
        start, moved = env.get_endeff_pos().copy(), []
        for i in range(20):
            obs, _ = step(env, action if i < 10 or key == "close" else REST)
            moved.append(obs[3] if key == "close" else (obs[:3] - start)["xyz".index(key)])
        result[key] = moved
    place(env, draw)
    for _ in range(20):
        step(env, CLOSE)
    result["reopen"] = [step(env, REST)[0][3] for _ in range(20)]
    return result


def one_axis_joints(model):
    """Names and position addresses of the task's slides and hinges."""
    bodies = task_bodies(model)
    mine = [j for j in range(model.njnt) if model.jnt_bodyid[j] in bodies and model.jnt_type[j] >= 2]
    return {model.joint(j).name or f"#{j}": int(model.jnt_qposadr[j]) for j in mine}


class EpisodeRecord:
    """Record of an expert episode while it runs.

    Compares every step with SUCCESS and POINTS: `disagreements` counts steps, `slot_error` is as in slots.slot_error,
    and `distance_error` in m, negative where the package reports no distance that a term restates.
    """

    def __init__(self, env, name):
        self.env, self.terms, self.points = env, SUCCESS[name], POINTS[name]
        self.joints, self.reached = one_axis_joints(env.model), []
        self.first, self.held, self.successes = None, None, 0
        self.disagreements, self.slot_error, self.distance_error = 0, 0.0, -1.0

    def add(self, count, obs, info):
        """Takes in the observation (39,) and the info that the `count`-th step returned."""
        env, success = self.env, bool(info["success"])
        self.reached.append([env.data.qpos[address] for address in self.joints.values()])
        self.disagreements += success != succeeded(env, obs, self.terms)
        if info["obj_to_target"] and self.terms[0]["kind"] == "distance":
            error = abs(info["obj_to_target"] - measure(env, obs, self.terms[0]))
            self.distance_error = max(self.distance_error, error)
        self.slot_error = max(self.slot_error, slot_error(env, obs, self.points))
        if success and self.first is None:
            self.first, self.held = count, obs.copy()
        self.successes += success

    def joint_extremes(self):
        """The least and the greatest position of each slide (m) and hinge (rad) by name."""
        columns = zip(*self.reached, strict=True)
        return {name: [min(column), max(column)] for name, column in zip(self.joints, columns, strict=True)}

    def check(self):
        """The differences between the package and our tables."""
        distance = self.distance_error if self.distance_error >= 0 else None
        return {
            "success_disagreements": self.disagreements,
            "slot_error": self.slot_error,
            "distance_error": distance,
        }


def expert_episode(env, name, seed):
    """Runs the scripted policy for 500 steps and checks POINTS and SUCCESS on the way.

    The trajectory has a row for every tenth step until ten steps after success: hand in m in the world frame, gripper
    action in [-1, 1]. Objects are the slots of the observation, (7,) each.
    """
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    env.seed(seed)
    obs, _ = env.reset()
    draw = np.array(env._last_rand_vec)
    policy, record, rows = ENV_POLICY_MAP[name + "-v3"](), EpisodeRecord(env, name), []
    info = {"success": False}
    for i in range(HORIZON):
        action = np.clip(policy.get_action(obs), -1, 1)
        if i % 10 == 0 and (record.first is None or i < record.first + 10):
            rows.append([i, *obs[:3], action[3]])
        obs, info = step(env, action)
        record.add(i + 1, obs, info)
    shown = slice(4, 4 + 7 * len(POINTS[name]))
    return {
        "seed": seed,
        "draw": draw,
        "goal": np.array(env._target_pos),
        "success_step": record.first,
        "success_steps_of_500": record.successes,
        "success_at_500": bool(info["success"]),
        "joint_extremes": record.joint_extremes(),
        "trajectory": {"columns": ["step", "hand_x", "hand_y", "hand_z", "gripper_action"], "rows": rows},
        "object_at_success": None if record.held is None else record.held[shown],
        "object_at_500": obs[shown],
        "check": record.check(),
    }


def canonical_state(env, draw):
    """State after a reset with the canonical draw.

    The observation's first 18 numbers, also after a forward pass where that changes them; goal and tcp (3,) in m in the
    world frame; world poses of the task's bodies; positions of its joints (m, rad, or position and quaternion); and
    obj1's position less that of each root body, (3,) in m.
    """
    obs = place(env, draw)
    model, data = env.model, env.data
    mujoco.mj_forward(model, data)
    now = env._get_curr_obs_combined_no_goal()
    state = {"draw": draw, "obs": obs[:18], "goal": np.array(env._target_pos), "tcp": env.tcp_center}
    if np.abs(now - obs[:18]).max() > 1e-6:
        state["obs_after_forward"] = now
    bodies = task_bodies(model)
    state["bodies"] = {label(model, i): describe_pose(data.xpos[i], data.xquat[i]) for i in bodies}
    state["qpos"] = {
        model.joint(j).name or f"#{j}": data.qpos[model.jnt_qposadr[j] : model.jnt_qposadr[j] + (7 if t == 0 else 1)]
        for j, t in enumerate(model.jnt_type)
        if model.jnt_bodyid[j] in bodies
    }
    obj1 = position(env, now, "obj1")
    moving = [i for i in bodies if model.body_parentid[i] == 0]
    state["obj1_from_roots"] = {label(model, i): obj1 - data.xpos[i] for i in moving}
    return state
