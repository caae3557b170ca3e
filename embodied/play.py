"""`python -m embodied.play`: watch a policy, in the browser or as a film."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from embodied import cli
from embodied.env.options import C, EnvOptions, NoConfig
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, UnknownNameError, guard
from embodied.rendering.camera_config import CameraConfig

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.vec_env import PolicyFunction
    from embodied.viewer.film import Layout
    from policies.training.choices import PolicyCatalogue


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(EnvOptions[C]):
    """Watch a policy at work and steer it: in the browser, or with --video as a film.

    Without --video this prints an address to open; over SSH, forward the port first (ssh -L 8080:localhost:8080 HOST).
    The page has sliders for the task's command (also W A S D Q E and a gamepad), pushes (buttons, or a click on a
    body), pause, single steps, slow motion, reset to a seed, contacts, cameras, curves and films, and switches between
    tasks, policies and checkpoints. Examples:

        python -m embodied.play swarm/hover
        python -m embodied.play locomotion/go1-joystick-flat --policy shipped --num-envs 4
        python -m embodied.play runs/swarm/hover/2026-11-21_10-30-00 --video hover.mp4
        python -m embodied.play locomotion/velocity --robot a1.urdf --policy zero
        python -m embodied.play swarm/formation --pilot 0
        python -m embodied.play swarm/navigation --policy shipped --config.agents 10
    """

    task: tyro.conf.Positional[str]
    """Task (python -m embodied.list names them all; a task of your own is FILE.py:CLASS), or a run's folder or
    checkpoint, which plays its own policy."""
    policy: str | None = None
    """shipped, expert, random, zero, FILE.py:FUNCTION of your own, or the path of a run or checkpoint. By default the
    run's own; for a task its newest run below runs/, else shipped, expert, random. A run that is being trained is
    followed as it learns."""
    instruction: str | None = None
    """Instruction of a vision-language-action policy; by default the task's own first instruction."""
    num_envs: int = 1
    """Environments to show, up to 64 in the browser and 16 in a film."""
    camera_config: tyro.conf.OmitArgPrefixes[CameraConfig] = dataclasses.field(default_factory=CameraConfig)
    """Cameras whose pictures are shown beside the scene; a policy that sees shows its own by itself."""
    video: Path | None = None
    """Write a film to this file and leave: .mp4, .gif, or .png for a contact sheet."""
    seconds: float | None = None
    """Simulated seconds after which the film ends (by default one episode) or the viewer closes (by default never)."""
    layout: str = "grid"
    """Layout of several environments in a film: grid, shared (all robots in one scene, the first solid) or one."""
    camera: str | None = None
    """The film's camera; by default one that follows the robot."""
    size: tuple[int, int] = (960, 540)
    """The film's width and height in pixels."""
    pilot: int | None = None
    """Agent of a team that you act for, by W S, A D, Q E and a gamepad, which then are the first numbers of its action;
    the policy acts for the others. Who touches nothing acts with zeros: a drone hangs still."""
    nice: int = 0
    """Priority that the viewer gives to other work once its page is open, 0 to 19, as of the command nice."""
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 8080
    """Port of the viewer; the next free one is taken where it is in use."""
    browser: bool = False
    """Open the viewer's page in the browser, where there is a screen."""
    host: str = "localhost"
    """Address the viewer listens on; 0.0.0.0 lets other machines in, by this machine's address or name."""
    config: C = None  # type: ignore[assignment]
    """The task's own options; by default those that the policy's run had."""

    def __post_init__(self) -> None:
        if not 1 <= self.num_envs <= 64:
            raise EmbodiedError(f"--num-envs {self.num_envs}: expected 1 to 64; more cannot be told apart")
        if self.video is not None and self.num_envs > 16:
            raise EmbodiedError(f"--num-envs {self.num_envs} --video: expected 1 to 16; more are too small in a film")
        if not self.host:
            raise EmbodiedError("--host '': expected an address or a name, such as localhost, or 0.0.0.0 for all")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise EmbodiedError(f"--seconds {self.seconds}: expected more than 0")
        if self.pilot is not None and (self.pilot < 0 or self.video is not None):
            raise EmbodiedError(f"--pilot {self.pilot}: expected an agent's number, 0 or more, and no --video")
        if not 0 <= self.nice <= 19:
            raise EmbodiedError(f"--nice {self.nice}: expected 0 to 19")
        if not 0 < self.port < 65536:
            raise EmbodiedError(f"--port {self.port}: expected 1 to 65535")


