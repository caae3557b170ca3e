"""Recipes of CONTRIBUTING.md: a learner, a robot, an engine, a flag and an observation are added as it says."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import embodied
from embodied import evaluate, train
from embodied import list as listing
from embodied.bench.__main__ import Settings as BenchSettings
from embodied.check.contract import CHECKS, Check, environment, run_check
from embodied.cli import parse
from embodied.core.task import Task
from embodied.engines import ENGINES, FUSED, SUMMARIES
from embodied.env.env import Env
from embodied.env.registry import Registry, join_content
from embodied.errors import EmbodiedError, EngineError
from embodied.robot import Robot
from embodied.robot.__main__ import main as robot_command
from embodied.storage.paths import asset
from policies.registry import ALGORITHMS
from policies.training import launch
from policies.training.loading import load_policy
from tests.documents.snippets import PYTHON, SHELL, Block, blocks_of, commands_of, run_shell, shortened
from tests.embodied.engines import test_promises as promises
from tests.kit.commands import run
from tests.kit.robots import multirotor
from tests.kit.toy_tasks import Ball, Speck
from tests.kit.worlds import every_engine, toy_world

DOCUMENT = Path(__file__).parents[1] / "CONTRIBUTING.md"
HOVER = "swarm/hover"


def blocks(section: str, language: str = PYTHON) -> list[Block]:
    """Blocks of a section of the page."""
    return [block for block in blocks_of(DOCUMENT) if block.section == section and block.language == language]


def module_of(text: str, name: str, folder: Path, patch: pytest.MonkeyPatch) -> types.ModuleType:
    """A block as the module of a name, with a file, from which help takes docstrings."""
    file = folder / f"{name.rpartition('.')[2]}.py"
    file.write_text(text)
    module = types.ModuleType(name)
    module.__file__ = str(file)
    patch.setitem(sys.modules, name, module)
    exec(compile(text, str(file), "exec"), module.__dict__)
    return module


def test_a_learner_is_registered_beside_tasks() -> None:
    (registration,) = blocks("Adding a learner")
    scope: dict[str, Any] = {}
    exec(registration.text, scope)
    scope["register"](Registry())
    entry = ALGORITHMS.pop("es")
    assert (entry.config_target, entry.build_target) == ("my_lab.es:ESConfig", "my_lab.es:ES")


# A robot


@pytest.fixture
def quad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with the robot of the page in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quad").mkdir()
    (tmp_path / "quad" / "quad.urdf").write_text(multirotor())
    (described,) = blocks("Adding a robot", "toml")
    (tmp_path / "quad" / "robot.toml").write_text(described.text)
    return tmp_path


def robot_words(folder: Path) -> list[list[str]]:
    """Words after the modules of the page's two commands."""
    (shell,) = blocks("Adding a robot", SHELL)
    understood, trained = commands_of(shell, folder)
    assert (understood[1], trained[1]) == ("embodied.robot", "embodied.train")
    return [understood[2:], trained[2:]]


def test_a_robots_description_goes_before_what_is_derived(quad: Path) -> None:
    understood, trained = robot_words(quad)
    robot = Robot.load(understood[0])
    assert [rotor.max_thrust for rotor in robot.rotors] == [6.0] * 4
    assert [rotor.spin for rotor in robot.rotors] == [1, -1, 1, -1]
    settings = launch.parse(join_content().find(trained[0]), trained)
    assert Path(settings.config.robot) == quad / "quad" / "quad.urdf"
    assert join_content()[trained[0]].load()(settings.config).action_size == 4


def test_its_command_prints_the_interpretation(quad: Path) -> None:
    words = shortened(robot_words(quad)[0], "--picture")[:-1]  # drawing costs seconds
    assert "4 rotors" in run(robot_command, *words).out


