"""`python -m policies.vla.asking.train`: a network learns from scenes when to ask."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import torch
import tyro

from embodied import cli
from embodied.core.task import PROPRIO
from embodied.env.env import Env
from embodied.errors import EmbodiedError, guard
from embodied.rendering.cameras import PREFIX
from embodied.storage.runs import Run, check_free
from policies.vla.asking.asker import ASKER, learned
from policies.vla.asking.report import asking
from policies.vla.asking.scenes import scenes
from policies.vla.data.batches import Demonstrations
from policies.vla.data.statistics import Statistics
from policies.vla.fine_tuning.learner import FineTuning
from policies.vla.fine_tuning.session import Session, document_of, stored_settings
from policies.vla.model.config import FineTuningConfig, VLAConfig
from policies.vla.policy import VLAPolicy

TRAIN_SEED, TEST_SEED = 3_000_001, 3_000_002  # of the scenes; those of demonstrations and evaluations are others
COMMAND = "policies.vla.asking.train"
LIMITS = ("steps",)
"""Settings that end a training."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Learn from drawn scenes whether an instruction fits one thing or several, in pictures and words.

    The simulation says which, exactly, so scenes cost no demonstrations. The run is what --asker takes. Ctrl-C or
    SIGTERM saves and stops; --resume RUN draws the same scenes and goes on. Examples:

        python -m policies.vla.asking.train manipulation/pick-among --out runs/vla/asker
        python -m policies.vla.asking.evaluate manipulation/pick-among --policy runs/vla/among --asker runs/vla/asker
    """

    task: tyro.conf.Positional[str] = "manipulation/pick-among"
    """A task whose instructions may fit several things."""
    out: Path | None = None
    """Run folder, instead of runs/asking/TIME; must be new or empty."""
    cameras: tuple[str, ...] = ("view", "wrist")
    """Those of the policy that acts, in its order."""
    resolution: int = 64
    """Pixels of both sides, as the policy's that acts."""
    scenes: int = 20_000
    """To learn from, a part of which is held out."""
    tests: int = 1000
    """Scenes on which it is judged at the end."""
    steps: int = 5000
    """Gradient steps in all; fewer if held-out scenes say so."""
    num_envs: int = 100
    """Scenes that are drawn together."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 0
    """Of every random draw but the scenes'."""
    resume: Path | None = None
    """Run to go on with: its own settings hold, but --steps may extend it."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    network: VLAConfig = ASKER
    """Its shape."""
    tuning: FineTuningConfig = dataclasses.field(
        default_factory=lambda: FineTuningConfig(learning_rate=1e-3, validation_interval=100)
    )
    """Options of the training."""

    def __post_init__(self) -> None:
        """Check counts."""
        if min(self.scenes, self.tests, self.steps, self.num_envs) < 1:
            raise EmbodiedError(
                f"--scenes {self.scenes}, --tests {self.tests}, --steps {self.steps}, --num-envs {self.num_envs}: "
                "expected at least 1 of each"
            )


@guard
def main(arguments: list[str] | None = None) -> int:
    """Draw scenes, learn, judge; returns the exit code."""
    from embodied.factory import make

    settings, run = cli.parse(Settings, arguments, COMMAND), None
    if settings.resume is not None:
        run = Run.open(settings.resume)
        limits = cli.given(settings, sys.argv[1:] if arguments is None else arguments, LIMITS)
        settings = stored_settings(Settings, run, limits | {"json": settings.json and str(settings.json)})
    elif settings.out is not None:
        check_free(settings.out)
    options = {"cameras": settings.cameras, "resolution": settings.resolution}
    env = make(settings.task, settings.num_envs, settings.engine, settings.seed, device="cpu", **options)
    started = time.perf_counter()
    with cli.Line(f"scenes of {settings.task}", settings.scenes) as line:
        episodes = scenes(env, settings.scenes, TRAIN_SEED, lambda done: line.update(done, f"{done} scenes"))
    drawn = time.perf_counter() - started
    session = prepared(Demonstrations.of(episodes, env.control_dt), settings)
    resume = run is not None
    run = run or Run.create(Path("runs"), "asking", document_of(settings, session.demonstrations), settings.out)
    if not session.train(run, "asker", resume=resume):
        return 0
    found = judged(session.tuning.policy, env, settings.tests)
    times = {"scene_seconds": drawn, "train_seconds": session.seconds}
    result = {"task": settings.task, "scenes": settings.scenes, "gradient_steps": session.tuning.steps, **times}
    cli.console().print(cli.table(f"{run.path}: {settings.tests} new scenes", printed(found)))
    cli.write_result(settings.json, cli.command_line(COMMAND), result | found)
    return 0


def prepared(demonstrations: Demonstrations, settings: Settings) -> Session:
    """A network that knows nothing yet, and how it learns; the one that errs least on held-out scenes is stored."""
    torch.manual_seed(settings.seed)  # of the weights
    statistics = Statistics.of(demonstrations.episodes)
    policy = VLAPolicy.untrained(settings.network, statistics, demonstrations.senses, demonstrations.lessons)
    tuning = FineTuning(policy, demonstrations, settings.tuning, settings.steps, seed=settings.seed)
    return Session(tuning, demonstrations, COMMAND, settings.task)


def judged(policy: VLAPolicy, env: Env, count: int) -> dict[str, float]:
    """How often it asks in new scenes; see `report.asking`."""
    from embodied.core.instruction import Dialogue

    asked, ambiguous = [], []
    episodes, ask = scenes(env, count, TEST_SEED), learned(policy)
    for first in range(0, count, env.num_envs):
        part = episodes[first : first + env.num_envs]
        said = [Dialogue(episode.instruction, None, "") for episode in part]
        obs = {PROPRIO: torch.stack([torch.from_numpy(episode.state[0]) for episode in part])}
        for camera in policy.senses.cameras:
            views = [torch.from_numpy(episode.images[camera][0]).permute(2, 0, 1) for episode in part]
            obs[PREFIX + camera] = torch.stack(views)
        asked.append(ask(said, torch.arange(len(part)), obs))
        ambiguous.append(torch.tensor([bool(episode.action[0, 0] > 0) for episode in part]))
    return asking(torch.cat(asked), torch.cat(ambiguous))


def printed(found: dict[str, float]) -> dict[str, str]:
    """The rows that say how it did."""
    named = {"right": "right", "asked_when_ambiguous": "asked when unclear", "asked_when_clear": "asked when clear"}
    return {title: f"{100 * found[name]:.1f} %" for name, title in named.items()}


if __name__ == "__main__":
    sys.exit(main())
