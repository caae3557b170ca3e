"""`python -m embodied.play`: watch a policy, in the browser or as a film."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from embodied import cli
from embodied.core.task import has_expert
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard

if TYPE_CHECKING:
    import viser

    from embodied.env.env import Env
    from embodied.rendering.video import Layout

MOST_PICTURES = 30.0  # per second that the browser is sent
READINGS = 5.0  # per second that text and plot are renewed
SPACING = 8.0  # m, at most, between environments side by side


@dataclasses.dataclass(frozen=True)
class Settings:
    """Watch a policy at work: in the browser, or with --video as a film.

    Without --video this prints an address to open; over SSH, forward the port first (ssh -L 8080:localhost:8080 HOST).
    Examples:

        python -m embodied.play swarm/hover
        python -m embodied.play locomotion/go1-joystick-flat --policy zero --num-envs 4
        python -m embodied.play runs/swarm/hover/2026-11-21_10-30-00 --video hover.mp4
        python -m embodied.play locomotion/velocity --robot a1.urdf --policy zero
    """

    task_or_run: tyro.conf.Positional[str]
    """Task (python -m embodied.list names them all; a task of your own is FILE.py:CLASS), or a run's folder or
    checkpoint, which plays its own policy."""
    policy: str | None = None
    """shipped, expert, random, zero, or the path of a run or checkpoint. By default the run's own; for a task, the
    best there is: shipped, else its newest run below runs/, else expert, else random."""
    instruction: str | None = None
    """What a vision-language-action policy is told; by default the task's own first instruction."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    robot: Path | None = None
    """MJCF or URDF file, of a task that takes a robot of one's own; by default the one that the policy's run had."""
    num_envs: int = 1
    """Environments to show, up to 64 in the browser and 16 in a film."""
    seed: int = 0
    """Seed of every random draw."""
    video: Path | None = None
    """Write a film to this file and leave: .mp4, .gif, or .png for a contact sheet."""
    seconds: float | None = None
    """Simulated seconds after which the film ends (by default one episode) or the viewer closes (by default never)."""
    layout: str = "grid"
    """How a film shows several environments: grid, shared (all robots in one scene, the first solid) or one."""
    camera: str | None = None
    """The film's camera; by default one that follows the robot."""
    size: tuple[int, int] = (960, 540)
    """The film's width and height in pixels."""
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 8080
    """Port of the viewer; the next free one is taken where it is in use."""
    host: str = "localhost"
    """Address the viewer listens on; 0.0.0.0 lets other machines in."""

    def __post_init__(self) -> None:
        if not 1 <= self.num_envs <= 64:
            raise EmbodiedError(f"--num-envs {self.num_envs}: expected 1 to 64; more cannot be told apart")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise EmbodiedError(f"--seconds {self.seconds}: expected more than 0")
        if not 0 < self.port < 65536:
            raise EmbodiedError(f"--port {self.port}: expected 1 to 65535")