@guard
def main(arguments: Sequence[str] | None = None) -> int:
    settings = parse(sys.argv[1:] if arguments is None else list(arguments))
    catalogue, task, policy = chosen(settings)  # first: a name that does not exist is refused without torch or OpenGL
    layout = _layout(settings.layout)
    if settings.video is not None:
        from embodied.viewer.film import check_kind

        check_kind(settings.video)
    if settings.video is not None:
        env = catalogue.make(catalogue.needs(task, policy), settings.num_envs)
        rule = catalogue.load(policy, None, env)
        cli.say(f"{env.name} on {env.engine_name}, {env.num_envs} environments, policy: {policy}")
        return film(settings, layout, env, rule)
    from embodied.viewer.player import Player, PlayerSettings

    seconds = math.inf if settings.seconds is None else settings.seconds
    played = PlayerSettings(
        settings.num_envs,
        settings.seed,
        seconds,
        settings.host,
        settings.port,
        pilot=settings.pilot,
        nice=settings.nice,
    )
    player = Player(catalogue, task, policy, played)
    if settings.browser:
        open_page(player.url)
    return player.run()


def parse(words: list[str]) -> Settings[Any]:
    """Parse a command line whose flags include the options of the task that it names.

    Raises:
        EmbodiedError: it names neither a task nor a run.
    """
    name = cli.named_task(words, join_content())
    if name is None:  # help, or a refusal
        return cli.parse(Settings[NoConfig], words, "play", Settings(task=tyro.MISSING, config=NoConfig()))
    config = usual_config(*named(name, cli.flag_value(words, "--policy")))
    return cli.parse(Settings[type(config)], words, "play", Settings(task=tyro.MISSING, config=config))  # type: ignore[misc]


def named(name: str, policy: str | None) -> tuple[str, str | None]:
    """Task, and policy where one is named: a run names both.

    Raises:
        EmbodiedError: neither a task nor a run.
    """
    task, policy = cli.task_and_policy(name, policy, join_content())
    return join_content()[task].name, policy  # a suite is not played


def usual_config(task: str, policy: str | None) -> Any:
    """The options with which a task is played: those of the policy's run, else the task's own."""
    options = EnvOptions[Any](task, config=join_content()[task].load().config_type())
    if policy is not None and Path(policy).exists():
        from policies.training.loading import with_needs

        options = with_needs(options, policy)
    return options.config


def open_page(url: str) -> None:
    """Open a page in the user's browser; nothing without a screen, where a browser would take the terminal."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


def chosen(settings: Settings[Any]) -> tuple[PolicyCatalogue, str, str]:
    """The catalogue of policies, and the task and policy to begin with; prints these where no policy is named.

    Raises:
        EmbodiedError: neither a task nor a run, or an engine or policy that does not exist.
    """
    name, policy = named(settings.task, settings.policy)

    from policies.training.choices import PolicyCatalogue
    from policies.training.loading import require_policy

    if policy is not None:
        require_policy(policy, name)
    changed = settings.config is not None and settings.config != usual_config(name, policy)
    options = dataclasses.replace(settings, config=settings.config if changed else None)
    catalogue = PolicyCatalogue(options, instruction=settings.instruction, given=[(name, policy or "")])
    if policy is None:
        choices = catalogue.choices(name)
        policy = choices[0].policy
        others = [choice.label for choice in choices[1:]]
        more = f" and {len(others) - 6} more" if len(others) > 6 else ""
        which = "your newest run of it" if Path(policy).exists() else "no run of yours below runs/"
        cli.say(f"playing {name} with {policy}: {which}; --policy also takes {', '.join(others[-6:])}{more}")
    return catalogue, name, policy


def film(settings: Settings[Any], layout: Layout, env: Env, rule: PolicyFunction) -> int:
    """Write the film."""
    from embodied.viewer.film import Layout, record

    assert settings.video is not None
    made = record(
        env,
        rule,
        settings.video,
        seconds=settings.seconds,
        camera=settings.camera,
        size=settings.size,
        layout=Layout.ONE if env.num_envs == 1 else layout,
    )
    cli.say(
        f"{made.path}: {made.frames} frames at {made.fps:g} per second, mean reward {made.reward:.3g} per step, "
        f"success in {100 * made.success:.0f} % of the environments"
    )
    return 0


def _layout(name: str) -> Layout:
    """The layout `name`.

    Raises:
        UnknownNameError: there is no such layout.
    """
    from embodied.viewer.film import Layout

    try:
        return Layout(name)
    except ValueError:
        raise UnknownNameError("layout", name, [layout.value for layout in Layout]) from None


if __name__ == "__main__":
    sys.exit(main())
