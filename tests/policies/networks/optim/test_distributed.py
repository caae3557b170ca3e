from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embodied.errors import EmbodiedError
from policies import PPO, PPOConfig, Trainer
from policies.networks.mlp import NetworkConfig
from policies.networks.optim import distributed
from tests.kit.commands import environment
from tests.kit.learning import PointMass, algorithm_of


def train_rank() -> dict[str, Any]:
    """Train three iterations together with the other process; what this one holds then."""
    with distributed.joined():
        rank = distributed.rank()
        small = NetworkConfig((16,))
        config = PPOConfig(unroll=8, epochs=2, minibatches=2, actor=small, critic=small)
        trainer = Trainer(PointMass(32, seed=rank), config, total_steps=10**6, seed=rank)  # seeds differ on purpose
        learner = algorithm_of(trainer, PPO)
        initial = learner.optimizer.vector.clone()
        observed: list[torch.Tensor] = []
        act = learner.act

        def spy(obs: Any) -> torch.Tensor:
            observed.append(obs["policy"].clone())
            return act(obs)

        learner.act = spy  # pyright: ignore[reportAttributeAccessIssue] - notes what was observed
        for _ in range(3):
            trainer.iterate()
        return {
            "initial": initial,
            "observed": torch.cat(observed),
            "steps": torch.tensor(trainer.steps),
            "parameters": learner.optimizer.vector,
            "rate": learner.learning_rate.value,
            "normalizer": learner.normalizers["policy"].state(),
            "noise": learner.noise_generator.get_state(),
            "stopped": torch.tensor(distributed.anyone(rank == 1)),
            "rank": rank,
            "compiler": "torch._dynamo" in sys.modules,
        }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What this process and one that it starts hold after training together; `test_train.py` has one by torchrun."""
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    command = [sys.executable, __file__, str(folder)]
    variables = environment(OMP_NUM_THREADS="1", **told, RANK="1")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**told, "RANK": "0"}.items():
            patch.setenv(name, value)
        child = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)
        try:
            own = train_rank()
        finally:
            said = child.communicate(timeout=60)[1]
    assert child.returncode == 0, said[-3000:]
    return [own, torch.load(folder / "1.pt")]


def test_ranks_start_from_rank_0_and_stay_equal(ranks: list[dict]):
    first, second = ranks
    assert torch.equal(first["initial"], second["initial"])
    assert torch.equal(first["parameters"], second["parameters"])
    assert torch.equal(first["rate"], second["rate"])
    assert not torch.equal(first["parameters"], first["initial"])


def test_ranks_explore_on_their_own(ranks: list[dict]):
    assert not torch.equal(ranks[0]["noise"], ranks[1]["noise"])
    assert not torch.equal(ranks[0]["observed"], ranks[1]["observed"])


def test_normalisers_hold_the_observations_of_both_ranks(ranks: list[dict]):
    observed = torch.cat([rank["observed"] for rank in ranks]).double().numpy()
    for rank in ranks:
        state = rank["normalizer"]
        assert len(observed) == 2 * 3 * 8 * 32
        assert (state["count"] == len(observed)).all()
        np.testing.assert_allclose(state["mean"], observed.mean(0), atol=1e-9)
        np.testing.assert_allclose(state["squares"] / state["count"], observed.var(0), rtol=1e-9)


def test_steps_of_all_ranks_are_counted(ranks: list[dict]):
    assert [rank["steps"].item() for rank in ranks] == [3 * 8 * 64] * 2


def test_a_stop_on_one_rank_stops_all(ranks: list[dict]):
    assert all(rank["stopped"] for rank in ranks)


def test_a_training_starts_without_torch_s_compiler(ranks: list[dict]):
    """Its import takes seconds, and no optimiser needs it."""
    assert not ranks[1]["compiler"]


def test_a_single_process_needs_no_group():
    tensor = torch.tensor([1.0, 2.0])
    assert distributed.mean_(tensor.clone()).equal(tensor)
    assert (distributed.rank(), distributed.size()) == (0, 1)
    assert distributed.anyone(True)
    assert not distributed.anyone(False)


if __name__ == "__main__":
    found = train_rank()
    torch.save(found, Path(sys.argv[1]) / f"{found['rank']}.pt")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2 is set, but no RANK, no MASTER_ADDR, no MASTER_PORT; expected"),
        (
            {name: "x" for name in distributed.SET},
            "is set, but RANK=x, WORLD_SIZE=x, MASTER_PORT=x; expected",
        ),
    ],
)
def test_variables_that_torchrun_did_not_set_are_named(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(EmbodiedError, match=expected), distributed.joined():
        pass
