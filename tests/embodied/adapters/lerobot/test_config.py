"""`--env.type=embodied` with LeRobot itself: flags, features, errors in one line, a rollout."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot", reason="LeRobot is not installed; it has an environment of its own: docs/adapters.md")

from lerobot.configs import FeatureType, parser  # pyright: ignore[reportMissingImports]
from lerobot.configs.eval import EvalPipelineConfig  # pyright: ignore[reportMissingImports]
from lerobot.envs import make_env  # pyright: ignore[reportMissingImports]
from lerobot.envs.factory import make_env_config, make_env_pre_post_processors  # pyright: ignore[reportMissingImports]
from lerobot.envs.utils import env_to_policy_features  # pyright: ignore[reportMissingImports]
from lerobot.policies.act.configuration_act import ACTConfig  # pyright: ignore[reportMissingImports]
from lerobot.policies.factory import make_policy, make_pre_post_processors  # pyright: ignore[reportMissingImports]
from lerobot.scripts.lerobot_eval import eval_policy_all  # pyright: ignore[reportMissingImports]

from embodied.adapters.lerobot.config import EmbodiedEnvConfig, FlagError
from embodied.errors import EmbodiedError
from tests.documents.snippets import ROOT, blocks_of

TASK = "manipulation/drawer-close"
BRIEF = """
import dataclasses
from tasks.manipulation.articulated.drawers import DrawerClose

class Brief(DrawerClose):
    timing = dataclasses.replace(DrawerClose.timing, episode_seconds=5 * DrawerClose.timing.control_dt)
"""


def config(**flags: object) -> EmbodiedEnvConfig:
    made = make_env_config("embodied", **{"task": TASK, "cameras": "view", "resolution": 32, **flags})
    assert isinstance(made, EmbodiedEnvConfig)
    return made


def test_features_are_those_of_our_datasets() -> None:
    features = env_to_policy_features(config(cameras="view, wrist"))
    assert set(features) == {
        "action", "observation.state", "observation.images.view", "observation.images.wrist",
    }  # fmt: skip
    assert features["observation.images.wrist"].shape == (3, 32, 32)
    assert features["observation.state"].type is FeatureType.STATE
    assert features["action"].shape == (4,)
    assert config().fps == 80


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"task": "manipulation/drawer-clos"},
            "unknown task 'manipulation/drawer-clos'; did you mean '.*drawer-close'",
        ),
        ({"task": None}, "no --env.task; expected a task or a suite"),
        ({"cameras": "front"}, "unknown camera 'front'.* known: .*view, wrist$"),
        ({"cameras": ""}, "no --env.cameras; expected names of cameras"),
        ({"task": "swarm/hover", "cameras": "front"}, "unknown observation group 'proprio'"),
        ({"task": "swarm/formation", "cameras": "front", "state": "policy"}, "agents, and LeRobot takes one"),
        ({"success": "often"}, "unknown kind of success 'often'; known: any, last"),
    ],
)
def test_what_does_not_exist_is_one_line(flags: dict[str, object], said: str) -> None:
    with pytest.raises(FlagError, match=said) as caught:
        config(**flags)
    assert isinstance(caught.value, EmbodiedError)
    assert "\n" not in str(caught.value)


def test_lerobots_command_line_says_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @parser.wrap()
    def evaluate(cfg: EvalPipelineConfig) -> None:
        pytest.fail(f"{cfg.env} was accepted")

    monkeypatch.setattr(
        "sys.argv", ["lerobot-eval", "--policy.type=act", "--env.type=embodied", "--env.task=drawer-close"]
    )
    with pytest.raises(SystemExit):
        evaluate()  # pyright: ignore[reportCallIssue] - LeRobot fills the argument in
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: `env`: unknown task 'drawer-close'; did you mean 'manipulation/drawer-close'")


def test_lerobot_evaluates_a_policy_of_its_own(tmp_path: Path) -> None:
    """Its rollouts, sums and films, in a brief task of one's own, with an ACT that has learned nothing."""
    (tmp_path / "brief.py").write_text(BRIEF)
    flags = config(task=f"{tmp_path / 'brief.py'}:Brief")
    envs = make_env(flags, n_envs=2, use_async_envs=True)
    ((name, group),) = envs.items()
    assert name == "brief.py:Brief"
    assert group[0].call("_max_episode_steps") == (5, 5)
    small = {"dim_model": 16, "n_heads": 2, "dim_feedforward": 16, "n_encoder_layers": 1, "n_vae_encoder_layers": 1}
    act = ACTConfig(
        **small, chunk_size=5, n_action_steps=5, pretrained_backbone_weights=None, device="cpu", push_to_hub=False
    )
    policy = make_policy(act, env_cfg=flags).eval()
    before, after = make_pre_post_processors(act)
    env_before, env_after = make_env_pre_post_processors(flags, act)
    told = eval_policy_all(
        envs, policy, env_before, env_after, before, after, 2,
        start_seed=0, max_episodes_rendered=2, videos_dir=tmp_path,
    )  # fmt: skip
    assert told["overall"]["n_episodes"] == 2
    assert np.isfinite(told["overall"]["avg_sum_reward"])
    assert len(list(tmp_path.rglob("*.mp4"))) == 2


def test_a_suite_is_a_group_of_numbered_tasks() -> None:
    envs = config(task="mt10").create_envs(1)
    assert list(envs) == ["mt10"]
    assert list(envs["mt10"]) == list(range(10))
    assert len({env.call("task") for env in envs["mt10"].values()}) == 10


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in blocks_of(ROOT / "docs" / "adapters.md") if "adapters.lerobot import" in block.text)
    exec(compile(block.code, block.place, "exec"), {})
    assert "(2, 64, 64, 3)" in capsys.readouterr().out
