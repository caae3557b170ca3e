"""`python -m embodied.evaluate`: how well a policy does on a task or a suite, with 95 % intervals."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tyro

from embodied import cli
from embodied.env.env import Env
from embodied.env.factory import build
from embodied.env.multi_agent import agent_names
from embodied.env.options import C, EnvOptions, Trials
from embodied.env.registry import Suite, TaskEntry, join_content
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard, reason
from embodied.evaluation import tables
from embodied.evaluation.contributions import contributions, most_coalitions
from embodied.evaluation.rates import adaptation, overall
from embodied.evaluation.report import Photographs, learning_curves, page
from embodied.evaluation.rollouts import evaluate
from embodied.evaluation.suites import Rows, evaluate_suite
from embodied.storage import task_names
from embodied.storage.configs import places, run_document
from embodied.storage.files import embodied_version, read_json, write_atomic
from policies.multi_agent.adversary import check_minority
from policies.policy import zero_policy
from policies.training.loading import (
    learned_in_trials,
    load_policy,
    remembers,
    suite_policies,
    suite_policy,
    with_needs,
)
from policies.training.mixed_team import Members, MixedTeam, infiltrated, load_team


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(EnvOptions[C]):
    """Evaluate a policy over whole episodes with fresh random starts.

    Prints success and return with 95 % intervals and the task's own metrics. Of a suite, a line for each task, over the
    suite's own starts; JSON and an HTML page with pictures go to runs/evaluations. Examples:

        python -m embodied.evaluate swarm/hover --policy shipped
        python -m embodied.evaluate runs/swarm/hover/20261121-103000 --engine mujoco
        python -m embodied.evaluate my_task.py:Reach --policy runs/my_task/Reach/20261121-103000
        python -m embodied.evaluate mt10 --policy expert
        python -m embodied.evaluate locomotion/go1-joystick-flat --policy zero --json zero.json
        python -m embodied.evaluate locomotion/go1-joystick-flat --engine brax --episodes 16
        python -m embodied.evaluate swarm/formation --adversaries 2 --adversary random
        python -m embodied.evaluate swarm/tag --team predators=runs/tag prey=expert
        python -m embodied.evaluate mt10 --policy runs/vla/mt10 --wrong-instruction
        python -m embodied.evaluate mt10 --policy runs/vla/mt10 --visual-shift colours
    """

    task: tyro.conf.Positional[str]
    """Task or suite to evaluate on; python -m embodied.list names them all. Or a task of your own, FILE.py:CLASS; or a
    run, whose policy is then evaluated on its task."""
    policy: str = "shipped"
    """A run folder or checkpoint, or: shipped, expert, random, zero. Or one of your own, FILE.py:FUNCTION."""
    instruction: str | None = None
    """Instruction of a policy that follows them; by default the task's own first instruction."""
    held_out_instruction: cli.Rare[bool] = False
    """Tell a policy that knows its task by words (embodied.train --task-encoding words) what it never heard before."""
    wrong_instruction: cli.Rare[bool] = False
    """Tell it, in each environment, what another of the tasks it learned would say: a policy that listens fails."""
    team: cli.Rare[tuple[str, ...]] = ()
    """Of a task of many agents, instead of --policy: who follows which policy, WHO=POLICY with WHO a side of the game,
    agents as in 0-2 or 0,3, or rest: predators=runs/tag prey=expert."""
    contributions: cli.Rare[int] = 0
    """Of a task of many agents: also say what each adds to the team's return (its Shapley value), by so many random
    orders in which agents join; who has not joined does nothing. Every team met on the way is evaluated."""
    adversaries: cli.Rare[int] = 0
    """Of a task of many agents: how many of them, the last ones, follow --adversary instead of --policy."""
    adversary: cli.Rare[str] = "random"
    """With --adversaries: a policy trained by embodied.train --adversaries, or random, zero, expert. Or one of your
    own, FILE.py:FUNCTION."""
    episodes: int = 256
    """Number of episodes; of a suite, of each task."""
    num_envs: int = 256
    """Environments that step together; each contributes the same number of episodes. A suite takes one for each."""
    impl: cli.Rare[str | None] = None
    """Implementation of mjx: warp or jax; by default what fits the machine."""
    seed: int = 1000
    """Seed of the starts; training seeds are small numbers."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    resume: cli.Rare[bool] = False
    """Of a suite: go on behind the tasks that the same command had finished when it was stopped or killed."""
    html: cli.Rare[Path | None] = None
    """Of a suite: where to write the page, instead of runs/evaluations/SUITE/TIME.html."""

    def __post_init__(self) -> None:
        if self.contributions < 0:
            raise EmbodiedError(f"--contributions {self.contributions}: expected 0 or more")
        if self.team and self.adversaries:
            raise EmbodiedError("--team says who follows what already; expected no --adversaries beside it")
        if self.episodes < 1 or self.num_envs < 1:
            raise EmbodiedError(
                f"--episodes {self.episodes} and --num-envs {self.num_envs}: expected at least 1 of each"
            )


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    name = cli.required_task(words, registry, "evaluate", Settings)
    task, policy = cli.task_and_policy(name, cli.flag_value(words, "--policy"), registry)
    settings = parse(registry.find(task), words, policy)
    return run_suite(registry.suites[task], settings) if task in registry.suites else run(settings)


def parse(entry: TaskEntry | Suite, words: list[str], policy: str | None = None) -> Settings[Any]:
    """Parse a command line; its defaults are what the policy learned with, and else those of the task or the suite."""
    if isinstance(entry, Suite):
        config = entry.shared_config(training=False)
        defaults = Settings[Any](task=entry.name, episodes=entry.episodes, seed=entry.seed, config=config)
    else:
        defaults = Settings[Any](task=entry.name, config=entry.load().config_type())
    policy = policy or cli.flag_value(words, "--policy") or defaults.policy
    learned = with_needs(defaults, suite_policy(entry, policy) if isinstance(entry, Suite) else policy)
    defaults = dataclasses.replace(learned, task=tyro.MISSING, policy=policy)
    kind = Settings[type(defaults.config)]  # type: ignore[misc]
    settings = dataclasses.replace(cli.parse(kind, words, "evaluate", defaults), task=entry.name)
    check_trials(settings)
    return settings


def check_trials(settings: Settings[Any]) -> None:
    """Refuse trials of a policy that learned without them.

    Raises:
        EmbodiedError: there are such.
    """
    policy = settings.policy
    trained = policy == "shipped" or Path(policy).exists()
    adapt = next((one.episodes_per_trial for one in settings.wrappers if isinstance(one, Trials)), None)
    if adapt is not None and trained and not learned_in_trials(policy, settings.task):
        raise EmbodiedError(
            f"--adapt {adapt}: policy {policy!r} did not learn in trials, so it cannot adapt; "
            "expected one of embodied.train --episodes-per-trial"
        )


def run(settings: Settings[Any]) -> int:
    """Evaluate, print, write JSON."""
    if settings.resume:
        raise EmbodiedError(f"--resume is for suites, not for one task, {settings.task}")
    num_envs, impl = min(settings.num_envs, settings.episodes), {"impl": settings.impl} if settings.impl else {}
    env = build(dataclasses.replace(settings, num_envs=num_envs, engine_options=impl))
    if settings.contributions:
        check_earns_together(env)
    told = {"instruction": settings.instruction, **said_of(settings)}
    policy = load_team(settings.team, env) if settings.team else load_policy(settings.policy, env, **told)
    scored = None
    if settings.adversaries:
        check_minority(settings.adversaries, env.agents)
        agents = env.action_shape[1]
        policy = infiltrated(policy, load_policy(settings.adversary, env), agents, settings.adversaries)
        scored = agents - settings.adversaries
    task = task_names.label(settings.task)
    with cli.Line(f"{task} on {env.engine_name}", settings.episodes, before=cli.COMPILING) as line:
        outcome = evaluate(
            env, policy, settings.episodes, scored=scored, on_step=lambda done, _: line.update(done, f"{done} episodes")
        )
    summary = outcome.summary()
    named = " ".join(settings.team) or settings.policy
    title = f"{task} on {env.engine_name}, policy {named}, {settings.episodes} fresh episodes"
    rows, by_episode = tables.evaluation_rows(summary, env.task.metric_units), outcome.by_episode()
    cli.show(cli.table(title, rows | tables.trial_rows(by_episode)))
    added = added_by_agents(settings, env, policy) if settings.contributions else {}
    result = {"task": task, "engine": env.engine_name, "policy": named, "seed": settings.seed}
    result |= {name: value for name, value in told.items() if value} | given_options(settings)
    result |= {"by_episode": by_episode} if by_episode else {}
    if settings.adversaries:
        result |= {"adversaries": settings.adversaries, "adversary": settings.adversary}
    result |= added
    cli.write_result(settings.json, cli.command_line("embodied.evaluate"), result | summary)
    return 0


def check_earns_together(env: Env) -> None:
    """Refuse tasks whose return is not a team's.

    Raises:
        EmbodiedError: the task has one robot, or sides that earn opposed rewards.
    """
    if (team := env.task.team) is None or team.sides:
        has = "one robot" if team is None else "sides that earn opposed rewards"
        raise EmbodiedError(f"--contributions: this task has {has}; expected a task of many agents who earn together")


def added_by_agents(settings: Settings[Any], env: Env, policy: PolicyFunction) -> dict[str, Any]:
    """Contribution of each agent to the team's return; prints it, and returns it for the JSON."""
    agents, idle = env.action_shape[1], zero_policy(env.action_size)
    met: set[frozenset[int]] = set()
    with cli.Line("contributions", most_coalitions(agents, settings.contributions)) as line:

        def earned(coalition: frozenset[int]) -> float:
            line.update(len(met), f"a team of {len(coalition)}")
            met.add(coalition)
            rest = tuple(agent for agent in range(agents) if agent not in coalition)
            team = MixedTeam([Members(tuple(sorted(coalition)), policy), Members(rest, idle)])
            return evaluate(env, team, settings.episodes).summary()["return"]

        found = contributions(earned, agents, settings.contributions)
    assert env.task.team is not None
    names = agent_names(env.task.team)
    rows = {
        name: f"{one.value:.4g}" + (f" ± {one.half:.2g}" if one.half else "")
        for name, one in zip(names, found, strict=True)
    }
    cli.show(cli.table("added to the return by each agent", rows))
    return {"contributions": {name: dataclasses.asdict(one) for name, one in zip(names, found, strict=True)}}


