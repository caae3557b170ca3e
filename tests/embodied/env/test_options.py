"""One description of environments: its flags, its keys in a run's config, and what a policy needs of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import embodied
from embodied import evaluate
from embodied.cli.flags import flags_of
from embodied.core.task import Task
from embodied.env.options import EnvOptions, Trials, Wrapper, registered, with_options
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage.configs import Rare, from_json, override, places, run_document
from embodied.storage.runs import Run
from policies.training import command_line
from policies.training.loading import with_needs
from policies.training.settings import Settings, default_settings, policy_needs, saved_settings, settings_type

HOVER = "swarm/hover"


@dataclasses.dataclass(frozen=True)
class Heavier(Wrapper):
    """A third party's change: a heavier robot."""

    of_policy = True

    extra_mass: Rare[float | None] = None
    """kg that the robot carries."""

    def __call__(self, task: Task[Any]) -> Task[Any]:
        def add(spec: Any) -> None:
            body = spec.bodies[1]
            body.mass = body.mass + self.extra_mass

        return task.rebuilt([add])


@pytest.fixture
def heavier(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**join_content().wrappers, "heavier": f"{__name__}:Heavier"}
    monkeypatch.setattr(join_content(), "_wrappers", known)


def settings(**values: Any) -> Settings[Any, Any]:
    return override(default_settings(join_content().find(HOVER)), values)


def saved(folder: Path, trained: Settings[Any, Any]) -> Run:
    """A run of these settings, with a checkpoint."""
    run = Run.create(folder, HOVER, run_document(trained), folder / "run")
    for wrapper in trained.wrappers:
        wrapper.keep(run.path)
    run.save(5, {"policy/x": torch.zeros(1)}, {"task": HOVER, "policy": {}, "needs": policy_needs(trained)})
    run.close()
    return run


@pytest.mark.usefixtures("heavier")
def test_a_change_registered_in_one_line_is_a_flag_an_argument_and_a_key_of_a_run(tmp_path: Path) -> None:
    defaults = settings()
    assert "--extra-mass" in {name for flag in flags_of(settings_type(defaults), defaults) for name in flag.names}
    entry = join_content().find(HOVER)
    parsed = command_line.parse(entry, [HOVER, "--extra-mass", "0.01"])
    assert list(parsed.wrappers) == [Heavier(0.01)]
    assert evaluate.parse(entry, [HOVER, "--policy", "zero", "--extra-mass", "0.01"]).wrappers == parsed.wrappers
    assert run_document(parsed)["extra_mass"] == 0.01
    assert saved_settings(saved(tmp_path, parsed)).wrappers == parsed.wrappers
    given: list[dict[str, Any]] = [{}, {"extra_mass": 0.01}]
    plain, heavy = (embodied.make(HOVER, 1, "rigid", **more).task.model for more in given)
    assert heavy.body_mass.sum() - plain.body_mass.sum() == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("values", "stays"),
    [
        ({"config": {"preset": "t350"}}, {"preset"}),
        ({"episodes_per_trial": 3}, {"episodes_per_trial"}),
        ({"cameras": ("front",), "resolution": 32}, {"cameras", "resolution"}),
        ({"episode_steps": 7}, set()),
        ({"initial_states": Path("some.safetensors"), "initial_states_share": 0.2}, set()),
    ],
    ids=lambda value: ",".join(sorted(value)),
)
def test_a_policy_needs_what_it_acts_under_and_not_what_only_training_has(
    tmp_path: Path, values: dict[str, Any], stays: set[str]
) -> None:
    config = override(settings().config, values.pop("config", {}))
    trained = settings(config=config, **values)
    run = saved(tmp_path, trained)
    assert set(policy_needs(trained)) == stays
    found = evaluate.parse(join_content().find(HOVER), [HOVER, "--policy", str(run.path)])
    assert found.config == trained.config
    assert found.camera_config.cameras == trained.camera_config.cameras
    assert found.wrappers == trained.wrappers.of_policy
    assert evaluate.parse(join_content().find(HOVER), [str(run.path)], str(run.path)) == dataclasses.replace(found)


