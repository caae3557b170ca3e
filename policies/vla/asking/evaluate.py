"""`python -m policies.vla.asking.evaluate`: a policy with an asker, beside never, always and an oracle's asking."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tyro
from torch import Tensor

from embodied import cli
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.vec_env import PolicyFunction
from embodied.env.wrappers.instructions import InstructedTask, InstructionSource, require_dialogues, wrong_instructions
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.rollouts import evaluate
from policies.training.loading import open_checkpoint, policy_from_checkpoint
from policies.vla.asking.clarification import ASKERS, Asker, By, ClarifiedInstructions, learned, require_asker
from policies.vla.asking.metrics import summary, table_rows
from policies.vla.policy import VLAPolicy

SCRIPT = "expert"
"""The policy that is the task's script: it follows the instruction, and guesses where that fits several objects."""
WRONG = "told wrong"
"""Row of the control: each episode has an instruction for something else."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Evaluate a policy that asks before it acts; the simulation plays the user. Examples:

    python -m policies.vla.asking.evaluate manipulation/pick-among --policy runs/vla/among --asker runs/vla/asker
    python -m policies.vla.asking.evaluate manipulation/pick-among --policy expert --by never always oracle
    """

    task: tyro.conf.Positional[str] = "manipulation/pick-among"
    """A task whose instructions may fit several objects."""
    policy: str = SCRIPT
    """Policy: a run of policies.vla.train, or expert, the script, which follows the instruction."""
    asker: Path | None = None
    """A run of policies.vla.asking.train, for --by learned."""
    by: tuple[By, ...] = ()
    """Rules that decide whether to ask: never, always, oracle, learned; by default all, learned with an --asker."""
    episodes: int = 128
    """Of each, from the same initial states; all of them step together."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 1000
    """Of the initial states."""
    wrong: bool = True
    """Also give each episode an instruction for something else: a policy that follows it takes the wrong object."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise EmbodiedError(f"--episodes {self.episodes}: expected at least 1")
        if By.LEARNED in self.by and self.asker is None:
            raise EmbodiedError("--by learned needs --asker RUN, made by python -m policies.vla.asking.train")

    @property
    def askers(self) -> tuple[By, ...]:
        """Rules that decide whether to ask, in turn."""
        return self.by or tuple(by for by in By if by is not By.LEARNED or self.asker is not None)


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "policies.vla.asking.evaluate")
    actor = None if settings.policy == SCRIPT else stored(Path(settings.policy), "the policy")
    asker = None if settings.asker is None else stored(settings.asker, "the asker")
    env = make_env(settings, actor or asker)
    askers = dict(ASKERS)
    if asker is not None:
        spec = asker.spec if actor is None else actor.spec
        askers[By.LEARNED] = learned(require_asker(asker, spec, f"the asker '{settings.asker}'"))
    found = {by.value: evaluate_asker(env, actor, askers[by], settings) for by in settings.askers}
    if settings.wrong:
        found[WRONG] = evaluate_asker(env, actor, ASKERS[By.NEVER], settings, wrong=True)
    title = f"{settings.task} on {env.engine_name}, policy {settings.policy}, {settings.episodes} episodes each"
    cli.show(cli.table(title, table_rows(found)))
    result = {"task": settings.task, "engine": env.engine_name, "policy": settings.policy, "seed": settings.seed}
    results = [{"by": by, **row} for by, row in found.items()]
    cli.write_result(settings.json, cli.command_line("policies.vla.asking.evaluate"), result | {"results": results})
    return 0


def stored(path: Path, what: str) -> VLAPolicy:
    """A vision-language-action policy from a run.

    Raises:
        EmbodiedError: there is none, or one of another kind.
    """
    policy = policy_from_checkpoint(open_checkpoint(path), f"{what} '{path}'")
    if not isinstance(policy, VLAPolicy):
        raise EmbodiedError(f"{what} '{path}' is not told what to do; expected a run of python -m policies.vla.train")
    return policy


def make_env(settings: Settings, policy: VLAPolicy | None) -> Env:
    """The environments, with the cameras of a policy that has some.

    Raises:
        EmbodiedError: the task does not exist, has the same instruction in every episode, or no script for it.
    """
    cameras = {} if policy is None else {"cameras": policy.spec.cameras, "resolution": policy.spec.resolution}
    env = make(settings.task, settings.episodes, settings.engine, settings.seed, device="cpu", **cameras)
    require_dialogues(env)
    if settings.policy == SCRIPT and not isinstance(env.task, InstructedTask):
        raise EmbodiedError(f"'{env.name}' has no script that listens; expected --policy RUN")
    return env


def evaluate_asker(
    env: Env, actor: VLAPolicy | None, asker: Asker, settings: Settings, *, wrong: bool = False
) -> dict[str, float]:
    """One evaluation; see `metrics.summary`. `wrong`: each episode has an instruction for another object."""
    clarified = ClarifiedInstructions(env, asker)
    source: InstructionSource = clarified if not wrong else _wrong_source(env, clarified)
    if actor is None:
        assert isinstance(env.task, InstructedTask)  # checked when it was made
        policy: PolicyFunction = env.task.instructed_expert(env, source)
    else:
        policy = actor.bind(env, source=source)
    what = f"{settings.policy}, {'told wrong' if wrong else 'asking'}"
    with cli.Line(what, env.max_episode_steps) as line:
        steps = itertools.count(1)
        outcome = evaluate(
            env, policy, settings.episodes, seed=settings.seed, notes=clarified.notes,
            on_step=lambda done, _: line.update(next(steps), f"{done} episodes"),
        )  # fmt: skip
    return summary(outcome)


def _wrong_source(env: Env, clarified: ClarifiedInstructions) -> InstructionSource:
    """Instructions for another object, once it is noted whether there was something to ask."""
    wrong = wrong_instructions(env)

    def source(rows: Tensor, obs: Mapping[str, Tensor]) -> Sequence[str]:
        clarified(rows, obs)
        return wrong(rows, obs)

    return source


if __name__ == "__main__":
    sys.exit(main())
