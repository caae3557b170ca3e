"""Describes compiled models: bodies, joints, collision shapes, tables, hand, cameras and solver settings.

Lengths are in m, masses in kg, angles in rad except a camera's fovy (degrees), quaternions wxyz. Positions and
orientations of bodies are in the parent body's frame, those of joints, geoms and sites in their body's.
"""

import itertools
from typing import Any

import mujoco
import numpy as np

ROBOT_AND_TABLE = ("base", "mocap", "tablelink", "RetainingWall")
WRIST = ("right_l6", "right_hand")
HAND = ("hand", "rightclaw", "rightpad", "leftclaw", "leftpad")
GEOM_TYPES = {int(getattr(mujoco.mjtGeom, n)): n[7:].lower() for n in dir(mujoco.mjtGeom) if n.startswith("mjGEOM_")}
JOINT_TYPES = {0: "free", 1: "ball", 2: "slide", 3: "hinge"}


def label(model, body):
    """A body's name, or its number where it has none."""
    return model.body(body).name or f"#{body}"


def task_bodies(model):
    """The ids of the bodies that belong to the task: neither robot nor table."""
    roots = [model.body(i).name for i in range(model.nbody)]
    return [i for i in range(1, model.nbody) if roots[model.body_rootid[i]] not in ROBOT_AND_TABLE]


def describe_pose(pos, quat):
    """Position (3,), and orientation (4,) where it is not the identity, in the frame of the arguments."""
    entry = {"pos": pos}
    if abs(abs(quat[0]) - 1) > 1e-6:
        entry["quat"] = quat
    return entry


def bounds(model, geom):
    """The lower and the upper corner, (3,) each, of a geom's bounding box along the axes of its body's frame."""
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
    rotation = rotation.reshape(3, 3)
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        start = model.mesh_vertadr[mesh]
        corners = model.mesh_vert[start : start + model.mesh_vertnum[mesh]] @ rotation.T
    else:
        center, half = model.geom_aabb[geom][:3], model.geom_aabb[geom][3:]
        corners = np.array([center + half * s for s in itertools.product((-1, 1), repeat=3)]) @ rotation.T
    corners = corners + model.geom_pos[geom]
    return corners.min(0), corners.max(0)


def describe_geom(model, geom):
    """One collision geom; defaults (condim 3, margin 0, contact bits 1/1) are left out.

    `size` is as in MuJoCo (halves), `box_size` full.
    """
    kind = GEOM_TYPES[int(model.geom_type[geom])]
    entry = {"name": model.geom(geom).name or None, "type": kind}
    if kind == "mesh":
        low, high = bounds(model, geom)
        entry |= {
            "mesh": model.mesh(model.geom_dataid[geom]).name,
            "box_size": high - low,
            "box_center": (low + high) / 2,
        }
    else:
        axes = {"sphere": 1, "capsule": 2, "cylinder": 2}.get(kind, 3)
        entry |= {"size": model.geom_size[geom][:axes], **describe_pose(model.geom_pos[geom], model.geom_quat[geom])}
    entry["friction"] = model.geom_friction[geom]
    bits = [int(model.geom_contype[geom]), int(model.geom_conaffinity[geom])]
    for key, value, default in (
        ("contact_bits", bits, [1, 1]),
        ("condim", int(model.geom_condim[geom]), 3),
        ("margin", float(model.geom_margin[geom]), 0.0),
    ):
        if value != default:
            entry[key] = value
    return entry


def describe_joint(model, i):
    """One joint with its passive forces (N, m, s, or N m, rad, s); zeros are left out."""
    entry = {"name": model.joint(i).name or f"#{i}", "type": JOINT_TYPES[int(model.jnt_type[i])]}
    dof, qpos = model.jnt_dofadr[i], model.jnt_qposadr[i]
    if entry["type"] != "free":
        entry |= {"axis": model.jnt_axis[i], "pos": model.jnt_pos[i]}
        if model.jnt_limited[i]:
            entry["range"] = model.jnt_range[i]
        if model.qpos0[qpos]:
            entry["ref"] = float(model.qpos0[qpos])
    for key, value in (
        ("damping", model.dof_damping[dof]),
        ("frictionloss", model.dof_frictionloss[dof]),
        ("armature", model.dof_armature[dof]),
        ("stiffness", model.jnt_stiffness[i]),
    ):
        if value:
            entry[key] = float(value)
    if "stiffness" in entry and model.qpos_spring[qpos]:
        entry["springref"] = float(model.qpos_spring[qpos])
    return entry


