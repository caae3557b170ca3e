"""`Player`: steps environments in real time, shows them in the browser, and carries out a person's requests."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import queue
import sys
import time

import numpy as np
import viser

from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, listing
from embodied.viewer.browser import BrowserInput, Button
from embodied.viewer.camera import look, look_along, quiet, start_server, view_axes
from embodied.viewer.choices import NEWEST, Catalogue, Choice
from embodied.viewer.panel import FOLLOW, FREE, Asked, Event, Panel
from embodied.viewer.pilot import Pilot
from embodied.viewer.playback import Playback
from embodied.viewer.recorder import Recorder
from embodied.viewer.scene import Scene

MOST_PICTURES = 30.0  # per second that the browser is sent
READINGS = 5.0  # per second that text and plots are renewed
IDLE = 0.2  # s between looks for a visitor while there is none
FOLLOWED = 2.0  # s between looks for a newer snapshot of a run that is being trained


@dataclasses.dataclass(frozen=True)
class PlayerSettings:
    """Settings of a player."""

    num_envs: int = 1
    seed: int = 0
    seconds: float = math.inf
    """Simulated s after which it ends; without an end it waits while no page is open."""
    host: str = "localhost"
    port: int = 8080
    shadows: bool = True
    """Whether lights cast shadows, which costs most of the time where no GPU draws the page."""
    pilot: int | None = None
    """Agent of a team that a person acts for."""
    nice: int = 0
    """Priority that the loop gives to other work once everything is compiled, 0 to 19; not on Windows."""


class Player:
    """The viewer: a page, one task at a time, and a loop that joins them."""

    def __init__(self, catalogue: Catalogue, task: str, policy: str, settings: PlayerSettings) -> None:
        """Open the page; environments are made and stepped by `run`.

        Args:
            catalogue: Tasks and policies to choose from.
            policy: The policy that acts first, as `Choice.policy`.
        """
        self.catalogue, self.settings = catalogue, settings
        self.server = start_server(settings.host, settings.port)
        self.panel = Panel(self.server, catalogue.tasks())
        self.panel.seed.value = settings.seed
        self.panel.shadows.value = settings.shadows
        self._clicks: queue.SimpleQueue[viser.SceneClickEvent] = queue.SimpleQueue()
        self.server.scene.on_click()(self._clicks.put)
        self.input = BrowserInput(self.server, self._on_press)
        self.task, self.choice = task, self._choice(task, policy)
        self.checkpoint: int | None = None
        self.recorder: Recorder | None = None
        self.playback: Playback | None = None
        self.pilot = None if settings.pilot is None else Pilot(settings.pilot)
        self.simulated = 0.0
        self._note = ""
        self._loaded: int | None = None

    @property
    def url(self) -> str:
        """Address of the page."""
        host = self.server.get_host()
        return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{self.server.get_port()}"

    def run(self) -> int:
        """Play until interrupted, or until `settings.seconds` are simulated; returns the exit code."""
        say(f"open {self.url} in a browser; Ctrl-C stops")
        try:
            self.open()
            if self.settings.nice and os.name == "posix":
                os.nice(self.settings.nice)
            self._loop()
        except KeyboardInterrupt:
            say("stopped")
        finally:
            self.close()
        return 0

    def _await_visitor(self) -> None:
        """Wait while no page is open, so that an unwatched viewer costs next to nothing."""
        while math.isinf(self.settings.seconds) and not self.server.get_clients():
            time.sleep(IDLE)

    def close(self) -> None:
        """Take the page down and release the environments."""
        if self.recorder is not None:
            self.recorder.discard()
        with quiet():
            self.server.stop()
        if self.playback is not None:
            self.playback.close()

    def open(self) -> None:
        """Let the chosen policy act in the chosen task, in the environments that run where those will do."""
        needs = self.catalogue.needs(self.task, self.choice.policy)
        playing = self.playback
        stays = playing is not None and playing.env.name == self.task and playing.needs == needs
        if playing is not None and stays:
            playing.policy = self._load(self.checkpoint, playing.env)
        else:
            with self.panel.waiting(f"compiling {self.task}"):
                env = self.catalogue.make(needs, self.settings.num_envs)
                rule = self._load(self.checkpoint, env)
                fresh = Playback(env, rule, needs, int(self.panel.seed.value))
            if self.recorder is not None:
                self._record(None)  # the film ends with what it shows
            if playing is not None:
                playing.close()
            self.playback = fresh
            self._lay_out(fresh)
        self._loaded = self.catalogue.newest_step(self.choice.policy) if self.checkpoint is None else self.checkpoint
        self._looked = time.perf_counter()
        self._show_learning()

    def _load(self, checkpoint: int | None, env: Env) -> PolicyFunction:
        """The chosen policy, beside a person where one acts too."""
        policy = self.catalogue.load(self.choice.policy, checkpoint, env)
        if self.pilot is None:
            return policy
        self.pilot.require_fit(env)
        return self.pilot.among(policy)

    def _lay_out(self, playback: Playback) -> None:
        """A fresh scene and the task's part of the panel."""
        self.server.scene.reset()
        model = playback.env.task.visual_model
        self.scene = Scene(self.server, model, playback.env.num_envs)
        self.scene_state = playback.scene()
        self._view = FOLLOW
        self.scene.follow(self.scene_state, 0, 0.0, at_once=True)
        position, lookat, fov = self.scene.first_view(self.scene_state)
        self.scene.seen_from(float(np.linalg.norm(position - lookat)))
        look(self.server, position, lookat, fov)
        cameras = [name for name in (model.camera(i).name for i in range(model.ncam)) if name]
        self.panel.show_task(
            self.task, playback.ranges, cameras, playback.pictures(0), playback.env.num_envs, playback.spacing
        )
        self.panel.show_choices(self.catalogue.choices(self.task), self.choice)
        self.show()

    def _loop(self) -> None:
        due = last_picture = last_reading = time.perf_counter()
        while self.simulated < self.settings.seconds - 0.5 * self._playback.env.control_dt:
            self._await_visitor()
            now = time.perf_counter()
            for asked in self.panel.take():
                self._answer(asked)
            while not self._clicks.empty():
                self._click(self._clicks.get())
            if self.panel.pause.value:
                due = now + 0.02
            else:
                # A machine that cannot keep up falls behind real time instead of hurrying after it.
                due = max(due, now - 0.25) + self._playback.env.control_dt / self.panel.speed.value
                self.step()
            if now - last_picture >= 1 / MOST_PICTURES and self.recorder is None:
                last_picture = now
                self.show()
            if now - last_reading >= 1 / READINGS:
                last_reading = now
                self.refresh()
            if self.recorder is None:
                time.sleep(max(0.0, due - time.perf_counter()))

    @property
    def _playback(self) -> Playback:
        assert self.playback is not None
        return self.playback

    def step(self) -> None:
        """Advance by one control step; while a film is recorded, also take its frame."""
        playback, index = self._playback, self.panel.watched
        command = None
        if self.pilot is None:
            command = playback.deflect(self.input.deflection)
        else:
            self.pilot.deflection = self.input.deflection
        if command is not None:
            self.panel.steer.value = True
            self.panel.command = command
        first = self.panel.waiting(f"compiling {self.task}") if not playback.simulated else contextlib.nullcontext()
        with first:
            seconds, terms = playback.step(index)
        self.simulated += playback.env.control_dt
        if terms:
            self.panel.remember(seconds, terms, *playback.command(index))
        else:
            self.panel.clear()
        if self.recorder is not None and self.recorder.step():
            self.show()
            try:
                self.recorder.capture()
            except EmbodiedError as error:
                self.recorder.discard()
                self._end_recording(str(error))

    def show(self) -> None:
        """Send the poses of everything to the browser."""
        playback, panel, index = self._playback, self.panel, self.panel.watched
        self.scene_state = playback.scene()
        spacing, view = self._spacing, panel.camera.value
        if view == FOLLOW:
            self.scene.follow(self.scene_state, index, spacing)
        touching = playback.contacts(index) if panel.contacts.value else None
        with self.server.atomic():
            self.scene.update(self.scene_state, spacing, goals=panel.goals.value)
            self.scene.show_contacts(touching, self.scene.offset(index, spacing))
        if view not in (FOLLOW, FREE):
            look_along(self.server, *self.scene.camera_pose(self.scene_state, index, spacing, view))
        elif self._view not in (FOLLOW, FREE):
            look(self.server, *self.scene.first_view(self.scene_state))
        self._view = view

    def refresh(self) -> None:
        """Renew text, plots and pictures, and look for a newer snapshot."""
        playback, panel, index = self._playback, self.panel, self.panel.watched
        self._follow_training()
        touching = playback.contacts(index) if panel.contacts.value else None
        acting = [self._who()] + ([] if self.pilot is None else [self.pilot.hint(playback.env)])
        notes = acting + ([f"recording: {self.recorder.seconds:.1f} s"] if self.recorder else [])
        panel.refresh(playback.readings(index, touching, notes + ([self._note] if self._note else [])))
        panel.show_pictures(playback.pictures(index))
        if playback.steered is None and len(playback.ranges) and not panel.steer.value:  # else a person's is under way
            panel.command = playback.command(index)[0]

    def _who(self) -> str:
        """Name of the policy that acts."""
        learned = "" if self._loaded is None else f", {self._loaded:,} steps learned"
        return f"policy: {self.choice.label}{learned}"

    @property
    def _spacing(self) -> float:
        return float(self.panel.spacing.value) if self._playback.env.num_envs > 1 else 0.0

    def _follow_training(self) -> None:
        """Take over the newest snapshot of a run that is being trained."""
        if self.checkpoint is not None or time.perf_counter() - self._looked < FOLLOWED:
            return
        self._looked = time.perf_counter()
        step = self.catalogue.newest_step(self.choice.policy)
        if step is None or step == self._loaded:
            return
        try:
            self._playback.policy = self._load(None, self._playback.env)
        except EmbodiedError:  # it was pruned while it was read; there will be another
            return
        self._loaded = step
        self._show_learning()

    def _show_learning(self) -> None:
        self.panel.show_learning(self.catalogue.learning(self.choice.policy), self._who())

    def _choice(self, task: str, policy: str) -> Choice:
        choices = self.catalogue.choices(task)
        return next((choice for choice in choices if choice.policy == policy), Choice(policy, policy))

    def _answer(self, asked: Asked) -> None:
        """Carry out a person's request; a failure is reported, and what was played plays on."""
        before = (self.task, self.choice, self.checkpoint)
        try:
            self._do(asked)
        except EmbodiedError as error:
            self.task, self.choice, self.checkpoint = before
            self.panel.task.value = self.task
            self.panel.show_choices(self.catalogue.choices(self.task), self.choice)
            self._note = str(error)
            if asked.client is not None:
                asked.client.add_notification("Cannot play this", self._note, color="red")

    def _do(self, asked: Asked) -> None:
        playback, panel = self._playback, self.panel
        match asked.event:
            case Event.TASK if asked.value != self.task:
                self.task, self.checkpoint = str(asked.value), None
                self.choice = self.catalogue.choices(self.task)[0]
                self.open()
            case Event.POLICY:
                choices = self.catalogue.choices(self.task)
                chosen = [choice for choice in choices if choice.label == asked.value]
                if not chosen:
                    raise EmbodiedError(f"'{asked.value}' is gone; there is {listing(c.label for c in choices)}")
                self.choice, self.checkpoint = chosen[0], None
                self.open()
                panel.show_choices(choices, self.choice)
            case Event.CHECKPOINT:
                self.checkpoint = None if asked.value == NEWEST else int(str(asked.value).replace(",", ""))
                self.open()
            case Event.STEP:
                panel.pause.value = True
                self.step()
                self.show()
                self.refresh()
            case Event.RESET:
                playback.reset(int(panel.seed.value))
                panel.clear()
                self.show()
            case Event.COMMAND:
                playback.steer(asked.value)
            case Event.RELEASE:
                playback.steer(None)
            case Event.STOP:
                panel.command = command = playback.halted()
                panel.steer.value = True
                playback.steer(command)
            case Event.PUSH:
                self._push(asked)
            case Event.RECORD:
                self._record(asked.client)

    def _push(self, asked: Asked) -> None:
        right, away = (np.eye(3)[0], np.eye(3)[1]) if asked.client is None else view_axes(asked.client)
        direction = {"left": -right, "right": right, "away": away, "nearer": -away}[asked.value]
        playback = self._playback
        self._note = playback.push(
            self.panel.watched, playback.pushed_body, direction, float(self.panel.push_speed.value)
        )

    def _click(self, event: viser.SceneClickEvent) -> None:
        """Push what was clicked on, along the view."""
        direction = np.asarray(event.ray_direction, float)
        direction /= np.linalg.norm(direction)
        found = self.scene.hit(self.scene_state, self._spacing, np.asarray(event.ray_origin, float), direction)
        if found is not None:
            index, body, lever = found
            speed = float(self.panel.push_speed.value)
            self._note = self._playback.push(index, body, direction, speed, lever)

    def _record(self, client: viser.ClientHandle | None) -> None:
        """Begin a film of what a visitor sees, or end it and send it to them."""
        if self.recorder is not None:
            recorder, seconds = self.recorder, self.recorder.seconds
            name = f"{self.task.replace('/', '-')}.mp4"
            try:
                size = recorder.finish(name)
                self._end_recording(f"{name}: {seconds:.1f} s, {size / 1e6:.1f} MB")
            except EmbodiedError as error:
                self._end_recording(str(error))
        elif client is not None:
            dt, speed = self._playback.env.control_dt, float(self.panel.speed.value)
            self.recorder = Recorder(client, dt, speed)
            self.panel.record.label = "End the film"

    def _end_recording(self, note: str) -> None:
        self.recorder, self._note = None, note
        self.panel.record.label = "Record a film"

    def _on_press(self, name: str, client: viser.ClientHandle) -> None:
        """Carry out the request of a key or a button of a gamepad."""
        events = {Button.PUSH: Event.PUSH, Button.RESET: Event.RESET, Button.STEP: Event.STEP}
        if name == Button.PAUSE:
            self.panel.pause.value = not self.panel.pause.value
        elif name in events:
            self.panel.ask(Asked(events[name], "left" if name == Button.PUSH else None, client))


def say(text: str) -> None:
    """To standard error, so that nothing mixes with output that is piped."""
    print(text, file=sys.stderr, flush=True)
