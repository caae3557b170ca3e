"""Asking: labels are exact, a network learns them, and reports count what was asked and what it was good for."""

from __future__ import annotations

import dataclasses
import os
import signal
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from embodied.core.facets import Language
from embodied.core.instruction import Dialogue, Instruction
from embodied.env.env import Env
from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from embodied.evaluation.rollouts import Evaluation
from embodied.storage.runs import Run
from policies.vla.asking.clarification import ACT, ASK, ASKER, ASKERS, By, ClarifiedInstructions, learned, require_asker
from policies.vla.asking.evaluate import Settings as EvaluateSettings
from policies.vla.asking.evaluate import stored
from policies.vla.asking.metrics import question_rates, summary
from policies.vla.asking.scenes import make_scenes
from policies.vla.asking.train import Settings as TrainSettings
from policies.vla.asking.train import make_session
from policies.vla.data.demonstrations import Demonstrations
from policies.vla.fine_tuning.session import FineTuningSession, document_of
from policies.vla.fine_tuning.settings import FineTuningConfig
from tests.kit.vla import episode, shown, untrained

N, SIDE = 10, 32
SMALL = dataclasses.replace(ASKER, width=48, channels=(8, 16, 32), text_width=32, text_buckets=64)


class Spots:
    """A table with one or two bright spots; "take it" is clear where there is one, "take the left one" always."""

    name, num_envs, control_dt, action_size, device = "toys/spots", N, 0.05, 4, torch.device("cpu")
    observation_spec = {  # noqa: RUF012
        "proprio": ObservationSpec((2,)),
        "pixels/top": ObservationSpec((3, SIDE, SIDE), torch.uint8),
    }

    def __init__(self) -> None:
        self.task = SimpleNamespace(language=Language((), self.episode_instruction))

    def reset(self, seed: int) -> dict[str, torch.Tensor]:
        random = np.random.default_rng(seed)
        self.task_state = {"two": random.uniform(size=N) < 0.5, "left": random.uniform(size=N) < 0.3}
        pixels = np.zeros((N, 3, SIDE, SIDE), np.uint8)
        for row, two in enumerate(self.task_state["two"]):
            for half in range(2 if two else 1):
                y, x = random.integers(0, SIDE - 8), random.integers(0, SIDE // 2 - 8) + half * SIDE // 2
                pixels[row, :, y : y + 8, x : x + 8] = 255
        self.obs = {"pixels/top": torch.from_numpy(pixels), "proprio": torch.zeros(N, 2)}
        return self.obs

    @staticmethod
    def episode_instruction(state: Any) -> Instruction:
        text = "Take the left one." if state["left"] else "Take it."
        unclear = bool(state["two"]) and not state["left"]
        said = Dialogue(text, "Which one?" if unclear else None, "The right one.")
        return Instruction((text,), (), said, {"spot": 1 + int(state["two"])})


def spots() -> Env:
    return cast("Env", Spots())


def test_labels_are_what_the_simulation_knows() -> None:
    env = Spots()
    found = make_scenes(cast("Env", env), 25, seed=3)
    assert len(found) == 25
    for scene in found:
        bright = scene.images["top"][0, :, :, 0] > 0
        two = bright[:, : SIDE // 2].any() and bright[:, SIDE // 2 :].any()
        asks = two and scene.instruction == "Take it."
        assert scene.action.tolist() == [[ASK if asks else ACT, ASK, ASK if two else ACT]]
    assert len({scene.images["top"].tobytes() for scene in found}) > 20


def test_a_network_learns_when_to_ask_and_survives_the_way_to_disk(tmp_path: Any) -> None:
    env = Spots()
    tuning = FineTuningConfig(
        batch_size=32, learning_rate=4e-3, warmup=10, shift=0, validation_interval=25, bfloat16=False
    )
    settings = TrainSettings(steps=50, tuning=tuning, network=SMALL)
    demonstrations = Demonstrations.of(make_scenes(cast("Env", env), 200, seed=0), env.control_dt)
    session = make_session(demonstrations, settings)
    assert session.train(Run.create(tmp_path, "asking", {}, tmp_path / "run"), "asker")
    policy = session.policy
    again = stored(tmp_path / "run", "the asker")
    obs = env.reset(99)
    conversation = ClarifiedInstructions(cast("Env", env), learned(policy))
    rows = torch.arange(N)
    told = conversation(rows, obs)
    notes = conversation.notes()
    assert (notes["asked"] == notes["ambiguous"]).float().mean() >= 0.9
    assert [text.endswith("The right one.") for text in told] == notes["asked"].tolist()
    assert ClarifiedInstructions(cast("Env", env), learned(again))(rows, obs) == told
    some = ClarifiedInstructions(cast("Env", env), learned(policy))
    assert some(rows[4:7], obs) == told[4:7]
    assert not some.notes()["asked"][:4].any()


def test_interrupted_and_resumed_it_learns_the_same(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = FineTuningConfig(batch_size=8, warmup=2, shift=2, validation_interval=2, bfloat16=False)
    settings = TrainSettings(steps=6, tuning=tuning, network=SMALL)

    def session() -> FineTuningSession:
        return make_session(Demonstrations.of(make_scenes(spots(), 30, seed=0), Spots.control_dt), settings)

    def train(name: str, *, stop_after: int) -> Run:
        begun = session()
        step = begun.learner.step

        def counted() -> dict[str, float]:
            measures = step()
            if begun.learner.steps == stop_after:
                os.kill(os.getpid(), signal.SIGTERM)
            return measures

        monkeypatch.setattr(begun.learner, "step", counted)
        run = Run.create(tmp_path, "asking", document_of(settings, begun.demonstrations), tmp_path / name)
        assert begun.train(run, "asker") == (stop_after == 0)
        return run

    whole, halves = train("whole", stop_after=0), train("halves", stop_after=3)
    assert halves.load().step == 3
    assert session().train(halves, "asker", resume=True)
    for name, tensor in whole.load().tensors.items():
        assert torch.equal(halves.load().tensors[name], tensor), name


def test_who_decides_by_rule() -> None:
    said = [Dialogue("Take it.", None, "That."), Dialogue("Take it.", "Which?", "That.")]
    decided = {by: rule(said, torch.arange(2), {}).tolist() for by, rule in ASKERS.items()}
    assert decided == {By.NEVER: [False, False], By.ALWAYS: [True, True], By.ORACLE: [False, True]}
    assert [one.full_instruction(ask) for one, ask in zip(said, decided[By.ORACLE], strict=True)] == [
        "Take it.",
        "Take it. That.",
    ]


def test_reports_count() -> None:
    asked, ambiguous = torch.tensor([1, 1, 0, 0, 1.0]), torch.tensor([1, 1, 1, 0, 0.0])
    found = question_rates(asked, ambiguous)
    assert found["asked_when_ambiguous"] == pytest.approx(2 / 3)
    assert found["asked_when_clear"] == pytest.approx(1 / 2)
    assert (found["asked"], found["ambiguous"], found["right"]) == pytest.approx((0.6, 0.6, 0.6))
    assert found["asked_when_clear_low"] < 0.5 < found["asked_when_clear_high"]
    assert question_rates(torch.zeros(2), torch.zeros(2))["asked_when_ambiguous"] == 0.0
    values = {name: torch.tensor(row) for name, row in {
        "success": [1, 0, 0, 1, 1.0], "success_any": [1, 1, 0, 1, 1.0], "return": [0.0] * 5, "fall": [0, 0, 1, 0, 0.0],
        "asked": asked.tolist(), "ambiguous": ambiguous.tolist(),
    }.items()}  # fmt: skip
    row = summary(Evaluation(5, values, 1.0, 10))
    assert (row["wrong_object"], row["success_any_when_ambiguous"], row["success_any_when_clear"]) == pytest.approx(
        (0.2, 2 / 3, 1.0)
    )
    assert "fall" not in row


def test_messages() -> None:
    actor = untrained(shown([episode(0)]))
    with pytest.raises(EmbodiedError, match=r"it does not decide about asking; expected a run"):
        require_asker(actor, actor.spec, "it")
    config = dataclasses.replace(ASKER, width=48, channels=(8, 16, 32), text_width=32)
    asker = untrained(shown([episode(0, action=np.ones((12, 1), np.float32))]), config)
    assert require_asker(asker, actor.spec, "it") is asker
    other = dataclasses.replace(actor.spec, resolution=(64, 64))
    with pytest.raises(EmbodiedError, match="it does not fit, it has resolution 32, 32, expected 64, 64"):
        require_asker(asker, other, "it")
    silent = spots()
    silent.task.language = None
    with pytest.raises(EmbodiedError, match=r"'toys/spots' says the same .* may fit several things: manipulation/pick"):
        ClarifiedInstructions(silent, ASKERS[By.NEVER])
    with pytest.raises(EmbodiedError, match="--by learned needs --asker RUN"):
        EvaluateSettings(by=(By.LEARNED,))
    with pytest.raises(EmbodiedError, match=r"--scenes 0, .* expected at least 1 of each"):
        TrainSettings(scenes=0)
