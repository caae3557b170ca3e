"""Exporting writes a whole bundle or nothing, and its README says all that a robot must have in common."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real import export
from sim2real.bundles import bundle
from sim2real.bundles.files import ExportError
from sim2real.bundles.readme import readme
from sim2real.deployment.safety import CHECKS, Cycle, Safety, State
from sim2real.robots.base import Measurement
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.robot_model import RobotModel
from tasks.swarm.dynamics.crazyflie import Preset
from tasks.swarm.single.hover import Hover, HoverConfig
from tests.kit.bundles import (
    shipped_bundle,
    small_bundle,
    small_contract,
    small_described,
    small_export,
    small_policy,
    stored_run,
)
from tests.kit.commands import contents, refused

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


HOVER, WALK = "swarm/hover", "locomotion/go1-joystick-flat"


@pytest.mark.parametrize("name", [WALK, HOVER])
def test_a_shipped_policy_becomes_a_bundle_to_deploy_from(name):
    folder = shipped_bundle(name)
    made = bundle.load(folder)
    text = (folder / "README.md").read_text()
    for item in (*made.contract.joints, *made.contract.actuators, *made.contract.terms, *made.contract.step.sources):
        assert f"| {item.name} |" in text
    for term in made.contract.terms:
        assert f"| {term.unit} |" in text
        assert f"| {term.meaning} |" in text
    for field in ("offset", "up", "lower"):
        assert all(f"{value:.7g}" in text for value in made.contract.row(field) if value)
    for number in made.contract.command:
        assert f"{number.name} {number.lower:g} to {number.upper:g} {number.unit}" in text
    assert "nan" not in text
    assert "{" not in text.partition("```python")[0]
    assert ("crazyflie" in {path.name for path in folder.iterdir()}) == (name == HOVER)


def test_examples_in_the_readme_are_python():
    text = (shipped_bundle(HOVER) / "README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        compile(example, "README.md", "exec")
        assert len(example.strip().splitlines()) <= 24


def test_the_same_policy_gives_the_same_bytes_and_how_they_were_verified_is_said(tmp_path, capsys):
    export.main([HOVER, "--out", str(tmp_path / "again")])
    shown = capsys.readouterr().out
    assert "ONNX\tverified with 32 golden steps" in shown
    assert shutil.which("gcc") is None or "C99\tlargest difference from the exporting machine" in shown
    assert contents(tmp_path / "again") == contents(shipped_bundle(HOVER))


def test_a_bundle_is_replaced_and_anything_else_is_left_alone(tmp_path):
    folder = shutil.copytree(small_bundle(), tmp_path / "bundle")
    first = bundle.load(folder)
    second = small_export(folder, contract=small_contract("family/other"))
    assert second.contract.task == "family/other"
    assert first.sha256 != second.sha256
    (tmp_path / "empty").mkdir()
    small_export(tmp_path / "empty")
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    (photographs / "holiday.jpg").write_text("beach")
    for place in (photographs, photographs / "holiday.jpg"):
        with pytest.raises(ExportError, match="exists and is no bundle; it is left alone"):
            export.check_place(place)
    assert contents(photographs) == {"holiday.jpg": b"beach"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "empty", "photographs"]


@pytest.mark.parametrize("at", ["bundle.load", "exchange", "write_synced"])
def test_a_failed_export_leaves_what_was_there(tmp_path, monkeypatch, at):
    folder = shutil.copytree(small_bundle(), tmp_path / "bundle")
    before = contents(folder)

    def fail(*_):
        raise OSError(28, "No space left on device")

    owner, _, name = at.rpartition(".")
    monkeypatch.setattr(bundle if owner else export, name, fail)
    with pytest.raises(ExportError, match=r"cannot write '.*bundle': No space left on device"):
        small_export(folder, contract=small_contract("family/other"))
    monkeypatch.undo()
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_name_that_cannot_be_given_leaves_the_old_bundle(tmp_path, monkeypatch):
    old, new = tmp_path / "old", tmp_path / "nowhere"
    old.mkdir()
    (old / "file").write_text("kept")
    with pytest.raises(OSError, match="nowhere"):
        export.exchange(new, old)
    assert contents(old) == {"file": b"kept"}


def test_a_run_is_exported_with_its_own_config(tmp_path):
    run = stored_run(tmp_path, HOVER, HoverConfig(preset=Preset.T350), small_policy(inputs=16, actions=4))
    for name in (run.path, next(run.checkpoints.iterdir())):
        policy, task, task_name = export.trained(str(name))
        assert (task.config, task_name) == (HoverConfig(preset=Preset.T350), "swarm/hover")
    made = export.write(tmp_path / "bundle", policy, task, task_name)
    assert made.contract.mass == pytest.approx(float(Hover(task.config).drone.mass))
    assert json.loads(made.contract.config) == {"preset": "t350"}
    assert RobotModel(made.contract, ModelMismatch()).task.unwrapped.config.preset is Preset.T350


def test_the_newest_run_of_a_task_without_a_shipped_policy_is_found(tmp_path, monkeypatch):
    run = stored_run(tmp_path, HOVER, HoverConfig(), small_policy(inputs=16, actions=4))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(export, "shipped", dict)
    assert export.find("swarm/hover").resolve() == run.path.resolve()
    with pytest.raises(ExportError, match=r"no policy for 'manipulation/reach'.*embodied.train manipulation/reach"):
        export.find("manipulation/reach")


def test_a_policy_that_does_not_fit_is_refused_with_both_sizes():
    with pytest.raises(EmbodiedError, match=r"the policy reads 8 numbers; the task observes 9"):
        small_described(small_policy(inputs=8))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swarm/hovr"], "did you mean 'swarm/hover'"),
        (["mt10"], "holds a policy of many tasks; say which by --task: manipulation/reach"),
        (["mt10", "--task", "manipulation/sweep"], "unknown task of "),
        (["manipulation/no-such"], "unknown task"),
        (["/etc"], "no run at '/etc'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(words, message, tmp_path):
    assert message in refused(export.main, *words, "--out", str(tmp_path / "bundle"))
    assert not any(tmp_path.iterdir())


def test_a_readme_says_the_age_of_measurements_at_which_deploy_latches():
    contract = small_contract()
    limits = Safety.of(contract).limits
    said = f"older than {limits.max_age:g} s ({limits.max_age / limits.period:g} control periods)"
    assert said in readme(contract, 100, "0" * 64)
    fresh, stale = (Measurement(-scale * limits.max_age) for scale in (0.99, 1.01))
    assert CHECKS["stale"](limits, State(), Cycle(0.0, fresh)) == ""
    assert "old" in CHECKS["stale"](limits, State(), Cycle(0.0, stale))


def test_a_readme_shows_only_columns_that_say_something():
    contract = small_contract()
    text = readme(contract, 100, "0" * 64)
    assert "| kp | kd |" in text
    assert "leans by more than 57 degrees" in text
    free = [dataclasses.replace(actuator, stiffness=0.0, damping=0.0) for actuator in contract.actuators]
    text = readme(dataclasses.replace(contract, actuators=tuple(free), max_tilt=np.pi), 100, "0" * 64)
    assert "kp" not in text
    assert "leans" not in text


def test_a_folder_whose_name_looks_like_an_option(tmp_path, monkeypatch):
    """The compiler that proves the C code takes no folder's name for an option."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(export, "trained", lambda *_: (small_policy(), None, "family/task"))
    monkeypatch.setattr(export, "write", lambda out, *_: small_export(out))
    assert export.main([HOVER, "--out=-1"]) == 0
    assert (tmp_path / "-1" / "manifest.json").is_file()


def test_the_folder_one_stands_in_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "choose another" in refused(export.main, HOVER, "--out=.")
    assert not list(tmp_path.iterdir())
