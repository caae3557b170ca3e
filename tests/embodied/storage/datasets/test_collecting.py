"""Recording demonstrations: with an environment in numpy whose every number is known, and once with the real one."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from embodied import collect as command
from embodied.core.facets import Language
from embodied.core.instruction import Instruction
from embodied.env.env import Env
from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from embodied.rendering.render_state import RenderState
from embodied.storage.datasets.collecting import CollectConfig, Demonstration, collect, round_seed
from embodied.storage.datasets.reader import open_dataset
from tests.kit.commands import contents, refused
from tests.kit.task_file import WITH_EXPERT

WORDS = ("Go there.", "Move to the point.", "Reach it.")
NEAR, SPEED, LIMIT = 0.1, 0.1, 60


@dataclasses.dataclass(frozen=True)
class Moment:
    """One step of a `Plane`."""

    obs: dict[str, Tensor]
    success: Tensor
    done: Tensor


class Plane:
    """Points that move to goals by `SPEED` per step; every third environment's goal is out of reach.

    What its camera sees are the point's coordinates, as grey values.
    """

    name, agents, action_size, device = "toys/plane", None, 2, torch.device("cpu")
    observation_spec = {"policy": ObservationSpec((4,)), "proprio": ObservationSpec((2,))}  # noqa: RUF012

    def __init__(self, num_envs: int, hopeless: bool = True) -> None:
        self.num_envs, self.hopeless = num_envs, hopeless
        self.task = self.cameras = self
        self.language, self.pictures = Language(WORDS), None
        self.executed: list[np.ndarray] = []

    def reset(self, seed: int) -> dict[str, Tensor]:
        draws = np.stack([np.random.default_rng([9, seed, i]).uniform(-1, 1, 4) for i in range(self.num_envs)])
        self.pos, self.goal = draws[:, :2].astype(np.float32), draws[:, 2:].astype(np.float32)
        if self.hopeless:
            self.goal[::3] = 50
        self.steps = 0
        return self.observed()

    def observed(self) -> dict[str, Tensor]:
        both = np.concatenate([self.pos, self.goal], axis=1)
        own = {"policy": torch.from_numpy(both), "proprio": torch.from_numpy(self.pos.copy())}
        return own | self.render(self.render_state())

    def step(self, action: Tensor) -> Moment:
        self.executed.append(action.numpy().copy())
        self.pos = self.pos + SPEED * action.numpy()
        self.steps += 1
        near = np.linalg.norm(self.goal - self.pos, axis=1) < NEAR
        return Moment(
            self.observed(), torch.from_numpy(near), torch.full((self.num_envs,), self.steps >= LIMIT, dtype=torch.bool)
        )

    def world(self) -> np.ndarray:
        return self.pos

    @property
    def task_state(self) -> np.ndarray:
        return self.goal

    def render_state(self) -> RenderState:
        return RenderState(cast("Any", self.pos.copy()))

    def render(self, state: RenderState) -> dict[str, Tensor]:
        grey = torch.from_numpy(grey_of(np.asarray(state.qpos)))
        assert len(grey) <= self.num_envs
        return {"pixels/top": grey[:, :, None, None].expand(-1, -1, 4, 4)}


class Unreachable(Plane):
    """No goal is within reach."""

    def reset(self, seed: int) -> dict[str, Tensor]:
        super().reset(seed)
        self.goal[:] = 50
        return self.observed()


def grey_of(pos: np.ndarray) -> np.ndarray:
    """(T, 3) uint8 from positions (T, 2)."""
    values = np.concatenate([pos, pos[:, :1]], axis=1)
    return np.clip(128 + 50 * values, 0, 255).astype(np.uint8)


def straight(obs: Any) -> Tensor:
    """The script: straight to the goal."""
    return ((obs["policy"][:, 2:] - obs["policy"][:, :2]) / SPEED).clamp(-1.0, 1.0)


def recorded(env: Plane, **options: Any) -> list[Demonstration]:
    return list(collect(cast("Env", env), straight, CollectConfig(**options)))


def test_where_instruction_varies_each_episode_bears_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its paraphrases take turns with those of the others."""
    env = Plane(3, hopeless=False)
    own = [Instruction(told) for told in (("go to 0", "to 0, please"), ("go to 1", "to 1, please"), ("go to 2",))]
    monkeypatch.setattr(
        "embodied.storage.datasets.collecting.instructions_of", lambda asked: own if asked is env else []
    )
    said = [demonstration.episode.instruction for demonstration in recorded(env, episodes=6, noise=0.0)]
    assert said == ["go to 0", "to 1, please", "go to 2", "to 0, please", "go to 1", "go to 2"]


