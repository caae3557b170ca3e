"""A session of supervised fine-tuning: progress, metrics, trials, checkpoints, a clean stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from embodied import cli
from embodied.errors import EmbodiedError
from embodied.storage.configs import run_document
from embodied.storage.runs import Run
from policies.vla.data.demonstrations import Demonstrations
from policies.vla.fine_tuning.learner import FineTuning
from policies.vla.session import VLASession
from policies.vla.trials import Trials

FINGERPRINT = "demonstrations"
"""Key of a run's config that identifies its demonstrations."""

LOG_INTERVAL = 50  # gradient steps to a line of metrics
AVERAGED = ("loss", "gradient_norm")  # metrics of every step; others are of the moment


class FineTuningSession(VLASession):
    """One fine-tuning, of a policy that acts or of one that asks."""

    learner: FineTuning

    def __init__(
        self,
        tuning: FineTuning,
        demonstrations: Demonstrations,
        command: str,
        task: str | None = None,
        *,
        trials: Trials | None = None,
        trial_seconds: float = 300.0,
        checkpoint_seconds: float = 120.0,
    ) -> None:
        """Note what is to be done: the run has the demonstrations' fingerprint, `task` is what checkpoints are for.

        With `trials` the policy is tried after every `trial_seconds` of training.
        """
        super().__init__(tuning, command, task, checkpoint_seconds)
        self.demonstrations, self.trials, self.trial_seconds = demonstrations, trials, trial_seconds
        self._sums = dict.fromkeys(AVERAGED, 0.0)

    @property
    def steps(self) -> int:
        return self.learner.steps

    @property
    def progress(self) -> str:
        return f"gradient step {self.steps:,}"

    def train(self, run: Run, what: str, *, resume: bool = False) -> bool:
        """Train to the end or to a signal, and save; whether it is the end. Messages call the policy `what`.

        Raises:
            EmbodiedError: the run that is to go on has learned from other demonstrations.
        """
        self.run = run
        if resume:
            self._require_same_demonstrations(run)
            self.resume(run.resume())
        self._announce(run, what)
        started = time.monotonic()
        with self.interrupts, cli.Line(run.task, self.learner.total_steps) as line:
            self._loop(run, line)
        self.save()
        run.close()
        self.seconds = time.monotonic() - started
        if self.stopped:
            self.say_stopped()
            return False
        cli.show(f"{self.steps:,} gradient steps in {self.seconds:.0f} s -> {run.path}")
        return True

    def _loop(self, run: Run, line: cli.Line) -> None:
        """Train until the tuning is finished or a signal arrives."""
        tuning = self.learner
        tried = logged = self._saved_at = time.monotonic()
        counted = tuning.steps
        while not tuning.finished and not self.stopped:
            metrics = tuning.step()
            self._sums = {name: total + metrics.pop(name) for name, total in self._sums.items()}
            due = self.trials is not None and time.monotonic() - tried > self.trial_seconds
            if due or tuning.steps % LOG_INTERVAL == 0 or len(metrics) > 1:
                rate = (tuning.steps - counted) * tuning.config.batch_size / (time.monotonic() - logged)
                metrics |= {name: total / (tuning.steps - counted) for name, total in self._sums.items()}
                if due:
                    assert self.trials is not None
                    self.save()  # a signal within the trial leaves it
                    line.update(tuning.steps, f"{progress_text(self._latest)}  trying ...")
                    metrics |= self.trials.run(tuning.policy)
                    tried = time.monotonic()
                self._log(run, line, metrics | {"samples_per_second": rate})
                logged, counted = time.monotonic(), tuning.steps
            self.save_when_due()

    def _log(self, run: Run, line: cli.Line, metrics: dict[str, float]) -> None:
        """Write a line of metrics, and one of progress."""
        self._sums = dict.fromkeys(AVERAGED, 0.0)
        self._latest |= metrics
        run.log(self.steps, metrics)
        line.update(self.steps, progress_text(self._latest))

    def _require_same_demonstrations(self, run: Run) -> None:
        found, learned_from = self.demonstrations.fingerprint, run.config.get(FINGERPRINT)
        if found != learned_from:
            raise EmbodiedError(f"run '{run.path}' learned from {learned_from}; its dataset now has {found}")

    def _announce(self, run: Run, what: str) -> None:
        policy, held_out = self.learner.current_policy, self.learner.held_out
        count = sum(p.numel() for p in policy.network.parameters())
        apart = 0 if held_out is None else len(held_out)
        goes_on = "" if self._saved_step is None else f", from step {self._saved_step:,}"
        points = policy.network.config.keypoints
        cli.say(
            f"{what} ({count / 1e6:.1f} M parameters): {self.demonstrations.fingerprint}, {apart:,} steps held out, "
            f"{f'points at {points} things' if points else 'does not point'}, {policy.device}{goes_on} -> {run.path}"
        )
        if silent := self.demonstrations.without_keypoints:
            cli.say(
                f"warning: {silent} episodes have no keypoints, so the policy does not learn to point from the others"
            )


def document_of(settings: Any, demonstrations: Demonstrations) -> dict[str, Any]:
    """The config of a run: the command's settings, and the demonstrations' fingerprint."""
    return run_document(settings) | {FINGERPRINT: demonstrations.fingerprint}


def progress_text(latest: Mapping[str, float]) -> str:
    """The newest metrics that a person follows."""
    parts = [f"{cli.number(latest['samples_per_second'])} samples/s", f"loss {latest['loss']:.3g}"] if latest else []
    if "held_out_error" in latest:
        parts.append(f"held-out error {latest['held_out_error']:.3g}")
    if "closed_loop" in latest:
        parts.append(f"success {100 * latest['closed_loop']:.0f} %")
    return "  ".join(parts)