def given_options(settings: Settings[Any]) -> dict[str, Any]:
    """Changes of the task and of its looks that the result notes; not paths, which only this machine has."""
    shift = settings.camera_config.visual_shift
    changes = {name: place.value for wrapper in settings.wrappers for name, place in places(wrapper).items()}
    noted = {name: value for name, value in changes.items() if not isinstance(value, Path)}
    return noted | ({"visual_shift": shift} if shift else {})


def run_suite(suite: Suite, settings: Settings[Any]) -> int:
    """Evaluate task by task, print the table, write JSON and the page.

    Raises:
        EmbodiedError: an option that only single tasks have.
    """
    for flag in ("team", "contributions", "adversaries", "instruction", "impl"):
        if getattr(settings, flag):
            raise EmbodiedError(f"--{flag} {getattr(settings, flag)} is for one task, not for the suite {suite.name}")
    started_at = dataclasses.replace(
        suite, seed=settings.seed, held_out_seed=suite.held_out_seed + settings.seed - suite.seed
    )
    photographs = Photographs(suite_policies(suite, settings.policy, **said_of(settings)))
    folder, count = Path("runs") / "evaluations" / suite.name.replace(":", "-"), len(suite.tasks) + len(suite.held_out)
    finished = Finished(folder, suite, settings)
    if settings.resume:
        photographs.taken |= finished.load()
    try:
        with cli.Line(f"{suite.name}, policy {settings.policy}", count, before=cli.COMPILING) as line:
            rows = evaluate_suite(
                started_at, photographs.rule_of, settings, episodes=settings.episodes, on_task=line.update,
                begun=tuple(finished.rows), on_row=lambda row: finished.add(row, photographs.taken),
            )  # fmt: skip
    except KeyboardInterrupt:
        cli.say(f"{len(finished.rows)} of {count} tasks are evaluated; the same command with --resume goes on")
        raise
    cli.show(tables.suite_table(f"{suite.name}, policy {settings.policy}", rows))
    if suite.unseen:
        cli.show(f"note: {unseen_note(suite, settings.policy)}")
    result = {"task": suite.name, "policy": settings.policy, "seed": settings.seed}
    result |= said_of(settings) | given_options(settings)
    result |= overall([row for row in rows if not row["held_out"]]) | adaptation(rows) | {"results": rows}
    place = folder / time.strftime("%Y%m%d-%H%M%S")
    command = cli.command_line("embodied.evaluate")
    cli.write_result(settings.json or place.with_suffix(".json"), command, result)
    target = settings.html or place.with_suffix(".html")
    target.parent.mkdir(parents=True, exist_ok=True)
    curves = learning_curves(settings.policy)
    target.write_text(page(suite, rows, command, photographs.taken, curves), encoding="utf-8")
    cli.show(f"-> {settings.json or place.with_suffix('.json')}, {target}")
    finished.path.unlink(missing_ok=True)
    return 0


