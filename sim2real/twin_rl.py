"""`python -m sim2real.twin_rl`: reinforcement learning on a target, made short by a twin of it in simulation.

After TwinRL (arXiv:2602.09023), whose own training in the twin is unpublished. The target here is the same task on an
engine that is not the twin's, with parameters that are unknown to the twin.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from embodied import cli
from embodied.env.registry import join_content
from embodied.errors import guard
from embodied.storage import checkpoints
from embodied.storage.bounds import Bounded, at_least
from embodied.storage.checkpoints import flatten
from policies.off_policy.sac import SACConfig
from sim2real.twin_training import stages
from sim2real.twin_training.learning import LEARNER, Measured, Part, learner_on_target, steps_to, train_on_target
from sim2real.twin_training.stages import EVALUATION_SEED, Plan
from sim2real.twin_training.target import HiddenParameters

CONFIRMED = 128  # fresh episodes, about half of them in the region, that confirm the policy at the end


@dataclasses.dataclass(frozen=True)
class Settings(Bounded):
    """Train on a target with the help of a twin; what is there in OUT is used again.

    1. the task's script demonstrates on the target, from a small region of its initial states;
    2. a policy is trained in the twin, from the whole range, with these demonstrations;
    3. a map of where it fails in the twin says where episodes on the target begin, and where the script helps there;
    4. solved episodes of the twin, from the whole range, join the demonstrations;
    5. the learner goes on on the target, whose replay buffer opens with the end of the twin's.

    The target is the task on another engine with hidden parameters. With --parts and no part, it learns the same target
    without a twin, from the same demonstrations. Examples:

        python -m sim2real.twin_rl manipulation/push --region 'qpos.object.x<0' 'task_state.goal.0<0' --out twin_rl
        python -m sim2real.twin_rl manipulation/push --region 'qpos.object.x<0' 'task_state.goal.0<0' --out twin_rl \\
            --parts
        python -m embodied.play twin_rl/policy_all
    """

    task: tyro.conf.Positional[str]
    """Task with a script, whose rewards and episodes the learner's defaults fit: those at the table."""
    out: Path
    """Folder for all that is made."""
    region: tuple[str, ...]
    """Region of demonstrations: conditions NAME<VALUE or NAME>VALUE on initial states, by the names of failure maps."""
    parts: tuple[Part, ...] = tuple(Part)
    """Parts of the twin that the training on the target uses; none: there is no twin."""
    twin_engine: cli.Rare[str] = "mujoco"
    """Physics engine of the twin."""
    target_engine: cli.Rare[str] = "pybullet"
    """Physics engine of the target."""
    calibration: cli.Rare[Path | None] = None
    """Folder that python -m sim2real.calibrate wrote: the twin's robot is as its log says."""
    hidden: HiddenParameters = dataclasses.field(default_factory=HiddenParameters)
    """In what the target differs from the model."""
    episode_seconds: cli.Rare[float] = 1.875
    """s, of twin and target: shorter than the task's, which go on long after a table task is solved."""
    demonstrations: Annotated[int, at_least(1)] = 10
    """Episodes that are demonstrated in the region."""
    twin_steps: Annotated[int, at_least(1)] = 60_000
    """Environment steps in the twin."""
    synthesised: cli.Rare[int] = 100
    """Solved episodes of the twin that join the demonstrations."""
    swept: Annotated[cli.Rare[int], at_least(1)] = 512
    """Episodes of the failure map."""
    helped: cli.Rare[int] = 5
    """Episodes, at most, that are demonstrated on the target where the map says."""
    carried: cli.Rare[int] = 10_000
    """Transitions of the twin's buffer that open the target's."""
    target_steps: Annotated[int, at_least(1)] = 60_000
    """Environment steps on the target, at most."""
    enough: cli.Rare[float] = 0.95
    """Success at the last step, in the region and out of it, at which training ends."""
    evaluate_every: Annotated[cli.Rare[int], at_least(1)] = 2_000
    """Steps on the target between evaluations, whose own steps do not count."""
    evaluate_episodes: Annotated[cli.Rare[int], at_least(2)] = 64
    """Episodes of an evaluation, about half of them in the region."""
    num_envs: Annotated[int, at_least(1)] = 16
    """Environments that step together, in the twin and on the target."""
    learner: SACConfig = LEARNER
    """Settings of the learner, in the twin and on the target."""
    seed: int = 0
    """Of everything that is drawn."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""

    @property
    def plan(self) -> Plan:
        """Plan of the files that are made before the target's learner begins."""
        names = [field.name for field in dataclasses.fields(Plan)]
        return Plan(**{name: getattr(self, name) for name in names})


