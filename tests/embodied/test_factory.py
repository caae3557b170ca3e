"""`embodied.make`: what it builds by default, and what it says when it cannot."""

import sys

import mujoco
import pytest
import torch

import embodied
from embodied.errors import ActionError, EmbodiedError, EngineError, UnknownNameError


def test_default_engine_needs_no_gpu():
    assert embodied.make("swarm/hover").engine_name == "rigid"
    if not torch.cuda.is_available():
        assert embodied.make("locomotion/go1-joystick-flat").engine_name == "mujoco"


def test_fields_of_the_config_are_arguments():
    env = embodied.make("swarm/hover", preset="b500", start_tilt=10.0)
    assert env.task.config.preset == "b500"
    assert env.task.config.start_tilt == 10.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "hover"}, UnknownNameError, r"unknown task 'hover'; did you mean 'swarm/hover'"),
        ({"engine": "physx"}, UnknownNameError, r"unknown engine 'physx'.*mjx, mujoco, pybullet, rigid"),
        ({"num_envs": 0}, EmbodiedError, r"num_envs=0; expected at least 1"),
        ({"start_tlt": 1.0}, EmbodiedError, r"no field 'start_tlt'; did you mean 'start_tilt'"),
        ({"mass_spread": 2.0}, EmbodiedError, r"mass_spread=2.0; expected a fraction"),
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
