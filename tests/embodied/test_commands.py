"""`evaluate`, `list`, `bench`, `ship`: what they print, write and refuse."""

import json

import pytest
import torch

from embodied import bench, cli, evaluate, ship
from embodied import list as listing
from embodied.registry import join_content
from embodied.storage import checkpoints


def refused(main, capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return next(line for line in said.splitlines() if line.startswith("error:"))


def test_evaluate_writes_plain_keys(tmp_path):
    path = tmp_path / "result.json"
    words = ["swarm/hover", "--policy", "zero", "--episodes", "8", "--json", str(path)]
    assert evaluate.main(words) == 0
    values = json.loads(path.read_text())
    for key in ("success", "success_low", "success_high", "return", "position_error", "env_steps_per_second"):
        assert isinstance(values[key], float)
    assert values["success_low"] <= values["success"] <= values["success_high"]
    assert values["hardware"]["cores"] >= 1


def test_evaluate_is_deterministic(tmp_path):
    results = []
    for name in ("a.json", "b.json"):
        assert (
            evaluate.main(["swarm/hover", "--policy", "random", "--episodes", "8", "--json", str(tmp_path / name)]) == 0
        )
        results.append(json.loads((tmp_path / name).read_text())["return"])
    assert results[0] == results[1]


def test_shipped_policies_succeed(tmp_path):
    path = tmp_path / "result.json"
    assert evaluate.main(["swarm/hover", "--policy", "shipped", "--episodes", "64", "--json", str(path)]) == 0
    assert json.loads(path.read_text())["success"] >= 0.9


def test_evaluate_without_a_task(capsys):
    assert "which task? python -m embodied.evaluate TASK; python -m embodied.list names all" in refused(
        evaluate.main, capsys
    )


def test_evaluate_unknown_policy(capsys):
    said = refused(evaluate.main, capsys, "swarm/hover", "--policy", "shiped")
    assert "'shiped'" in said
    assert "shipped" in said


def test_evaluate_counts(capsys):
    assert "--episodes 0" in refused(evaluate.main, capsys, "swarm/hover", "--episodes", "0")


def test_evaluate_unknown_field_exits_2():
    with pytest.raises(SystemExit) as stop:
        evaluate.main(["swarm/hover", "--config.prest", "p250"])
    assert stop.value.code == 2


def test_list_names_every_task(capsys):
    assert listing.main(["--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["task"] for row in rows] == list(join_content())


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


def test_list_unknown_task(capsys):
    assert "did you mean" in refused(listing.main, capsys, "swarm/hovr")


def test_bench_reports_the_bare_engine(tmp_path):
    path = tmp_path / "bench.json"
    words = ["swarm/hover", "--num-envs", "64", "--turns", "2", "--steps", "3", "--json", str(path)]
    assert bench.main(words) == 0
    values = json.loads(path.read_text())
    assert values["substeps"] == 10
    assert values["physics_steps_per_second"] == pytest.approx(10 * values["env_steps_per_second"])
    assert values["engine_fraction"] > 0


def test_ship_refuses_what_is_no_run(capsys, tmp_path):
    assert "nothing-here" in refused(ship.main, capsys, str(tmp_path / "nothing-here"))


def test_ship_takes_no_path_from_a_checkpoint(capsys, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = checkpoints.save(tmp_path / "run", 1, {"policy/weight": torch.zeros(1)}, {"task": str(elsewhere)})
    assert f"unknown task '{elsewhere}'" in refused(ship.main, capsys, str(path), "--replace")
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
