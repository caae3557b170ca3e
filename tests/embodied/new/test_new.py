"""`python -m embodied.new task`: what it writes meets the contract and trains; nothing is overwritten."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest
import torch

import embodied
from embodied import train
from embodied.check import CHECKS, Check, failures
from embodied.check.contract import environment
from embodied.env.registry import join_content
from embodied.new import __main__ as command
from embodied.new.writing import BUDGETS, TEMPLATES
from embodied.robot import Kind, Robot, joint_places, reachable_points, robot_scene
from embodied.storage.paths import asset
from embodied.storage.runs import Run
from tests.kit.commands import interpreted, refused, run
from tests.kit.task_file import STEP, TRAINED

KINDS = tuple(str(kind) for kind in BUDGETS)
LONGEST = 120  # characters of a line that is written


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    for kind in KINDS:
        assert run(command.main, "task", f"my_{kind}", "--kind", kind, "--folder", str(folder)).code == 0
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_neat(kind: str, written: Path) -> None:
    for file in (written / f"my_{kind}.py", written / f"test_my_{kind}.py"):
        text = file.read_text()
        tree = ast.parse(text)
        assert ast.get_docstring(tree)
        assert max(map(len, text.splitlines())) <= LONGEST
        assert "$" not in text
        imported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
                    for alias in node.names} - {"annotations"}  # fmt: skip
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert imported <= names, "it imports what it does not use"
    entry = join_content()[str(written / f"my_{kind}.py")]
    assert entry.name.endswith(f":My{kind.capitalize()}")
    assert entry.load_training().steps == BUDGETS[Kind(kind)].steps


QUICK = [check for check in CHECKS if not check.slow]


@pytest.fixture(scope="module")
def arm(written: Path) -> str:
    """The task of an arm, whose environments are compiled."""
    env = environment(str(written / "my_arm.py"))
    env.reset()
    env.episode_length = torch.full((env.num_envs,), env.max_episode_steps - 1)
    env.step(torch.zeros(env.action_shape))
    return str(written / "my_arm.py")


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.name)
def test_what_is_written_meets_the_contract(check: Check, arm: str) -> None:
    assert failures(arm, check) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.timeout(280)
def test_what_is_written_of_other_kinds_meets_the_contract(kind: str, written: Path) -> None:
    name = str(written / f"my_{kind}.py")
    assert {check.name: found for check in QUICK if (found := failures(name, check))} == {}


def test_the_test_that_is_written_asks_for_the_contract_of_the_task_beside_it(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("test_my_arm", written / "test_my_arm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    test, asked = module.test_the_task_meets_the_contract, list[tuple[str, Check]]()
    said = lambda name, check: asked.append((name, check)) or ["wrong"][len(asked) - 1 :]  # noqa: E731
    monkeypatch.setattr(module, "failures", said)
    (mark,) = test.pytestmark
    assert (mark.args, mark.kwargs["ids"](QUICK[0])) == (("check", QUICK), QUICK[0].name)
    with pytest.raises(AssertionError):
        test(QUICK[0])
    test(QUICK[1])
    assert asked == [(str(written / "my_arm.py"), check) for check in QUICK[:2]]


@pytest.mark.slow
def test_the_test_that_is_written_passes(written: Path) -> None:
    done = interpreted("-m", "pytest", "-q", "-p", "no:cacheprovider", str(written / "test_my_arm.py"), "-k", "pure")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_what_is_written_trains(written: Path, tmp_path: Path) -> None:
    words = [str(written / "my_arm.py"), *TRAINED, "--engine", "mujoco", "--out", str(tmp_path / "run")]
    assert run(train.main, *words).code == 0
    assert Run.open(tmp_path / "run").load().step == STEP


@pytest.mark.parametrize(
    ("robot", "size"),
    [
        pytest.param("robots/panda/panda.xml", 8, id="panda", marks=pytest.mark.slow),
        pytest.param("robots/go1/go1.xml", 12, id="go1"),
    ],
)
def test_a_robot_of_a_file_takes_the_small_ones_place(robot: str, size: int, tmp_path: Path) -> None:
    assert run(command.main, "task", "mine", "--robot", str(asset(robot)), "--folder", str(tmp_path)).code == 0
    assert not (tmp_path / "mine.xml").exists()
    task = join_content()[str(tmp_path / "mine.py")].load()()
    assert task.action_size == size
    assert [task.model.actuator(number).name for number in range(size)] == [
        joint.name for joint in Robot.load(asset(robot)).joints
    ]


def test_a_robot_beside_the_task_is_found_from_there(tmp_path: Path) -> None:
    (tmp_path / "robots").mkdir()
    (tmp_path / "robots" / "own.xml").write_text((TEMPLATES / "arm.xml").read_text())
    words = ["task", "mine", "--robot", str(tmp_path / "robots" / "own.xml"), "--folder", str(tmp_path)]
    assert run(command.main, *words).code == 0
    assert "ROBOT = Path(__file__).parent / 'robots/own.xml'" in (tmp_path / "mine.py").read_text()
    assert embodied.make(str(tmp_path / "mine.py"), 1).task.action_size == 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_small_robots_are_understood_without_a_warning(kind: str) -> None:
    robot = Robot.load(TEMPLATES / f"{kind}.xml")
    assert robot.kind == kind
    # No model format has a place for how quickly rotors follow, and for drag.
    assumed = [
        line for line in robot.warnings if line.startswith("assumed: rotors follow in 0.05 s, 0.2 N s/m of drag")
    ]
    assert assumed == list(robot.warnings)
    assert bool(assumed) == (kind == "multirotor")


def test_goals_are_where_the_tip_can_be() -> None:
    robot = Robot.load(TEMPLATES / "arm.xml")
    model = robot_scene(robot).compile()
    points = reachable_points(model, robot, 200)
    assert points.shape == (200, 3)
    assert (points[:, 2] > 0).all()
    assert ((points - [0, 0, 0.3]) ** 2).sum(axis=1).max() < 0.69**2
    assert len(joint_places(model, robot)[0]) == 3
    assert (points == reachable_points(model, robot, 200)).all()


WRONG = {
    "exists": (["task", "mine"], "mine.py exists already; nothing was written"),
    "name": (["task", "my-task"], "task name 'my-task': expected a name as modules have"),
    "module": (["task", "json"], "task name 'json' is that of a module, which json.py would hide"),
    "our module": (["task", "tasks"], "task name 'tasks' is that of a module"),
    "thing": (["robot", "mine"], "new 'robot': expected task"),
    "kind": (["task", "other", "--kind", "boat"], "--kind boat: expected one of arm, multirotor, legged"),
    "another": (
        ["task", "other", "--kind", "arm", "--robot", str(asset("robots/go1/go1.xml"))],
        "is understood as legged; say kind in robot.toml beside it",
    ),
    "absent": (["task", "other", "--robot", "nowhere.urdf"], "nowhere.urdf"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_written_is_one_line(case: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("precious")
    words, said = WRONG[case]
    done = run(command.main, *words, "--folder", str(tmp_path))
    (line,) = done.err.splitlines()
    assert said in line
    assert done.code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["mine.py"]
    assert (tmp_path / "mine.py").read_text() == "precious"


def test_a_hand_has_no_template(tmp_path: Path) -> None:
    (tmp_path / "own.xml").write_text((TEMPLATES / "arm.xml").read_text())
    (tmp_path / "robot.toml").write_text('kind = "hand"\n')
    said = refused(command.main, "task", "mine", "--robot", str(tmp_path / "own.xml"), "--folder", str(tmp_path))
    assert "is a hand, for which there is no template; there are arm, multirotor, legged" in said