class Finished:
    """The tasks of a suite that are evaluated: a file that each joins when it is, and that goes when all are."""

    def __init__(self, folder: Path, suite: Suite, settings: Settings[Any]) -> None:
        """Note what is evaluated, and how; another policy, or the same after more training, has another file."""
        self.rows: Rows = []
        policy = Path(suite_policy(suite, settings.policy))
        files = [policy] if policy.is_file() else sorted(policy.rglob("*.safetensors")) if policy.is_dir() else []
        learned = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        told = json.dumps([embodied_version(), run_document(settings), learned], sort_keys=True)
        self.path = folder / f"unfinished-{hashlib.sha256(told.encode()).hexdigest()[:8]}.json"

    def load(self) -> dict[str, bytes]:
        """Take up what is evaluated; returns task -> picture, JPEG.

        Raises:
            EmbodiedError: the file is damaged.
        """
        try:
            document = read_json(self.path)
            self.rows = [dict(row) for row in document["rows"]]
            return {task: base64.b64decode(picture) for task, picture in document["pictures"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise EmbodiedError(f"cannot go on with '{self.path}': {reason(error)}; remove it") from error

    def add(self, row: dict[str, Any], pictures: Mapping[str, bytes]) -> None:
        """Store the results of a task."""
        self.rows.append(row)
        drawn = {task: base64.b64encode(picture).decode() for task, picture in pictures.items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, json.dumps({"rows": self.rows, "pictures": drawn}).encode())


def said_of(settings: Settings[Any]) -> dict[str, bool]:
    """Options that give a policy another instruction than its task's own; empty where none is set."""
    flags = {name: getattr(settings, name) for name in ("wrong_instruction", "held_out_instruction")}
    return {name: True for name, given in flags.items() if given}


def unseen_note(suite: Suite, policy: str) -> str:
    """Note where a suite hides something from a policy: why it does badly, or what it must do."""
    hides = f"policies of {suite.name} are not shown the {suite.unseen}"
    if policy == "expert":
        return f"{hides}; experts are, so they say how well the tasks can be done, not how well found out"
    if remembers(policy, suite.name):
        return f"{hides}; this one has memory, by which it can find them out"
    return f"{hides}; without memory, as this one, none can find them out"


if __name__ == "__main__":
    sys.exit(main())
