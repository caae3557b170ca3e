"""The page in a real browser: a slider moves the robot, pushes, films, runs and phones.

Needs the extra `browser`, and Chromium: the one on PATH, else playwright's own (`playwright install chromium`).
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import pytest

from embodied.storage import checkpoints
from embodied.storage.runs import Run
from embodied.viewer.player import Player, PlayerSettings
from policies.training.choices import PolicyCatalogue
from policies.training.loading import shipped_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WALKS = "locomotion/go1-joystick-flat"
WIDTH, HEIGHT = 1000, 560
PATIENCE = 90.0  # s that a page drawn in software, beside other work, may take


class Shown:
    """A player that runs in a thread, and a page that shows it."""

    def __init__(self, browser: Any, task: str, *, num_envs: int = 1, size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
        catalogue = PolicyCatalogue()
        settings = PlayerSettings(num_envs, port=18300, shadows=False)
        self.player = Player(catalogue, task, catalogue.choices(task)[0].policy, settings)
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.errors: list[str] = []
        self.page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.add_init_script("navigator.getGamepads = () => [window.pad || null]")
        self.page.goto(self.player.url)
        self.until(lambda: self.player.playback is not None and self.player.simulated > 1, "it plays")
        self.page.locator("canvas[data-engine]").wait_for()

    def _run(self) -> None:
        try:
            self.player.run()
        except BaseException:
            self.failed.append(traceback.format_exc())

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for something to hold."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert not self.failed, self.failed[0]
            assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
            self.page.wait_for_timeout(100)

    def said(self, pattern: str) -> None:
        """Wait for the page to show a text."""
        self.until(lambda: re.search(pattern, self.page.inner_text("body")), pattern)

    def steady(self) -> None:
        """Wait until the page keeps up: the first frames compile its shaders."""
        for _ in range(2):
            before = self.page.inner_text("body")
            self.until(lambda text=before: self.page.inner_text("body") != text, "the page is renewed")

    @property
    def command(self) -> np.ndarray:
        """What was last read: the simulation's own state belongs to the player's thread."""
        return self.player.panel.response[0]

    @property
    def measured(self) -> np.ndarray:
        return self.player.panel.response[1]

    def set_slider(self, number: int, value: float) -> None:
        """Type a number beside a slider of the command."""
        box = self.page.locator("input.mantine-NumberInput-input").nth(number)
        box.fill(f"{value:g}")
        box.press("Enter")

    def close(self) -> None:
        self.player.settings = PlayerSettings(seconds=0.0)
        self._thread.join(timeout=60)
        self.page.close()
        assert not self.failed, self.failed[0]
        assert not self.errors, self.errors


@pytest.fixture
def shown(browser: Any) -> Iterator[Callable[..., Shown]]:
    opened: list[Shown] = []

    def show(task: str, **options: Any) -> Shown:
        opened.append(Shown(browser, task, **options))
        return opened[-1]

    yield show
    for one in opened:
        one.close()


def test_a_slider_changes_the_command_and_then_the_velocity_and_keys_do(shown: Callable[..., Shown]) -> None:
    view = shown(WALKS)
    view.steady()
    for speed in (1.0, -0.8):
        view.set_slider(0, speed)
        view.until(lambda v=speed: abs(view.command[0] - v) < 0.02, "the command is set")
        view.until(lambda v=speed: abs(view.measured[0] - v) < 0.15, "the robot follows")
        view.said(r"forward \(m/s\)\s+" + re.escape(f"{speed:+.2f}"))
    view.page.mouse.click(20, HEIGHT - 20)
    view.page.keyboard.down("KeyA")
    view.until(lambda: view.measured[1] > 0.5, "the robot goes left")
    view.page.keyboard.up("KeyA")
    view.until(lambda: np.allclose(view.command, 0.0), "letting go stops")
    view.until(lambda: abs(view.measured[1]) < 0.15, "the robot stands")


def test_a_gamepad_steers_and_pushes(shown: Callable[..., Shown]) -> None:
    view = shown(WALKS)
    view.steady()
    pad = "window.pad = {connected: true, axes: [0, %g, %g, 0], buttons: [{pressed: %s}]}"
    view.page.evaluate(pad % (-0.5, 0.0, "false"))  # forward is up, which is negative
    view.until(lambda: view.measured[0] > 0.6, "the robot walks")
    view.page.evaluate(pad % (0.0, -1.0, "false"))
    view.until(lambda: view.measured[2] > 0.8, "the robot turns left")
    view.page.evaluate(pad % (0.05, 0.05, "true"))  # within the dead zone
    view.until(lambda: np.allclose(view.command, 0.0), "the sticks are let go")
    view.until(lambda: view.player._note.startswith("pushed trunk"), "its first button pushes")


def test_pushes_by_button_by_key_and_by_a_click_on_the_robot(shown: Callable[..., Shown]) -> None:
    view = shown(WALKS)
    view.steady()
    view.page.get_by_role("button", name="Stop").click()
    for act, how in (
        (lambda: view.page.get_by_text("nearer", exact=True).click(), "a button"),
        (lambda: view.page.keyboard.press("KeyP"), "a key"),
        (lambda: view.page.mouse.click(WIDTH / 2, HEIGHT / 2), "a click on the robot"),
    ):
        view.player._note = ""
        act()
        view.until(lambda: re.match(r"pushed \w+ with [\d.]+ N for 0.1 s", view.player._note), f"a push by {how}")
        view.said("pushed")


def test_a_film_is_recorded_and_plays(shown: Callable[..., Shown], tmp_path: Path) -> None:
    view = shown(WALKS)
    view.steady()
    view.page.get_by_role("button", name="Record a film").click()
    view.until(lambda: view.player.recorder is not None and view.player.recorder.seconds > 0.5, "frames")
    with view.page.expect_download(timeout=1000 * PATIENCE) as download:
        view.page.get_by_role("button", name="End the film").click()
    assert download.value.suggested_filename == "locomotion-go1-joystick-flat.mp4"
    download.value.save_as(tmp_path / "film.mp4")
    frames = iio.imread(tmp_path / "film.mp4", plugin="FFMPEG")
    assert len(frames) > 10
    assert frames.shape[1:] == (HEIGHT, WIDTH, 3)
    assert frames[-1].std() > 5  # something is seen ...
    assert np.abs(frames[-1].astype(int) - frames[0]).mean() > 0.2  # ... and moves


def test_runs_checkpoints_and_policies_are_switched(
    shown: Callable[..., Shown], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    held = checkpoints.load(shipped_path("swarm/hover"))
    runs = [Run.create(Path("runs"), "swarm/hover", {}) for _ in range(2)]
    for run in runs:
        run.save(1000, held.tensors, held.meta)
        run.save(2000, held.tensors, held.meta)
        run.close()
    newest = runs[-1].path.name
    view = shown("swarm/hover")
    view.steady()
    view.said(f"run {newest}, 2,000 steps learned")
    view.page.get_by_text("Policy", exact=True).first.click()

    def choose(number: int, label: str) -> None:
        view.page.locator("input.mantine-Select-input:visible").nth(number).click()
        view.page.get_by_role("option", name=label, exact=True).click()

    choose(2, "1,000")
    view.said(f"run {newest}, 1,000 steps learned")
    choose(1, "zero")
    view.until(lambda: view.player.choice.policy == "zero", "another policy")
    choose(0, "swarm/landing")
    view.until(lambda: view.player._playback.env.name == "swarm/landing", "another task")
    view.said("swarm/landing")


@pytest.mark.parametrize("task", ["swarm/formation", "manipulation/reach", "grasping/leap-rotate-z"])
def test_one_task_of_each_family_is_shown_steered_and_pushed(shown: Callable[..., Shown], task: str) -> None:
    view = shown(task)
    view.steady()
    for number, one in enumerate(view.player._playback.ranges):
        wanted = round(one.low + 0.7 * (one.high - one.low), 3)
        view.set_slider(number, wanted)
        view.until(lambda n=number, w=wanted: abs(view.command[n] - w) < 0.02, one.name)
    if view.player._playback.ranges:
        told = view.command
        view.until(lambda: np.abs(view.measured - told).max() < 0.15, "the robot goes where it is told")
    view.page.get_by_text("left", exact=True).last.click()
    view.said("pushed")
    picture = np.asarray(iio.imread(view.page.screenshot(), extension=".png"))
    assert picture[HEIGHT // 4 : -HEIGHT // 4, WIDTH // 4 : WIDTH // 2].std() > 5


@pytest.mark.parametrize("width", [1280, 640, 390])
def test_the_robot_is_seen_beside_the_panel_or_above_it(shown: Callable[..., Shown], width: int) -> None:
    view = shown(WALKS, size=(width, 760))
    view.steady() if width > 820 else view.until(lambda: view.player.simulated > 8, "some time")
    middle = view.page.evaluate("([x, y]) => document.elementFromPoint(x, y).tagName", [width / 2, 760 / 2])
    assert middle == "CANVAS"
    assert view.page.get_by_text(WALKS).first.is_visible()
