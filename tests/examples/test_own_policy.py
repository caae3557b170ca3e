"""Policies of one's own act where `--policy` takes them; the one that pursues is an attack."""

from pathlib import Path

import pytest
import torch

import embodied
from embodied.evaluate import main as evaluate_command
from embodied.evaluation.rollouts import evaluate
from policies.multi_agent.mixed_team import infiltrated
from policies.training.loading import load_policy

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_policy.py"


def test_the_page_s_policy_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/first_hour.md has it."""
    page = (EXAMPLE.parents[1] / "docs" / "first_hour.md").read_text()
    (tmp_path / "mine.py").write_text(page.partition("# mine.py\n")[2].partition("```")[0])
    monkeypatch.chdir(tmp_path)
    words = ["swarm/hover", "--policy", "mine.py:still", "--episodes", "8"]
    assert f"embodied evaluate {' '.join(words)}\n" in page
    assert evaluate_command(words) in (0, None)
    assert "failed" in capsys.readouterr().out


def test_idle_does_nothing_in_any_task() -> None:
    env = embodied.make("swarm/hover", 2, device="cpu")
    assert torch.equal(load_policy(f"{EXAMPLE}:Idle", env)(env.reset()), torch.zeros(2, 4))


@pytest.mark.timeout(200)
def test_one_drone_that_pursues_the_others_costs_the_team() -> None:
    env = embodied.make("swarm/formation", 8, device="cpu", agents=4, collisions_end=False)
    team = load_policy("shipped", env)

    def returns(*adversary: str) -> float:
        policy = infiltrated(team, load_policy(adversary[0], env), 4, 1) if adversary else team
        return evaluate(env, policy, 8, seed=5, scored=3).values["team_return"].mean().item()

    assert returns(f"{EXAMPLE}:pursuit") < 0.7 * returns()
