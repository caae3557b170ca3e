"""The contract of a task: its checks in their order, and how they are run."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from embodied.check import episodes, functions, models, observations, words
from embodied.check.findings import Finding
from embodied.core.task import Task
from embodied.env.env import Env
from embodied.env.factory import default_engine, make
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, own_traceback, reason

NUM_ENVS = 8


@dataclasses.dataclass(frozen=True)
class Check:
    """One property that a task is to have."""

    holds: Callable[[Any], Iterator[Finding]]
    """Called with the task, or an environment of it; yields what is wrong."""
    simulated: bool
    """Whether it takes an environment."""
    advice: bool = False
    """Whether a task works without it."""
    slow: bool = False
    """Whether it compiles further programs, minutes of a large task on other engines."""

    @property
    def name(self) -> str:
        return self.holds.__name__.replace("_", " ")


CHECKS = (
    Check(functions.state_keeps_its_structure, False),
    Check(functions.reward_terms_are_the_weighted_ones, False),
    Check(functions.outcomes_are_flags, False),
    Check(functions.every_agent_is_on_one_side, False),
    Check(functions.keypoints_are_places, False),
    Check(functions.commands_are_fields_of_the_state, False),
    Check(functions.functions_are_pure, False),
    Check(functions.variations_are_real, False),
    Check(functions.variations_have_an_effect, False),
    Check(words.a_mirror_shows_every_observed_term, False),
    Check(words.options_survive_the_way_to_a_file_and_back, False),
    Check(observations.everything_is_finite_float32_of_the_announced_shapes, True),
    Check(observations.every_term_of_every_observation_varies, True),
    Check(episodes.a_seed_decides_everything, True),
    Check(episodes.starts_are_random_across_environments, True),
    Check(episodes.success_is_not_failure, True),
    Check(episodes.an_episode_is_truncated_exactly_at_its_time_limit, True),
    Check(episodes.an_episode_that_follows_begins_afresh, True),
    Check(episodes.a_batch_is_so_many_single_environments, True),
    Check(models.both_models_agree, True),
    Check(models.every_listed_engine_builds, True),
    Check(models.other_engines_step_too, True, slow=True),
    Check(models.the_model_has_a_camera, True, advice=True),
    Check(words.the_task_is_said_in_words, False, advice=True),
    Check(words.observations_are_documented, False, advice=True),
    Check(words.options_are_documented, False, advice=True),
)


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of a check."""

    check: Check
    findings: tuple[Finding, ...] = ()
    ran: bool = True
    """Whether it could be run; a task whose functions do not fit together is not simulated."""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return bool(self.findings) and not self.check.advice

    @property
    def verdict(self) -> str:
        return (
            "not run"
            if not self.ran
            else "passed"
            if not self.findings
            else "advice"
            if self.check.advice
            else "FAILED"
        )


def examine(
    task: Task[Any], build: Callable[[], Env], *, slow: bool = False, done: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Run all checks of a task; `build` makes its environment, only if the task's functions fit.

    Args:
        task: The task.
        build: Makes `NUM_ENVS` environments of it, registered or named by a file.
        slow: Whether to run the checks that take minutes, too.
        done: Called with each result as it comes.
    """
    results, env = [], None
    for check in (check for check in CHECKS if slow or not check.slow):
        unfit = any(result.failed for result in results if not result.check.simulated)
        if check.simulated and unfit:
            result = Result(check, ran=False)
        else:
            begun = time.monotonic()
            if check.simulated and env is None:
                env = build()
            found = run_check(check, env if check.simulated else task)
            result = Result(check, found, seconds=time.monotonic() - begun)
        results.append(result)
        done(result)
    return results


def run_check(check: Check, subject: Any) -> tuple[Finding, ...]:
    """Findings of a check; an exception in the task's own code is a finding like any other."""
    found: list[Finding] = []
    try:
        for finding in check.holds(subject):
            found.append(finding)
    except EmbodiedError as error:
        found.append(Finding(check.name, f"the check ended with: {error}", "no error"))
    except Exception as error:
        own = own_traceback(error)
        said = own[1] if own else f"{type(error).__name__}: {reason(error).splitlines()[0]}"
        found.append(Finding("the task", f"it raised {said}", "no exception"))
    return tuple(dict.fromkeys(found))


@functools.lru_cache(maxsize=4)
def environment(name: str) -> Env:
    """`NUM_ENVS` environments of a task, made once for all its checks."""
    return make(name, NUM_ENVS, default_engine(join_content()[name]), device="cpu")


def failures(name: str, check: Check) -> list[str]:
    """Findings of a check of a task, registered or in a file, in words: for tests of a user's tasks."""
    return [
        str(finding) for finding in run_check(check, environment(name) if check.simulated else environment(name).task)
    ]
