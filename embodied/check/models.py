"""Checks of a task's model, and of the engines listed to run it."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator

import jax
import mujoco
import numpy as np
import torch

from embodied.check.findings import Finding, place_of
from embodied.check.observations import actions
from embodied.core.world import World
from embodied.engines import ENGINES, make_engine
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.vec_env import POLICY
from embodied.errors import listing


def both_models_agree(env: Env) -> Iterator[Finding]:
    """The model that engines run and the one that is drawn have the same joints, sensors and masses."""
    task, look = env.task, place_of(env.task, "build_spec")
    model, visual = task.model, task.visual_model
    if model.nq != visual.nq:
        yield Finding(
            "joints", f"the model has {model.nq} positions, the one that is drawn {visual.nq}", "as many", look
        )
        return
    names = [[one.sensor(i).name for i in range(one.nsensor)] for one in (model, visual)]
    if names[0] != names[1]:
        yield Finding("sensors", "those of the model that is drawn differ", "the same names in the same order", look)
    for field, atol in (("body_mass", 0.0), ("body_inertia", 1e-15)):
        ours, theirs = getattr(model, field), getattr(visual, field)
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-9, atol=atol):
            yield Finding(
                field, "it differs in the model that is drawn", "equal values: give shapes for the eye no mass", look
            )


def the_model_has_a_camera(env: Env) -> Iterator[Finding]:
    """At least one, for films, and for policies that see."""
    if env.task.model.ncam < 1:
        yield Finding(
            "cameras",
            "the model has none",
            'at least one: spec.worldbody.add_camera(name="track", pos=[0, -2, 1], xyaxes=[1, 0, 0, 0, 0.4, 0.9])',
            place_of(env.task, "build_spec"),
        )


def every_listed_engine_builds(env: Env) -> Iterator[Finding]:
    """In all its implementations; PyBullet where it is installed."""
    assert env.entry is not None
    for engine in env.entry.engines:
        if engine not in ENGINES:
            yield Finding(f"engine {engine!r}", "there is none of that name", f"one of {listing(ENGINES)}", "engines")
            continue
        if engine == "pybullet" and importlib.util.find_spec("pybullet") is None:
            continue
        for options in ({"impl": "jax"}, {"impl": "warp"}) if engine == "mjx" else ({},):
            make_engine(engine, env.task, 2, **options)


def other_engines_step_too(env: Env) -> Iterator[Finding]:
    """The first observation agrees, but for forces and accelerations; three steps stay finite.

    Some engines have no forces before the first step.
    """
    assert env.entry is not None
    observe = jax.jit(jax.vmap(env.task.observe))
    keys = jax.random.split(jax.random.PRNGKey(5), env.num_envs)
    env.reset(seed=5)
    ours = observe(_without_forces(env), env.task_state, keys)[POLICY]
    for engine in [name for name in env.entry.engines if name != env.engine_name]:
        other = make(env.entry.name, env.num_envs, engine, device="cpu", config=env.task.config)
        other.reset(seed=5)
        theirs = observe(_without_forces(other), other.task_state, keys)[POLICY]
        for term, value in ours.items():
            if not np.allclose(theirs[term], value, atol=1e-3, rtol=1e-3):
                yield Finding(
                    f"the first observation of {term} on {engine}",
                    f"it differs from that on {env.engine_name} by {float(np.abs(theirs[term] - value).max()):.3g}",
                    "the same within 0.001",
                    place_of(env.task, "observe"),
                )
        for action in actions(other, 3):
            if not torch.isfinite(other.step(action).obs[POLICY]).all():
                yield Finding(f"observations on {engine}", "they are not finite", "finite numbers")
                break


def _without_forces(env: Env) -> World:
    """The world of all environments, with zeros for what sensors of forces and accelerations read."""
    model, world = env.task.model, env.world()
    sensordata = np.array(world.sensordata)
    for sensor in np.flatnonzero(model.sensor_needstage == int(mujoco.mjtStage.mjSTAGE_ACC)):
        begin = model.sensor_adr[sensor]
        sensordata[:, begin : begin + model.sensor_dim[sensor]] = 0.0
    return dataclasses.replace(world, sensordata=sensordata)
