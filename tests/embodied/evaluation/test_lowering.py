"""Programs for a GPU, lowered without one: no calls back to Python, and no more bytes than before.

Every task is lowered by `python -m benchmarks.cuda_lowering`; here a toy, and among the slow tests one of each kind.
"""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from embodied.bench import lowering
from embodied.bench.lowering import Lowered, lower_for_cuda
from embodied.env.factory import configured
from embodied.env.registry import join_content
from tests.kit.toy_tasks import Speck

pytestmark = pytest.mark.timeout(280)

RESULT = Path(__file__).resolve().parents[3] / "benchmarks/results/engines/cuda-lowering.json"
GROWTH = 1.25  # of a program's bytes since they were measured, before somebody has to look
TASKS = (
    ("swarm/hover", "rigid", {}),
    ("swarm/formation", "rigid", {}),
    ("locomotion/go1-joystick-flat", "mjx", {"impl": "warp"}),
    ("manipulation/reach", "mjx", {"impl": "warp"}),
    ("grasping/leap-rotate-z", "mjx", {"impl": "warp"}),
    ("locomotion/hopper", "mjx", {"impl": "jax"}),
)
MEASURED = {(row["task"], row["engine"], row["variant"]): row for row in json.loads(RESULT.read_text())["programs"]}


@pytest.fixture(scope="module", params=["rigid", "mjx-warp"])
def speck(request: pytest.FixtureRequest) -> tuple[str, Lowered]:
    """An engine, and a toy's programs on it."""
    name, _, impl = request.param.partition("-")
    return request.param, lower_for_cuda(Speck(), name, **({"impl": impl} if impl else {}))


SPECK = {"rigid": (133, 69, 0), "mjx-warp": (222, 3416, 0)}
"""Engine -> bytes of the toy's state, widest operation, loops, as they were measured."""


def test_a_toys_programs_lower_without_calls_to_the_host(speck: tuple[str, Lowered]) -> None:
    engine, lowered = speck
    state_bytes, widest_bytes, loops = SPECK[engine]
    assert not lowered.callbacks
    assert lowered.state_bytes <= GROWTH * state_bytes
    assert lowered.widest_bytes <= GROWTH * widest_bytes
    assert lowered.loops <= loops
    assert ("warp" in lowered.calls) == (engine == "mjx-warp")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine", "options"), TASKS, ids=lambda value: str(value))
def test_a_program_lowers_without_calls_to_the_host(name: str, engine: str, options: dict[str, str]) -> None:
    lowered = lower_for_cuda(configured(join_content()[name]), engine, **options)
    assert not lowered.callbacks
    before = MEASURED[name, engine, next(iter(options.values()), "")]
    assert lowered.state_bytes <= GROWTH * before["state_bytes"]
    assert lowered.widest_bytes <= GROWTH * before["widest_bytes"]
    assert lowered.loops <= before["loops"]


def test_every_task_was_lowered_on_every_fused_engine() -> None:
    """On `brax`, a second opinion, one of each family at least."""
    registry = join_content()
    missing = [
        (name, engine)
        for name in registry
        for engine in registry[name].engines
        if engine in ("mjx", "rigid") and not any(key[:2] == (name, engine) for key in MEASURED)
    ]
    assert not missing, "python -m benchmarks.cuda_lowering"
    families = {name.split("/")[0] for name in registry if "brax" in registry[name].engines}
    assert families == {name.split("/")[0] for name, engine, _ in MEASURED if engine == "brax"}
    assert not [row for row in MEASURED.values() if row.get("callbacks")]


def test_a_call_to_the_host_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose step asks Python for something does not pass unseen."""
    advance = lowering.FusedPrograms._advance

    def asking(self, state, action):
        asked = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(action.shape, jnp.float32), action)
        return advance(self, state, asked)

    monkeypatch.setattr(lowering.FusedPrograms, "_advance", asking)
    monkeypatch.setattr(lowering.FusedPrograms, "_restart", lambda self, *given: given)  # the step is enough
    assert lower_for_cuda(Speck(), "rigid").callbacks