def test_a_folder_of_assets_is_a_robot_by_name(quad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (quad / "robots").mkdir()
    (quad / "quad").rename(quad / "robots" / "quad")
    monkeypatch.setattr("embodied.robot.named.asset_roots", lambda: (quad,))
    assert Robot.load("quad").file == quad / "robots" / "quad" / "quad.urdf"
    with pytest.raises(EmbodiedError, match="unknown robot 'quat'; did you mean 'quad'"):
        Robot.load("quat")


@pytest.mark.slow
def test_the_robots_commands_run(quad: Path) -> None:
    (shell,) = blocks("Adding a robot", SHELL)
    run_shell(shell, quad)
    assert (quad / "quad.png").exists()


# An engine


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The engine of the page, registered; engines of pure functions are kept by name."""
    (text,) = (block.text for block in blocks("Adding an engine"))
    assert '`"points": "embodied.engines.points:PointsEngine"`' in DOCUMENT.read_text(encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        module_of(text, "embodied.engines.points", tmp_path_factory.mktemp("engine"), patch)
        patch.setitem(ENGINES, "points", "embodied.engines.points:PointsEngine")
        patch.setitem(SUMMARIES, "points", "Point masses.")
        patch.setattr("embodied.env.factory.FUSED", (*FUSED, "points"))
        patch.setattr(promises, "toy_of", lambda engine: Speck)
        yield "points"


def test_an_engine_keeps_the_promises(points: str) -> None:
    promises.test_sensors_equal_a_loop_over_c_mujoco(Speck, points)
    promises.test_one_divergence_reaches_nobody_else(Speck, points)
    promises.test_every_episode_starts_afresh(promises.lived(points))


def test_an_engine_resumes_bit_for_bit(points: str) -> None:
    promises.test_runs_are_bit_identical_per_seed_and_across_a_resume(points, False)


def test_each_episode_on_it_has_its_own_mass(points: str) -> None:
    env = toy_world(Speck, points, promises.N)
    env.reset(seed=9)
    start = env.world()
    env.step(torch.full(env.action_shape, 0.5))
    gained = np.asarray(env.world().qvel - start.qvel)[:, 0]
    mass = 2.5 * env.task.timing.control_dt / gained
    np.testing.assert_allclose(mass, promises.starts_of(Speck, 9).model["body_mass"][:, 1], rtol=1e-3)


def test_an_engine_refuses_models_that_it_does_not_move(points: str) -> None:
    with pytest.raises(EngineError, match="engine points moves one free body by wrenches and reads positions only"):
        toy_world(Ball, points, 1)


def test_an_engine_is_listed_and_a_task_that_names_it_runs_on_it(points: str, tmp_path: Path) -> None:
    assert "Point masses." in run(listing.main, "--engines").out
    toy = f"from tests.kit.toy_tasks import Speck\n\n\nclass Toy(Speck):\n    engines = ({points!r},)\n"
    (tmp_path / "toy.py").write_text(toy)
    assert embodied.make(str(tmp_path / "toy.py"), promises.N).engine_name == points


# A flag


def test_a_field_of_settings_is_a_flag_of_the_long_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    field = blocks("Adding a flag")[0].text
    head = "import dataclasses\nfrom embodied import cli\n\n\n@dataclasses.dataclass(frozen=True)\nclass Settings:\n"
    kind = module_of(f'{head}    """A command."""\n\n{textwrap.indent(field, "    ")}', "lab", tmp_path, monkeypatch)
    name, help_line = field.partition(":")[0], field.partition('"""')[2].partition('"""')[0]
    assert getattr(parse(kind.Settings, [f"--{name.replace('_', '-')}", "7"], "lab"), name) == 7
    short, full = (run(lambda words: parse(kind.Settings, words, "lab"), flag).out for flag in ("--help", "--help-all"))
    assert help_line.split(".")[0] in full
    assert help_line.split(".")[0] not in short
    assert name not in {known.name for known in dataclasses.fields(BenchSettings)}


@pytest.fixture
def gravity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper of the page, registered as there."""
    module_of(blocks("Adding a flag")[1].text, "my_lab.gravity", tmp_path, monkeypatch)
    registry, line = Registry(), 'registry.register_wrapper("gravity", "my_lab.gravity:Gravity")'
    assert f"`{line}`" in DOCUMENT.read_text(encoding="utf-8")
    exec(line, {"registry": registry})
    known = {**join_content().wrappers, "gravity": registry.wrappers["gravity"]}
    monkeypatch.setattr(join_content(), "_wrappers", known)


@pytest.mark.usefixtures("gravity")
def test_a_wrapper_is_a_flag_of_commands_and_an_argument_of_make() -> None:
    env = embodied.make(HOVER, 1, "rigid", gravity=1.62)
    assert env.task.model.opt.gravity.tolist() == [0.0, 0.0, -1.62]
    entry = join_content().find(HOVER)
    trained = launch.parse(entry, [HOVER, "--gravity", "1.62"])
    evaluated = evaluate.parse(entry, [HOVER, "--policy", "zero", "--gravity", "1.62"])
    assert list(trained.wrappers) == list(evaluated.wrappers) == list(trained.wrappers.of_policy)
    assert "--gravity FLOAT" in run(train.main, HOVER, "--help-all").out


# An observation


@pytest.fixture(scope="module")
def ranged(tmp_path_factory: pytest.TempPathFactory) -> Env:
    """Environments of the page's task, named by its file."""
    (block,) = blocks("Adding an observation to a task")
    file = tmp_path_factory.mktemp("ranged") / "ranged.py"
    file.write_text(block.text)
    env = environment(str(file))
    env.reset()
    env.step(torch.zeros(env.action_shape))
    return env


COSTLY = ("every listed engine builds", "a batch is so many single environments")


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.name, marks=[pytest.mark.slow] if check.name in COSTLY else [])
        for check in CHECKS
        if not check.slow
    ],
)
def test_a_task_with_a_further_observation_meets_the_contract(check: Check, ranged: Env) -> None:
    if check.name in COSTLY:
        every_engine()
    assert [str(found) for found in run_check(check, ranged if check.simulated else ranged.task)] == []


def test_its_observation_is_noisy_and_is_declared(ranged: Env) -> None:
    obs, height = ranged.reset(seed=0), torch.as_tensor(np.array(ranged.world()["position"][:, 2]))
    error = obs["policy"][:, -1] - height
    torch.testing.assert_close(obs["critic"][:, -1], height)
    assert 0.001 < error.std() < 0.1
    assert "height" in str(ranged.variations["observation_noise"])
    assert ranged.task.without(variations=["observation_noise"]).terms != ranged.task.terms
    assert ranged.task.operator is not None
    assert ranged.task.operator.deployment.terms["height"].unit == "m"


def test_a_mirror_that_lacks_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = blocks("Adding an observation to a task")
    text = block.text.replace('"height": unchanged(1)', "")
    task: Task[Any] = module_of(text, "forgotten", tmp_path, monkeypatch).Ranged()
    check = next(check for check in CHECKS if check.name == "a mirror shows every observed term")
    (finding,) = run_check(check, task)
    assert "observed term 'policy/height' has no mirror image" in str(finding)


def test_a_policy_that_was_trained_before_is_refused_with_both_sizes(ranged: Env) -> None:
    with pytest.raises(EmbodiedError, match=r"16.*17|17.*16"):
        load_policy(asset("policies/swarm/hover"), ranged)
