"""The player without a browser: it steps, steers, switches and says what it cannot do."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Iterator

import numpy as np
import pytest

from embodied.core.facets import CommandRange
from embodied.env.options import EnvOptions
from embodied.rendering.camera_config import CameraConfig
from embodied.rendering.meshes import body_parts
from embodied.viewer import panel, scene
from embodied.viewer.panel import Asked, Event, Readings
from embodied.viewer.playback import PUSH_SECONDS, TRAVEL_SECONDS
from embodied.viewer.player import Player, PlayerSettings
from policies.training.choices import PolicyCatalogue
from tests.kit.pushers import TEAM
from tests.kit.task_file import mass

HOVER = "swarm/hover"
SHAPES = functools.cache(body_parts)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A task of a file, which compiles in a moment."""
    return mass(tmp_path_factory.mktemp("own"))


@pytest.fixture(autouse=True)
def _shapes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every player shows the same drone."""
    monkeypatch.setattr(scene, "body_parts", SHAPES)


MUJOCO = EnvOptions("", engine="mujoco")


@pytest.fixture(scope="module")
def _compiled() -> None:
    """The drone's programs, which every player of two drones runs."""
    player = Player(PolicyCatalogue(MUJOCO), HOVER, "zero", PlayerSettings(2, seconds=0.02, port=18090))
    player.run()


@pytest.fixture
def player(own: str, _compiled: None) -> Iterator[Player]:
    catalogue = PolicyCatalogue(MUJOCO, given=[(own, "zero")])
    player = Player(catalogue, HOVER, "zero", PlayerSettings(2, seconds=0.1, port=18090))
    player.open()
    yield player
    player.close()


def ask(player: Player, event: Event, value: object = None) -> None:
    player._answer(Asked(event, value))