def test_what_a_policy_sees_while_it_acts_is_what_is_recorded() -> None:
    seen: list[np.ndarray] = []

    def looking(obs: Any) -> Tensor:
        seen.append(obs["pixels/top"].numpy().copy())
        return straight(obs)

    (made,) = collect(cast("Env", Plane(1, hopeless=False)), looking, CollectConfig(episodes=1, noise=0.3))
    shown = made.episode.images["top"].transpose(0, 3, 1, 2)
    assert len(shown) > 2
    assert np.array_equal(shown, np.concatenate(seen)[: len(shown)])


def test_noise_is_in_what_is_executed_and_not_in_what_is_recorded() -> None:
    env = Plane(1, hopeless=False)
    (quiet,), silent = recorded(env, episodes=1, noise=0.0, seed=4), env.executed
    env.executed = []
    (loud,) = recorded(env, episodes=1, noise=1.0, seed=4)
    for demonstration, executed in ((quiet, silent), (loud, env.executed)):
        episode = demonstration.episode
        goal = torch.from_numpy(np.repeat(env.goal, len(episode), axis=0))
        meant = straight({"policy": torch.cat([torch.from_numpy(episode.state), goal], dim=1)})
        np.testing.assert_array_equal(episode.action, meant)
        disturbance = np.abs(np.stack(executed)[: len(episode), 0] - episode.action).max()
        assert (disturbance > 0.1) == (demonstration.noise > 0)
        assert np.abs(np.stack(executed)).max() <= 1
    assert quiet.noise == 0 < loud.noise < 1


def test_noise_differs_between_episodes_up_to_its_limit() -> None:
    levels = [each.noise for each in recorded(Plane(8, hopeless=False), episodes=24, noise=0.4)]
    assert len(set(levels)) == 24
    assert 0 < min(levels) < 0.1
    assert 0.3 < max(levels) < 0.4


@pytest.mark.parametrize("steps", [0.0, 4.0])
def test_noise_is_correlated_over_as_many_steps_as_are_asked_for(steps: float) -> None:
    """A step later its correlation is exp(-1 / steps); its deviation is the same at the first and the last."""
    env = Unreachable(10)
    still = lambda obs: torch.zeros(10, 2)  # noqa: E731
    config = CollectConfig(episodes=100, noise=0.3, noise_correlation=steps, failures=True)
    levels = np.array([each.noise for each in collect(cast("Env", env), still, config)])
    executed = np.stack(env.executed).reshape(10, LIMIT, 10, 2).swapaxes(1, 2).reshape(100, LIMIT, 2)
    noise = executed / levels[:, None, None]
    correlation = np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]
    assert correlation == pytest.approx(math.exp(-1 / steps) if steps else 0.0, abs=0.05)
    assert noise[:, 0].std() == pytest.approx(1.0, abs=0.15)
    assert noise[:, -1].std() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_batch_is_recorded_as_its_environments_alone(count: int) -> None:
    """Environment i does the same among any number of them, noise included."""
    many = recorded(Plane(6, hopeless=False), episodes=6, seed=7)
    few = recorded(Plane(count, hopeless=False), episodes=count, seed=7)
    for one, other in zip(few, many, strict=False):
        assert one.noise == other.noise
        for name in ("state", "action", "instruction", "seed", "success"):
            np.testing.assert_array_equal(getattr(one.episode, name), getattr(other.episode, name))
        np.testing.assert_array_equal(one.episode.images["top"], other.episode.images["top"])


