import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from policies.optim import distributed

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """What each of two processes holds after training together."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[2]), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*command, str(HERE / "two_ranks.py"), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


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


def test_a_single_process_needs_no_group():
    tensor = torch.tensor([1.0, 2.0])
    assert distributed.mean_(tensor.clone()).equal(tensor)
    assert (distributed.rank(), distributed.size()) == (0, 1)
    assert distributed.anyone(True)
    assert not distributed.anyone(False)