@guard
def main(arguments: Sequence[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "play")
    layout = _layout(settings.layout)
    if settings.video is not None:
        from embodied.rendering.video import check_kind

        check_kind(settings.video)
    env, policy = build(settings)
    from policies.training.loading import load_policy

    rule = load_policy(policy, env, settings.seed, instruction=settings.instruction)
    _say(f"{env.name} on {env.engine_name}, {env.num_envs} environments, policy: {policy}\ncompiling ...")
    if settings.video is not None:
        return film(settings, layout, env, rule)
    return Player(env, {policy: rule}, settings).run()


def build(settings: Settings) -> tuple[Env, str]:
    """The environments and the name of the policy that the settings mean.

    Raises:
        EmbodiedError: neither a task nor a run, or an engine or policy that does not exist.
    """
    from embodied.factory import make
    from embodied.registry import join_content
    from policies.training.loading import camera_options, default_policy

    name, policy = settings.task_or_run, settings.policy
    registry = join_content()
    if name not in registry and Path(name).exists():
        from embodied.storage.runs import Run

        policy = policy or name
        name = Run.open(Path(name)).task
    name = registry[name].name  # a name that does not exist is an error before anything is looked for in its place
    policy = policy or default_policy(name)
    eyes = camera_options(policy, name)
    own: dict[str, Any] = {} if settings.robot is None else {"robot": str(settings.robot)}
    config = run_config(settings.task_or_run, name) or run_config(policy, name)
    env = make(name, settings.num_envs, settings.engine, settings.seed, device="cpu", config=config, **eyes, **own)
    return env, policy


def run_config(path: str, task: str) -> Any:
    """The task's config of a run; None where the path is no run's, such as a shipped policy's, or another task's."""
    from embodied.errors import RunError
    from embodied.registry import join_content
    from embodied.storage.configs import from_json
    from embodied.storage.runs import Run

    try:
        run = Run.open(Path(path))
    except RunError:
        return None
    if run.task != task or "config" not in run.config:
        return None
    return from_json(join_content()[task].load().config_type, run.config["config"])


def film(settings: Settings, layout: Layout, env: Env, rule: PolicyFunction) -> int:
    """Write the film."""
    from embodied.rendering.video import Layout, record

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
    _say(
        f"{made.path}: {made.frames} frames at {made.fps:g} per second, mean reward {made.reward:.3g} per step, "
        f"{100 * made.success:.0f} % of the environments solved"
    )
    return 0


class Player:
    """Steps the environments in real time and shows them, until interrupted."""

    def __init__(self, env: Env, rules: dict[str, PolicyFunction], settings: Settings) -> None:
        """Open the page; environments are stepped by `run`.

        Args:
            env: What to show.
            rules: Policies by the names the viewer offers; `zero`, `random` and the task's expert join them.
            settings: Seed, port and length.
        """
        from embodied.rendering.scene_state import SceneReader
        from embodied.rendering.viewer import ChaseCamera, Panel, Scene, start_server
        from policies.training.loading import load_policy

        self.env, self.settings = env, settings
        offered = ["zero", "random"] + (["expert"] if has_expert(env.task) else [])
        self.rules = dict(rules) | {
            name: load_policy(name, env, settings.seed) for name in offered if name not in rules
        }
        self.scene_reader = SceneReader(env)
        self.obs = env.reset()
        self.scene_state = self.scene_reader.read()
        self.server: viser.ViserServer = start_server(settings.host, settings.port)
        model = env.task.visual_model
        self.scene = Scene(self.server, model, env.num_envs)
        spacing = min(SPACING, _spacing(env))
        title = env.entry.name if env.entry is not None else str(env.task.unwrapped)
        self.panel = Panel(self.server, title, list(self.rules), env.num_envs, spacing)
        self.chase = ChaseCamera(self.server, lambda: self.scene.first_view(self.scene_state))
        self._bodies = self._followed(model)
        self._totals: dict[str, float] = {}
        self._seen = (0, 0)
        self._length = 0
        self.simulated = 0.0
        self.success = False

    @property
    def url(self) -> str:
        """Where to look."""
        host = self.server.get_host()
        return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{self.server.get_port()}"

    def run(self) -> int:
        """Play until interrupted, or until `settings.seconds` are simulated; returns the exit code."""
        _say(f"open {self.url} in a browser; Ctrl-C stops")
        try:
            self._loop()
        except KeyboardInterrupt:
            _say("stopped")
        finally:
            self.server.stop()
        return 0

    def _loop(self) -> None:
        dt, most = self.env.control_dt, self.settings.seconds or math.inf
        due = last_picture = last_reading = time.perf_counter()
        self.show()
        while self.simulated < most - 0.5 * dt:
            now = time.perf_counter()
            if self.panel.reset_wanted:
                self.restart()
            if self.panel.pause.value:
                due = now + 0.02
            else:
                # A machine that cannot keep up falls behind real time instead of hurrying after it.
                due = max(due, now - 0.25) + dt / self.panel.speed.value
                self.step()
            if now - last_picture >= 1 / MOST_PICTURES:
                last_picture = now
                self.show()
            if now - last_reading >= 1 / READINGS:
                last_reading = now
                self.panel.refresh(self.status())
            time.sleep(max(0.0, due - time.perf_counter()))

    def restart(self) -> None:
        """Start every environment afresh, from other starts than last time."""
        self.panel.reset_wanted = False
        self.obs = self.env.reset(self.settings.seed + 1 + int(self.simulated / self.env.control_dt))
        self._totals = {}
        self.panel.clear()
        self.show()

    def step(self) -> None:
        """Advance every environment by one control step, and read the followed one."""
        step = self.env.step(self.rules[self.panel.policy.value](self.obs))
        self.obs = step.obs
        self.simulated += self.env.control_dt
        index = self._index()
        self.success = bool(step.success[index])
        episode = self.env.episode
        totals = {name: float(values[index]) for name, values in episode.terms.items()}
        length = int(episode.steps[index])
        if (index, length) != (self._seen[0], self._seen[1] + 1) or not self._totals:
            self.panel.clear()
        else:
            change = {name: value - self._totals[name] for name, value in totals.items()}
            self.panel.record(length * self.env.control_dt, change)
        self._totals, self._seen = totals, (index, length)
        self._last = step

    def show(self) -> None:
        """Send the browser where everything is."""
        self.scene_state = self.scene_reader.read()
        spacing = self.panel.spacing.value if self.env.num_envs > 1 else 0.0
        places = self.scene.update(self.scene_state, spacing)
        if self._bodies:
            self.chase.update(places[self._index(), self._bodies].mean(axis=0), self.panel.follow.value)

    def status(self) -> str:
        """The readings, in Markdown."""
        if not self._totals:
            return "waiting ..."
        index, length = self._index(), self._seen[1]
        info = {name: float(values[index]) for name, values in self._last.info.items()}
        solved = "**solved**" if self.success else ("solved before" if info["success_any"] else "not solved")
        dt = self.env.control_dt
        rows = [f"{length * dt:.1f} s of {self.env.max_episode_steps * dt:g} s, {solved}"]
        command = getattr(self.env.task_state, "command", None)
        if command is not None and getattr(command, "ndim", 0) <= 2:
            rows.append(f"command: {', '.join(f'{float(value):+.2f}' for value in command[index].ravel())}")
        rows.append(f"return: {info.pop('return'):.3g}")
        skipped = ("length", "success_any", "diverged")
        rows += [f"{name}: {value:.3g}" for name, value in info.items() if name not in skipped]
        table = ["| reward term | so far |", "|---|---:|"]
        table += [f"| {name} | {value:.3g} |" for name, value in self._totals.items()]
        return "  \n".join(rows) + "\n\n" + "\n".join(table)

    def _index(self) -> int:
        return min(int(self.panel.index.value), self.env.num_envs - 1)

    @staticmethod
    def _followed(model: Any) -> list[int]:
        from embodied.rendering.scene_state import floating_bodies

        return floating_bodies(model)


def _spacing(env: Env) -> float:
    """m between environments that keeps neighbours apart at their start."""
    from embodied.rendering.scene_state import floating_bodies, radius_of

    model = env.task.visual_model
    followed = floating_bodies(model)
    size = max(radius_of(model, body) for body in followed) if followed else float(model.stat.extent)
    return max(1.0, round(3 * size, 1))


def _layout(name: str) -> Layout:
    """The layout `name`.

    Raises:
        UnknownNameError: there is no such layout.
    """
    from embodied.errors import UnknownNameError
    from embodied.rendering.video import Layout

    try:
        return Layout(name)
    except ValueError:
        raise UnknownNameError("layout", name, [layout.value for layout in Layout]) from None


def _say(text: str) -> None:
    """To standard error, so that nothing mixes with output that is piped."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
