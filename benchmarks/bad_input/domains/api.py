"""Calls of the interface that mean nothing, in any order: make, Env, wrappers, adapters, train_policy."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

import embodied
from benchmarks.bad_input import examples, mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must
from embodied.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv
from embodied.adapters.pettingzoo import PettingZooEnv
from embodied.env.env import Env
from embodied.env.registry import join_content
from embodied.math import rotations

NAN = float("nan")
STRANGE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1.5, NAN, float("inf"), 10**12, "", "x", b"x", [], {}, (), [None], {"a": 1}, object(),
    int,
    lambda task: None, np.zeros(3), np.array("x"), torch.zeros(2), Path("x"), 1j, range(3), "a\nb", "x" * 5000,
    "\udcff", {1, 2}, np.float32(2),
)  # fmt: skip


def made(**options: Any) -> Env:
    """A new environment, as cheap as there are."""
    return embodied.make(examples.TASK, **{"num_envs": 2, **options})


def make_arguments(rng: random.Random, box: Box) -> Attempt:
    """`make` with one argument that is none."""
    name = rng.choice(("name", "num_envs", "engine", "seed", "device", "config", "engine_options", "wrappers",
        "cameras", "resolution", "visual_shift", "shadows", "start_radius", "without", "calibration",
        "initial_states", "initial_states_share", "episode_steps", "episodes_per_trial", "nothing",
        "weights"))  # fmt: skip
    value: Any = rng.choice(STRANGE)
    certain = name in ("name", "num_envs", "device", "config", "wrappers", "nothing")
    plain = not isinstance(value, np.ndarray | torch.Tensor | np.floating | range | set | bool) and value not in (
        "",
        None,
    )
    valid = {"config": ({},), "wrappers": ([], (), {}), "device": ()}.get(name, ())
    must = Must.REFUSE if certain and plain and value not in valid else Must.EITHER
    given: dict[str, Any] = {"num_envs": 2, "name": examples.TASK} | {name: value}
    act = lambda: embodied.make(**given)  # noqa: E731
    return Attempt(f"make({name}={value!r:.60})", act, must, fits)


def fits(env: Any) -> str:
    """Whether an environment that was made works: two steps, finite and of the right shapes."""
    if not isinstance(env, Env):
        return ""
    obs = env.reset()
    step = env.step(torch.zeros(env.action_shape))
    finite = all(
        bool(torch.isfinite(values.float()).all()) for values in (*obs.values(), *step.obs.values(), step.reward)
    )
    env.close()
    return "" if finite else "observations or rewards that are not finite"


def bad_actions() -> dict[str, Any]:
    return {
        "None": None, "a list": [[0.0] * 4] * 2, "numpy": np.zeros((2, 4), np.float32), "one row": torch.zeros(4),
        "wide": torch.zeros(2, 5), "no rows": torch.zeros(0, 4),
        "NaN": torch.full((2, 4), NAN), "inf": torch.full((2, 4), float("inf")), "one NaN": torch.tensor([[0.0] * 4,
        [0.0, 0.0, 0.0, NAN]]), "ints": torch.zeros(2, 4, dtype=torch.int64),
        "bools": torch.zeros(2, 4, dtype=torch.bool), "complex": torch.zeros(2, 4, dtype=torch.complex64),
        "sparse": torch.zeros(2, 4).to_sparse(), "meta": torch.zeros(2, 4, device="meta"),
        "text": "left", "more rows": torch.zeros(3, 4), "three axes": torch.zeros(2, 4, 1), "a float": 0.5,
        "quantised": torch.quantize_per_tensor(torch.zeros(2, 4), 0.1, 0, torch.qint8),
        "a dict": {"action": torch.zeros(2, 4)}, "nested": torch.nested.nested_tensor([torch.zeros(4), torch.zeros(4)]),
    }  # fmt: skip


def good_actions() -> dict[str, Any]:
    return {
        "halves": torch.zeros(2, 4, dtype=torch.float16), "doubles": torch.zeros(2, 4, dtype=torch.float64),
        "bfloat": torch.zeros(2, 4, dtype=torch.bfloat16), "huge": torch.full((2, 4), 1e30),
        "with gradient": torch.zeros(2, 4, requires_grad=True), "expanded": torch.zeros(1, 4).expand(2, 4),
        "transposed": torch.zeros(4, 2).T, "strided": torch.zeros(2, 8)[:, ::2],
        "parameter": torch.nn.Parameter(torch.zeros(2, 4)), "conjugated": torch.zeros(2, 4, dtype=torch.float32).neg(),
    }  # fmt: skip


@functools.cache
def kept(kind: str) -> Any:
    """An environment that cases share, since making one costs more than what is tried with it."""
    if kind == "vector":
        return GymnasiumVectorEnv(made())
    if kind == "single":
        return GymnasiumEnv(made(num_envs=1))
    return examples.env()


def actions(rng: random.Random, box: Box) -> Attempt:
    """Actions of every shape and type."""
    good = rng.random() < 0.3
    known = good_actions() if good else bad_actions()
    name = rng.choice(sorted(known))
    env = kept("env")

    def act() -> Any:
        env.reset()
        return env.step(known[name])

    def sound(step: Any) -> str:
        return "" if bool(torch.isfinite(step.reward).all()) and step.reward.shape == (2,) else "rewards that are none"

    return Attempt(f"action: {name}", act, Must.WORK if good else Must.REFUSE, sound)


CALLS: dict[str, Callable[[Any], Any]] = {
    "reset": lambda env: env.reset(),
    "reset seed": lambda env: env.reset(3),
    "reset seeds": lambda env: env.reset([1, 2]),
    "step": lambda env: env.step(torch.zeros(env.action_shape)),
    "statistics": lambda env: env.statistics(),
    "state": lambda env: env.state(),
    "load own state": lambda env: env.load_state(env.state()),
    "close": lambda env: env.close(),
    "length": lambda env: env.episode_length,
    "repr": repr,
    "spread": lambda env: env.spread_episode_lengths(),
    "specs": lambda env: (env.observation_spec, env.action_shape, env.max_episode_steps, env.num_envs, env.device,
    env.agents),
    "pickle": pickle.dumps,
    "deep copy": copy.deepcopy,
    "render states": lambda env: env.render_states() if "render_states" in dir(env) else None,
}  # fmt: skip


def any_order(rng: random.Random, box: Box) -> Attempt:
    """Calls of an environment in any order: each works or is refused, and what follows is as if it had not been."""
    names = [rng.choice(sorted(CALLS)) for _ in range(rng.randrange(2, 8))]

    def act() -> str:
        env = made()
        ended = []
        for name in names:
            try:
                CALLS[name](env)
                ended.append("ok")
            except embodied.EmbodiedError as error:
                if len(str(error).splitlines()) != 1:
                    raise AssertionError(f"{name}: a message of several lines: {error}") from error
                ended.append("refused")
        closed = "close" in names
        if not closed:
            env.reset(5)
            step = env.step(torch.zeros(env.action_shape))
            fresh = made()
            fresh.reset(5)
            again = fresh.step(torch.zeros(env.action_shape))
            if not torch.equal(step.reward, again.reward):
                raise AssertionError("after these calls a seed gives another episode")
        env.close()
        return ", ".join(ended)

    return Attempt(" > ".join(names), act)


def seeds(rng: random.Random, box: Box) -> Attempt:
    """Seeds of every kind."""
    value = rng.choice(
        (
            -1,
            2**31,
            2**32,
            2**63,
            10**30,
            1.5,
            "1",
            [1],
            [1, 2, 3],
            [1, -2],
            [1, None],
            [1.5, 2],
            ["a", "b"],
            {},
            {"a": 1},
            object(),
            NAN,
            np.zeros(3, int),
            np.array([1.5, 2.5]),
            np.array([[1, 2]]),
            b"ab",
            (),
            [[1], [2]],
            [10**30, 1],
        )
    )
    env = kept(rng.choice(("env", "env", "vector", "single")))
    call = (lambda: env.reset(value)) if env is kept("env") else (lambda: env.reset(seed=value))
    # Gymnasium's own errors are documented for its adapters.
    allowed = () if env is kept("env") else (gymnasium.error.Error,)
    must = Must.EITHER if isinstance(value, np.ndarray) or value in ([1], 2**31) else Must.REFUSE
    return Attempt(f"{type(env).__name__}.reset({value!r:.50})", call, must, allowed=allowed)


def states(rng: random.Random, box: Box) -> Attempt:
    """States to continue from that are none, of another task, or have one number changed."""
    env = kept("env")
    env.reset(0)
    state = env.state()
    way = rng.choice(
        ("strange", "missing", "renamed", "shape", "type", "nan", "steps", "empty", "nested", "text", "more")
    )
    simulator = dict(state["simulator"])
    name = rng.choice(sorted(simulator))
    must = Must.REFUSE
    if way == "strange":
        value: Any = rng.choice([one for one in STRANGE if not isinstance(one, np.ndarray | torch.Tensor)])
    elif way == "steps":
        value = {**state, "steps": rng.choice((None, "x", -1, NAN, [], 1.5, object()))}
    elif way == "empty":
        value = {"simulator": {}, "steps": 0}
    elif way == "nested":
        value = {"simulator": {name: simulator}, "steps": 0}
    elif way == "text":
        value = {"simulator": simulator | {name: "text"}, "steps": 0}
    elif way == "more":
        value, must = {"simulator": simulator | {"more": np.zeros(2)}, "steps": 0}, Must.EITHER
    else:
        array = simulator.pop(name)
        if way == "renamed":
            simulator[name + "x"] = array
        elif way == "shape":
            simulator[name] = np.zeros((7, *array.shape), array.dtype)
        elif way == "type":
            simulator[name] = array.astype(complex)
        elif way == "nan":
            simulator[name], must = np.full(array.shape, NAN), Must.EITHER
        value = {**state, "simulator": simulator}

    def act() -> Any:
        try:
            env.load_state(value)
            return "loaded"
        finally:
            env.load_state(state)  # others go on with it

    return Attempt(f"state: {way} {name}", act, must)


def changes(rng: random.Random, box: Box) -> Attempt:
    """Changes of a task by wrappers: what is not a task, terms that do not exist, functions that return anything."""
    kind = join_content()[examples.TASK].load()
    task = examples.env().task
    value = rng.choice(STRANGE)
    ways: dict[str, Callable[[], Any]] = {
        "returns anything": lambda: made(wrappers=[lambda task: value]),
        "no function": lambda: made(wrappers=[rng.choice((None, 3, "x", [], task))]),
        "takes two": lambda: made(wrappers=[lambda task, other: task]),
        "the class": lambda: made(wrappers=[kind]),
        "unknown reward": lambda: task.without(rewards=["nothing"]),
        "unknown variation": lambda: task.without(variations=["nothing"]),
        "unknown observation": lambda: task.without(observations=["nothing"]),
        "text for a list": lambda: task.without(rewards="spin"),
        "reward of no weight": lambda: task.with_rewards(low=(lambda world, state, action: 1.0)),
        "weight of nan": lambda: task.with_rewards(low=(NAN, lambda world, state, action: 1.0)),
        "reward of a vector": lambda: fits(made(wrappers=[lambda task: task.with_rewards(low=(1.0,
        lambda world, state, action: world.qpos))])),
        "reward of None": lambda: fits(made(wrappers=[lambda task: task.with_rewards(low=(1.0, lambda world, state,
        action: None))])),
        "observation of text": lambda: made(wrappers=[lambda task: task.with_observations("policy",
        height=lambda world, state: "text")]).reset(),
        "observation of no function": lambda: task.with_observations("nothing", depth=3),
        "a taken name": lambda: task.with_observations("policy", position=lambda world, state: world.qpos),
        "variation of nothing": lambda: task.with_variations(rng.choice((None, 3, "x", [1]))),
        "model edit that raises": lambda: task.rebuilt([lambda spec: 1 / 0]).model,
        "model edit of None": lambda: task.rebuilt([None]).model,
        "model edit that breaks": lambda: task.rebuilt([lambda spec: spec.worldbody.add_geom(size=[-1, 0, 0])]).model,
    }  # fmt: skip
    way = rng.choice(sorted(ways))
    own = {"model edit that raises": (ZeroDivisionError,), "takes two": (TypeError,)}.get(way, ())  # of their code
    return Attempt(way, ways[way], Must.REFUSE if way != "text for a list" else Must.EITHER, allowed=own)


def adapters(rng: random.Random, box: Box) -> Attempt:
    """Adapters of environments that they are not for, and their calls out of order."""
    vector, single = kept("vector"), kept("single")
    value = rng.choice([one for one in STRANGE if one is not None])
    from embodied.adapters import gymnasium as adapter

    ways: dict[str, Callable[[], Any]] = {
        "no environment": lambda: rng.choice((GymnasiumEnv, GymnasiumVectorEnv, PettingZooEnv))(
        value),  # type: ignore[arg-type]
        "single of two": lambda: GymnasiumEnv(examples.env()),
        "no group": lambda: GymnasiumVectorEnv(examples.env(), rng.choice(("nothing", "", [], ["policy", "x"], 3,
        None))),  # type: ignore[arg-type]
        "mode": lambda: GymnasiumVectorEnv(examples.env(), render_mode=rng.choice(("human", "", "ansi"))),
        "teams": lambda: PettingZooEnv(examples.env()),
        "vector action": lambda: (vector.reset(), vector.step(rng.choice((None, "x", np.zeros(3), np.full((2, 4),
        NAN), np.zeros((2, 4), complex), [[0] * 4], {}, np.array([["a"] * 4] * 2)))))[1],
        "single action": lambda: (single.reset(), single.step(rng.choice((None, "x", np.zeros(3), np.full(4, NAN),
        np.zeros((2, 4)), [], {}, "left"))))[1],
        "options": lambda: vector.reset(options=rng.choice((3, "x", {"nothing": 1}, {"reset_mask": 1}, {
        "reset_mask": np.zeros(3, bool)}, {"reset_mask": None}))),
        "render": lambda: single.render(),
        "id": lambda: gymnasium.make(rng.choice(("embodied/none-v0", "embodied/swarm-hover-v9", "embodied/",
        "embodied/swarm/hover-v0"))),
        "single name": lambda: adapter.make_single(value),
    }  # fmt: skip
    adapter.register_gymnasium()
    way = rng.choice(sorted(ways))
    must = Must.EITHER if way in ("options", "render") else Must.REFUSE
    # Gymnasium's own errors are what its users expect of it.
    return Attempt(f"{way} {value!r:.40}", ways[way], must, allowed=(gymnasium.error.Error,))


def names(rng: random.Random, box: Box) -> Attempt:
    """Names that no registry holds, and arguments of `functional` and `train_policy` that are none."""
    value: Any = rng.choice((None, 3, "", "hover", "swarm/", "/", "swarm/hovr", "mt10", "SWARM/HOVER", "x" * 5000,
        b"swarm/hover", ["swarm/hover"], Path("swarm/hover"), NAN, "a\nb", object(), "swarm/hover ", True))  # fmt: skip
    ways: dict[str, Callable[[], Any]] = {
        "REGISTRY[]": lambda: embodied.REGISTRY[value],
        "make": lambda: embodied.make(value),
        "functional": lambda: embodied.functional(value),
        "functional engine": lambda: embodied.functional(examples.TASK, value),
        "train_policy": lambda: embodied.train_policy(value, out=str(box.out / "run"), num_envs=2, steps=8),
        "train_policy steps": lambda: embodied.train_policy(examples.TASK, out=str(box.out / "run"), num_envs=2,
        steps=value),
        "train_policy option": lambda: embodied.train_policy(examples.TASK, out=str(box.out / "run"), **{
        "nothing": value}),
        "train_policy algorithm": lambda: embodied.train_policy(examples.TASK, out=str(box.out / "run"), num_envs=2,
        algorithm=value),
    }  # fmt: skip
    way = rng.choice(sorted(ways))
    must = Must.REFUSE
    if (way == "functional engine" and value in (None, "")) or (
        way.endswith(("steps", "algorithm")) and value in (3, True, None)
    ):
        return names(rng, box)
    if way.endswith("steps") and not isinstance(value, str | list | bytes) and value is not None:
        must = Must.EITHER
    if way == "make" and value == Path("swarm/hover"):
        must = Must.EITHER
    return Attempt(f"{way} {value!r:.50}", ways[way], must)


def numbers(rng: random.Random, box: Box) -> Attempt:
    """Functions of rotations with what is no rotation: NaN and infinity come out, or an error of JAX's shapes."""
    functions = {
        name: getattr(rotations, name)
        for name in dir(rotations)
        if name.startswith(("quat_", "matrix_")) and callable(getattr(rotations, name))
    }
    name = rng.choice(sorted(functions))
    import inspect

    count = len(inspect.signature(functions[name]).parameters)
    values = [
        np.array(rng.choice(([0.0] * 4, [1.0, 0, 0, 0], [1e30] * 4, [1e-30] * 4, [0.0] * 3, [1.0, 2, 3])), np.float32)
        for _ in range(count)
    ]
    # What they are given is the caller's: only the process must live.
    return Attempt(
        f"{name}{tuple(map(list, values))!s:.100}",
        lambda: functions[name](*values),
        allowed=(TypeError, ValueError, IndexError, AttributeError),
    )


