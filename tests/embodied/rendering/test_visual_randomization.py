import jax
import mujoco
import numpy as np
import pytest
import torch

import embodied
from embodied.core.randomization import Term, draw
from embodied.env.env import Env
from embodied.errors import UnknownNameError
from embodied.rendering import visual_randomization
from tests.kit.worlds import task_of

SCENE = """
<mujoco>
  <asset><material name="paint" rgba=".2 .4 .6 1"/></asset>
  <worldbody>
    <light pos="0 0 3" diffuse=".5 .5 .5"/>
    <camera name="still" pos="0 0 2" fovy="50"/>
    <camera name="lens" pos="0 0 2" focal=".01 .01" sensorsize=".02 .02"/>
    <geom name="painted" type="sphere" size=".1" material="paint"/>
    <geom name="plain" type="sphere" size=".1" rgba=".9 .1 .5 .3"/>
    <body name="cart"><freejoint/><geom size=".1"/><camera name="chase" mode="track"/></body>
  </worldbody>
</mujoco>
"""
MODEL = mujoco.MjModel.from_xml_string(SCENE)


def drawn(*terms: Term, count: int = 64, seed: int = 0) -> dict[str, np.ndarray]:
    keys = jax.random.split(jax.random.PRNGKey(seed), count)
    return {
        name: np.asarray(rows) for name, rows in jax.jit(jax.vmap(lambda key: draw(MODEL, terms, key)))(keys).items()
    }


def test_a_camera_moves_and_turns_within_its_range_and_alone() -> None:
    fields = drawn(visual_randomization.move_camera(MODEL, "still", pos=0.1, angle=0.2))
    shift = fields["cam_pos"][:, 0] - MODEL.cam_pos[0]
    assert 0.08 < np.abs(shift).max() <= 0.1 + 1e-6
    cosine = np.abs(fields["cam_quat"][:, 0] @ MODEL.cam_quat[0]).clip(0, 1)
    assert 0.15 < 2 * np.arccos(cosine).max() <= 0.2 + 1e-3
    np.testing.assert_allclose(np.linalg.norm(fields["cam_quat"], axis=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(fields["cam_pos"][:, 1:], np.broadcast_to(MODEL.cam_pos[1:], (64, 2, 3)))


def test_lenses_and_lights_stay_within_their_ranges() -> None:
    fields = drawn(
        visual_randomization.scale_fovy(MODEL, "still", 0.8, 1.2),
        visual_randomization.vary_lights(MODEL, 0.5, 1.5, 0.3, 0.1),
    )
    assert 40 <= fields["cam_fovy"][:, 0].min() < 42 < 58 < fields["cam_fovy"][:, 0].max() <= 60
    factor = fields["light_diffuse"] / MODEL.light_diffuse
    assert 0.45 <= factor.min() < factor.max() <= 1.65
    assert np.abs(fields["light_pos"] - MODEL.light_pos).max() <= 0.3 + 1e-6


def test_colours_change_and_opacity_does_not() -> None:
    fields = drawn(visual_randomization.recolour(MODEL, 0.2))
    painted, plain = MODEL.geom("painted").id, MODEL.geom("plain").id
    # A geom with a material shows the material's colour only while its own is MuJoCo's default.
    np.testing.assert_array_equal(fields["geom_rgba"][:, painted], np.full((64, 4), [0.5, 0.5, 0.5, 1.0]))
    assert np.ptp(fields["mat_rgba"][:, 0, :3], axis=0).min() > 0.2
    assert np.ptp(fields["geom_rgba"][:, plain, :3], axis=0).min() > 0.1
    np.testing.assert_allclose(fields["geom_rgba"][:, plain, 3], 0.3, rtol=1e-6)
    assert fields["geom_rgba"].min() >= 0
    assert fields["geom_rgba"].max() <= 1
    only = drawn(visual_randomization.recolour(MODEL, 0.2, geoms=("plain",)))
    assert "mat_rgba" not in only


def test_what_cannot_vary_is_refused_in_words() -> None:
    with pytest.raises(UnknownNameError, match="unknown camera 'stil'; did you mean 'still'"):
        visual_randomization.move_camera(MODEL, "stil")
    with pytest.raises(ValueError, match="camera 'chase' follows its body"):
        visual_randomization.move_camera(MODEL, "chase")
    with pytest.raises(ValueError, match="camera 'lens' has focal lengths"):
        visual_randomization.scale_fovy(MODEL, "lens", 0.9, 1.1)
    with pytest.raises(ValueError, match=r"lights: factors from 2 to 1"):
        visual_randomization.vary_lights(MODEL, 2, 1)
    with pytest.raises(UnknownNameError, match="unknown geom 'plane'"):
        visual_randomization.recolour(MODEL, geoms=("plane",))


GROUP = "pixels/front"


def make(*terms: Term) -> Env:
    return embodied.make("swarm/hover", 2, "mujoco", cameras=("front",), resolution=16, visual_terms=terms)


@pytest.fixture(scope="module")
def varied(painted: None) -> Env:
    del painted
    model = task_of("swarm/hover").visual_model
    env = make(visual_randomization.move_camera(model, "front", angle=0.3), visual_randomization.vary_lights(model))
    env.reset()
    env.step(torch.zeros(2, 4))
    return env


def test_episodes_look_different_and_are_the_same(varied: Env) -> None:
    plain = make()
    seen, bare = varied.reset(seed=3), plain.reset(seed=3)
    assert torch.equal(seen["policy"], bare["policy"]), "looks are no business of the physics"
    assert (seen[GROUP] != bare[GROUP]).any(dim=(1, 2, 3)).all()
    assert torch.equal(varied.reset(seed=3)[GROUP], seen[GROUP])


def test_looks_hold_for_an_episode_and_change_with_the_next(varied: Env) -> None:
    varied.reset(seed=3)
    first = varied.render_state().fields
    varied.step(torch.zeros(2, 4))
    second = varied.render_state().fields
    varied.episode_length = torch.tensor([varied.max_episode_steps - 1, 0])
    assert varied.step(torch.zeros(2, 4)).truncated.tolist() == [True, False]
    third = varied.render_state().fields
    for name in ("cam_quat", "light_diffuse"):
        np.testing.assert_array_equal(first[name], second[name])
        np.testing.assert_array_equal(second[name][1], third[name][1])
        assert not np.array_equal(second[name][0], third[name][0])