def test_pictures_show_the_state_before_the_action() -> None:
    for demonstration in recorded(Plane(2, hopeless=False), episodes=3):
        episode = demonstration.episode
        np.testing.assert_array_equal(episode.images["top"][:, 0, 0], grey_of(episode.state))


def test_an_episode_ends_a_few_steps_after_success() -> None:
    for hold in (0, 7):
        env = Plane(1, hopeless=False)
        (demonstration,) = recorded(env, episodes=1, hold=hold, noise=0.0)
        distances = np.linalg.norm(demonstration.episode.state - env.goal, axis=1)
        solved_by = int(np.argmax(distances < NEAR)) if (distances < NEAR).any() else len(distances)
        assert len(demonstration.episode) == solved_by + hold


def test_failures_are_left_out_or_kept_and_marked() -> None:
    kept = recorded(Plane(6), episodes=8)
    assert all(each.episode.success for each in kept)
    assert kept[-1].tried == 12  # two of six fail in each wave
    with_failures = recorded(Plane(6), episodes=8, failures=True)
    assert [each.episode.success for each in with_failures] == [False, True, True] * 2 + [False, True]
    assert all(len(each.episode) == LIMIT for each in with_failures if not each.episode.success)
    assert with_failures[-1].tried == 8


@pytest.mark.parametrize("failures", [False, True])
def test_what_is_gone_on_with_is_the_rest_of_what_one_process_records(failures: bool) -> None:
    options: dict[str, Any] = {"episodes": 7, "failures": failures, "noise": 0.3}
    whole = recorded(Plane(4), **options)
    for count in range(8):
        begun = [made.tried for made in whole[:count]]
        rest = list(collect(cast("Env", Plane(4)), straight, CollectConfig(**options), begun=begun))
        assert [made.tried for made in rest] == [made.tried for made in whole[count:]]
        for made, expected in zip(rest, whole[count:], strict=True):
            assert np.array_equal(made.episode.action, expected.episode.action)
            assert np.array_equal(made.episode.images["top"], expected.episode.images["top"])
            assert (made.noise, made.episode.instruction) == (expected.noise, expected.episode.instruction)


def test_every_paraphrase_is_heard_equally_often() -> None:
    counts = collections.Counter(each.episode.instruction for each in recorded(Plane(4), episodes=9))
    assert counts == dict.fromkeys(WORDS, 3)


def test_waves_begin_elsewhere() -> None:
    starts = [tuple(each.episode.state[0]) for each in recorded(Plane(2, hopeless=False), episodes=6)]
    assert len(set(starts)) == 6
    assert round_seed(5, 0) == 5
    assert len({round_seed(seed, wave) for seed in range(4) for wave in range(4)}) == 16


def test_what_cannot_be_recorded_is_refused() -> None:
    with pytest.raises(EmbodiedError, match="0 of 4 episodes of 'toys/plane' succeeded, fewer than the 1"):
        recorded(Plane(1), episodes=1)
    with pytest.raises(EmbodiedError, match=r"has no observation group 'touch' to .*; it has policy, proprio"):
        recorded(Plane(1), state="touch")
    with pytest.raises(EmbodiedError, match=r"noise=1\.5; expected"):
        CollectConfig(noise=1.5)
    with pytest.raises(EmbodiedError, match=r"noise_correlation=-1; expected control steps, 0 or more"):
        CollectConfig(noise_correlation=-1)


