"""`python -m policies.vla.asking.train`: learn from simulated scenes when to ask."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import torch
import tyro

from embodied import cli
from embodied.core.hooks import PIXELS, PROPRIO
from embodied.core.instruction import Dialogue
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.errors import EmbodiedError, guard
from embodied.storage.runs import Run, check_free
from policies.vla.asking.clarification import ASKER, learned
from policies.vla.asking.metrics import question_rates
from policies.vla.asking.scenes import make_scenes
from policies.vla.data.demonstrations import Demonstrations
from policies.vla.data.normalization import Normalization
from policies.vla.fine_tuning.learner import FineTuning
from policies.vla.fine_tuning.session import FINGERPRINT, FineTuningSession, document_of
from policies.vla.fine_tuning.settings import FineTuningConfig
from policies.vla.model.config import VLAConfig
from policies.vla.policy import VLAPolicy
from policies.vla.settings import RunSettings, stored_settings

TRAIN_SEED, TEST_SEED = 3_000_001, 3_000_002  # of the scenes; those of demonstrations and evaluations are others
COMMAND = "policies.vla.asking.train"
LIMITS = ("steps",)
"""Settings that end a training."""


@dataclasses.dataclass(frozen=True)
class Settings(RunSettings):
    """Learn from simulated scenes whether an instruction fits one object or several, from images and text.

    The simulation says which, exactly, so scenes cost no demonstrations. The run is what --asker takes. Ctrl-C or
    SIGTERM saves and stops; --resume RUN draws the same scenes and goes on. Examples:

        python -m policies.vla.asking.train manipulation/pick-among --out runs/vla/asker
        python -m policies.vla.asking.evaluate manipulation/pick-among --policy runs/vla/among --asker runs/vla/asker
    """

    task: tyro.conf.Positional[str] = "manipulation/pick-among"
    """A task whose instructions may fit several objects."""
    cameras: tuple[str, ...] = ("view", "wrist")
    """Those of the policy that acts, in its order."""
    resolution: int = 64
    """Pixels of both sides, as of the policy that acts."""
    scenes: int = 20_000
    """For training, a part of which is held out."""
    tests: int = 1000
    """Scenes of the test at the end."""
    steps: int = 5000
    """Gradient steps in all; fewer if held-out scenes say so."""
    num_envs: int = 100
    """Scenes that are simulated together."""
    network: VLAConfig = ASKER
    """Sizes of the network."""
    tuning: FineTuningConfig = dataclasses.field(
        default_factory=lambda: FineTuningConfig(learning_rate=1e-3, validation_interval=100)
    )
    """Options of the training."""

    def __post_init__(self) -> None:
        if min(self.scenes, self.tests, self.steps, self.num_envs) < 1:
            raise EmbodiedError(
                f"--scenes {self.scenes}, --tests {self.tests}, --steps {self.steps}, --num-envs {self.num_envs}: "
                "expected at least 1 of each"
            )


@guard
def main(arguments: list[str] | None = None) -> int:
    settings, run = cli.parse(Settings, arguments, COMMAND), None
    if settings.resume is not None:
        run = Run.open(settings.resume)
        settings = stored_settings(settings, run, arguments, LIMITS, (FINGERPRINT,))
    elif settings.out is not None:
        check_free(settings.out)
    options = {"cameras": settings.cameras, "resolution": settings.resolution}
    env = make(settings.task, settings.num_envs, settings.engine, settings.seed, device="cpu", **options)
    started = time.perf_counter()
    with cli.Line(f"scenes of {settings.task}", settings.scenes) as line:
        episodes = make_scenes(env, settings.scenes, TRAIN_SEED, lambda done: line.update(done, f"{done} scenes"))
    drawn = time.perf_counter() - started
    session = make_session(Demonstrations.of(episodes, env.control_dt), settings)
    resume = run is not None
    run = run or Run.create(Path("runs"), "asking", document_of(settings, session.demonstrations), settings.out)
    if not session.train(run, "asker", resume=resume):
        return 0
    found = test_asker(session.policy, env, settings.tests)
    times = {"scene_seconds": drawn, "train_seconds": session.seconds}
    result = {"task": settings.task, "scenes": settings.scenes, "gradient_steps": session.steps, **times}
    cli.show(cli.table(f"{run.path}: {settings.tests} new scenes", printed(found)))
    cli.write_result(settings.json, cli.command_line(COMMAND), result | found)
    return 0


def make_session(demonstrations: Demonstrations, settings: Settings) -> FineTuningSession:
    """An untrained network, and its training; the weights with the smallest error on held-out scenes are stored."""
    torch.manual_seed(settings.seed)  # of the weights
    normalization = Normalization.of(demonstrations.episodes)
    policy = VLAPolicy.untrained(settings.network, normalization, demonstrations.spec, demonstrations.training_tasks)
    tuning = FineTuning(policy, demonstrations, settings.tuning, settings.steps, seed=settings.seed)
    return FineTuningSession(tuning, demonstrations, COMMAND, settings.task)


def test_asker(policy: VLAPolicy, env: Env, count: int) -> dict[str, float]:
    """Rates of its questions in new scenes; see `metrics.question_rates`."""
    asked, ambiguous = [], []
    episodes, ask = make_scenes(env, count, TEST_SEED), learned(policy)
    for first in range(0, count, env.num_envs):
        part = episodes[first : first + env.num_envs]
        dialogues = [Dialogue(episode.instruction, None, "") for episode in part]
        obs = {PROPRIO: torch.stack([torch.from_numpy(episode.state[0]) for episode in part])}
        for camera in policy.spec.cameras:
            views = [torch.from_numpy(episode.images[camera][0]).permute(2, 0, 1) for episode in part]
            obs[PIXELS + camera] = torch.stack(views)
        asked.append(ask(dialogues, torch.arange(len(part)), obs))
        ambiguous.append(torch.tensor([bool(episode.action[0, 0] > 0) for episode in part]))
    return question_rates(torch.cat(asked), torch.cat(ambiguous))


def printed(found: dict[str, float]) -> dict[str, str]:
    """The rows of the table."""
    named = {"right": "right", "asked_when_ambiguous": "asked when unclear", "asked_when_clear": "asked when clear"}
    return {title: f"{100 * found[name]:.1f} %" for name, title in named.items()}


if __name__ == "__main__":
    sys.exit(main())
