"""What one policy does differently from another: nothing if it is the same, and each kind of change by its measure."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from policies.vla.comparison.difference import action_distance, compare, path_distances
from policies.vla.comparison.path_plot import PANEL, TITLE, draw_paths
from policies.vla.comparison.trajectories import Trajectory

PATHS, STEPS = 6, 30


def trajectories(*, bend: float = 0.0, opening: float = 0.5, speed: int = 1, success: bool = True) -> list[Trajectory]:
    """Straight paths a centimetre apart, bent aside by `bend` m."""
    time = torch.linspace(0, 1, STEPS // speed)
    made = []
    for number in range(PATHS):
        aside = 0.01 * number + bend * torch.sin(torch.pi * time)
        hand = torch.stack([time, aside, torch.zeros_like(time)], -1)
        action = torch.full((len(time), 2), 0.1 * number)
        made.append(Trajectory(hand, torch.full((len(time),), opening), action, success))
    return made


def test_the_same_policy_differs_by_nothing():
    found = compare("toy/a", trajectories(), trajectories())
    assert found.action_distance == 0
    assert found.path_shift == pytest.approx(0, abs=1e-6)
    assert found.path_deviation == pytest.approx(1.0)
    assert found.path_spread == pytest.approx(0.01, rel=0.05)
    assert found.outside == 0
    assert found.before == found.after
    assert (found.before.success, found.before.steps, found.before.holding) == (1.0, STEPS, 1.0)


def test_another_way_is_outside_and_so_many_spreads_away():
    found = compare("toy/a", trajectories(), trajectories(bend=0.3))
    assert found.outside == 1.0
    assert found.path_deviation > 5
    assert found.path_shift > 0.1
    assert compare("toy/a", trajectories(), trajectories(bend=0.3, success=False)).outside is None


def test_pushing_instead_of_grasping_and_sooner():
    found = compare("toy/a", trajectories(), trajectories(opening=1.0, speed=2))
    assert (found.before.holding, found.after.holding) == (1.0, 0.0)
    assert (found.before.closed, found.after.closed) == (0.5, 0.0)
    assert found.after.steps == STEPS / 2
    assert found.outside == 0


def test_the_distance_of_actions_is_by_how_much_they_are_shifted_whatever_their_order():
    ours, theirs = trajectories(), trajectories()
    theirs = [Trajectory(t.hand, t.opening, t.action + 0.25, t.success) for t in theirs[::-1]]
    assert action_distance(ours, theirs) == pytest.approx(0.25, abs=1e-3)


def test_distances_of_paths_do_not_depend_on_when_the_hand_was_there():
    assert path_distances(trajectories(), trajectories(speed=3)).diagonal().max() < 0.005


def test_the_picture_has_a_row_for_each_task_and_shows_both():
    picture = draw_paths(
        {"toy/a": (trajectories(), trajectories(bend=0.2)), "toy/b": (trajectories(), trajectories(success=False))}
    )
    assert picture.shape == (2 * (PANEL + TITLE), 2 * PANEL, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 4
