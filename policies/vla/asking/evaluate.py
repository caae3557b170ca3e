"""`python -m policies.vla.asking.evaluate`: what asking is worth, beside never, always and an oracle's asking."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from pathlib import Path
from typing import Any

import tyro

from embodied import cli
from embodied.env.dialogue import Tell, check_dialogue, wrong_words
from embodied.env.env import Env
from embodied.errors import EmbodiedError, guard
from embodied.evaluation.rollouts import evaluate
from policies.training.loading import ActionRule, open_checkpoint, stored_policy
from policies.vla.asking.asker import RULES, Asker, By, check_asker, learned
from policies.vla.asking.conversation import Conversation
from policies.vla.asking.report import rows, summary
from policies.vla.policy import VLAPolicy

SCRIPT = "expert"
"""The policy that is the task's script: it takes what it has heard of, and guesses where that fits several."""
WRONG = "told wrong"
"""Row of the control: each episode is told something else that could be done in it."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Evaluate a policy that asks before it acts; the simulation plays the user. Examples:

    python -m policies.vla.asking.evaluate manipulation/pick-among --policy runs/vla/among --asker runs/vla/asker
    python -m policies.vla.asking.evaluate manipulation/pick-among --policy expert --by never always oracle
    """

    task: tyro.conf.Positional[str] = "manipulation/pick-among"
    """A task whose instructions may fit several things."""
    policy: str = SCRIPT
    """What acts: a run of policies.vla.train, or expert, the script, which takes what it has heard of."""
    asker: Path | None = None
    """A run of policies.vla.asking.train, for --by learned."""
    by: tuple[By, ...] = ()
    """Who decides about asking: never, always, oracle, learned; by default all, learned if there is an --asker."""
    episodes: int = 128
    """Of each, with the same starts; all of them step together."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 1000
    """Of the starts."""
    wrong: bool = True
    """Also tell each episode something else that could be done in it: a policy that listens takes the wrong object."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""

    def __post_init__(self) -> None:
        """Check what belongs together."""
        if self.episodes < 1:
            raise EmbodiedError(f"--episodes {self.episodes}: expected at least 1")
        if By.LEARNED in self.by and self.asker is None:
            raise EmbodiedError("--by learned needs --asker RUN, made by python -m policies.vla.asking.train")

    @property
    def askers(self) -> tuple[By, ...]:
        """Who decides, in turn."""
        return self.by or tuple(by for by in By if by is not By.LEARNED or self.asker is not None)


@guard
def main(arguments: list[str] | None = None) -> int:
    """Evaluate as the command line says; returns the exit code."""
    settings = cli.parse(Settings, arguments, "policies.vla.asking.evaluate")
    actor = None if settings.policy == SCRIPT else stored(Path(settings.policy), "the policy")
    asker = None if settings.asker is None else stored(settings.asker, "the asker")
    env = environment(settings, actor or asker)
    rules = dict(RULES)
    if asker is not None:
        senses = asker.senses if actor is None else actor.senses
        rules[By.LEARNED] = learned(check_asker(asker, senses, f"the asker '{settings.asker}'"))
    found = {by.value: judged(env, actor, rules[by], settings) for by in settings.askers}
    if settings.wrong:
        found[WRONG] = judged(env, actor, RULES[By.NEVER], settings, misled=True)
    title = f"{settings.task} on {env.engine_name}, policy {settings.policy}, {settings.episodes} episodes each"
    cli.console().print(cli.table(title, rows(found)))
    result = {"task": settings.task, "engine": env.engine_name, "policy": settings.policy, "seed": settings.seed}
    results = [{"by": by, **row} for by, row in found.items()]
    cli.write_result(settings.json, cli.command_line("policies.vla.asking.evaluate"), result | {"results": results})
    return 0


def stored(path: Path, what: str) -> VLAPolicy:
    """A vision-language-action policy from a run.

    Raises:
        EmbodiedError: there is none, or one of another kind.
    """
    policy = stored_policy(open_checkpoint(path), f"{what} '{path}'")
    if not isinstance(policy, VLAPolicy):
        raise EmbodiedError(f"{what} '{path}' is not told what to do; expected a run of python -m policies.vla.train")
    return policy


def environment(settings: Settings, seeing: VLAPolicy | None) -> Env:
    """What the policy acts in, with the eyes of one that sees.

    Raises:
        EmbodiedError: the task says the same in every episode, does not exist, or has no script that listens.
    """
    from embodied.factory import make

    eyes = {} if seeing is None else {"cameras": seeing.senses.cameras, "resolution": seeing.senses.resolution}
    env = make(settings.task, settings.episodes, settings.engine, settings.seed, device="cpu", **eyes)
    check_dialogue(env)
    if settings.policy == SCRIPT and not hasattr(env.task, "listener"):
        raise EmbodiedError(f"'{env.name}' has no script that listens; expected --policy RUN")
    return env


def judged(
    env: Env, actor: VLAPolicy | None, asker: Asker, settings: Settings, *, misled: bool = False
) -> dict[str, float]:
    """One evaluation; see `report.summary`. `misled`: each episode is told of another object."""
    conversation = Conversation(env, asker)
    tell: Tell = conversation if not misled else _misleading(env, conversation)
    rule: ActionRule = env.task.listener(env, tell) if actor is None else actor.in_env(env, tell=tell)
    what = f"{settings.policy}, {'told wrong' if misled else 'asking'}"
    with cli.Line(what, env.max_episode_steps) as line:
        steps = itertools.count(1)
        outcome = evaluate(
            env, rule, settings.episodes, seed=settings.seed, notes=conversation.notes,
            on_step=lambda done, _: line.update(next(steps), f"{done} episodes"),
        )  # fmt: skip
    return summary(outcome)


def _misleading(env: Env, conversation: Conversation) -> Tell:
    """Tells each episode of another object, once the conversation has taken its notes."""
    wrong = wrong_words(env)

    def tell(rows: Any, obs: Any) -> Any:
        conversation(rows, obs)
        return wrong(rows, obs)

    return tell


if __name__ == "__main__":
    sys.exit(main())
