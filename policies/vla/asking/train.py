"""`python -m policies.vla.asking.train`: a network learns from scenes when to ask."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import torch
import tyro

from embodied import cli
from embodied.configs import to_json
from embodied.env import Env
from embodied.errors import EmbodiedError, guard
from embodied.pixels import PREFIX
from embodied.runs import Run
from embodied.task import PROPRIO
from policies.vla.asking.asker import ASKER, learned
from policies.vla.asking.report import asking
from policies.vla.asking.scenes import scenes
from policies.vla.config import FineTuningConfig, VLAConfig
from policies.vla.data import Demonstrations
from policies.vla.fine_tuning import FineTuning
from policies.vla.policy import VLAPolicy
from policies.vla.session import lessons_of
from policies.vla.statistics import Statistics

TRAIN_SEED, TEST_SEED = 3_000_001, 3_000_002  # of the scenes; those of demonstrations and evaluations are others
LOG_INTERVAL = 50  # gradient steps to a line of metrics


@dataclasses.dataclass(frozen=True)
class Settings:
    """Learn from drawn scenes whether an instruction fits one thing or several, in pictures and words.

    The simulation says which, exactly, so scenes cost no demonstrations. The run is what --asker takes. Examples:

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

    settings = cli.parse(Settings, arguments, "policies.vla.asking.train")
    options = {"cameras": settings.cameras, "resolution": settings.resolution}
    env = make(settings.task, settings.num_envs, settings.engine, settings.seed, device="cpu", **options)
    run = Run.create(Path("runs"), "asking", to_json(dataclasses.replace(settings, out=None, json=None)), settings.out)
    started = time.perf_counter()
    with cli.Line(f"scenes of {settings.task}", settings.scenes) as line:
        episodes = scenes(env, settings.scenes, TRAIN_SEED, lambda done: line.update(done, f"{done} scenes"))
    drawn = time.perf_counter() - started
    policy = fitted(Demonstrations.of(episodes, env.control_dt), settings, run)
    seconds = time.perf_counter() - started - drawn
    found = judged(policy, env, settings.tests)
    result = {"task": settings.task, "scenes": settings.scenes, "scene_seconds": drawn, "train_seconds": seconds}
    cli.console().print(cli.table(f"{run.path}: {settings.tests} new scenes", printed(found)))
    cli.write_result(settings.json, cli.command_line("policies.vla.asking.train"), result | found)
    return 0


def fitted(demonstrations: Demonstrations, settings: Settings, run: Run) -> VLAPolicy:
    """The network that errs least on held-out scenes; it is stored in the run."""
    torch.manual_seed(settings.seed)  # of the weights
    policy = VLAPolicy.untrained(
        settings.network, Statistics.of(demonstrations.episodes), demonstrations.senses,
        lessons_of(demonstrations.episodes),
    )  # fmt: skip
    tuning = FineTuning(policy, demonstrations, settings.tuning, settings.steps, seed=settings.seed)
    with cli.Line("learning when to ask", settings.steps) as line:
        while not tuning.finished:
            measures = tuning.step()
            if tuning.steps % LOG_INTERVAL == 0 or len(measures) > 3:
                run.log(tuning.steps, measures)
                line.update(tuning.steps, ", ".join(f"{name} {value:.3g}" for name, value in measures.items()))
    meta, tensors = tuning.policy.to_tensors()
    contents = {f"policy/{name}": tensor for name, tensor in tensors.items()}
    run.save(tuning.steps, contents, {"policy": meta, "task": settings.task})
    run.close()
    return tuning.policy


def judged(policy: VLAPolicy, env: Env, count: int) -> dict[str, float]:
    """How often it asks in new scenes; see `report.asking`."""
    from embodied.dialogue import Dialogue

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
