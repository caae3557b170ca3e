"""A session of RL fine-tuning: evaluations before and after, trials, metrics, checkpoints, a clean stop."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from embodied import cli
from embodied.env.factory import make
from embodied.env.registry import Suite
from embodied.evaluation.rates import overall
from embodied.evaluation.suites import Rows
from embodied.storage.checkpoints import Checkpoint
from embodied.storage.runs import Run
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.learner import RLFineTuning, require_tokens
from policies.vla.reinforcement.rollouts import RolloutTask
from policies.vla.reinforcement.settings import Settings
from policies.vla.reinforcement.timing import Phase, PhaseTimer
from policies.vla.session import VLASession
from policies.vla.trials import Trials

BEFORE, AFTER = "before", "after"
"""Keys of the evaluations in metrics and results: success at the last step."""
KEPT = (BEFORE, AFTER, f"{BEFORE}_any", f"{AFTER}_any")
COMMAND = "policies.vla.rl_finetune"


class RLSession(VLASession):
    """One RL fine-tuning."""

    learner: RLFineTuning

    def __init__(self, settings: Settings, policy: VLAPolicy, suite: Suite, what: str) -> None:
        """Make the environments of the suite's tasks, on the policy's device; errors call the policy `what`.

        Raises:
            EmbodiedError: it cannot be fine-tuned there.
        """
        require_tokens(policy, what)
        self.settings, self.suite = settings, suite
        spec, device = policy.spec, str(policy.device)
        config = suite.shared_config(training=True)
        tasks = []
        for task in suite.tasks:
            env = make(
                task, settings.rl.episodes, settings.engine, device=device, config=config,
                cameras=spec.cameras, resolution=spec.resolution,
            )  # fmt: skip
            tasks.append(RolloutTask.of(env, policy, settings.rl.horizon, settings.rl.hold, what))
        self.timer = PhaseTimer(policy.device)
        learner = RLFineTuning(policy, tasks, settings.algorithm, settings.rl, seed=settings.seed, timer=self.timer)
        named = settings.task[0] if len(settings.task) == 1 else None
        super().__init__(learner, COMMAND, named, settings.checkpoint_seconds)
        self.trials = Trials(suite, spec, settings.trial_episodes, settings.engine, device)

    @property
    def steps(self) -> int:
        return self.learner.env_steps

    @property
    def progress(self) -> str:
        return f"iteration {self.learner.iterations:,}"

    def state(self) -> dict[str, Any]:
        return super().state() | {"seconds": self.seconds}

    @property
    def share_done(self) -> float:
        """Share of the training that is done, 0 to 1."""
        settings, learner = self.settings, self.learner
        shares = (
            (learner.iterations, settings.iterations),
            (learner.env_steps, settings.steps),
            (self.seconds, 60.0 * settings.minutes),
        )
        return min(1.0, max(reached / limit for reached, limit in shares if limit))

    def train(self, run: Run, resume: Checkpoint | None = None) -> int:
        """Train to the end or to a signal; returns the exit code."""
        self.run = run
        if resume is not None:
            self.seconds = float(self.resume(resume)["seconds"])
        self._announce(run, resume)
        if resume is None:
            self.save()
        with self.interrupts:
            if not any(BEFORE in record for record in run.metrics()):
                self._evaluate(run, BEFORE)
            with cli.Line(run.task, 1.0) as line:
                self._loop(run, line)
        self.save()
        if self.stopped:
            self.say_stopped()
        else:
            self._report(run, self._evaluate(run, AFTER))
        run.close()
        return 0

    def _loop(self, run: Run, line: cli.Line) -> None:
        """Iterate until it is finished or a signal arrives."""
        settings, learner = self.settings, self.learner
        tried = begun = self._saved_at = time.monotonic()
        before = self.seconds
        self.timer.take()
        while self.share_done < 1.0 and not self.stopped:
            steps = learner.env_steps
            metrics = learner.step()
            self.seconds = before + time.monotonic() - begun
            metrics |= speeds(self.timer.take(), learner.env_steps - steps, metrics["frames"])
            if time.monotonic() - tried > settings.trial_seconds:
                self.save()  # a signal within the trial leaves it
                line.update(self.share_done, f"{progress_text(self._latest)}  trying ...")
                with self.timer.phase(Phase.TRIALS):
                    metrics |= self.trials.run(learner.policy)
                tried = time.monotonic()
            metrics |= {"iteration": float(learner.iterations), "train_seconds": self.seconds}
            self._latest |= metrics
            run.log(learner.env_steps, metrics)
            line.update(self.share_done, progress_text(self._latest))
            self.save_when_due()

    def _evaluate(self, run: Run, when: str) -> Rows:
        """The success of the most likely actions, from the suite's own initial states; noted in the metrics."""
        if not self.settings.evaluate_episodes or self.stopped:
            return []
        rows = self.trials.report(self.policy, self.settings.evaluate_episodes, when)
        each = {f"{when}/{row['task']}": row["success"] for row in rows}
        mean = overall([row for row in rows if not row["held_out"]])
        run.log(self.steps, {when: mean["success"], f"{when}_any": mean["success_any"], **each})
        return rows

    def _announce(self, run: Run, resume: Checkpoint | None) -> None:
        learner, settings = self.learner, self.settings
        goes_on = "" if resume is None else f", from iteration {learner.iterations:,}"
        count = learner.optimizer.vector.numel()
        cli.say(
            f"{settings.algorithm}: {len(learner.tasks)} tasks x {settings.rl.episodes} environments, "
            f"{count / 1e6:.1f} M parameters learn, {learner.policy.device}{goes_on} -> {run.path}"
        )

    def _report(self, run: Run, rows: Rows) -> None:
        """Print the results, and the next commands."""
        learner = self.learner
        result: dict[str, Any] = {
            "task": run.task,
            "algorithm": str(self.settings.algorithm),
            "iterations": learner.iterations,
            "steps": learner.env_steps,
            "train_seconds": self.seconds,
            "rl": dataclasses.asdict(self.settings.rl),
        }
        records = run.metrics()
        for record in records:
            result |= {name: value for name, value in record.items() if name.partition("/")[0] in KEPT}
        timed = [record for record in records if f"{Phase.PHYSICS}_fraction" in record]
        for name in (f"{phase}_seconds" for phase in Phase):
            result[name] = sum(record[name] for record in timed)
        if rows:
            result |= {**overall([row for row in rows if not row["held_out"]]), "results": rows}
        cli.show(f"{learner.iterations:,} iterations, {learner.env_steps:,} steps in {self.seconds:.0f} s")
        cli.write_result(self.settings.json, cli.command_line(COMMAND), result)


