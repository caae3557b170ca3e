"""Host engines keep the task's part in JAX on the CPU, whatever JAX's default device is.

A second CPU device stands in for the GPU: it is JAX's default, and nothing of a host engine may be found there.
"""

from __future__ import annotations

import json

import jax
import pytest
import torch

from embodied.env.vectorized import base
from tests.kit.commands import interpreted
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import toy_world

pytestmark = pytest.mark.timeout(280)

PROGRAM = """
import json, sys
import embodied, jax, torch
if sys.argv[1] == "other":
    jax.config.update("jax_default_device", jax.devices()[1])
env = embodied.make(sys.argv[2], 3, sys.argv[3], seed=0)
env.reset()
env.episode_length = torch.full((3,), env.max_episode_steps - 2)
rewards = []
for _ in range(4):
    step = env.step(torch.full(env.action_shape, 0.1))
    rewards += step.reward.flatten().tolist()
env.load_state(env.state())
rewards += env.step(torch.full(env.action_shape, 0.1)).reward.flatten().tolist()
places = {device.id for leaf in jax.tree.leaves(env.episode) for device in leaf.devices()}
print(json.dumps({"rewards": rewards, "places": sorted(places)}))
"""


def ran(default: str, task: str, engine: str) -> dict[str, list[float]]:
    done = interpreted("-c", PROGRAM, default, task, engine, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    assert done.returncode == 0, done.stderr[-1000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("engine", "elsewhere"), [("mujoco", "default_sharding"), ("rigid", "cpu_sharding")])
def test_everything_is_committed_to_the_device_of_the_engine(
    engine: str, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not would go where JAX's default device is."""
    env = toy_world(Speck, engine, 8)
    monkeypatch.setattr(base, elsewhere, lambda: pytest.fail(f"{engine} asks for the {elsewhere}"))

    def step() -> None:
        env.step(torch.full(env.action_shape, 0.1))
        assert all(leaf.committed for leaf in jax.tree.leaves(env.episode))

    env.reset(0)
    step()
    env.episode_length = torch.full((8,), env.max_episode_steps - 1)
    step()
    env.load_state(env.state())
    step()


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "place"), [("mujoco", 0), ("rigid", 1)])
def test_where_the_episodes_lie(engine: str, place: int) -> None:
    """A host engine's on the CPU; a fused engine's on the default device. The numbers are the same."""
    other, first = ran("other", "swarm/hover", engine), ran("first", "swarm/hover", engine)
    assert other["places"] == [place]
    assert first["places"] == [0]
    assert other["rewards"] == first["rewards"]