def test_flags_go_before_what_a_policy_needs(tmp_path: Path) -> None:
    run = saved(tmp_path, settings(config=override(settings().config, {"preset": "t350"})))
    parsed = evaluate.parse(join_content().find(HOVER), [HOVER, "--policy", str(run.path), "--config.preset", "l250"])
    assert parsed.config.preset == "l250"


def test_another_task_takes_nothing_of_the_config_that_a_policy_learned_with(tmp_path: Path) -> None:
    run = saved(tmp_path, settings(config=override(settings().config, {"preset": "t350"})))
    other = EnvOptions[Any]("swarm/trajectory", config=join_content()["swarm/trajectory"].load().config_type())
    assert with_needs(other, run.path) == other


def test_options_are_replaced_by_name_wherever_they_stand() -> None:
    options = EnvOptions[Any](HOVER, config=settings().config)
    seen = {"cameras": ("track",), "resolution": (4, 5)}
    changed = with_options(options, {"num_envs": 3, "episodes_per_trial": 2, "start_tilt": 0.1, **seen})
    assert (changed.num_envs, changed.camera_config.size, changed.config.start_tilt) == (3, (4, 5), 0.1)
    assert list(changed.wrappers) == [Trials(2)]
    assert list(registered()) == []
    with pytest.raises(EmbodiedError, match=r"HoverConfig has no field 'start_tlt'; did you mean 'start_tilt'"):
        with_options(options, {"start_tlt": 0.1})
    assert set(places(options)) >= {"episode_steps", "calibration", "initial_states", "cameras", "task"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"calibration": "/nope"}, "'/nope' does not exist|/nope"),
        ({"calibration_width": 2.0}, "calibration_width=2.0 without calibration; expected both"),
        ({"initial_states_share": 0.3}, "initial_states_share=0.3 without initial_states"),
        ({"episode_steps": "ten"}, "episode_steps='ten'; expected a whole number, from 1 to 2147483647"),
        ({"episode_steps": 2.5}, "episode_steps=2.5; expected a whole number"),
        ({"episode_steps": 2**31}, "episode_steps=2147483648; expected a whole number, from 1 to 2147483647"),
        ({"episodes_per_trial": 0}, "episodes_per_trial=0; expected a whole number, from 1 to 2147483647"),
        ({"episodes_per_trial": 2**31}, "episodes_per_trial=2147483648; expected a whole number, from 1 to 2147483647"),
        ({"visual_shift": "colours"}, "visual_shift='colours' without cameras"),
        ({"resolution": 32}, "resolution=32 without cameras; expected both"),
        ({"cameras": ["track"], "resolution": 0}, "resolution=0; expected a whole number, at least 1"),
        ({"cameras": ["track"], "resolution": (1, 2, 3)}, r"resolution=\(1, 2, 3\); expected pixels of both sides"),
        ({"config": {"latncy": (0, 0)}}, "no field 'latncy'; did you mean 'latency'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        embodied.make(HOVER, 1, "rigid", **given)


def test_a_config_may_be_the_fields_that_differ() -> None:
    assert embodied.make(HOVER, 1, "rigid", config={"preset": "t350"}).task.config.preset == "t350"


def test_a_training_that_begins_with_a_policy_has_its_options_unless_flags_say_others(tmp_path: Path) -> None:
    config = override(settings().config, {"preset": "t350"})
    run, entry = saved(tmp_path, settings(config=config, episodes_per_trial=2)), join_content().find(HOVER)
    begun = command_line.parse(entry, [HOVER, "--start-from", str(run.path)])
    assert begun.config.preset == "t350"
    assert list(begun.wrappers) == [Trials(2)]
    assert command_line.parse(entry, [HOVER, "--start-from", str(run.path), "--config.preset", "p250"]) == (
        override(begun, {"config": override(begun.config, {"preset": "p250"})})
    )


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (tuple[int, int], [8], "expected a list of 2"),
        (tuple[str, ...], "track", "expected a list"),
        (Path, 5, "expected a path"),
    ],
    ids=str,
)
def test_stored_values_of_another_shape_are_refused(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        from_json(kind, value, "given")
