from pathlib import Path

import imageio.v3 as iio
import pytest
import torch

from embodied import play
from embodied.cli.commands import DEMO
from embodied.env.registry import join_content
from embodied.storage.runs import Run
from policies.training.choices import PolicyCatalogue
from tests.kit.commands import refused
from tests.kit.task_file import mass


def test_a_film_from_the_command_line(tmp_path) -> None:
    path = tmp_path / "x.mp4"
    words = [mass(tmp_path), "--policy", "zero", "--video", str(path), "--seconds", "0.1", "--size", "96", "64"]
    assert play.main(words) == 0
    assert len(iio.imread(path, plugin="FFMPEG")) == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swarm/hovver"], "unknown task 'swarm/hovver'; did you mean 'swarm/hover'?"),
        (["swarm/hover", "--policy", "nobody"], "unknown policy 'nobody'"),
        (["swarm/hover", "--engine", "magic"], "unknown engine 'magic'"),
        (["swarm/hover", "--video", "x.avi"], "'x.avi' does not end in .mp4"),
        (["swarm/hover", "--num-envs", "17", "--video", "x.mp4"], "--num-envs 17 --video: expected 1 to 16"),
        (["swarm/hover", "--host", ""], "--host '': expected an address or a name"),
        (["swarm/hover", "--num-envs", "0"], "--num-envs 0: expected 1 to 64"),
        (["swarm/swap", "--pilot", "-1"], "--pilot -1: expected an agent's number, 0 or more, and no --video"),
        (["swarm/hover", "--nice", "20"], "--nice 20: expected 0 to 19"),
        (["swarm/hover", "--layout", "gird"], "unknown layout 'gird'; did you mean 'grid'?"),
    ],
)
def test_mistakes_cost_one_line_and_exit_code_2(words: list[str], message: str) -> None:
    assert refused(play.main, *words).startswith(f"error: {message}")


def saved(root: Path) -> Run:
    with Run.create(root, "swarm/hover", {}) as run:
        run.save(5, {"policy/x": torch.zeros(1)}, {})
    return run


def test_a_task_is_played_with_its_newest_run_which_is_said_with_the_others(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    _, task, policy = play.chosen(play.Settings(task="swarm/hover"))
    assert (task, policy) == ("swarm/hover", "shipped")
    said = "playing swarm/hover with shipped: no run of yours below runs/; --policy also takes random, zero\n"
    assert capsys.readouterr().err == said
    run = saved(tmp_path / "runs")
    run = saved(tmp_path / "runs")
    catalogue, task, policy = play.chosen(play.Settings(task="swarm/hover"))
    assert policy == f"runs/swarm/hover/{run.path.name}"
    said = capsys.readouterr().err
    assert said.startswith(f"playing swarm/hover with {policy}: your newest run of it; --policy also takes run ")
    assert said.endswith(", shipped, random, zero\n")
    assert isinstance(catalogue, PolicyCatalogue)


def test_what_is_named_is_played_without_a_word(tmp_path, monkeypatch, capsys) -> None:
    run = saved(tmp_path)
    assert play.chosen(play.Settings(task="swarm/hover", policy="zero"))[1:] == ("swarm/hover", "zero")
    assert play.chosen(play.Settings(task=str(run.path)))[1:] == ("swarm/hover", str(run.path))
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("display", "opened"), [(":0", ["http://localhost:8080"]), (None, [])])
def test_the_page_is_opened_only_where_there_is_a_screen(display: str | None, opened: list[str], monkeypatch) -> None:
    monkeypatch.setattr(play.sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)
    pages: list[str] = []
    monkeypatch.setattr(play.webbrowser, "open", pages.append)
    play.open_page("http://localhost:8080")
    assert pages == opened


def played(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The pages that are opened while something is played for a moment."""
    pages: list[str] = []
    monkeypatch.setattr(play, "open_page", pages.append)
    assert play.main([*words, "--seconds", "0.1", "--port", "18110"]) == 0
    return pages


def test_the_page_of_what_is_played_is_opened_where_that_is_asked_for(tmp_path, monkeypatch) -> None:
    task = mass(tmp_path)
    assert played(monkeypatch, task, "--policy", "zero", "--browser") == ["http://localhost:18110"]
    assert played(monkeypatch, task, "--policy", "zero") == []
    settings = play.parse([*DEMO])
    assert (settings.browser, settings.policy) == (True, "shipped")
    assert settings.task == DEMO[0]


@pytest.mark.slow
def test_the_demo_is_played_and_its_page_opened(monkeypatch) -> None:
    assert played(monkeypatch, *DEMO) == ["http://localhost:18110"]


def test_the_tasks_options_are_flags_and_a_run_has_its_own(tmp_path) -> None:
    settings = play.parse(["swarm/swap", "--policy", "zero", "--config.agents", "3"])
    catalogue, task, policy = play.chosen(settings)
    env = catalogue.make(catalogue.needs(task, policy), 1)
    assert env.agents == 3
    assert (
        play.chosen(play.parse(["swarm/swap", "--policy", "zero"]))[0].needs(task, policy).config
        == join_content()["swarm/swap"].load().config_type()
    )
    with Run.create(tmp_path, "swarm/swap", {}) as run:
        run.save(5, {"policy/x": torch.zeros(1)}, {"task": "swarm/swap", "needs": {"agents": 4}})
    assert play.parse([str(run.path)]).config.agents == 4
    catalogue, task, policy = play.chosen(play.parse([str(run.path), "--config.agents", "5"]))
    assert catalogue.needs(task, policy).config.agents == 5


def test_a_run_that_is_not_there_is_called_a_run() -> None:
    assert "there is no run at 'runs/nope'; python -m embodied.runs lists" in refused(play.main, "runs/nope")
    assert "unknown task 'swarm/hovr'; did you mean 'swarm/hover'" in refused(play.main, "swarm/hovr")