def test_it_steps_shows_and_ends(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    player = Player(PolicyCatalogue(MUJOCO), own, "zero", PlayerSettings(2, seconds=0.1, port=18091))
    assert player.run() == 0
    assert player.simulated == pytest.approx(0.1)
    assert "http://localhost:" in capsys.readouterr().err


def test_a_command_is_set_shown_and_given_back(player: Player) -> None:
    ask(player, Event.COMMAND, np.array([0.5, -0.5, 2.5]))
    player.step()
    player.refresh()
    assert "| x (m) | +0.50 |" in player.panel._response.content
    np.testing.assert_allclose(player._playback.command(1)[0], [0.5, -0.5, 2.5], atol=1e-6)
    ask(player, Event.RESET)
    np.testing.assert_allclose(player._playback.command(1)[0], [0.5, -0.5, 2.5], atol=1e-6)
    ask(player, Event.RELEASE)
    player.refresh()
    assert player._playback.steered is None


def test_the_sliders_follow_the_task_until_somebody_steers(player: Player) -> None:
    player.refresh()
    np.testing.assert_allclose(player.panel.command, [0.0, 0.0, 2.0], atol=1e-3)
    player.panel.command = np.array([9.0, 0.123456, -9.0])
    np.testing.assert_allclose(player.panel.command, [1.0, 0.123, 1.0])
    player.panel.steer.value = True  # as a slider does whose request is not answered yet
    player.refresh()
    np.testing.assert_allclose(player.panel.command, [1.0, 0.123, 1.0])


def test_the_page_says_what_it_waits_for_and_how_long_until_it_is_over(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel, "TICK", 0.01)
    names = player.server.scene._handle_from_node_name
    with player.panel.waiting("compiling swarm/hover"):
        assert player.panel.status.content == "compiling swarm/hover ..."
        while "swarm/hover, 0 s" not in player.panel.status.content:
            time.sleep(0.01)
        assert panel.WAITING in names
    assert panel.WAITING not in names


def test_a_step_pauses_and_advances_by_one_control_step(player: Player) -> None:
    before = player.simulated
    ask(player, Event.STEP)
    assert player.simulated - before == pytest.approx(player._playback.env.control_dt)
    assert player.panel.pause.value


def test_a_reset_begins_at_the_seed_that_is_shown(player: Player) -> None:
    places = []
    for seed in (3, 4, 3):
        player.panel.seed.value = seed
        ask(player, Event.RESET)
        places.append(player._playback.scene().qpos.copy())
    np.testing.assert_array_equal(places[0], places[2])
    assert np.abs(places[0] - places[1]).max() > 0.01


def test_a_push_changes_the_speed_by_what_the_slider_says(player: Player) -> None:
    playback = player._playback
    player.panel.push_speed.value = 1.0
    ask(player, Event.PUSH, "left")
    assert player._note.startswith("pushed cf with 0.")
    speeds = [np.asarray(playback.env.world().qvel)[:, 0].copy()]
    for _ in range(round(PUSH_SECONDS / playback.env.control_dt)):
        playback.step(0)
    speeds.append(np.asarray(playback.env.world().qvel)[:, 0].copy())
    ask(player, Event.RESET)
    for _ in range(round(PUSH_SECONDS / playback.env.control_dt)):
        playback.step(0)
    unpushed = np.asarray(playback.env.world().qvel)[:, 0] - speeds[0]
    np.testing.assert_allclose(speeds[1] - speeds[0] - unpushed, [-1.0, 0.0], atol=0.1)  # mass varies by 5 %


def test_a_stick_moves_a_target_and_leaves_it_where_it_is_let_go(player: Player) -> None:
    playback = player._playback
    moved = playback.deflect(np.array([1.0, 0.0, -0.5]))
    assert moved is not None
    travel = 2.0 * playback.env.control_dt / TRAVEL_SECONDS
    np.testing.assert_allclose(moved, [travel, 0.0, 2.0 - travel / 2], atol=1e-6)
    let_go = playback.deflect(np.zeros(3))
    assert playback.deflect(np.zeros(3)) is None
    assert let_go is None or np.allclose(let_go, moved)


def test_a_stick_sets_a_speed_which_is_zero_when_it_is_let_go(player: Player) -> None:
    playback = player._playback
    told: list[np.ndarray | None] = []
    playback.ranges = tuple(dataclasses.replace(one, unit="m/s", low=-2.0, high=1.0) for one in playback.ranges)
    playback.steer = told.append  # type: ignore[method-assign]
    for stick in ([1.0, -0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]):
        playback.deflect(np.array(stick))
    np.testing.assert_allclose(np.array(told), [[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]])


def test_policies_and_tasks_are_switched_while_it_plays(player: Player, own: str) -> None:
    env = player._playback.env
    ask(player, Event.POLICY, "shipped")
    assert player._playback.env is env  # the same environments do
    player.step()
    ask(player, Event.TASK, own)
    assert player._playback.env.name == f"{own}:Sound"
    assert player.panel.task.value == own
    player.step()


def test_what_cannot_be_played_is_said_and_the_rest_plays_on(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    from embodied.errors import EmbodiedError

    def refuse(*_: object) -> None:
        raise EmbodiedError("no such thing")

    monkeypatch.setattr(player.catalogue, "make", refuse)
    ask(player, Event.TASK, "swarm/landing")
    assert player._note == "no such thing"
    assert player.task == HOVER
    assert player.panel.task.value == HOVER
    player.step()


def test_success_is_shown_only_while_it_is_true(player: Player) -> None:
    readings = Readings(1.0, 8.0, False, np.zeros(3), np.full(3, math.nan), 1.0, {"error": (0.5, "m")}, {"up": 2.0})
    player.panel.refresh(readings)
    assert "success" not in player.panel.status.content
    assert "1.0 s of 8 s" in player.panel.status.content
    assert "| error | 0.5 m |" in player.panel._table.content
    assert "| x (m) | +0.00 | - |" in player.panel._response.content
    player.panel.refresh(dataclasses.replace(readings, success=True, contact_force=12.0))
    assert "**success now**" in player.panel.status.content
    assert "12 N" in player.panel.status.content


@pytest.mark.usefixtures("painted")
def test_the_pictures_that_a_policy_sees_are_shown(own: str) -> None:
    catalogue = PolicyCatalogue(EnvOptions("", camera_config=CameraConfig(("track",), 32)), given=[(own, "zero")])
    player = Player(catalogue, own, "zero", PlayerSettings(port=18092))
    try:
        player.open()
        (image,) = player._playback.pictures(0).values()
        assert image.shape == (32, 32, 3)
        assert image.dtype == np.uint8
        assert image.std() > 1
        assert list(player.panel._pictures) == ["track"]
        player.refresh()
    finally:
        player.close()


def test_a_slider_steps_in_round_numbers_within_its_range(player: Player) -> None:
    slider = player.panel._command_slider(CommandRange("forward", "m/s", -1.5, 1.5, "command", (0,)))
    assert (slider.min, slider.max, slider.step, slider.value) == (-1.5, 1.5, 0.01, 0.0)
    assert slider.label == "forward (m/s)"


def test_where_nothing_can_be_steered_the_panel_says_so(player: Player) -> None:
    panel = player.panel
    panel.show_task("swarm/coverage", (), (), {}, 1, 1.0)
    assert panel._command_folder.visible
    assert not panel.steer.visible
    assert not panel._response_folder.visible
    assert any("Nothing to steer" in str(getattr(handle, "content", "")) for handle in panel._of_task)
    assert panel.command.shape == (0,)


def test_a_person_acts_for_one_of_a_team_and_the_policy_for_the_others() -> None:
    player = Player(PolicyCatalogue(), TEAM, "expert", PlayerSettings(2, pilot=2, port=18093))
    try:
        player.open()
        playback = player._playback
        own = player.catalogue.load("expert", None, playback.env)(playback.obs)
        assert player.pilot is not None
        player.pilot.deflection = np.array([1.0, -0.5, 0.25])
        told = playback.policy(playback.obs)
        np.testing.assert_allclose(told[0, 2], [1.0, -0.5, 0.25, 0.0])
        others = [0, 1]
        np.testing.assert_array_equal(told[0, others], own[0, others])
        assert (own[0, 2] - told[0, 2]).abs().max() > 0.1
        player.step()  # nobody touches anything
        np.testing.assert_array_equal(playback.policy(playback.obs)[0, 2], np.zeros(4))
        player.refresh()
        assert "you act for agent 2 (W S: x, N, A D: y, N, Q E: z, N)" in player.panel.status.content
        ask(player, Event.TASK, HOVER)
        assert player._note == "--pilot 2: swarm/hover has one robot; expected a task with that agent"
        assert player.task == TEAM
    finally:
        player.close()
