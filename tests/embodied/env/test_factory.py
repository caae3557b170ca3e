"""`embodied.make`: what it builds by default, and what it says when it cannot."""

import os
import subprocess
import sys

import jax
import mujoco
import pytest
import torch

import embodied
from embodied.env import factory
from embodied.env.registry import join_content
from embodied.errors import ActionError, EmbodiedError, EngineError, UnknownNameError
from tests.kit.budget import sharing
from tests.kit.worlds import COMPILED

GO1 = join_content()["locomotion/go1-joystick-flat"]
HOVER = join_content()["swarm/hover"]


@pytest.fixture
def gpus(monkeypatch):
    """Lets JAX and torch each see a GPU or none; returns a function of the two."""

    def see(jax_sees: bool, torch_sees: bool) -> None:
        monkeypatch.setattr(factory, "sees_nvidia_gpu", lambda: jax_sees)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: torch_sees)
        factory.warn_of_two_devices.cache_clear()

    yield see
    factory.warn_of_two_devices.cache_clear()


def test_default_engine_needs_no_gpu(gpus, capsys):
    gpus(False, False)
    assert factory.default_engine(HOVER) == "rigid"
    assert factory.default_engine(GO1) == "mujoco"
    assert capsys.readouterr().err == ""


def test_the_default_engine_is_for_the_device_that_jax_sees(gpus, capsys):
    gpus(True, True)
    assert factory.default_engine(GO1) == "mjx"
    assert factory.default_engine(HOVER) == "rigid"
    assert capsys.readouterr().err == ""
    gpus(False, True)  # torch for CUDA beside JAX for the CPU, where MJX would be many times slower than C MuJoCo
    assert [factory.default_engine(GO1) for _ in range(2)] == ["mujoco"] * 2
    assert capsys.readouterr().err == (
        'warning: torch sees a GPU, JAX does not: physics runs on the CPU; pip install -U "jax[cuda13]" fixes it\n'
    )
    gpus(True, False)
    assert factory.default_engine(GO1) == "mjx"
    assert capsys.readouterr().err.startswith("warning: JAX sees a GPU, torch does not: policies learn on the CPU")


@pytest.mark.parametrize(
    ("variables", "gpus", "expected"),
    [
        ({}, 2, None),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, 2, None),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, 2, "1"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "4,5"}, 8, "5"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "5"}, 8, "5"),  # its own child
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, 1, "0"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, 0, None),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": ""}, 2, None),
        ({"LOCAL_RANK": "x", "LOCAL_WORLD_SIZE": ""}, 2, None),
        ({"LOCAL_RANK": "x", "LOCAL_WORLD_SIZE": "many"}, 2, None),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "9" * 5000}, 2, None),
    ],
)
def test_a_rank_sees_its_own_gpu(variables, gpus, expected):
    assert embodied.own_gpu(variables, gpus) == expected


def test_a_rank_sees_its_own_gpu_before_anything_is_imported():
    code = "import sys, os, embodied; print('jax' in sys.modules, os.environ['CUDA_VISIBLE_DEVICES'])"
    variables = {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "3", "CUDA_VISIBLE_DEVICES": "3,5,7"}
    ran = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, capture_output=True, timeout=60)
    assert ran.stdout.split() == [b"False", b"7"]


def test_a_task_is_not_made_where_jax_computes_with_64_bits():
    with jax.enable_x64(True), pytest.raises(EmbodiedError, match="JAX computes with 64 bits"):
        embodied.make("swarm/hover")


def test_fields_of_the_config_are_arguments():
    env = embodied.make("swarm/hover", preset="b500", start_tilt=10.0)
    assert env.task.config.preset == "b500"
    assert env.task.config.start_tilt == 10.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "hover"}, UnknownNameError, r"unknown task 'hover'; did you mean 'swarm/hover'"),
        ({"engine": "physx"}, UnknownNameError, r"unknown engine 'physx'.*mjx, mujoco, pybullet, rigid"),
        ({"num_envs": 0}, EmbodiedError, r"num_envs=0; expected a whole number, at least 1"),
        ({"num_envs": "3"}, EmbodiedError, r"num_envs='3'; expected a whole number, at least 1"),
        ({"num_envs": 2.0}, EmbodiedError, r"num_envs=2.0; expected"),
        ({"num_envs": True}, EmbodiedError, r"num_envs=True; expected"),
        ({"seed": 1.5}, EmbodiedError, r"seed=1.5; expected a whole number, from 0 to 4294967295"),
        ({"seed": None}, EmbodiedError, r"seed=None; expected"),
        ({"seed": -1}, EmbodiedError, r"seed=-1; expected"),
        ({"seed": 2**32}, EmbodiedError, r"seed=4294967296; expected"),  # JAX would take it for 0
        ({"start_tlt": 1.0}, EmbodiedError, r"no field 'start_tlt'; did you mean 'start_tilt'"),
        ({"mass_spread": 2.0}, EmbodiedError, r"mass_spread=2.0 must be 0 or more and less than 1"),
        ({"device": "tpu"}, EmbodiedError, r"unknown device 'tpu'; expected 'cpu'"),
        ({"engine_options": {"thread": 2}}, EngineError, r"engine rigid has no option thread; it has none"),
        ({"engine": "mujoco", "engine_options": {"thread": 2}}, EngineError, r"no option thread; it has threads"),
    ],
)
def test_what_cannot_be_built_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        embodied.make(**{"name": "swarm/hover"} | arguments)


def test_engine_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco.mjx", None)
    monkeypatch.delattr(mujoco, "mjx", raising=False)
    with pytest.raises(EngineError, match=r"engine mjx is not installed.*pip install"):
        embodied.make("swarm/hover", engine="mjx")


def test_step_before_reset():
    with pytest.raises(ActionError, match="reset"):
        embodied.make("swarm/hover").step(torch.zeros(1, 4))


@pytest.mark.parametrize(("task", "engine"), [("swarm/hover", "rigid"), ("swarm/hover", "mujoco")])
def test_what_was_made_before_is_not_compiled_again(task, engine):
    def stepped():
        env = embodied.make(task, 2, engine, device="cpu", episode_steps=50)
        env.reset()
        return env, env.step(torch.zeros(env.action_shape)).obs["policy"]

    with sharing(f"hover on {engine}, 2"):
        env, before = stepped()
    COMPILED.clear()
    again, after = stepped()
    assert COMPILED == []
    torch.testing.assert_close(before, after, rtol=0, atol=0)
    assert again.task is env.task
    assert embodied.make(task, 2, engine, episode_steps=50, latency=(0.0, 0.0)).task is not env.task


def test_a_task_whose_model_somebody_changed_is_made_anew():
    env = embodied.make("swarm/hover", 2)
    mass = env.task.model.body_mass[1]
    env.task.model.body_mass[1] = 2 * mass
    assert embodied.make("swarm/hover", 2).task.model.body_mass[1] == mass
    env.task.model.body_mass[1] = mass
