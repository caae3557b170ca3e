"""`python -m embodied.evaluate`: how well a policy does on a task or a suite, with 95 % intervals."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any, Generic, TypeVar

import tyro

from embodied import cli
from embodied.env.env import Env
from embodied.env.multi_agent import agent_names
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard
from embodied.evaluation import tables
from embodied.evaluation.contributions import contributions, most_coalitions
from embodied.evaluation.rates import adaptation, overall
from embodied.evaluation.report import Photographs, learning_curves, page
from embodied.evaluation.rollouts import evaluate
from embodied.evaluation.suites import evaluate_suite
from embodied.factory import make
from embodied.registry import Suite, TaskEntry, join_content
from embodied.storage import task_names
from policies.multi_agent.adversary import check_minority
from policies.policy import zero_policy
from policies.training.loading import (
    camera_options,
    load_policy,
    remembers,
    suite_camera_options,
    suite_policies,
    trial_options,
)
from policies.training.mixed_team import Members, MixedTeam, infiltrated, load_team

C = TypeVar("C")


@dataclasses.dataclass(frozen=True)
class Settings(Generic[C]):
    """Evaluate a policy over whole episodes with fresh random starts.

    Prints success and return with 95 % intervals and the task's own metrics. Of a suite, a line for each task, over the
    suite's own starts; JSON and an HTML page with pictures go to runs/evaluations. Examples:

        python -m embodied.evaluate swarm/hover --policy shipped
        python -m embodied.evaluate swarm/hover --policy runs/swarm/hover/20261121-103000 --engine mujoco
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
    """Task or suite to evaluate on; python -m embodied.list names them all. Or a task of your own, FILE.py:CLASS."""
    policy: str = "shipped"
    """A run folder or checkpoint, or: shipped, expert, random, zero. Or one of your own, FILE.py:FUNCTION."""
    instruction: str | None = None
    """Instruction of a policy that follows them; by default the task's own first instruction."""
    held_out_instruction: cli.Rare[bool] = False
    """Tell a policy that knows its task by words (embodied.train --task-encoding words) what it never heard before."""
    wrong_instruction: cli.Rare[bool] = False
    """Tell it, in each environment, what another of the tasks it learned would say: a policy that listens fails."""
    visual_shift: cli.Rare[str | None] = None
    """Of a policy that sees: how pictures differ from what it knows: colours, camera (by 5 cm), lights, or all."""
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
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    impl: cli.Rare[str | None] = None
    """Implementation of mjx: warp or jax; by default what fits the machine."""
    seed: int = 1000
    """Seed of the starts; training seeds are small numbers."""
    device: str | None = None
    """Device of the policy: cpu, cuda or cuda:N; by default with the engine."""
    calibration: cli.Rare[Path | None] = None
    """Folder that python -m sim2real.calibrate wrote: evaluate on the robot that its log shows."""
    calibration_width: cli.Rare[float] = 1.0
    """With --calibration: each episode's robot is drawn from what the log allows, its standard deviations times this
    factor; 0: always the estimate itself."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    html: cli.Rare[Path | None] = None
    """Of a suite: where to write the page, instead of runs/evaluations/SUITE/TIME.html."""
    adapt: int | None = None
    """Episodes of a trial, which begin alike and with the same hidden goal, while the policy's memory lives on; success
    in the first, second, ... is reported, and --episodes counts trials. By default as many as the policy learned with,
    of one that learned in trials (see embodied.train --episodes-per-trial)."""
    episode_steps: cli.Rare[int | None] = None
    """Control steps of an episode; by default the task's own time limit."""
    config: C = None  # type: ignore[assignment]
    """The task's own options."""

    def __post_init__(self) -> None:
        for flag, value in (("adapt", self.adapt), ("episode-steps", self.episode_steps)):
            if value is not None and value < 1:
                raise EmbodiedError(f"--{flag} {value}: expected at least 1")
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
    entry = registry.find(cli.required_task(words, registry, "embodied.evaluate"))
    settings = parse(entry, words)
    return run_suite(entry, settings) if isinstance(entry, Suite) else run(settings)


def parse(entry: TaskEntry | Suite, words: list[str]) -> Settings[Any]:
    """Parse a command line whose flags include the fields of the task's config, or of the tasks' common one."""
    if isinstance(entry, Suite):
        config = entry.shared_config(training=False)
        defaults = Settings(tyro.MISSING, episodes=entry.episodes, seed=entry.seed, config=config)
    else:
        defaults = Settings(tyro.MISSING, config=entry.load().config_type())
    kind = Settings[type(defaults.config)]  # type: ignore[misc]
    return dataclasses.replace(cli.parse(kind, words, "evaluate", defaults), task=entry.name)


