"""A fine-tuning while it lives: progress, metrics, trials, checkpoints, a clean stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar

from embodied import cli
from embodied.cli.interrupts import Interrupts
from embodied.errors import EmbodiedError
from embodied.storage.checkpoints import unflatten
from embodied.storage.configs import from_json, run_document
from embodied.storage.runs import Run
from policies.vla.data.batches import Demonstrations
from policies.vla.fine_tuning.learner import FineTuning
from policies.vla.fine_tuning.saving import save_policy
from policies.vla.fine_tuning.trials import Trials

S = TypeVar("S")

FINGERPRINT = "demonstrations"
"""Under which a run's configuration says what it learned from."""

LOG_INTERVAL = 50  # gradient steps to a line of metrics
AVERAGED = ("loss", "gradient_norm")  # measures of every step; others are of the moment


class Session:
    """One fine-tuning, of whatever is learned from demonstrations."""

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
        """Note what is to be done.

        Args:
            tuning: What learns.
            demonstrations: From what.
            command: Module whose `--resume RUN` goes on.
            task: Task or suite that checkpoints are for, if any.
            trials: In which the policy is tried meanwhile, if at all.
            trial_seconds: Of training between two trials.
            checkpoint_seconds: Between checkpoints.
        """
        self.tuning, self.demonstrations, self.command, self.task = tuning, demonstrations, command, task
        self.trials, self.trial_seconds, self.checkpoint_seconds = trials, trial_seconds, checkpoint_seconds
        self.interrupts = Interrupts()
        self.seconds = 0.0
        self._saved_step: int | None = None
        self._sums = dict.fromkeys(AVERAGED, 0.0)
        self._latest: dict[str, float] = {}

    def train(self, run: Run, what: str, *, resume: bool = False) -> bool:
        """Train to the end or to a signal, and save; whether it is the end.

        Args:
            run: Where the results go.
            what: What learns, in a word.
            resume: Go on from the run's last checkpoint.

        Raises:
            EmbodiedError: the run that is to go on has learned from other demonstrations.
        """
        if resume:
            self._go_on(run)
        self._announce(run, what)
        started = time.monotonic()
        with self.interrupts, cli.Line(run.task, self.tuning.total_steps) as line:
            self._loop(run, line)
        self._save(run)
        run.close()
        self.seconds = time.monotonic() - started
        if self.interrupts.signal:
            cli.console().print(
                f"stopped by {self.interrupts.signal} at gradient step {self.tuning.steps:,} and saved; go on with\n"
                f"  python -m {self.command} --resume {run.path}"
            )
            return False
        cli.console().print(f"{self.tuning.steps:,} gradient steps in {self.seconds:.0f} s -> {run.path}")
        return True

    def _loop(self, run: Run, line: cli.Line) -> None:
        """Step until it is finished or a signal arrives."""
        tuning = self.tuning
        tried = saved = logged = time.monotonic()
        counted = tuning.steps
        while not tuning.finished and self.interrupts.signal is None:
            measures = tuning.step()
            self._sums = {name: total + measures.pop(name) for name, total in self._sums.items()}
            due = self.trials is not None and time.monotonic() - tried > self.trial_seconds
            if due or tuning.steps % LOG_INTERVAL == 0 or len(measures) > 1:
                rate = (tuning.steps - counted) * tuning.config.batch_size / (time.monotonic() - logged)
                measures |= {name: total / (tuning.steps - counted) for name, total in self._sums.items()}
                if due:
                    assert self.trials is not None
                    line.update(tuning.steps, f"{progress_text(self._latest)}  trying ...")
                    measures |= self.trials.run(tuning.policy)
                    tried = time.monotonic()
                self._log(run, line, measures | {"samples_per_second": rate})
                logged, counted = time.monotonic(), tuning.steps
            if time.monotonic() - saved > self.checkpoint_seconds:
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
        save_policy(run, self.tuning.steps, self.tuning.policy, self.tuning.state(), self.task)
        self._saved_step = self.tuning.steps

    def _go_on(self, run: Run) -> None:
        """Take up the state of the run's last checkpoint, and end its record there."""
        found, learned_from = self.demonstrations.fingerprint, run.config.get(FINGERPRINT)
        if found != learned_from:
            raise EmbodiedError(f"run '{run.path}' learned from {learned_from}; its dataset now has {found}")
        checkpoint = run.resume()
        self.tuning.load_state(unflatten(checkpoint.tensors)["trainer"])
        self._saved_step = checkpoint.step

    def _announce(self, run: Run, what: str) -> None:
        policy, held_out = self.tuning.learning, self.tuning.held_out
        count = sum(p.numel() for p in policy.network.parameters())
        apart = 0 if held_out is None else len(held_out)
        goes_on = "" if self._saved_step is None else f", from step {self._saved_step:,}"
        cli.console().print(
            f"{what} ({count / 1e6:.1f} M parameters): {self.demonstrations.fingerprint}, {apart:,} steps held out, "
            f"{policy.device}{goes_on} -> {run.path}"
        )


def stored_settings(kind: type[S], run: Run, changes: Mapping[str, Any]) -> S:
    """The settings with which a run was begun, as `kind`, but for some changes."""
    stored = {name: value for name, value in run.config.items() if name != FINGERPRINT}
    return from_json(kind, {**stored, **changes})


def document_of(settings: Any, demonstrations: Demonstrations) -> dict[str, Any]:
    """The configuration of a run: the command's settings, and what it learns from."""
    return run_document(settings) | {FINGERPRINT: demonstrations.fingerprint}


def progress_text(latest: Mapping[str, float]) -> str:
    """The newest measures that a person follows."""
    parts = [f"{cli.number(latest['samples_per_second'])} samples/s", f"loss {latest['loss']:.3g}"] if latest else []
    if "held_out_error" in latest:
        parts.append(f"held-out error {latest['held_out_error']:.3g}")
    if "closed_loop" in latest:
        parts.append(f"success {100 * latest['closed_loop']:.0f} %")
    return "  ".join(parts)
