"""The settings of a training run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import tyro

from embodied import cli
from embodied.env.options import C, EnvOptions, registered
from embodied.env.registry import Suite, TaskEncoding, TaskEntry, join_content
from embodied.errors import EmbodiedError, RunError
from embodied.storage.configs import from_json, override, places, to_json
from embodied.storage.wandb_logger import WandbMode
from policies.registry import DEFAULT, TrainConfig, default_config, find_algorithm

if TYPE_CHECKING:
    from embodied.storage.runs import Run
A = TypeVar("A")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(EnvOptions[C], Generic[C, A]):
    """Train a policy on a task, or one on all tasks of a suite, and evaluate it.

    Results go to runs/TASK/TIME: config.json, metrics.jsonl, TensorBoard events, checkpoints, result.json. Ctrl-C or
    SIGTERM saves and stops; --resume RUN goes on. Examples:

        python -m embodied.train
        python -m embodied.train locomotion/go1-joystick-flat --seed 1 --watch
        python -m embodied.train swarm/hover --seeds 0 1 2 --name baseline
        python -m embodied.train --config-file mine.json --steps 8000000
        python -m embodied.train mt10
        python -m embodied.train my_task.py:Reach
        python -m embodied.train swarm/hover --algorithm sac --sac.gamma 0.98
        python -m embodied.train manipulation/reach --algorithm svea --cameras view
        python -m embodied.train locomotion/go1-joystick-rough --start-from assets/policies/locomotion/go1-joystick-flat
        python -m embodied.train swarm/formation --adversaries 1 --against shipped
        python -m embodied.train swarm/formation --start-from shipped --adversaries 1 --adversary runs/swarm/attack
        python -m embodied.train --resume runs/swarm/hover/20261121-103000 --steps 8000000
    """

    num_envs: int = 1024
    """Environments that step together (on each GPU); those of a suite are spread over its tasks."""
    steps: int
    """Environment steps in all."""
    seeds: tuple[int, ...] = ()
    """Train once with each of these seeds, one after the other, each in a folder of its own, and report mean,
    interquartile mean and 95 % intervals. The same command again goes on: what is trained is not trained again."""
    name: str | None = None
    """Name of the run: its folder is runs/TASK/NAME."""
    config_file: Path | None = None
    """Settings to begin with, which flags override: a run's config.json, or JSON or TOML with some of its keys."""
    algorithm: str = DEFAULT
    """Learner: ppo from fresh steps, sac and others from a replay buffer, svea and dagger-pixels from images, bc
    from demonstrations alone; python -m embodied.list --learners names all. Each has options of its own, which
    --help-all shows with --algorithm."""
    out: Path | None = None
    """Run folder, instead of runs/TASK/TIME or runs/TASK/NAME; must be new or empty."""
    start_from: str | None = None
    """Policy to begin with instead of an untrained one: a run, a checkpoint, shipped or expert. A trained one is of an
    algorithm of the same kind, and its layers replace those of --ppo.actor; of expert, the task's script, PPO begins
    with an imitation."""
    task_encoding: cli.Rare[TaskEncoding] = TaskEncoding.ONE_HOT
    """Of a suite, how the policy is told which of its tasks it is in: one-hot, or by words, so that it also understands
    instructions which it never heard (embodied.evaluate --held-out-instruction, --instruction)."""
    adversaries: cli.Rare[int] = 0
    """Of a task of many agents: train this many of them, the last ones, to make the others fail; the others follow
    --against."""
    against: cli.Rare[str] = "shipped"
    """With --adversaries, the policy that the others follow and keep: a run, a checkpoint, or shipped."""
    adversary: cli.Rare[str | None] = None
    """With --adversaries, instead of training them: the policy that they follow and keep, as a run of such a training,
    or FILE.py:FUNCTION, while the others learn to do well among them."""
    adversary_share: cli.Rare[float] = 0.5
    """With --adversary: in how many of the environments, as a fraction."""
    resume: Path | None = None
    """Run folder to go on with: its own settings hold, but --steps may extend it, and --watch shows it."""
    checkpoint_seconds: cli.Rare[float] = 60.0
    """Seconds between checkpoints."""
    watch: bool = False
    """Open a viewer in the browser that shows the policy as it learns, and steers it (see python -m embodied.play)."""
    evaluate_episodes: cli.Rare[int] = 256
    """Fresh episodes to evaluate over at the end, of each task; 0 for none."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    wandb: cli.Rare[WandbMode] = WandbMode.OFF
    """Also log to Weights & Biases: offline, into RUN/wandb, without network or account, or online."""
    algorithm_config: A = None  # type: ignore[assignment]
    """The algorithm's own options, whose flags begin with its name."""

    def __post_init__(self) -> None:
        for flag, value in (
            ("evaluate-episodes", self.evaluate_episodes),
            ("checkpoint-seconds", self.checkpoint_seconds),
        ):
            if not value >= 0:
                raise EmbodiedError(f"--{flag} {value}: expected at least 0")
        if not 0 < self.adversary_share <= 1:
            raise EmbodiedError(f"--adversary-share {self.adversary_share}: expected a fraction above 0, at most 1")
        if self.adversary is not None and not self.adversaries:
            raise EmbodiedError(f"--adversary {self.adversary}: expected --adversaries, too, which says how many")
        if len(set(self.seeds)) < len(self.seeds):
            raise EmbodiedError(f"--seeds {' '.join(map(str, self.seeds))}: expected each seed once")
        name = "." if self.name == "" else self.name or ""
        if name.startswith(".") or "/" in name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise EmbodiedError(f"--name {self.name!r:.80}: expected a name that a folder can have, without '/'")


