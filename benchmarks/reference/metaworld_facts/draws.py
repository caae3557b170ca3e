"""Use of the random vector by a reset.

A draw is a (3,) or (6,) vector of world coordinates in m: an object's position, then the goal's. It is uniform between
the limits of the task's `_random_reset_space`; many resets repeat it until object and goal are far enough apart.
"""

import itertools

import metaworld.env_dict as splits  # pyright: ignore[reportMissingImports] - of another environment
import mujoco
import numpy as np

from .scenes import label, task_bodies

RULE_DRAWS = 12
RULE_TOLERANCE = 2e-3  # m; what a rule leaves unexplained is reported above this
FIXED_RANGE = 1e-9  # m; ranges up to this hold a constant
BISECTION = 1e-6  # m


def make(name):
    """Builds a task that shows its goal and takes its draws from us."""
    env = splits.ALL_V3_ENVIRONMENTS[name + "-v3"]()
    env._partially_observable = False
    del env.sawyer_observation_space
    env._set_task_called = True
    return env


def place(env, draw):
    """Resets the task with a given draw and returns the observation, (39,)."""
    env._freeze_rand_vec = True
    env._last_rand_vec = np.array(draw, dtype=np.float64)
    obs, _ = env.reset()
    return obs


def min_distance(env):
    """The smallest horizontal distance in m of object and goal that a reset accepts; None without such a check.

    Found by bisection between 0 and 1 m. The environment is left reset, with an altered `init_tcp`.
    """
    space = env._random_reset_space
    if space.low.size < 6:
        return None
    middle = (space.low + space.high) / 2
    settle, draw_of, fixed = env._reset_hand, env._get_state_rand_vec, middle.copy()
    fixed[1] = fixed[4] - 1.0
    env._reset_hand = lambda steps=50: None
    env.init_tcp = env.tcp_center

    def accepted(distance):
        """Whether a reset takes a draw with object and goal this far apart, rather than drawing another."""
        offered = middle.copy()
        offered[:2] = offered[3:5] - [0, distance]
        draws = itertools.chain([offered], itertools.repeat(fixed))
        calls = []

        def draw():
            calls.append(next(draws).copy())
            return calls[-1]

        env._get_state_rand_vec = draw
        env.reset_model()
        return len(calls) == 1

    low, high = 0.0, 1.0
    if accepted(low + BISECTION):
        high = None
    else:
        while high - low > BISECTION:
            half = (low + high) / 2
            low, high = (low, half) if accepted(half) else (half, high)
    env._reset_hand, env._get_state_rand_vec = settle, draw_of
    return high


def far_enough(draw, distance):
    """Whether a draw keeps object and goal `distance` m apart; always so where distance is None."""
    return distance is None or np.linalg.norm(draw[:2] - draw[3:5]) >= distance


def canonical_draw(env, distance):
    """The middle of the ranges; with its goal moved to an edge or a corner where the middle would be rejected."""
    low, high = env._random_reset_space.low, env._random_reset_space.high
    middle = (low + high) / 2
    edges = [np.where(np.arange(low.size) == 4, side, middle) for side in (high, low)]
    for goal in (middle, *edges, high, low):
        draw = np.concatenate([middle[:3], goal[3:]])
        if far_enough(draw, distance):
            return draw
    raise ValueError("no canonical draw")


def sample_resets(env, distance, random):
    """Resets with RULE_DRAWS accepted draws.

    Returns the draws (RULE_DRAWS, 3 or 6); for goal, each object slot in use and each root body of the task a list of
    its world positions (3,) in m after these resets; and the list of obj1's observed quaternions (4,).
    """
    low, high = env._random_reset_space.low, env._random_reset_space.high
    roots = [i for i in task_bodies(env.model) if env.model.body_parentid[i] == 0]
    draws, seen, turns = [], {}, []
    while len(draws) < RULE_DRAWS:
        draw = random.uniform(low, high)
        if not far_enough(draw, distance):
            continue
        draws.append(draw)
        place(env, draw)
        mujoco.mj_forward(env.model, env.data)
        obs = env._get_obs()
        found = {"goal": np.array(env._target_pos), "obj1": obs[4:7].copy()}
        turns.append(obs[7:11].copy())
        if obs[11:18].any():
            found["obj2"] = obs[11:14].copy()
        for i in roots:
            found["body:" + label(env.model, i)] = env.data.xpos[i].copy()
        for key, value in found.items():
            seen.setdefault(key, []).append(value)
    return np.array(draws), seen, turns


def explain(column, draws, varying):
    """The rule that explains one coordinate best: draw[k] + add with k in `varying`, or add alone (k None).

    `column` (n,) holds the coordinate after resets with `draws` (n, 3 or 6), both in m in the world frame.
    """
    options = [(None, column)] + [(k, column - draws[:, k]) for k in varying]
    spread = [np.ptp(rest) for _, rest in options]
    best = 0 if spread[0] <= min(spread) + 1e-6 else int(np.argmin(spread))
    entry = {"draw": options[best][0], "add": np.mean(options[best][1])}
    if spread[best] > RULE_TOLERANCE:
        entry["spread"] = spread[best]
    return entry


def reset_rules(env, distance, random):
    """Explains goal, slots and fixtures after a reset as draw[k] + constant, or a constant, for each coordinate.

    Returns the rules by point, the varying entries of the draw that no rule uses, and the largest angle in rad by
    which obj1's orientation differs from that after the first reset (0 where none is observed).
    """
    low, high = env._random_reset_space.low, env._random_reset_space.high
    varying = [k for k in range(low.size) if high[k] - low[k] > FIXED_RANGE]
    draws, seen, turns = sample_resets(env, distance, random)
    rules = {key: [explain(column, draws, varying) for column in np.array(values).T] for key, values in seen.items()}
    used = {entry["draw"] for rule in rules.values() for entry in rule}
    unused = [k for k in varying if k not in used]
    cosine = np.abs(np.array(turns) @ turns[0]).min()
    return rules, unused, 2 * np.arccos(min(cosine, 1.0)) if np.any(turns[0]) else 0.0


def draws_per_reset(env):
    """Number of random vectors that one reset draws, and staleness of the observation that it returns.

    The first is the fewest calls among five seeded resets, the second the largest difference of the observation's first
    18 numbers from those after a forward pass.
    """
    env._freeze_rand_vec, env.seeded_rand_vec = False, True
    env.seed(0)
    counts, stale, original = [], 0.0, env._get_state_rand_vec
    calls = []

    def counted():
        calls.append(1)
        return original()

    env._get_state_rand_vec = counted
    for _ in range(5):
        calls.clear()
        obs, _ = env.reset()
        counts.append(len(calls))
        mujoco.mj_forward(env.model, env.data)
        stale = max(stale, np.abs(obs[:18] - env._get_curr_obs_combined_no_goal()).max())
    env._get_state_rand_vec = original
    return min(counts), stale
