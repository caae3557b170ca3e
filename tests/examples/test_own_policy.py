"""Policies of one's own act where `--policy` takes them; the one that pursues is an attack."""

from pathlib import Path

import pytest
import torch

import embodied
from embodied.core.entity_rows import COLUMNS, WIDTH
from embodied.evaluate import main as evaluate_command
from embodied.evaluation.rollouts import evaluate
from examples.own_policy import pursuit
from policies.training.loading import load_policy
from policies.training.mixed_team import infiltrated
from tasks.swarm.team.waypoints import EGO_SIZE
from tests.kit.commands import run
from tests.kit.task_file import mass
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import toy_world

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_policy.py"


@pytest.fixture
def page_s_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As docs/first_hour.md has it: writes the policy, returns the words of the command that evaluates it."""
    page = (EXAMPLE.parents[1] / "docs" / "first_hour.md").read_text()
    (tmp_path / "mine.py").write_text(page.partition("# mine.py\n")[2].partition("```")[0])
    monkeypatch.chdir(tmp_path)
    words = ["swarm/hover", "--policy", "mine.py:still", "--episodes", "8"]
    assert f"embodied evaluate {' '.join(words)}\n" in page
    return words


def test_the_page_s_policy_is_evaluated_in_a_task_of_one_action(page_s_policy: list[str], tmp_path: Path) -> None:
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace(", 4)", ", 1)"))
    done = run(evaluate_command, mass(tmp_path), *page_s_policy[1:])
    assert done.code == 0
    assert "failed" in done.out


@pytest.mark.slow
def test_the_page_s_policy_is_evaluated(page_s_policy: list[str]) -> None:
    done = run(evaluate_command, *page_s_policy)
    assert done.code == 0
    assert "failed" in done.out


def test_idle_does_nothing_in_any_task() -> None:
    env = toy_world(Speck, "rigid", 8)
    assert torch.equal(load_policy(f"{EXAMPLE}:Idle", env)(env.reset()), torch.zeros(8, 3))


def test_who_pursues_flies_at_full_speed_at_the_nearest() -> None:
    obs = torch.zeros(1, 3, EGO_SIZE + 2 * WIDTH)
    obs[0, :2, EGO_SIZE:][:, COLUMNS["offset"]] = torch.tensor([[3.0, 0.0, 4.0], [0.0, -0.5, 0.0]])
    told = pursuit({"policy": obs})
    torch.testing.assert_close(told, torch.tensor([[[0.6, 0.0, 0.8, 0.0], [0.0, -1.0, 0.0, 0.0], [0.0] * 4]]))


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_one_drone_that_pursues_the_others_costs_the_team() -> None:
    env = embodied.make("swarm/formation", 8, device="cpu", agents=4, collisions_end=False)
    team = load_policy("shipped", env)

    def returns(*adversary: str) -> float:
        policy = infiltrated(team, load_policy(adversary[0], env), 4, 1) if adversary else team
        return evaluate(env, policy, 8, seed=5, scored=3).values["team_return"].mean().item()

    assert returns(f"{EXAMPLE}:pursuit") < 0.7 * returns()