LONGEST_NAME = 80  # characters, which are at most four bytes of a file name's 255, with what temporary ones have before
SAID = ("variations",)
"""Fields of a run's config besides its settings: what every episode draws anew, with ranges."""


def default_settings(entry: TaskEntry | Suite, algorithm: str = DEFAULT, config: Any = None) -> Settings[Any, Any]:
    """The default settings with which an algorithm trains on a task or a suite.

    Args:
        entry: The task or suite.
        algorithm: What learns.
        config: Stands in for the task's own options, which are loaded with the task, and so with JAX.

    Raises:
        EmbodiedError: a suite that is only for evaluation, no such algorithm, or training defaults that are none.
    """
    if isinstance(entry, Suite) and entry.training is None:
        raise EmbodiedError(f"{entry.name} is for evaluation: no policy runs on all of its tasks; train on one of them")
    training = entry.load_training() or TrainConfig()
    if not isinstance(training, TrainConfig):
        raise EmbodiedError(f"training defaults of {entry.name} are {training!r:.80}; expected a TrainConfig")
    suited = find_algorithm(algorithm)
    own: dict[str, Any] = {
        "num_envs": suited.num_envs or training.num_envs,
        "steps": suited.steps or training.steps,
        "algorithm": algorithm,
        "algorithm_config": default_config(algorithm, training),
    }
    if isinstance(entry, Suite):
        own["evaluate_episodes"] = entry.episodes
    if config is None:
        config = (
            entry.shared_config(training=True)
            if isinstance(entry, Suite)
            else override(entry.load().config_type(), dict(training.options))
        )
    return Settings(entry.name, config=config, **own)


def without_training_options(entry: TaskEntry, config: Any) -> Any:
    """A task's config for evaluation: fields that training sets have their defaults, unless they were set otherwise."""
    training, usual = entry.load_training(), entry.load().config_type()
    options = {} if training is None else training.options
    return override(config, {name: getattr(usual, name) for name in options if getattr(config, name) == options[name]})


def settings_type(defaults: Settings[Any, Any]) -> type[Settings[Any, Any]]:
    """The type from which a command line is parsed: with flags for the options of one algorithm."""
    named = Annotated[type(defaults.algorithm_config), tyro.conf.arg(name=defaults.algorithm)]
    return Settings[type(defaults.config), named]  # type: ignore[misc]


def saved_settings(run: Run) -> Settings[Any, Any]:
    """The settings of a run; those that its version did not have are the defaults.

    Raises:
        RunError: its config is not of this version: a field is unknown or refused; with advice.
    """
    saved = {name: value for name, value in run.config.items() if name not in SAID}
    defaults = default_settings(join_content().find(run.task), saved.get("algorithm", DEFAULT))
    known = places(defaults)
    if unknown := sorted(set(saved) - set(known)):
        raise _of_another_version(run, f"it does not know {', '.join(unknown)} of its config")
    try:
        values = {name: from_json(known[name].kind, value, name) for name, value in saved.items()}
    except RunError as error:
        raise _of_another_version(run, str(error)) from error
    settings = override(defaults, values | {"task": run.task})
    return dataclasses.replace(settings, wrappers=settings.wrappers.mapped(lambda wrapper: wrapper.kept(run.path)))


def policy_needs(settings: Settings[Any, Any]) -> dict[str, Any]:
    """Options of `embodied.make` under which the learned policy acts, as JSON values: where they are no defaults."""
    wrappers = to_json(settings.wrappers.of_policy)
    needs = {name: value for name, value in wrappers.items() if value != to_json(places(registered())[name].value)}
    if cameras := settings.camera_config.cameras:
        needs |= {"cameras": list(cameras), "resolution": list(settings.camera_config.size)}
    entry = join_content().find(settings.task)
    if isinstance(entry, Suite):
        return needs
    config, usual = to_json(without_training_options(entry, settings.config)), to_json(entry.load().config_type())
    return {name: value for name, value in config.items() if value != usual[name]} | needs


def _of_another_version(run: Run, difference: str) -> RunError:
    """Error for a run whose config is not of this version."""
    words = f"python -m embodied.train {run.task}"
    cameras = run.config.get("cameras")
    # Policies from images are not rebuilt by other versions.
    if isinstance(cameras, list) and cameras and all(isinstance(name, str) for name in cameras):
        again = (
            f"begin a new run: {words} --algorithm {run.config.get('algorithm', 'svea')} --cameras {' '.join(cameras)}"
        )
    else:
        again = f"begin a new run with its policy: {words} --start-from {run.path}"
    return RunError(f"{run.path} is of another version of embodied ({difference}) and cannot be resumed; {again}")
