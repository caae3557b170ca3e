"""The example runs, and learns by gradients."""

from typing import Any

import jax.numpy as jnp
import pytest

from embodied.env.functional import FunctionalEnv
from examples import hover_by_gradients as example
from examples.hover_by_gradients import Settings, main
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import toy_world


@pytest.fixture(scope="module")
def risen() -> tuple[dict[str, Any], example.Parameters]:
    """What the example says of a ball that earns its height, and the policy that it learned."""
    ball, learned, train = toy_world(Speck, "rigid", 8), list[example.Parameters](), example.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example.embodied, "functional", lambda *_: FunctionalEnv(ball.task, ball.engine), raising=False)
        patch.setattr(example, "train", lambda *given: learned.append(train(*given)) or learned[0])
        settings = Settings(steps=8 * 4 * 12, num_envs=8, horizon=4, hidden=(8,), episodes=4, learning_rate=0.03)
        return main(settings), learned[0]


def test_once_through_a_ball_learns_to_rise(risen: tuple[dict[str, Any], example.Parameters]) -> None:
    """Only a gradient through the physics tells the policy to."""
    result, learned = risen
    assert 0.0 <= result["success"] <= result["success_any"] <= 1.0
    assert example.act(learned, jnp.zeros(learned[0][0].shape[0]))[2] > 0.02


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hover_is_learned() -> None:
    assert main(Settings())["success"] > 0.75
