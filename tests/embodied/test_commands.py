"""`evaluate`, `list`, `bench`, `ship`: what they print, write and refuse."""

import json
from pathlib import Path

import pytest
import torch

from embodied import cli, evaluate, ship
from embodied import list as listing
from embodied.bench import __main__ as bench
from embodied.bench import speed
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage import checkpoints
from tests.kit.commands import refused
from tests.kit.task_file import mass
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import toy_world, world


def test_evaluate_writes_plain_keys_and_shipped_policies_succeed(tmp_path):
    world("swarm/hover")  # compiled for all
    path = tmp_path / "result.json"
    words = ["swarm/hover", "--policy", "shipped", "--episodes", "8", "--json", str(path)]
    assert evaluate.main(words) == 0
    values = json.loads(path.read_text())
    for key in ("success", "success_low", "success_high", "return", "position_error", "env_steps_per_second"):
        assert isinstance(values[key], float)
    assert values["success_low"] <= values["success"] <= values["success_high"]
    assert values["hardware"]["cores"] >= 1
    assert values["success"] >= 0.9


def test_evaluate_is_deterministic(tmp_path):
    results = []
    for name in ("a.json", "b.json"):
        words = [mass(tmp_path), "--policy", "random", "--episodes", "4", "--episode-steps", "9"]
        assert evaluate.main([*words, "--json", str(tmp_path / name)]) == 0
        results.append(json.loads((tmp_path / name).read_text())["return"])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("main", "words", "said"),
    [
        (evaluate.main, [], "which task? python -m embodied.evaluate TASK; python -m embodied.list names all"),
        (evaluate.main, ["swarm/hover", "--policy", "shiped"], "'shiped'; did you mean 'shipped'"),
        (evaluate.main, ["swarm/hover", "--episodes", "0"], "--episodes 0"),
        (evaluate.main, ["swarm/hover", "--config.prest", "p250"], "--config.preset"),
        (ship.main, ["nothing-here"], "nothing-here"),
    ],
)
def test_what_is_wrong_is_one_line(main, words, said):
    assert said in refused(main, *words)


def test_list_describes_a_task(capsys):
    assert listing.main(["locomotion/go1-joystick-flat", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    sizes = {group: sum(max(1, *shape, 1) for shape in terms.values()) for group, terms in row["observations"].items()}
    assert sizes == {"policy": 48, "critic": 123}
    assert row["variations"]["payload"]["ranges"] == [
        {"quantity": "addend", "low": -1.0, "high": 1.0, "unit": "kg", "distribution": "uniform"}
    ]
    assert listing.main(["swarm/hover"]) == 0
    assert "latency\tcommands reach the rotors late: delay uniform 0 to 0.01 s" in capsys.readouterr().out


def test_bench_reports_the_bare_engine(tmp_path):
    path = tmp_path / "bench.json"
    assert bench.main([mass(tmp_path), "--num-envs", "8", "--turns", "2", "--steps", "3", "--json", str(path)]) == 0
    values = json.loads(path.read_text())
    assert values["substeps"] == 2
    assert values["physics_steps_per_second"] == pytest.approx(2 * values["env_steps_per_second"])
    assert values["engine_fraction"] > 0


def test_rates_of_an_engine_that_is_one_program_compare_with_the_bare_engine():
    env = toy_world(Speck, "rigid", 8)
    still = torch.zeros(env.action_shape)
    found = speed.measure(env, lambda obs: still, turns=1, steps=2, on_turn=lambda *_: None)
    assert found["engine_fraction"] > 0
    assert found["physics_steps_per_second"] == pytest.approx(4 * found["env_steps_per_second"])


def test_ship_takes_no_path_from_a_checkpoint(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = checkpoints.save(tmp_path / "run", 1, {"policy/weight": torch.zeros(1)}, {"task": str(elsewhere)})
    assert f"unknown task '{elsewhere}'" in refused(ship.main, str(path), "--replace")
    assert elsewhere.is_dir()


def test_list_of_a_suite_names_its_tasks(capsys):
    assert listing.main(["ml10", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (len(row["tasks"]), len(row["held_out"])) == (10, 5)
    assert listing.main(["mt10"]) == 0
    assert "manipulation/drawer-open\t" in capsys.readouterr().out


def test_task_is_found_among_flags():
    registry = join_content()
    assert cli.named_task(["--num-envs", "64", "swarm/hover"], registry) == "swarm/hover"
    assert cli.named_task(["--out", "some/folder"], registry, "swarm/hover") == "swarm/hover"
    assert cli.named_task(["swarm/hoover", "--seed", "1"], registry) == "swarm/hoover"
    assert cli.named_task(["--help"], registry) is None


def test_numbers_are_short():
    assert cli.number(1_250_000.0) == "1.25M"
    assert cli.number(0.03125) == "0.03125"


def test_a_shipped_policy_keeps_what_it_needs_and_stays_where_its_successor_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(ship, "asset_roots", lambda: (tmp_path,))
    (tmp_path / "policies").mkdir()
    meta = {"task": "swarm/hover", "policy": {}, "needs": {"preset": "t350"}}

    def checkpoint(step, number):
        return checkpoints.save(
            tmp_path / "run", step, {"policy/x": torch.full((1,), number), "trainer/y": torch.zeros(1)}, meta
        )

    def shipped():
        found = checkpoints.load(target)
        return found.step, dict(found.meta), {name: tensor.item() for name, tensor in found.tensors.items()}

    target = ship.ship(checkpoint(1, 1.0), replace=False)
    assert shipped() == (1, meta, {"policy/x": 1.0})
    later = checkpoint(2, 2.0)
    with pytest.raises(EmbodiedError, match="shipped already"):
        ship.ship(later, replace=False)
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda path, to: _full() if path.name == later.name else rename(path, to))
    with pytest.raises(OSError, match="no space"):
        ship.ship(later, replace=True)
    assert shipped()[0] == 1
    monkeypatch.setattr(Path, "rename", rename)
    assert ship.ship(later, replace=True) == target
    assert shipped() == (2, meta, {"policy/x": 2.0})
    assert [path.name for path in target.parent.iterdir()] == ["hover"]


def _full():
    raise OSError("no space")