def configs(rng: random.Random, box: Box) -> Attempt:
    """Configs of a task with a value of another type, or of another task."""
    kind = join_content()[examples.TASK].load().config_type
    field = rng.choice([one.name for one in dataclasses.fields(kind)])
    value = rng.choice(
        [one for one in STRANGE if not isinstance(one, np.ndarray | torch.Tensor)] + [mutate.other_value(rng, 1.0)]
    )
    other = join_content()["locomotion/ant"].load().config_type
    ways: dict[str, Callable[[], Any]] = {
        "mapping": lambda: made(config={field: value}),
        "field": lambda: made(**{field: value}),
        "other task's": lambda: made(config=other()),
        "the class": lambda: made(config=kind),
        "nothing": lambda: made(config={"nothing": value}),
        "number for a name": lambda: made(config={3: value}),
    }
    way = rng.choice(sorted(ways))
    must = Must.EITHER if way in ("mapping", "field") else Must.REFUSE
    return Attempt(f"{way} {field}={value!r:.50}", ways[way], must, fits)


KINDS: Kinds = {
    "arguments of make": make_arguments,
    "actions": actions,
    "any order": any_order,
    "seeds": seeds,
    "states": states,
    "changes of a task": changes,
    "adapters": adapters,
    "names": names,
    "configs": configs,
    "numbers": numbers,
}
