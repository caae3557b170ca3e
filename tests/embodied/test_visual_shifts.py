"""Shifts by name change what they say, the same in all episodes of a seed, and nothing of the physics."""

import pytest
import torch

import embodied
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.evaluate import Settings, run
from embodied.visual_shifts import CAMERA_SHIFT, VisualShift, shift_terms

TASK = "manipulation/reach"
CAMERAS = ("view", "wrist")


def seen(shift: str | None) -> dict[str, torch.Tensor]:
    return dict(embodied.make(TASK, 3, "mujoco", 0, cameras=CAMERAS, resolution=32, visual_shift=shift).reset())


@pytest.fixture(scope="module")
def plain() -> dict[str, torch.Tensor]:
    return seen(None)


@pytest.mark.parametrize("shift", list(VisualShift))
def test_every_shift_changes_pictures_and_nothing_else(shift: str, plain: dict[str, torch.Tensor]) -> None:
    found = seen(shift)
    torch.testing.assert_close(found["policy"], plain["policy"])
    view, wrist = ((found[f"pixels/{name}"].float() - plain[f"pixels/{name}"].float()).abs().mean() for name in CAMERAS)
    assert view > 2
    assert (wrist > 2) == (shift != VisualShift.CAMERA)


def test_only_standing_cameras_move_and_by_no_more_than_said() -> None:
    model = embodied.make(TASK, 1, "mujoco").task.visual_model
    (term,) = shift_terms("camera", model, CAMERAS)
    assert "view" in term.description
    assert f"{CAMERA_SHIFT:g} m" in term.description
    assert len(shift_terms("camera", model, "view")) == 1
    with pytest.raises(EmbodiedError, match="none of the cameras wrist stands still"):
        shift_terms("camera", model, ("wrist",))


def test_shifts_that_cannot_be_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown visual shift 'colors'; did you mean 'colours'"):
        embodied.make(TASK, 1, "mujoco", cameras=("view",), visual_shift="colors")
    settings = Settings(TASK, policy="zero", visual_shift="lights")
    with pytest.raises(EmbodiedError, match="--visual-shift lights: policy 'zero' uses no cameras"):
        run(settings)
