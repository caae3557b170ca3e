"""`Panel`: buttons, sliders and readings. `take` returns what a person did there; nothing here steps anything."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import viser

from embodied.core.facets import CommandRange
from embodied.env.wrappers.steering import is_rate
from embodied.viewer.choices import NEWEST, Choice
from embodied.viewer.curves import TOLD, History, Plots

FOLLOW, FREE = "follow", "free"
NARROW = 820  # pixels: the panel begins folded on pages that are narrower, so that the robot is seen
PUSHES = ("left", "right", "away", "nearer")
TICK = 1.0  # s between two times that a person who waits is told
WAITING = "/waiting"  # the scene's name of that
DIGITS = 3  # behind the point, of a command on its slider
NO_COMMAND = (
    "Nothing to steer: this task has no single goal that could be moved. What it asks for is drawn with each episode; "
    "**reset**, or another seed, draws anew. Pushes work."
)


class Event(StrEnum):
    """Request of a person."""

    TASK = "task"
    POLICY = "policy"
    CHECKPOINT = "checkpoint"
    STEP = "step"
    RESET = "reset"
    COMMAND = "command"
    RELEASE = "release"
    STOP = "stop"
    PUSH = "push"
    RECORD = "record"


@dataclasses.dataclass(frozen=True)
class Asked:
    """An event with its value, and the visitor who caused it."""

    event: Event
    value: Any = None
    client: viser.ClientHandle | None = None


@dataclasses.dataclass(frozen=True)
class Readings:
    """Readings of the environment that is watched."""

    seconds: float
    """s since its episode began."""
    limit: float
    """s after which it ends."""
    success: bool
    """At this instant, as the evaluation counts it at the last step."""
    command: np.ndarray
    """(k,) numbers of `Operator.ranges` that hold."""
    measured: np.ndarray
    """(k,) what the robot does, NaN where unknown."""
    episode_return: float
    """Sum of rewards so far."""
    metrics: Mapping[str, tuple[float, str]] = dataclasses.field(default_factory=dict)
    """Name -> mean of the episode so far, and its unit."""
    terms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Reward term -> its weighted sum so far."""
    contact_force: float = math.nan
    """N, sum of the sizes of all contact forces."""
    notes: Sequence[str] = ()
    """Further notes, a line each."""


