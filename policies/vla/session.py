"""A fine-tuning while it lives: progress, metrics, trials, checkpoints, a clean stop, a report at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from embodied import cli
from embodied.checkpoints import Checkpoint, unflatten
from embodied.dataset.episode import Episode
from embodied.interrupts import Interrupts
from embodied.runs import Run
from policies.vla.fine_tuning import FineTuning
from policies.vla.policy import Lesson, VLAPolicy
from policies.vla.pretrained import Folders
from policies.vla.saving import save_policy
from policies.vla.selection import Selection, read
from policies.vla.settings import Settings, network_config
from policies.vla.statistics import Statistics
from policies.vla.trials import Trials, suite_of, within

LOG_INTERVAL = 50  # gradient steps to a line of metrics
AVERAGED = ("loss", "gradient_norm")  # measures of every step; others are of the moment


class Session:
    """One fine-tuning."""

    def __init__(self, settings: Settings) -> None:
        """Read the demonstrations and build the policy.

        Raises:
            EmbodiedError: there are none, they do not fit together, or the settings are impossible.
        """
        self.settings = settings
        config = network_config(settings)
        assert settings.dataset is not None
        chosen = Selection(settings.tasks, settings.episodes_per_task, settings.failures)
        self.demonstrations = read(settings.dataset, settings.cameras, chosen)
        device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(settings.seed)  # of the weights
        policy = VLAPolicy.untrained(
            config,
            Statistics.of(self.demonstrations.episodes).to(device),
            self.demonstrations.senses,
            lessons_of(self.demonstrations.episodes),
            settings.execute,
            Folders(settings.image_encoder, settings.text_encoder),
            settings.lora,
        )
        self.tuning = FineTuning(policy, self.demonstrations, settings.tuning, settings.steps, seed=settings.seed)
        senses, episodes = self.demonstrations.senses, settings.trial_episodes
        suite = within(suite_of(settings.task), settings.tasks) if settings.task else None
        self.trials = Trials(suite, senses, episodes, settings.engine, device) if suite else None
        self.interrupts = Interrupts()
        self._sums = dict.fromkeys(AVERAGED, 0.0)
        self._latest: dict[str, float] = {}

    def train(self, run: Run, resume: Checkpoint | None = None) -> int:
        """Train to the end or to a signal; returns the exit code."""
        if resume is not None:
            self.tuning.load_state(unflatten(resume.tensors)["trainer"])
        self._saved_step = None if resume is None else resume.step
        self._announce(run, resume)
        started = time.monotonic()
        with self.interrupts, cli.Line(run.task, self.settings.steps) as line:
            self._loop(run, line)
        self._save(run)
        run.close()
        if self.interrupts.signal:
            cli.console().print(
                f"stopped by {self.interrupts.signal} at gradient step {self.tuning.steps:,} and saved; go on with\n"
                f"  python -m policies.vla.train --resume {run.path}"
            )
            return 0
        self._report(run, time.monotonic() - started)
        return 0

    def _loop(self, run: Run, line: cli.Line) -> None:
        """Step until it is finished or a signal arrives."""
        settings, tuning = self.settings, self.tuning
        tried = saved = logged = time.monotonic()
        counted = tuning.steps
        while not tuning.finished and self.interrupts.signal is None:
            measures = tuning.step()
            self._sums = {name: total + measures.pop(name) for name, total in self._sums.items()}
            due = self.trials is not None and time.monotonic() - tried > settings.trial_seconds
            if due or tuning.steps % LOG_INTERVAL == 0 or len(measures) > 1:
                rate = (tuning.steps - counted) * settings.tuning.batch_size / (time.monotonic() - logged)
                measures |= {name: total / (tuning.steps - counted) for name, total in self._sums.items()}
                if due:
                    assert self.trials is not None
                    line.update(tuning.steps, f"{progress_text(self._latest)}  trying ...")
                    measures |= self.trials.run(tuning.policy)
                    tried = time.monotonic()
                self._log(run, line, measures | {"samples_per_second": rate})
                logged, counted = time.monotonic(), tuning.steps
            if time.monotonic() - saved > settings.checkpoint_seconds:
                self._save(run)
                saved = time.monotonic()

    def _log(self, run: Run, line: cli.Line, measures: dict[str, float]) -> None:
        """A line of metrics, and one of progress."""
        self._sums = dict.fromkeys(AVERAGED, 0.0)
        self._latest |= measures
        run.log(self.tuning.steps, measures)
        line.update(self.tuning.steps, progress_text(self._latest))

    def _save(self, run: Run) -> None:
        """Write a checkpoint that both a resume and a robot can use."""
        if self.tuning.steps == self._saved_step:
            return
        save_policy(run, self.tuning.steps, self.tuning.policy, self.tuning.state(), self.settings.task)
        self._saved_step = self.tuning.steps

    def _announce(self, run: Run, resume: Checkpoint | None) -> None:
        policy = self.tuning.learning
        count = sum(p.numel() for p in policy.network.parameters())
        goes_on = "" if resume is None else f", from step {resume.step:,}"
        apart = 0 if self.tuning.held_out is None else len(self.tuning.held_out)
        cli.console().print(
            f"{self.settings.size} ({count / 1e6:.1f} M parameters): {self.demonstrations.fingerprint}, {apart:,} "
            f"steps held out, {policy.device}{goes_on} -> {run.path}"
        )

    def _report(self, run: Run, seconds: float) -> None:
        """Say where it ended; where there is a task, evaluate, with the right instructions and with wrong ones."""
        from embodied.suite import overall

        settings, steps = self.settings, self.tuning.steps
        cli.console().print(f"{steps:,} gradient steps in {seconds:.0f} s -> {run.path}")
        result: dict[str, Any] = {"task": run.task, "gradient_steps": steps, "train_seconds": seconds}
        if self.trials is not None and settings.evaluate_episodes:
            suite = self.trials.suite
            with cli.Line("evaluating", len(suite.tasks) + len(suite.held_out)) as line:
                rows = self.trials.report(self.tuning.policy, settings.evaluate_episodes, on_task=line.update)
            cli.console().print(cli.suite_table(suite.name, rows))
            result |= {**overall([row for row in rows if not row["held_out"]]), "results": rows}
        cli.write_result(settings.json, cli.command_line("policies.vla.train"), result)


def progress_text(latest: Mapping[str, float]) -> str:
    """The newest measures that a person follows."""
    parts = [f"{cli.number(latest['samples_per_second'])} samples/s", f"loss {latest['loss']:.3g}"] if latest else []
    if "held_out_error" in latest:
        parts.append(f"held-out error {latest['held_out_error']:.3g}")
    if "closed_loop" in latest:
        parts.append(f"success {100 * latest['closed_loop']:.0f} %")
    return "  ".join(parts)


def lessons_of(episodes: tuple[Episode, ...]) -> tuple[Lesson, ...]:
    """Each task of some episodes, with the words in which it was demonstrated."""
    taught: dict[str, dict[str, None]] = {}
    for episode in episodes:
        taught.setdefault(episode.task, {})[episode.instruction] = None
    return tuple(Lesson(task, tuple(texts)) for task, texts in taught.items())
