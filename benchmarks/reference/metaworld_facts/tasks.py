"""Everything about one task, and the published lists of tasks."""

import copy
import inspect
from pathlib import Path

import metaworld.env_dict as splits  # pyright: ignore[reportMissingImports] - of another environment
import numpy as np

from .draws import canonical_draw, draws_per_reset, make, min_distance, reset_rules
from .episodes import canonical_state, expert_episode
from .scenes import describe_scene
from .slots import POINTS
from .success import SUCCESS

EXPERT_SEEDS = range(5)


def task_names():
    """The fifty tasks in alphabetical order, without the version that the package appends."""
    return sorted(key.removesuffix("-v3") for key in splits.ALL_V3_ENVIRONMENTS)


def membership(name):
    """The published splits that a task is in."""
    key = name + "-v3"
    found = [label for label in ("MT10", "MT25", "MT50") if key in getattr(splits, label + "_V3")]
    for label in ("ML10", "ML25", "ML45"):
        found += [f"{label}-{part}" for part in ("train", "test") if key in getattr(splits, label + "_V3")[part]]
    return [label.lower() for label in found]


def published_splits():
    """The splits' tasks in their published order, which is the order of one-hot task numbers."""
    order = {label: list(getattr(splits, label.upper() + "_V3")) for label in ("mt10", "mt25", "mt50")}
    for name in ("ml10", "ml25", "ml45"):
        for part in ("train", "test"):
            order[f"{name}-{part}"] = list(getattr(splits, name.upper() + "_V3")[part])
    return {name: [key.removesuffix("-v3") for key in keys] for name, keys in order.items()}


def describe_control(env):
    """Horizon in steps, action_scale in m per step, and the limits of hand and mocap: (3,) in m in the world frame."""
    names = ("max_path_length", "action_scale", "frame_skip", "hand_init_pos")
    limits = ("hand_low", "hand_high", "mocap_low", "mocap_high")
    return {name: getattr(env, name) for name in names + limits}


def describe_defaults(env):
    """The initial configuration that the task's constructor sets, with its goal (3,) in m in the world frame."""
    return {k: v for k, v in env.init_config.items() if k != "hand_init_pos"} | {"goal": getattr(env, "goal", None)}


def describe_resets(env, distance):
    """The task's draw, and the rules by which a reset follows it.

    Ranges (3,) or (6,) and min_xy_distance are in m in the world frame, obj1_turn_spread in rad; object and goal list
    the draw's entries that mean one and the other.
    """
    space = env._random_reset_space
    count, stale = draws_per_reset(env)
    rules, unused, turned = reset_rules(env, distance, np.random.default_rng(0))
    draw = {
        "low": space.low,
        "high": space.high,
        "object": [0, 1, 2],
        "goal": [3, 4, 5][: space.low.size - 3],
        "min_xy_distance": distance,
        "without_effect": unused,
        "calls_per_reset": count,
        "obj1_turn_spread": turned,
        "stale_reset_obs": stale,
    }
    return draw, rules


def first_solved_episode(name):
    """The expert's episode for the first seed that solves the task, or None."""
    episodes = (expert_episode(make(name), name, seed) for seed in EXPERT_SEEDS)
    return next((episode for episode in episodes if episode["success_step"]), None)


def describe_task(name):
    """Returns the facts of one task and those of its scene, and an environment of it for what is shared."""
    env = make(name)
    scene = copy.deepcopy(describe_scene(env.model))  # not views: resets move bodies of the model
    distance = min_distance(env)
    env.close()
    env = make(name)
    draw, rules = describe_resets(env, distance)
    start = canonical_draw(env, distance)
    expert = first_solved_episode(name)
    task = {
        "class": type(env).__name__,
        "file": Path(inspect.getfile(type(env))).name,
        "scene": Path(env.model_name).stem,
        "splits": membership(name),
        "control": describe_control(env),
        "defaults": describe_defaults(env),
        "draw": draw,
        "goal_space": {"low": env.goal_space.low, "high": env.goal_space.high},
        "reset_rules": rules,
        "observation": {f"obj{i + 1}": entry for i, entry in enumerate(POINTS[name])},
        "success": SUCCESS[name],
        "canonical": canonical_state(env, start),
        "expert": expert,
    }
    return task, scene, env