def speeds(seconds: Mapping[Phase, float], env_steps: int, frames: float) -> dict[str, float]:
    """Rates per second of the whole loop, and the time of each phase: `<phase>_seconds` and `<phase>_fraction`."""
    total = sum(seconds.values())
    found = {"env_steps_per_second": env_steps / total, "frames_per_second": frames / total}
    for phase, took in seconds.items():
        found |= {f"{phase}_seconds": took, f"{phase}_fraction": took / total}
    return found


def progress_text(latest: Mapping[str, float]) -> str:
    """The newest metrics that a person follows."""
    if not latest:
        return ""
    shares = " ".join(
        f"{phase} {100 * latest[f'{phase}_fraction']:.0f} %"
        for phase in (Phase.PHYSICS, Phase.RENDERING, Phase.INFERENCE, Phase.UPDATE)
    )
    rates = [f"{cli.number(latest[f'{what}_per_second'])} {what.removeprefix('env_')}/s" for what in RATES]
    tried = [f"best actions {100 * latest['closed_loop']:.0f} %"] if "closed_loop" in latest else []
    parts = [f"success {100 * latest['success']:.0f} %", *tried, f"dropped {100 * latest['dropped']:.0f} %"]
    return "  ".join([*parts, *rates, shares])


RATES = ("env_steps", "frames")
"""Shown in the progress line."""