REFUSED = (
    (["manipulation/reach"], "--out FOLDER"),
    (["swarm/hover", "--cameras", "front", "--out", "demos"], "no observation group 'proprio'"),
    (["swarm/hover", "--cameras", "front", "--out", "demos"], "it has policy, critic"),
    (["manipulation/reach", "--visual-shift", "colour", "--out", "demos"], "unknown visual shift 'colour'"),
    (["manipulation/reach", "--cameras", "side", "--out", "demos"], "unknown camera 'side'"),
)


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_the_command_says_what_is_missing(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(command.main, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_records_a_task_with_the_real_renderer(tmp_path: Path) -> None:
    words = ["manipulation/reach", "--episodes", "2", "--cameras", "view,wrist", "--resolution", "32", "--hold", "2"]
    out = tmp_path / "demos"
    assert command.main([*words, "--visual-shift", "colours", "--out", str(out)]) == 0
    dataset = open_dataset(out, cameras=("view", "wrist"), fps=80, size=(32, 32), state_size=11, action_size=4)
    assert dataset.info.state_names[2:5] == ("hand_2", "opening", "joint_pos_0")
    for episode in dataset:
        assert episode.success
        assert episode.images["view"].std() > 5
        # Nothing is recorded after the hand has arrived, and the hand moves.
        assert 5 < len(episode) < 200
        assert np.linalg.norm(episode.state[-1, :3] - episode.state[0, :3]) > 0.1
    first, second = (episode.images["view"][0].astype(float) for episode in dataset)
    assert np.abs(first - second).mean() > 10  # each in colours of its own


@pytest.mark.usefixtures("painted")
def test_the_command_records_a_task_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mass.py"
    file.write_text(WITH_EXPERT)
    words = [str(file), "--episodes", "2", "--cameras", "track", "--resolution", "16", "--hold", "2", "--state"]
    words += ["policy", "--visual-shift", "colours", "--num-envs", "2", "--failures"]
    out, told = tmp_path / "demos", tmp_path / "told.json"
    assert command.main([*words, "--out", str(out), "--json", str(told)]) == 0
    dataset = open_dataset(out, cameras=("track",), fps=50, size=(16, 16), state_size=3, action_size=1)
    assert dataset.info.state_names == ("place", "speed", "to_goal")
    for episode in dataset:
        assert episode.task == f"{file}:Sound"
        assert episode.instruction == "Push the mass to the goal."
        assert 3 <= len(episode) <= 50
        assert abs(episode.state[-1, 2]) < abs(episode.state[0, 2])
    first, second = (episode.images["track"][0].astype(float) for episode in dataset)
    assert np.abs(first - second).mean() > 10
    figures = json.loads(told.read_text())
    assert figures["visual_shift"] == "colours"
    assert (figures["task"], figures["episodes"], figures["tried"]) == ("mass.py:Sound", 2, 2)
    assert figures["success"] == sum(episode.success for episode in dataset) / 2
    assert figures["frames"] == sum(map(len, dataset))


@pytest.mark.usefixtures("painted")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_keeps_the_episodes_that_it_has(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: Any) -> Iterator[Demonstration]:
        for count, demonstration in enumerate(collect(*arguments)):
            if count == 1:
                os.kill(os.getpid(), number)
            yield demonstration

    monkeypatch.setattr(command, "collect", interrupted)
    file, out = tmp_path / "mass.py", tmp_path / "demos"
    file.write_text(WITH_EXPERT)
    words = [str(file), "--episodes", "5", "--cameras", "track", "--resolution", "16", "--state", "policy"]
    assert command.main([*words, "--num-envs", "5", "--failures", "--out", str(out)]) == 0
    assert f"stopped by {signal.Signals(number).name}: 2 of 5 episodes are in {out}" in capsys.readouterr().err
    assert len(list(open_dataset(out, cameras=("track",), fps=50, size=(16, 16), state_size=3, action_size=1))) == 2
    monkeypatch.undo()
    again = [*words, "--num-envs", "5", "--failures"]
    assert command.main([*again, "--out", str(out), "--resume"]) == 0
    assert command.main([*again, "--out", str(tmp_path / "whole")]) == 0
    assert contents(out) == contents(tmp_path / "whole")
    assert command.main([*again, "--out", str(out), "--resume"]) == 0
    assert f"{out} has all 5 episodes already" in capsys.readouterr().err