@guard
def main(arguments: list[str] | None = None) -> int:
    join_content()
    run(cli.parse(Settings, arguments, "sim2real.twin_rl"))
    return 0


def run(settings: Settings) -> dict[str, Any]:
    """Prepare, train on the target, report; a result that is there already is read."""
    plan, parts = settings.plan, frozenset(settings.parts)
    stages.same_plan(plan)
    file = plan.out / f"target_{label(parts)}.json"
    if file.exists():
        return json.loads(file.read_text())
    prepare(plan, parts)
    result = on_target(settings, plan, parts)
    file.write_text(json.dumps(result, indent=2) + "\n")
    goal = f"steps to {100 * settings.enough:.0f} %"
    rows = {f"{goal} {where}": str(steps) for where, steps in result["steps_to"].items()}
    rows |= {f"success {where}": f"{100 * result['confirmed'][where]:.1f} %" for where in ("inside", "outside")}
    cli.show(cli.table(f"{settings.task} on the target, twin's parts: {label(parts)}", rows))
    cli.write_result(settings.json, cli.command_line("sim2real.twin_rl"), result)
    return result


def label(parts: frozenset[Part]) -> str:
    """`all`, `none`, or the parts."""
    return "none" if not parts else "all" if parts == frozenset(Part) else "_".join(sorted(parts))


def prepare(plan: Plan, parts: frozenset[Part]) -> None:
    """Make what is missing of what these parts need."""
    with cli.Line(f"demonstrations on {plan.target_engine}", plan.demonstrations) as line:
        stages.demonstrate(plan, lambda kept: line.update(kept, f"{kept} episodes"))
    if not parts:
        return
    with cli.Line(f"training in the twin on {plan.twin_engine}", plan.twin_steps) as line:
        stages.train_in_twin(
            plan, lambda steps, metrics: line.update(steps, f"success {100 * metrics.get('success', 0.0):.0f} %")
        )
    if Part.MAP in parts:
        with cli.Line("failure map of the twin", plan.swept) as line:
            stages.map_failures(plan, lambda done: line.update(done, f"{done} episodes"))
    if Part.SYNTHESIS in parts:
        with cli.Line("solved episodes of the twin", plan.synthesised) as line:
            stages.synthesise(plan, lambda kept: line.update(kept, f"{kept} episodes"))


def on_target(settings: Settings, plan: Plan, parts: frozenset[Part]) -> dict[str, Any]:
    """Train on the target and return the result."""
    evaluated = plan.evaluation(settings.evaluate_episodes, settings.seed + EVALUATION_SEED)
    mapped = Part.MAP in parts and plan.helped > 0
    starts = stages.starts_of(plan, evaluated.env.task.unwrapped) if mapped else None
    files = [plan.path["demonstrations"], *([plan.path["helped"]] if mapped else [])]
    already = sum(stages.steps_in(file) for file in files)
    if Part.SYNTHESIS in parts and plan.synthesised:
        files.append(plan.path["synthesised"])
    trainer = learner_on_target(
        plan.target(settings.num_envs, settings.seed, starts, 0.5), settings.learner, files,
        plan.twin_checkpoint if parts else None, parts, settings.carried, settings.target_steps, settings.seed,
    )  # fmt: skip
    with cli.Line(f"training on {plan.target_engine}", settings.target_steps) as line:

        def on_measured(found: Measured, metrics: dict[str, float]) -> None:
            del metrics
            shown = f"success {100 * found.inside:.0f} % in the region, {100 * found.outside:.0f} % out of it"
            line.update(trainer.steps, shown)

        curve = train_on_target(
            trainer, evaluated, every=settings.evaluate_every,
            enough=settings.enough, already=already, on_measured=on_measured,
        )  # fmt: skip
    fresh = plan.evaluation(CONFIRMED, settings.seed + 2 * EVALUATION_SEED)
    confirmed = fresh.measured(trainer.policy, curve[-1].steps)
    folder = plan.out / f"policy_{label(parts)}"
    if checkpoints.latest(folder) is None:
        described, tensors = trainer.policy.to_tensors()
        meta = {"policy": described, "task": plan.task}
        checkpoints.save(folder, trainer.steps, flatten({"policy": tensors}), meta)
    return {
        "task": settings.task,
        "seed": settings.seed,
        "parts": sorted(parts),
        "hidden": dataclasses.asdict(settings.hidden),
        "region": list(settings.region),
        "twin_steps": settings.twin_steps if parts else 0,
        "demonstrated_steps": already,
        "most_steps": already + settings.target_steps,
        "steps_to": steps_to(curve, settings.enough),
        "confirmed": dataclasses.asdict(confirmed),
        "curve": [dataclasses.asdict(at) for at in curve],
    }


if __name__ == "__main__":
    sys.exit(main())
