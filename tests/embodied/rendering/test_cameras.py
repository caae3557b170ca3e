import dataclasses
from typing import cast

import pytest
import torch

import embodied
from embodied.env.env import Env
from embodied.env.vec_env import image_shapes, vector_sizes
from embodied.errors import UnknownNameError
from tests.kit.painter import Painter
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import toy_world

GROUP = "pixels/front"
SIZE = (24, 16)


def make(engine: str = "mujoco") -> Env:
    return embodied.make("swarm/hover", 3, engine, cameras=("front",), resolution=SIZE)


@pytest.fixture(scope="module")
def env(painted: None) -> Env:
    del painted
    env = make()
    env.reset()
    env.step(pushed(env))
    return env


def pushed(env: Env) -> torch.Tensor:
    """A tilting action."""
    return torch.tensor([0.9, -0.9, 0.9, -0.9]).repeat(env.num_envs, 1)


def test_a_camera_is_an_observation_group(env: Env) -> None:
    obs = env.reset()
    assert image_shapes(env.observation_spec) == {GROUP: (3, 16, 24)}
    assert GROUP not in vector_sizes(env.observation_spec)
    assert obs[GROUP].shape == (3, 3, 16, 24)
    assert obs[GROUP].dtype == torch.uint8
    assert obs[GROUP].float().std() > 5
    step = [env.step(pushed(env)) for _ in range(5)][-1]
    assert step.obs[GROUP].shape == obs[GROUP].shape
    assert (step.obs[GROUP] != obs[GROUP]).any()
    assert torch.equal(step.obs[GROUP], step.final_obs[GROUP])


@pytest.mark.usefixtures("painted")
def test_the_renderer_is_told_what_was_asked_for() -> None:
    env = embodied.make("swarm/hover", 3, "mujoco", cameras=("front", "track"), resolution=SIZE, shadows=True)
    assert env.cameras is not None
    asked = cast("Painter", env.cameras.renderer)
    assert (asked.num_envs, asked.cameras, asked.size) == (3, ("front", "track"), SIZE)
    assert asked.options["shadows"] is True


def test_pixels_follow_a_restart_and_final_pixels_precede_it(env: Env) -> None:
    env.reset()
    state = env.state()
    going_on = env.step(pushed(env)).obs[GROUP]
    env.load_state(state)
    env.episode_length = torch.tensor([env.max_episode_steps - 1, 0, 0])
    step = env.step(pushed(env))
    assert step.truncated.tolist() == [True, False, False]
    assert torch.equal(step.final_obs[GROUP], going_on)
    assert torch.equal(step.obs[GROUP][1:], going_on[1:])
    assert not torch.equal(step.obs[GROUP][0], going_on[0])
    assert env.cameras is not None
    assert torch.equal(step.obs[GROUP], env.cameras.render(env.render_state())[GROUP])


def test_a_resumed_environment_sees_the_same(env: Env) -> None:
    env.reset(seed=5)
    env.step(pushed(env))
    state = env.state()
    seen = env.step(pushed(env)).obs[GROUP]
    resumed = make()
    resumed.load_state(state)
    assert torch.equal(resumed.step(pushed(env)).obs[GROUP], seen)


def test_every_kind_of_engine_shows_the_same_start(env: Env) -> None:
    seen = env.reset(seed=7)[GROUP].int()
    other = make("rigid").reset(seed=7)[GROUP].int()
    assert ((seen - other).abs() <= 2).float().mean() > 0.99


def test_a_camera_that_is_missing_is_named_with_those_that_exist() -> None:
    with pytest.raises(UnknownNameError, match="unknown camera 'frnot'; did you mean 'front'"):
        embodied.make("swarm/hover", 1, cameras=("frnot",))
    with pytest.raises(UnknownNameError, match="known: front, track"):
        embodied.make("swarm/hover", 1, cameras=("xyz",))


@pytest.fixture(scope="module")
def team(painted: None) -> Env:
    del painted
    env = embodied.make("swarm/swap", 1, "mujoco", cameras=("front", "cf1_front"), resolution=SIZE, agents=2)
    env.reset()
    return env


def test_each_agent_sees_through_its_own_camera(team: Env) -> None:
    obs = team.reset()
    assert obs[GROUP].shape == (1, 2, 3, 16, 24)
    assert torch.equal(obs[GROUP][:, 1], obs["pixels/cf1_front"])
    assert (obs[GROUP][0, 0] != obs[GROUP][0, 1]).any()


def test_without_cameras_no_step_computes_a_render_state() -> None:
    env = toy_world(Speck, "rigid", 8)
    env.reset()
    assert image_shapes(env.observation_spec) == {}
    assert dataclasses.asdict(env.step(torch.zeros(env.action_shape))._result)["render_state"] is None


def test_pixels_are_drawn_when_they_are_read_and_not_before(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset()
    drawn = []
    assert env.cameras is not None
    render = env.cameras.render
    monkeypatch.setattr(env.cameras, "render", lambda *given: drawn.append(1) or render(*given))
    obs = env.step(pushed(env)).obs
    assert set(obs) == {*vector_sizes(env.observation_spec), GROUP}
    assert obs["policy"].shape[0] == 3
    assert not drawn
    assert obs[GROUP] is obs[GROUP]
    assert dict(obs).keys() == set(obs)
    assert len(drawn) == 1