class Panel:
    """The controls of a page, the same for every visitor."""

    def __init__(self, server: viser.ViserServer, tasks: Sequence[str]) -> None:
        """Lay out what does not depend on the task."""
        self.server, self._gui = server, server.gui
        self._asked: queue.SimpleQueue[Asked] = queue.SimpleQueue()
        self._of_task: list[Any] = []
        self._quiet = False
        gui = self._gui
        gui.configure_theme(dark_mode=False, show_logo=False, show_share_button=False, control_width="medium")
        gui.set_panel_label("embodied")
        self.status = gui.add_markdown("starting ...")
        self.stop = gui.add_button("Stop", icon=viser.Icon.HAND_STOP, visible=False, hint="Command zero speed")
        self._command_folder = gui.add_folder("Command", visible=False)
        with gui.add_folder("Playback"):
            self.pause = gui.add_checkbox("Pause", False, hint="Space")
            self.speed = gui.add_slider("Speed (x)", 0.1, 4.0, 0.1, 1.0, hint="1 is real time, 0.1 slow motion")
            self._playback = gui.add_button_group("Time", ("step", "reset"), hint="one control step; to the seed below")
            self.seed = gui.add_number("Seed", 0, min=0, step=1, hint="What every random draw follows from")
            self.record = gui.add_button("Record a film", icon=viser.Icon.VIDEO)
        self._push_folder = gui.add_folder("Push")
        with self._push_folder:
            self.push_speed = gui.add_slider(
                "Push (m/s)",
                0.1,
                3.0,
                0.1,
                0.7,
                hint="By how much it would change the speed of what is pushed, if free",
            )
            self._pushes = gui.add_button_group("Towards", PUSHES, hint="As you look; or click on a body to push it")
        with gui.add_folder("Policy", expand_by_default=False):
            self.task = gui.add_dropdown("Task", tuple(tasks))
            self.policy: Any = gui.add_dropdown("Policy", ("...",))
            self.checkpoint: Any = gui.add_dropdown(
                "Checkpoint", (NEWEST,), visible=False, hint="Environment steps learned"
            )
        with gui.add_folder("View", expand_by_default=False):
            self.camera: Any = gui.add_dropdown("Camera", (FOLLOW, FREE))
            self.goals = gui.add_checkbox("Goals", True, hint="Targets, and bodies as they are to lie")
            self.contacts = gui.add_checkbox("Contacts", False, hint="Where bodies touch, and with which force")
            self.shadows = gui.add_checkbox("Shadows", True, hint="Off is faster where no GPU draws the page")
            self.index = gui.add_slider("Environment", 0, 1, 1, 0, visible=False)
            self.spacing = gui.add_slider("Spacing (m)", 0.0, 8.0, 0.1, 1.0, visible=False)
        self._response_folder = gui.add_folder("Command and response", visible=False)
        self._pictures_folder = gui.add_folder("What the policy sees", visible=False)
        self._pictures: dict[str, Any] = {}
        self._curves_folder = gui.add_folder("Reward terms", expand_by_default=False)
        self._learning_folder = gui.add_folder("Learning", visible=False)
        with self._curves_folder:
            self._table = gui.add_markdown("")
        with self._learning_folder:
            self._learned = gui.add_markdown("")
        self.sliders: list[Any] = []
        self._ranges: Sequence[CommandRange] = ()
        self._plots = Plots(gui)
        self.history = History()
        self._connect()

    def _connect(self) -> None:
        ask = self._asked.put

        def listen(handle: Any, event: Event) -> None:
            @handle.on_update
            def _(happened: viser.GuiEvent[Any]) -> None:
                if happened.client is not None:  # otherwise it was set here
                    ask(Asked(event, handle.value, happened.client))

        for handle, event in (
            (self.task, Event.TASK),
            (self.policy, Event.POLICY),
            (self.checkpoint, Event.CHECKPOINT),
        ):
            listen(handle, event)

        @self.shadows.on_update
        def _(_: Any) -> None:
            self.server.scene.configure_default_lights(cast_shadow=self.shadows.value)

        self._playback.on_click(lambda it: ask(Asked(Event(self._playback.value), None, it.client)))
        self._pushes.on_click(lambda it: ask(Asked(Event.PUSH, self._pushes.value, it.client)))
        self.record.on_click(lambda it: ask(Asked(Event.RECORD, None, it.client)))
        self.stop.on_click(lambda it: ask(Asked(Event.STOP, None, it.client)))

        @self.server.on_client_connect
        def _(client: viser.ClientHandle) -> None:
            if client.camera.image_width < NARROW:
                client.gui.main_panel.minimize()

    def take(self) -> list[Asked]:
        """Requests since the last call."""
        asked = []
        while not self._asked.empty():
            asked.append(self._asked.get())
        return asked

    def ask(self, asked: Asked) -> None:
        """Request something as a person would."""
        self._asked.put(asked)

    def show_task(
        self,
        task: str,
        ranges: Sequence[CommandRange],
        cameras: Sequence[str],
        pictures: Mapping[str, np.ndarray],
        num_envs: int,
        spacing: float,
    ) -> None:
        """Lay out what depends on the task.

        Args:
            ranges: Of its command, see `Operator.ranges`.
            cameras: Names of the model's cameras.
            pictures: Name of the policy's picture -> (height, width, 3) uint8.
            spacing: m between them, to begin with.
        """
        for handle in self._of_task:
            handle.remove()
        self._of_task, self.sliders, self._ranges = [], [], ranges
        self._plots.clear()
        self.clear()
        gui = self._gui
        gui.set_panel_label(task)
        self.task.value = task
        self._command_folder.visible, self._response_folder.visible = True, bool(ranges)
        self.stop.visible = any(is_rate(one) for one in ranges)
        with self._command_folder:
            if not ranges:
                self._of_task.append(gui.add_markdown(NO_COMMAND))
            self.steer = gui.add_checkbox(
                "Steer", False, hint="Otherwise the task draws the command", visible=bool(ranges)
            )
            self._of_task.append(self.steer)
            self.sliders = [self._command_slider(one) for one in ranges]
            self._of_task += self.sliders
            if ranges:
                keys = ("W S", "A D", "Q E")
                said = " · ".join(f"**{key}** {one.name}" for key, one in zip(keys, ranges, strict=False))
                self._response = gui.add_markdown("")
                self._of_task += [self._response, gui.add_markdown(f"{said} · **P** push · gamepad")]

            @self.steer.on_update
            def _(happened: viser.GuiEvent[Any]) -> None:
                if happened.client is not None:
                    wanted = Event.COMMAND if self.steer.value else Event.RELEASE
                    self._asked.put(Asked(wanted, self.command, happened.client))

        self.camera.options = (FOLLOW, FREE, *cameras)
        self.camera.value = FOLLOW
        self.index.max, self.index.value = max(1, num_envs - 1), 0
        self.index.visible = self.spacing.visible = num_envs > 1
        self.spacing.value = min(spacing, self.spacing.max)
        self._pictures_folder.visible = bool(pictures)
        with self._pictures_folder:
            self._pictures = {name: gui.add_image(image, label=name) for name, image in pictures.items()}
        self._of_task += self._pictures.values()

    def _command_slider(self, one: CommandRange) -> Any:
        middle = min(max(0.0, one.low), one.high) if is_rate(one) else (one.low + one.high) / 2
        step = 10 ** math.floor(math.log10((one.high - one.low) / 50))
        slider = self._gui.add_slider(f"{one.name} ({one.unit})", one.low, one.high, step, middle)

        @slider.on_update
        def _(happened: viser.GuiEvent[Any]) -> None:
            if happened.client is not None:
                self.steer.value = True
                self._asked.put(Asked(Event.COMMAND, self.command, happened.client))

        return slider

    @property
    def command(self) -> np.ndarray:
        """(k,) where the sliders stand."""
        return np.array([slider.value for slider in self.sliders], float)

    @command.setter
    def command(self, values: np.ndarray) -> None:
        for slider, value in zip(self.sliders, values.tolist(), strict=True):
            shown = min(max(round(value, DIGITS), slider.min), slider.max)
            if abs(slider.value - shown) > 1e-6:
                slider.value = shown

    def show_choices(self, choices: Sequence[Choice], chosen: Choice) -> None:
        """Offer policies."""
        self.policy.options = tuple(choice.label for choice in choices)
        self.policy.value = chosen.label
        steps = [f"{step:,}" for step in chosen.checkpoints]
        self.checkpoint.options = (NEWEST, *steps)
        self.checkpoint.value = NEWEST
        self.checkpoint.visible = len(steps) > 0

    @property
    def watched(self) -> int:
        return int(self.index.value) if self.index.visible else 0

    def remember(self, seconds: float, terms: Mapping[str, float], command: np.ndarray, measured: np.ndarray) -> None:
        """Remember one control step for the plots: weighted reward terms, command and what the robot does."""
        self.history = self.history.after(seconds, terms, command, measured)

    @property
    def response(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) the command and (k,) what the robot did, as last remembered; NaN where nothing is."""
        nothing = np.full(len(self.sliders), np.nan)
        history = self.history
        return (history.commands[-1], history.responses[-1]) if history.commands else (nothing, nothing)

    def clear(self) -> None:
        """Forget the plots: another environment, or a fresh start."""
        self.history = History()

    def refresh(self, readings: Readings) -> None:
        """Show new numbers and plots."""
        success = " · **success now**" if readings.success else ""
        lines = [f"{readings.seconds:.1f} s of {readings.limit:g} s{success}", *readings.notes]
        if not math.isnan(readings.contact_force):
            lines.append(f"contact forces {readings.contact_force:.0f} N in sum")
        self.status.content = "  \n".join(lines)
        if self.sliders:
            rows = [
                f"| {slider.label} | {_number(told)} | {_number(done)} |"
                for slider, told, done in zip(self.sliders, readings.command, readings.measured, strict=True)
            ]
            self._response.content = "\n".join(["| | command | robot |", "|---|---:|---:|", *rows])
        rows = ["| episode so far | |", "|---|---:|", f"| return | {readings.episode_return:.3g} |"]
        rows += [
            f"| {name} | {value:.3g}{f' {unit}' if unit else ''} |" for name, (value, unit) in readings.metrics.items()
        ]
        rows += ["", "| reward term | sum |", "|---|---:|"]
        rows += [f"| {name} | {value:.3g} |" for name, value in readings.terms.items()]
        self._table.content = "\n".join(rows)
        history = self.history
        if len(history.seconds) > 1:
            self._plots.show("reward per step", self._curves_folder, history.seconds, history.terms)
        if len(history.seconds) > 1 and self.sliders and not np.isnan(readings.measured).all():
            curves = history.followed([one.name for one in self._ranges], [one.unit for one in self._ranges])
            title = "command (dashed) and robot"
            self._plots.show(title, self._response_folder, history.seconds, curves, dashed=TOLD)

    def show_learning(self, learning: Mapping[str, Sequence[float]], note: str) -> None:
        """Show how the run that is played has learned: curves over environment steps."""
        steps = learning.get("steps", ())
        self._learning_folder.visible = len(steps) > 1
        if len(steps) < 2:
            return
        self._learned.content = note
        curves = {name: values for name, values in learning.items() if name != "steps"}
        for name, values in curves.items():
            self._plots.show(
                f"{name} over millions of steps", self._learning_folder, [s / 1e6 for s in steps], {name: values}
            )

    def show_pictures(self, pictures: Mapping[str, np.ndarray]) -> None:
        """Renew the policy's pictures."""
        for name, image in pictures.items():
            self._pictures[name].image = image

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """In place of readings, and in the middle of the scene: what a person waits for, and for how long already."""
        begun, over = time.monotonic(), threading.Event()

        def say() -> None:
            seconds = time.monotonic() - begun
            text = f"{what} ..." if seconds < TICK else f"{what}, {seconds:.0f} s"
            self.status.content = text
            self.server.scene.add_label(WAITING, text, anchor="center-center")

        def tick() -> None:
            while not over.wait(TICK):
                say()

        say()
        clock = threading.Thread(target=tick, daemon=True)
        clock.start()
        try:
            yield
        finally:
            over.set()
            clock.join()
            self.server.scene.remove_by_name(WAITING)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.2f}"