def run(settings: Settings[Any]) -> int:
    """Evaluate, print, write JSON."""
    num_envs = min(settings.num_envs, settings.episodes)
    env = make(
        settings.task,
        num_envs,
        settings.engine,
        settings.seed,
        device=settings.device,
        config=settings.config,
        calibration=settings.calibration,
        calibration_width=settings.calibration_width,
        engine_options={"impl": settings.impl} if settings.impl else {},
        **shifted(camera_options(settings.policy, settings.task), settings),
        **episode_options(settings),
    )
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
    with cli.Line(f"{task} on {env.engine_name}", settings.episodes) as line:
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
    result |= {name: value for name, value in told.items() if value} | shift_of(settings)
    result |= episode_options(settings) | ({"by_episode": by_episode} if by_episode else {})
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
    if env.agents is None or env.task.teams:
        has = "one robot" if env.agents is None else "sides that earn opposed rewards"
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
    names = agent_names(agents, env.task.teams)
    rows = {
        name: f"{one.value:.4g}" + (f" ± {one.half:.2g}" if one.half else "")
        for name, one in zip(names, found, strict=True)
    }
    cli.show(cli.table("added to the return by each agent", rows))
    return {"contributions": {name: dataclasses.asdict(one) for name, one in zip(names, found, strict=True)}}


def shift_of(settings: Settings[Any]) -> dict[str, str]:
    """The option `visual_shift`, where one is given."""
    return {"visual_shift": settings.visual_shift} if settings.visual_shift else {}


def episode_options(settings: Settings[Any]) -> dict[str, Any]:
    """The options of `make` that set the length of episodes, and their number in a trial.

    Raises:
        EmbodiedError: trials are asked for, of a policy that was trained without.
    """
    learned = trial_options(settings.policy, settings.task)
    trained = settings.policy == "shipped" or Path(settings.policy).exists()
    if settings.adapt is not None and trained and not learned:
        raise EmbodiedError(
            f"--adapt {settings.adapt}: policy {settings.policy!r} did not learn in trials, so it cannot adapt; "
            "expected one of embodied.train --episodes-per-trial"
        )
    options = learned if settings.adapt is None else {"episodes_per_trial": settings.adapt}
    return options | ({} if settings.episode_steps is None else {"episode_steps": settings.episode_steps})


def shifted(eyes: dict[str, Any], settings: Settings[Any]) -> dict[str, Any]:
    """The options of a policy's cameras, and how their pictures are shifted.

    Raises:
        EmbodiedError: it does not see.
    """
    if settings.visual_shift and not eyes:
        raise EmbodiedError(f"--visual-shift {settings.visual_shift}: policy {settings.policy!r} uses no cameras")
    return eyes | shift_of(settings)


def run_suite(suite: Suite, settings: Settings[Any]) -> int:
    """Evaluate task by task, print the table, write JSON and the page.

    Raises:
        EmbodiedError: an option that only single tasks have.
    """
    for flag in ("team", "contributions", "adversaries", "calibration", "instruction", "impl"):
        if getattr(settings, flag):
            raise EmbodiedError(f"--{flag} {getattr(settings, flag)} is for one task, not for the suite {suite.name}")
    started_at = dataclasses.replace(
        suite, seed=settings.seed, held_out_seed=suite.held_out_seed + settings.seed - suite.seed
    )
    eyes, lengths = suite_camera_options(suite, settings.policy), episode_options(settings)
    photographs = Photographs(suite_policies(suite, settings.policy, **said_of(settings)))
    with cli.Line(f"{suite.name}, policy {settings.policy}", len(suite.tasks) + len(suite.held_out)) as line:
        rows = evaluate_suite(started_at, photographs.rule_of, engine=settings.engine, episodes=settings.episodes,
                              device=settings.device, config=settings.config, on_task=line.update,
                              options=shifted(eyes, settings) | lengths)  # fmt: skip
    title = f"{suite.name}, policy {settings.policy}"
    cli.show((tables.trial_table if "episodes_per_trial" in lengths else tables.suite_table)(title, rows))
    if suite.unseen:
        cli.show(f"note: {unseen_note(suite, settings.policy)}")
    result = {"task": suite.name, "policy": settings.policy, "seed": settings.seed}
    result |= said_of(settings) | shift_of(settings)
    result |= lengths | overall([row for row in rows if not row["held_out"]]) | adaptation(rows) | {"results": rows}
    place = Path("runs") / "evaluations" / suite.name.replace(":", "-") / time.strftime("%Y%m%d-%H%M%S")
    command = cli.command_line("embodied.evaluate")
    cli.write_result(settings.json or place.with_suffix(".json"), command, result)
    target = settings.html or place.with_suffix(".html")
    target.parent.mkdir(parents=True, exist_ok=True)
    curves = learning_curves(settings.policy)
    target.write_text(page(suite, rows, command, photographs.taken, curves), encoding="utf-8")
    cli.show(f"-> {settings.json or place.with_suffix('.json')}, {target}")
    return 0


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
