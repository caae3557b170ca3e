"""An improvement while it lives: trials before, while and after, metrics, checkpoints, a clean stop."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from embodied import cli
from embodied.cli.interrupts import Interrupts
from embodied.evaluation import tables
from embodied.evaluation.suites import Rows, overall, shared_config
from embodied.factory import make
from embodied.registry import Suite
from embodied.storage.checkpoints import Checkpoint, unflatten
from embodied.storage.runs import Run
from policies.vla.fine_tuning.saving import save_policy
from policies.vla.fine_tuning.stopwatch import Part, Stopwatch
from policies.vla.fine_tuning.trials import Trials
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.learner import Improvement, require_tokens
from policies.vla.reinforcement.rollout_envs import SimulatedArena
from policies.vla.reinforcement.settings import Settings

BEFORE, AFTER = "before", "after"
"""Under which the evaluations stand in metrics and results."""


class ImproveSession:
    """One improvement."""

    def __init__(self, settings: Settings, policy: VLAPolicy, suite: Suite, what: str) -> None:
        """Make the environments.

        Args:
            settings: How.
            policy: What to improve, where it is to be.
            suite: On which tasks.
            what: What errors call the policy.

        Raises:
            EmbodiedError: It cannot be improved there.
        """
        require_tokens(policy, what)
        self.settings, self.suite = settings, suite
        senses, device = policy.senses, str(policy.device)
        config = shared_config(suite, training=True)
        arenas = []
        for task in suite.tasks:
            env = make(
                task, settings.rl.episodes, settings.engine, device=device, config=config,
                cameras=senses.cameras, resolution=senses.resolution,
            )  # fmt: skip
            arenas.append(SimulatedArena(env, policy, settings.rl.horizon, what))
        self.watch = Stopwatch(policy.device)
        self.improvement = Improvement(
            policy, arenas, settings.algorithm, settings.rl, seed=settings.seed, watch=self.watch
        )
        self.trials = Trials(suite, senses, settings.trial_episodes, settings.engine, device)
        self.interrupts = Interrupts()
        self._seconds = 0.0
        self._latest: dict[str, float] = {}

    def train(self, run: Run, resume: Checkpoint | None = None) -> int:
        """Train to the end or to a signal; returns the exit code."""
        if resume is not None:
            tree = unflatten(resume.tensors)["trainer"]
            self.improvement.load_state(tree)
            self._seconds = float(tree["seconds"])
        self._saved_step = None if resume is None else resume.step
        self._announce(run, resume)
        if resume is None:
            self._save(run)
        with self.interrupts:
            if not any(BEFORE in record for record in run.metrics()):
                self._evaluate(run, BEFORE)
            with cli.Line(run.task, 1.0) as line:
                self._loop(run, line)
        self._save(run)
        improvement = self.improvement
        if self.interrupts.signal:
            cli.console().print(
                f"stopped by {self.interrupts.signal} in iteration {improvement.iterations:,} and saved; go on with\n"
                f"  python -m policies.vla.rl_finetune --resume {run.path}"
            )
        else:
            self._report(run, self._evaluate(run, AFTER))
        run.close()
        return 0

    def _loop(self, run: Run, line: cli.Line) -> None:
        """Iterate until it is finished or a signal arrives."""
        settings, improvement = self.settings, self.improvement
        tried = saved = self._begun = time.monotonic()
        self._before = self._seconds
        self.watch.take()
        while self.progress < 1.0 and self.interrupts.signal is None:
            steps = improvement.env_steps
            measures = improvement.step()
            self._seconds = self._before + time.monotonic() - self._begun
            measures |= speeds(self.watch.take(), improvement.env_steps - steps, measures["frames"])
            if time.monotonic() - tried > settings.trial_seconds:
                line.update(self.progress, f"{progress_text(self._latest)}  trying ...")
                with self.watch.part(Part.TRIALS):
                    measures |= self.trials.run(improvement.policy)
                tried = time.monotonic()
            measures |= {"iteration": float(improvement.iterations), "train_seconds": self._seconds}
            self._latest |= measures
            run.log(improvement.env_steps, measures)
            line.update(self.progress, progress_text(self._latest))
            if time.monotonic() - saved > settings.checkpoint_seconds:
                self._save(run)
                saved = time.monotonic()

    @property
    def progress(self) -> float:
        """How much of the training is done, 0 to 1."""
        settings, done = self.settings, self.improvement
        shares = (
            (done.iterations, settings.iterations),
            (done.env_steps, settings.steps),
            (self._seconds, 60.0 * settings.minutes),
        )
        return min(1.0, max(reached / limit for reached, limit in shares if limit))

    def _save(self, run: Run) -> None:
        """Write a checkpoint that both a resume and a robot can use."""
        improvement = self.improvement
        if improvement.env_steps == self._saved_step:
            return
        state = improvement.state() | {"seconds": self._seconds}
        task = self.settings.task[0] if len(self.settings.task) == 1 else None
        save_policy(run, improvement.env_steps, improvement.policy, state, task)
        self._saved_step = improvement.env_steps

    def _evaluate(self, run: Run, when: str) -> Rows:
        """How well the policy does what it thinks best, from the suite's own starts; noted in the metrics."""
        suite, episodes = self.suite, self.settings.evaluate_episodes
        if not episodes or self.interrupts.signal:
            return []
        with cli.Line(f"evaluating {when}", len(suite.tasks) + len(suite.held_out)) as line:
            rows = self.trials.report(self.improvement.policy, episodes, on_task=line.update)
        cli.console().print(tables.suite_table(f"{suite.name}, {when}", rows))
        each = {f"{when}/{row['task']}": row["success_any"] for row in rows}
        taught = [row for row in rows if not row["held_out"]]
        run.log(self.improvement.env_steps, {when: overall(taught)["success_any"], **each})
        return rows

    def _announce(self, run: Run, resume: Checkpoint | None) -> None:
        improvement, settings = self.improvement, self.settings
        goes_on = "" if resume is None else f", from iteration {improvement.iterations:,}"
        count = improvement.simulator.vector.numel()
        cli.console().print(
            f"{settings.algorithm}: {len(improvement.arenas)} tasks x {settings.rl.episodes} environments, "
            f"{count / 1e6:.1f} M parameters learn, {improvement.policy.device}{goes_on} -> {run.path}"
        )

    def _report(self, run: Run, rows: Rows) -> None:
        """Say what was reached, and what to type next."""
        improvement = self.improvement
        result: dict[str, Any] = {
            "task": run.task,
            "algorithm": str(self.settings.algorithm),
            "iterations": improvement.iterations,
            "steps": improvement.env_steps,
            "train_seconds": self._seconds,
            "rl": dataclasses.asdict(self.settings.rl),
        }
        records = run.metrics()
        for record in records:
            result |= {name: value for name, value in record.items() if name.partition("/")[0] in (BEFORE, AFTER)}
        timed = [record for record in records if f"{Part.PHYSICS}_fraction" in record]
        for name in (f"{part}_seconds" for part in Part):
            result[name] = sum(record[name] for record in timed)
        if rows:
            result |= {**overall([row for row in rows if not row["held_out"]]), "results": rows}
        cli.console().print(
            f"{improvement.iterations:,} iterations, {improvement.env_steps:,} steps in {self._seconds:.0f} s\n"
            f"What it does differently:  python -m policies.vla.compare {self.settings.policy} {run.path}"
        )
        cli.write_result(self.settings.json, cli.command_line("policies.vla.rl_finetune"), result)


