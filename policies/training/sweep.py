"""A search over flags of a training by Optuna: trials one after the other, each a run; what was cut off goes on.

The study is `sweep.db` (SQLite, which Optuna's dashboard reads too) in the sweep's folder, beside the trials' runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from embodied import cli
from embodied.env.registry import Suite, TaskEntry
from embodied.errors import CheckpointError, EmbodiedError, RunError, listing
from embodied.storage import task_names
from embodied.storage.configs import run_document
from embodied.storage.files import jsonable, locked
from embodied.storage.runs import RUNS, Run, check_links
from policies.training import launch
from policies.training.seeds import train_one, trained_already
from policies.training.settings import Settings

STUDY = "sweep"
"""Name of the study, and of the files in its folder."""
REPORTS = 50
"""Number of times that a trial's progress is compared with others', where hopeless ones are stopped early."""
SPARED = 0.2  # of a trial's steps, in which none is stopped
ATTEMPTS = 3
"""Trials that may fail one after the other before the sweep does."""


@dataclasses.dataclass(frozen=True)
class Varied:
    """A flag that is varied: from one number to another, or over some values."""

    flag: str
    """As of `embodied.train`, without the dashes."""
    low: float | int = 0
    high: float | int = 0
    log: bool = False
    """Whether factors count instead of differences."""
    values: tuple[str, ...] = ()
    """Values to try, where there is no range."""

    @staticmethod
    def parse(text: str) -> Varied:
        """`FLAG=LOW..HIGH`, `FLAG=LOW..HIGH,log` or `FLAG=A,B,C`; a range between whole numbers has whole numbers.

        Raises:
            EmbodiedError: it is none of these.
        """
        flag, equals, said = text.partition("=")
        flag = flag.removeprefix("--")
        refused = EmbodiedError(
            f"--vary {text}: expected FLAG=LOW..HIGH, FLAG=LOW..HIGH,log or FLAG=A,B,C, "
            "such as ppo.learning-rate=1e-4..1e-2,log"
        )
        if not (flag and equals and said):
            raise refused
        if ".." not in said:
            return Varied(flag, values=tuple(said.split(",")))
        bounds, comma, scale = said.partition(",")
        numbers = [_number(bound) for bound in bounds.split("..")]
        low, high = (numbers[0], numbers[-1])
        if len(numbers) != 2 or low is None or high is None or (comma and scale != "log"):
            raise refused
        if not low < high or (scale and low <= 0):
            raise EmbodiedError(f"--vary {text}: expected a low end below the high one{', and above 0' * bool(scale)}")
        return Varied(flag, low, high, bool(scale))

    def drawn(self, trial: Any) -> str:
        """The value that a trial suggests, as text for a command line."""
        if self.values:
            return trial.suggest_categorical(self.flag, self.values)
        if isinstance(self.low, int) and isinstance(self.high, int):
            return str(trial.suggest_int(self.flag, self.low, self.high, log=self.log))
        return f"{trial.suggest_float(self.flag, self.low, self.high, log=self.log):.6g}"


@dataclasses.dataclass(frozen=True)
class Goal:
    """Objective of the search."""

    measure: str = "success"
    """A figure of the evaluation at the end."""
    minimize: bool = False
    prune: bool = False
    """Whether trials that are worse than the median of others at the same step are stopped."""
    sampler_seed: int = 0


class Sweep:
    """One search, in a folder."""

    def __init__(
        self, entry: TaskEntry | Suite, words: Sequence[str], varied: Sequence[Varied], goal: Goal, name: str | None
    ) -> None:
        """Open the study in the folder, or begin it.

        All trials have `words`, flags of `embodied.train`, in common. The folder is `runs/TASK/name`, by default by a
        name that follows from the rest.

        Raises:
            EmbodiedError: Optuna is not installed, a flag is refused, or the folder's study sought something else.
        """
        self.entry, self.words, self.varied, self.goal = entry, tuple(words), tuple(varied), goal
        self._optuna = require_optuna()
        common = launch.parse(entry, self.words)
        if common.seeds or common.out or common.name or not common.evaluate_episodes:
            raise EmbodiedError("a sweep's trials are single runs in its own folder, each of which is evaluated")
        told = json.dumps([jsonable(run_document(common)), [dataclasses.asdict(v) for v in varied], goal.measure])
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        self.folder = RUNS / task_names.run_folder(entry.name) / (name or f"sweep-{digest}")
        self.folder.mkdir(parents=True, exist_ok=True)
        check_links(self.folder)
        self.study = self._opened(digest)

    def _opened(self, digest: str) -> Any:
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        url = f"sqlite:///{self.folder / STUDY}.db"
        pruner = optuna.pruners.MedianPruner(n_warmup_steps=int(SPARED * REPORTS))
        study = optuna.create_study(
            storage=url, study_name=STUDY, load_if_exists=True, pruner=pruner,
            direction="minimize" if self.goal.minimize else "maximize",
        )  # fmt: skip
        held = study.user_attrs.get("digest")
        if held is None:
            study.set_user_attr("digest", digest)
        elif held != digest:
            raise RunError(f"the sweep in {self.folder} varies other flags or trains otherwise; give this one a --name")
        return study

    def run(self, trials: int) -> bool:
        """Go on until so many trials are finished, pruned ones included; whether that is so, not stopped by a signal.

        Raises:
            EmbodiedError: another process runs this sweep, or several trials failed one after the other.
        """
        try:
            lock = locked(self.folder)
        except BlockingIOError:
            raise RunError(f"the sweep in '{self.folder}' is run by another process; wait for it, or end it") from None
        try:
            return self._carry_on(trials)
        finally:
            if lock is not None:
                os.close(lock)

    def _carry_on(self, trials: int) -> bool:
        self._take_up()
        failed = 0
        while (done := len(self._in("COMPLETE", "PRUNED"))) < trials:
            # A draw depends on those before it alone, so that a sweep that was cut off draws what one process does.
            self.study.sampler = self._optuna.samplers.TPESampler(seed=self.goal.sampler_seed + len(self._runs))
            trial = self.study.ask()
            settings = self._settings(trial)
            cli.say(f"trial {done + 1} of {trials}  {' '.join(self.flags(trial))}")
            try:
                going_on, failed = self._carry_out(trial, settings), 0
            except (RunError, CheckpointError):
                raise
            except EmbodiedError as error:
                self.study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                failed += 1
                if failed == ATTEMPTS:
                    raise
                cli.say(f"failed: {error}")
                continue
            if not going_on:
                return False
        return True

    def _take_up(self) -> None:
        """Let trials that were cut off come first, with the same flags in the same runs."""
        waiting = [trial.user_attrs.get("run") for trial in self._in("WAITING")]
        for trial in self._in("RUNNING"):
            if (run := trial.user_attrs.get("run")) not in (None, *waiting):
                self.study.enqueue_trial(trial.params, user_attrs={"run": run})
            self.study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)

    @property
    def _runs(self) -> set[str]:
        """Names of the trials' folders."""
        return {trial.user_attrs["run"] for trial in self.study.get_trials() if "run" in trial.user_attrs}

    def _settings(self, trial: Any) -> Settings[Any, Any]:
        for one in self.varied:
            one.drawn(trial)
        folder = trial.user_attrs.get("run", f"trial-{len(self._runs):03d}")
        trial.set_user_attr("run", folder)
        settings = launch.parse(self.entry, [*self.words, *self.flags(trial)])
        return dataclasses.replace(settings, out=self.folder / folder)

    def flags(self, trial: Any) -> list[str]:
        """A trial's own flags."""
        return [
            f"--{one.flag}={trial.params[one.flag]:.6g}" if isinstance(trial.params[one.flag], float)
            else f"--{one.flag}={trial.params[one.flag]}"
            for one in self.varied
        ]  # fmt: skip

    def _carry_out(self, trial: Any, settings: Settings[Any, Any]) -> bool:
        """Train and report to the study; whether no signal came between."""
        run, pruning = trained_already(settings), Pruning(trial, settings.steps, self.goal)
        if run is None:
            trained = train_one(settings, pruning if self.goal.prune else None)
            if pruning.pruned:
                self.study.tell(trial, state=self._optuna.trial.TrialState.PRUNED)
                cli.say("stopped: worse than the median of the trials before it at this step")
                return True
            if trained.stopped:
                return False
            run = trained.run
        self.study.tell(trial, self._value(run))
        return True

    def _value(self, run: Run) -> float:
        value = run.result.get(self.goal.measure)
        if not isinstance(value, int | float) or not math.isfinite(value):
            known = [name for name, found in run.result.items() if isinstance(found, float)]
            raise RunError(f"--measure {self.goal.measure}: an evaluation here has {listing(known, len(known))}")
        return float(value)

    def _in(self, *states: str) -> list[Any]:
        """The trials in some of Optuna's states."""
        return self.study.get_trials(states=[self._optuna.trial.TrialState[state] for state in states])

    def ranked(self) -> list[Any]:
        """Trials that came to their end, the best first."""
        return sorted(self._in("COMPLETE"), key=lambda trial: trial.value if self.goal.minimize else -trial.value)

    @property
    def pruned(self) -> list[Any]:
        """Trials that were stopped early."""
        return self._in("PRUNED")

    def best_command(self) -> str:
        """The command that trains with the best flags.

        Raises:
            EmbodiedError: no trial has come to its end.
        """
        best = self.ranked()[:1]
        if not best:
            raise EmbodiedError(f"no trial in {self.folder} has come to its end")
        words = [word for word in self.words if word != self.entry.name]
        return " ".join(["python -m embodied.train", task_names.typed(self.entry.name), *words, *self.flags(best[0])])


class Pruning:
    """Reports a trial's progress, and stops it where others were better at the same step."""

    def __init__(self, trial: Any, steps: int, goal: Goal) -> None:
        self._trial, self._steps, self._goal, self._reported, self.pruned = trial, steps, goal, 0, False

    def __call__(self, steps: int, metrics: Mapping[str, float]) -> bool:
        report, value = int(REPORTS * steps / self._steps), metrics.get(self._goal.measure, math.nan)
        if report > self._reported and math.isfinite(value) and steps < self._steps:
            self._reported = report
            self._trial.report(value, report)
            self.pruned = self._trial.should_prune()
        return self.pruned


def require_optuna() -> Any:
    """The package `optuna`.

    Raises:
        EmbodiedError: it is not installed.
    """
    try:
        return importlib.import_module("optuna")
    except ImportError:
        raise EmbodiedError('sweeps need the package optuna; pip install "embodied-sim[sweep]"') from None


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
