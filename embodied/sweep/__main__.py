"""`python -m embodied.sweep`: which flags of a training are best, by Optuna."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from embodied import cli
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, guard
from embodied.evaluation import page as pages
from embodied.evaluation.aggregate import Interval
from embodied.evaluation.charts import scatter
from embodied.runs.comparison import UNITS, declared_units
from embodied.runs.page import figure_text
from embodied.storage import task_names
from embodied.storage.files import write_atomic
from policies.training.sweep import STUDY, Goal, Sweep, Varied

SHOWN = 5  # trials in the table, the best; the page has all


@dataclasses.dataclass(frozen=True)
class Settings:
    """Search for the best flags of embodied.train, which all may be given too. Examples:

        python -m embodied.sweep swarm/hover --vary ppo.learning-rate=1e-4..1e-2,log ppo.unroll=8,16,32
        python -m embodied.sweep swarm/hover --trials 40 --prune --steps 1000000 --vary ppo.gamma=0.95..0.999
        python -m embodied.sweep swarm/hover --algorithm sac --vary sac.gamma=0.95..0.999 --measure return

    Trials train one after the other, each in a run of its own below runs/TASK/NAME; the study is in sweep.db there. The
    same command again goes on, also where a signal or a power cut stopped a trial. The extra is embodied-sim[sweep].
    """

    vary: tuple[str, ...] = ()
    """FLAG=LOW..HIGH, FLAG=LOW..HIGH,log or FLAG=A,B,C; several, one after the other."""
    trials: int = 20
    """Number of trials in all; a larger one continues a finished sweep."""
    measure: str = "success"
    """Figure to optimise: one of the evaluation at the end, such as success, success_any or return."""
    minimize: bool = False
    """Whether less is better."""
    prune: bool = False
    """Stop trials whose --measure is worse in training than the median of others at the same step."""
    sampler_seed: int = 0
    """Seed of the choice of flags; --seed is that of every training."""
    name: str | None = None
    """Name of the sweep and its folder; by default one that follows from all flags."""
    json: Path | None = None
    """Also write the trials to this file."""

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise EmbodiedError(f"--trials {self.trials}: expected at least 1")


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    settings, rest = cli.parse_known(Settings, words, "sweep")
    entry = registry.find(cli.required_task(words, registry, "sweep"))
    if not settings.vary:
        example = f"python -m embodied.sweep {entry.name} --vary ppo.learning-rate=1e-4..1e-2,log"
        raise EmbodiedError(f"what is to vary? {example}")
    goal = Goal(settings.measure, settings.minimize, settings.prune, settings.sampler_seed)
    sweep = Sweep(entry, rest, [Varied.parse(text) for text in settings.vary], goal, settings.name)
    cli.say(f"{settings.trials} trials -> {sweep.folder}")
    if sweep.run(settings.trials):
        report(sweep, cli.command_line("embodied.sweep"), settings.json)
    else:
        cli.say("the sweep goes on by the same command again")
    return 0


def report(sweep: Sweep, command: str, to: Path | None) -> None:
    """Print the best trials and their command; write JSON and the page."""
    ranked, best = sweep.ranked(), sweep.best_command()
    title = f"best of {len(ranked)} trials, {len(sweep.pruned)} stopped early"
    rows = tuple((value_text(sweep, trial), *_settings_of(sweep, trial)) for trial in ranked[:SHOWN])
    headings = (sweep.goal.measure, *(one.flag for one in sweep.varied))
    cli.show(cli.Table(title, rows, headings, right=tuple(range(len(headings)))), best)
    trials = [{"run": trial.user_attrs["run"], "value": trial.value, "flags": sweep.flags(trial)} for trial in ranked]
    values: dict[str, Any] = {"task": task_names.label(sweep.entry.name), "measure": sweep.goal.measure, "best": best,
                              "trials": trials,
                              "pruned": [{"run": trial.user_attrs["run"], "flags": sweep.flags(trial)}
                                         for trial in sweep.pruned]}  # fmt: skip
    for path in (sweep.folder / f"{STUDY}.json", to):
        cli.write_result(path, command, values)
    target = sweep.folder / f"{STUDY}.html"
    write_atomic(target, page(sweep, best, command).encode())
    cli.say(f"-> {sweep.folder / STUDY}.json, {target}")


def page(sweep: Sweep, best: str, command: str) -> str:
    """The sweep's page as HTML: trials, the best first, and results by flag."""
    ranked, measure = sweep.ranked(), sweep.goal.measure
    share = measure in ("success", "success_any")
    large = {f"{measure}, best": value_text(sweep, ranked[0]), "trials": f"{len(ranked)}",
             "stopped early": f"{len(sweep.pruned)}"}  # fmt: skip
    charts = []
    for one in sweep.varied:
        if not one.values:
            points, ends = [(float(trial.params[one.flag]), trial.value) for trial in ranked], (one.low, one.high)
            drawn = scatter(points, one.flag, ends, log=one.log, share=share)
            charts.append(pages.figure(drawn, f"{measure} by {one.flag}"))
    rows = [(trial.user_attrs["run"], value_text(sweep, trial), *_settings_of(sweep, trial)) for trial in ranked]
    rows += [(trial.user_attrs["run"], "stopped early", *_settings_of(sweep, trial)) for trial in sweep.pruned]
    columns = ("run", f"#{measure}", *(f"#{one.flag}" for one in sweep.varied))
    parts = [pages.numbers(large), pages.heading("Best"), pages.Html(f"<pre>{pages.markup(best)}</pre>")]
    parts += [pages.heading("By flag"), pages.grid(charts, cell="22rem")] if charts else []
    parts += [pages.heading("Trials"), pages.table(columns, rows)]
    return pages.page(f"Sweep of {task_names.label(sweep.entry.name)}", "", command, parts)


def value_text(sweep: Sweep, trial: Any) -> str:
    """A trial's value as people read it."""
    units = {**UNITS, **declared_units(sweep.entry.name)}
    return figure_text(sweep.goal.measure, Interval(trial.value, float("nan"), float("nan")), units)


def _settings_of(sweep: Sweep, trial: Any) -> list[str]:
    return [flag.partition("=")[2] for flag in sweep.flags(trial)]


if __name__ == "__main__":
    sys.exit(main())