def speeds(seconds: Mapping[Part, float], env_steps: int, frames: float) -> dict[str, float]:
    """Rates per second of the whole loop, and what of it each part took: `<part>_seconds` and `<part>_fraction`."""
    total = sum(seconds.values())
    found = {"env_steps_per_second": env_steps / total, "frames_per_second": frames / total}
    for part, took in seconds.items():
        found |= {f"{part}_seconds": took, f"{part}_fraction": took / total}
    return found


def progress_text(latest: Mapping[str, float]) -> str:
    """The newest measures that a person follows."""
    if not latest:
        return ""
    shares = " ".join(
        f"{part} {100 * latest[f'{part}_fraction']:.0f} %"
        for part in (Part.PHYSICS, Part.RENDERING, Part.INFERENCE, Part.UPDATE)
    )
    rates = [f"{cli.number(latest[f'{what}_per_second'])} {what.removeprefix('env_')}/s" for what in RATES]
    tried = [f"best actions {100 * latest['closed_loop']:.0f} %"] if "closed_loop" in latest else []
    parts = [f"success {100 * latest['success']:.0f} %", *tried, f"dropped {100 * latest['dropped']:.0f} %"]
    return "  ".join([*parts, *rates, shares])


RATES = ("env_steps", "frames")
"""Of which the progress line tells."""