def describe_body(model, i) -> dict[str, Any]:
    """One body: where it sits in its parent, how it moves, what it collides with, its sites and its visible extent."""
    parent = model.body_parentid[i]
    entry = {"name": label(model, i), "parent": label(model, parent)}
    entry |= describe_pose(model.body_pos[i], model.body_quat[i])
    if model.body_dofnum[model.body_weldid[i]]:
        entry |= {"mass": model.body_mass[i], "inertia": model.body_inertia[i], "com": model.body_ipos[i]}
    joints = [describe_joint(model, j) for j in range(model.njnt) if model.jnt_bodyid[j] == i]
    geoms = [g for g in range(model.ngeom) if model.geom_bodyid[g] == i]
    solid = [g for g in geoms if model.geom_contype[g] or model.geom_conaffinity[g]]
    seen = [bounds(model, g) for g in geoms if g not in solid]
    sites = {model.site(s).name: model.site_pos[s] for s in range(model.nsite) if model.site_bodyid[s] == i}
    if joints:
        entry["joints"] = joints
    if solid:
        entry["collision"] = [describe_geom(model, g) for g in solid]
    if seen:
        low, high = np.min([s[0] for s in seen], 0), np.max([s[1] for s in seen], 0)
        entry["visual_box"] = {"size": high - low, "center": (low + high) / 2, "geoms": len(seen)}
    if sites:
        entry["sites"] = sites
    return entry


def describe_scene(model):
    """The task's bodies, and sites and geoms that hang on the world."""
    bodies = [describe_body(model, i) for i in task_bodies(model)]
    world = describe_body(model, 0)
    geoms = [g for g in world.get("collision", []) if g["name"] != "floor"]
    return {"bodies": bodies, "world_sites": world.get("sites", {}), "world_collision": geoms}


def describe_table(model):
    """Table and retaining wall, and the floor under them."""
    names = ("tablelink", "RetainingWall")
    bodies = [describe_body(model, i) for i in range(1, model.nbody) if model.body(i).name in names]
    return {"bodies": bodies, "floor": [g for g in describe_body(model, 0)["collision"] if g["name"] == "floor"]}


def describe_gripper(model):
    """The hand from the wrist down, its actuators (kp in N/m, bias (3,)) and the weld that drags it."""
    weld = [e for e in range(model.neq) if model.eq_type[e] == mujoco.mjtEq.mjEQ_WELD]
    return {
        "wrist": [describe_body(model, model.body(n).id) for n in WRIST],
        "bodies": [describe_body(model, model.body(n).id) for n in HAND],
        "actuators": [
            {
                "joint": model.joint(model.actuator_trnid[a, 0]).name,
                "kp": model.actuator_gainprm[a, 0],
                "bias": model.actuator_biasprm[a, :3],
                "ctrlrange": model.actuator_ctrlrange[a],
            }
            for a in range(model.nu)
        ],
        "weld": [{"solref": model.eq_solref[e], "solimp": model.eq_solimp[e], "data": model.eq_data[e]} for e in weld],
    }


def describe_options(model):
    """Solver settings: timestep in s, gravity (3,) in m/s^2 in the world frame."""
    opt = model.opt
    return {
        "timestep": opt.timestep,
        "integrator": int(opt.integrator),
        "cone": ["pyramidal", "elliptic"][opt.cone],
        "solver": ["PGS", "CG", "Newton"][opt.solver],
        "iterations": int(opt.iterations),
        "gravity": opt.gravity,
        "impratio": opt.impratio,
    }


def describe_cameras(model):
    """Named cameras, posed in the frame of their body; a camera looks along its -z, fovy is in degrees."""
    return [
        {
            "name": model.camera(c).name,
            "body": model.body(model.cam_bodyid[c]).name,
            "pos": model.cam_pos[c],
            "quat": model.cam_quat[c],
            "fovy": model.cam_fovy[c],
        }
        for c in range(model.ncam)
    ]
