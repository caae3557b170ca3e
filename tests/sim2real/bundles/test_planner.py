"""Policies that see: what a bundle plans is what torch plans, whoever wires it; what does not fit is named."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

import embodied
from embodied.core.hooks import PIXELS
from embodied.errors import EmbodiedError
from embodied.storage.runs import Run
from embodied.storage.trees import flatten
from policies.pixel_policy import PixelPolicy
from policies.vla.model.config import Head
from policies.vla.policy import VLAPolicy
from sim2real import export
from sim2real.bundles import bundle
from sim2real.bundles.bundle import Bundle
from sim2real.bundles.contents import PRODUCER
from sim2real.bundles.files import PLANNER, BundleError
from sim2real.bundles.onnx_session import session
from sim2real.bundles.planner import runtime
from sim2real.bundles.planner.golden import CHUNK, TOLERANCE
from sim2real.bundles.planner.network import PlannerNetwork, cameras_of, with_metadata
from sim2real.bundles.planner.runtime import PlannerRuntime, tokens_of
from sim2real.deployment.controllers import Controller, PlanningController, controller_of
from sim2real.robots.base import Robot, RobotError
from sim2real.robots.estimated import EstimatedRobot
from sim2real.robots.registry import connect
from sim2real.robots.simulation import photographer
from sim2real.robots.simulation.photographer import Photographer
from sim2real.robots.simulation.simulated import SimulatedOptions
from tasks.swarm.single.gate_race import EYE, GateRace, GateRaceConfig
from tests.kit import planners
from tests.kit.bundles import compile_c
from tests.kit.fakes import given
from tests.kit.painter import Painter
from tests.kit.planners import (
    ACTIONS,
    SIZE,
    STATE,
    TASK,
    described_for,
    groups_of,
    home_of,
    measured,
    network_of,
    pixels,
    planner_of,
    seen,
    vla,
)  # fmt: skip
from tests.kit.worlds import task_of

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.timeout(240)
NO_COMMAND = np.zeros(0)


@pytest.fixture(scope="module")
def made() -> Bundle:
    return planners.seeing()[0]


@pytest.mark.parametrize("instruction", ["open the drawer", "Pull IT, please!", "öffne die Schublade"])
def test_a_bundle_plans_what_the_policy_plans(made: Bundle, instruction: str) -> None:
    policy = planners.seeing()[1]
    differences = []
    for seed in range(8):
        images, observation = seen(seed)
        with torch.no_grad():
            text = policy.encode_instructions([instruction])
            expected = policy.plan(groups_of(images, observation), text)[0].numpy()
        chunk = made.plan(images, observation, instruction)
        assert chunk.shape == (planners.TINY.chunk, ACTIONS)
        differences.append(np.abs(chunk - expected))
    # Where two tokens are almost equally likely, rounding may tip one: by one bin in a hundred numbers at most.
    assert (np.array(differences) > TOLERANCE).mean() < 0.01


def test_its_default_instruction_is_the_first_of_its_task(made: Bundle) -> None:
    images, observation = seen()
    np.testing.assert_array_equal(made.plan(images, observation), made.plan(images, observation, "open the drawer"))
    assert not np.array_equal(made.plan(images, observation), made.plan(images, observation, "reach"))


def test_a_policy_from_pixels_is_exported_and_takes_no_instruction() -> None:
    made, policy = planners.looking()
    images, observation = seen()
    expected = policy(groups_of(images, observation)).numpy()
    np.testing.assert_allclose(made.plan(images, observation), expected, atol=TOLERANCE)
    with pytest.raises(EmbodiedError, match="'open it': this policy takes none"):
        made.plan(images, observation, "open it")


@pytest.mark.parametrize("exported", [planners.seeing, planners.looking])
def test_an_observation_that_is_not_finite_gives_no_plan(exported: Any) -> None:
    images, _ = seen()
    assert np.isnan(exported()[0].plan(images, np.full(STATE, np.inf, np.float32))).all()


def test_what_a_flow_head_makes_of_noise_is_exported() -> None:
    network, head, exported = planners.from_noise()
    assert network.planner.noise
    found, golden = session(exported), head.golden(described_for(network.planner).contract)
    for row, expected in zip(golden.rows(), golden.chunk, strict=True):
        used = {entry.name: row[entry.name] for entry in found.get_inputs()}
        np.testing.assert_allclose(np.asarray(found.run([CHUNK], used)[0]), expected, atol=TOLERANCE)
    chunks = np.array([network.run(row) for row in golden.rows()])
    assert np.abs(chunks).max() <= 1
    assert np.ptp(chunks, axis=0).max() > TOLERANCE


def test_noise_is_drawn_anew_for_every_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    class Echo:
        def run(self, names: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            return [inputs["noise"]]

    monkeypatch.setattr(runtime, "session", lambda data: Echo())
    planner = network_of(vla(Head.FLOW)).planner
    planning = PlannerRuntime(b"", planner, described_for(planner).contract)
    first, second = (planning.plan(*seen()) for _ in range(2))
    assert first.shape == (planners.TINY.chunk, ACTIONS)
    assert not np.array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [vla(Head.FLOW), pixels(), vla()], ids=["flow", "pixels", "tokens"])
def test_every_kind_that_sees_is_exported_in_one_go_and_to_the_same_bytes(policy: Any, tmp_path: Path) -> None:
    task = task_of(TASK)
    made, again = (export.write(tmp_path / name, policy, task, TASK) for name in ("one", "another"))
    assert again.sha256 == made.sha256
    assert (again.path / PLANNER).read_bytes() == (made.path / PLANNER).read_bytes()
    images, observation = seen()
    if isinstance(policy, VLAPolicy) and policy.network.head.noise_shape is not None:
        assert not np.array_equal(made.plan(images, observation), made.plan(images, observation))
    assert np.abs(made.plan(images, observation)).max() <= 1


@pytest.mark.slow
def test_the_command_line_exports_a_run_of_a_policy_that_sees(made: Bundle, tmp_path: Path) -> None:
    run = Run.create(tmp_path, "vla", {}, tmp_path / "run")
    meta, tensors = vla().to_tensors()
    run.save(1, flatten({"policy": tensors}), {"policy": meta})
    assert export.main([str(run.path), "--task", TASK, "--out", str(tmp_path / "bundle")]) == 0
    assert bundle.load(tmp_path / "bundle").sha256 == made.sha256


@pytest.mark.parametrize("policy", [vla(), pixels()], ids=["tokens", "pixels"])
def test_a_run_is_read_back_as_the_policy_that_sees_and_its_task(
    policy: VLAPolicy | PixelPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And described with its planner."""
    run = Run.create(tmp_path, TASK, {}, tmp_path / "run")
    meta, tensors = policy.to_tensors()
    run.save(1, flatten({"policy": tensors}), {"policy": meta, "task": TASK})
    found, task, name = export.trained(str(run.path), task=TASK if isinstance(policy, VLAPolicy) else None)
    assert name == TASK
    written: list[PlannerNetwork] = []
    monkeypatch.setattr(export, "describe", lambda *_, planner, **__: described_for(planner))
    monkeypatch.setattr(export, "contents", lambda _, network: written.append(network) or ({}, ""))
    monkeypatch.setattr(export, "finished", lambda *_: None)
    export.write(tmp_path / "bundle", found, task, name)
    ours = network_of(policy)
    assert written[0].planner == ours.planner
    row = ours.golden(described_for(ours.planner).contract).rows()[0]
    np.testing.assert_array_equal(written[0].run(row), ours.run(row))


def test_the_same_policy_gives_the_same_bytes() -> None:
    made, policy = planners.looking()
    data = network_of(policy).serialised(made.contract)
    assert with_metadata(data, {"sha256": made.sha256, **PRODUCER}) == (made.path / PLANNER).read_bytes()


def test_cameras_are_where_the_simulation_has_them(made: Bundle) -> None:
    """A point ahead of a camera by its contract lies on its axis in MuJoCo, where -z is ahead."""
    model = task_of(TASK).visual_model
    for camera in planner_of(made.contract).cameras:
        place = model.camera(camera.name)
        w, x, y, z = camera.quaternion
        ahead = [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)]
        own = np.array(model.cam_mat0[place.id]).reshape(3, 3)
        if camera.body == "world":
            np.testing.assert_allclose(ahead, -own[:, 2], atol=1e-6)
        np.testing.assert_allclose(camera.position, model.cam_pos[place.id], atol=1e-6)
        view = 2 * np.degrees(np.arctan(camera.height / 2 / camera.focal_length))
        assert view == pytest.approx(model.cam_fovy[place.id])
    with pytest.raises(EmbodiedError, match="unknown camera 'sideways'"):
        cameras_of(task_of(TASK), ["sideways"], SIZE)


def test_of_a_team_the_camera_is_the_one_that_its_first_robot_carries() -> None:
    (camera,) = cameras_of(GateRace(GateRaceConfig(agents=2)), ("fpv",), (64, 64))
    assert (camera.name, camera.body) == ("fpv", "cf0_cf")
    assert camera.position == pytest.approx(EYE)


def test_images_and_instructions_that_do_not_fit_are_named(made: Bundle) -> None:
    images, observation = seen()
    with pytest.raises(EmbodiedError, match=r"image of camera 'wrist' is float64 \(32, 32, 3\); expected uint8"):
        made.plan({**images, "wrist": images["wrist"] / 255}, observation)
    with pytest.raises(EmbodiedError, match=r"camera 'view' is uint8 \(3, 32, 32\); expected uint8 \(32, 32, 3\), RGB"):
        made.plan({**images, "view": images["view"].transpose(2, 0, 1)}, observation)
    with pytest.raises(EmbodiedError, match="nobody gives the image of camera 'view'; given: wrist"):
        made.plan({"wrist": images["wrist"]}, observation)
    with pytest.raises(EmbodiedError, match="says nothing; expected words"):
        made.plan(images, observation, "?!")
    with pytest.raises(EmbodiedError, match="the longest of 41 n-grams; the planner takes 64 of 32"):
        made.plan(images, observation, "x" * 40)


EDITS: dict[str, tuple[str, Any]] = {
    "operators that no exported policy has: Loop": (PLANNER, "add a loop"),
    "made for another contract": (PLANNER, "drop the digest"),
    "not an ONNX model": (PLANNER, b"nothing"),
    "its tensors are not those of the contract": ("planner.safetensors", (2).to_bytes(8, "little") + b"{}"),
    "belong to a contract with a planner": ("planner.safetensors", None),
}


@pytest.mark.parametrize("why", EDITS)
def test_what_was_edited_is_refused(made: Bundle, why: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    name, change = EDITS[why]
    files = {path.name: path.read_bytes() for path in made.path.iterdir() if path.name != "manifest.json"}
    if isinstance(change, str):
        model = onnx.load_model_from_string(files[name])
        if change == "add a loop":
            model.graph.node.append(onnx.helper.make_node("Loop", [], [], name="forever"))
        else:
            del model.metadata_props[:]
        change = model.SerializeToString()
    kept = {one: data for one, data in {**files, name: change}.items() if data is not None}
    with pytest.raises(BundleError, match=why):
        export.finished(tmp_path / "edited", kept, made.sha256, made.contract)


def test_images_are_asked_for_at_the_planners_rate(made: Bundle) -> None:
    """And each planned action is carried out once, in its order."""
    controller = controller_of(made, "pull it")
    assert isinstance(controller, PlanningController)
    images, _ = seen()
    looked: list[str] = []

    class Readings(dict[str, np.ndarray]):
        def get(self, name: str, default: Any = None) -> Any:
            looked.extend([name] if name.startswith("image.") else [])
            return super().get(name, default)

    rest = measured(made.contract, images)
    watched = dataclasses.replace(rest, readings=Readings(rest.readings))
    actions = [controller.decide(watched, NO_COMMAND)[1] for _ in range(7)]
    assert looked == ["image.view", "image.wrist"] * 3
    observation = controller_of(made, "pull it").decide(rest, NO_COMMAND)[0]
    np.testing.assert_allclose(actions[:3], made.plan(images, observation, "pull it")[:3], atol=1e-6)
    with pytest.raises(
        RobotError, match=r"sees through 'view' \(32 x 32 pixels, fixed to world\), and this robot has no"
    ):
        controller_of(made).decide(dataclasses.replace(rest, readings={}), NO_COMMAND)


def test_a_frozen_camera_is_named(made: Bundle) -> None:
    """Pictures may stay the same while the robot rests, not while it moves."""
    rng, home = np.random.default_rng(0), home_of(made.contract)

    def after(travel: float, frozen: bool) -> None:
        controller = controller_of(made)
        first, _ = seen()
        for cycle in range(9):
            fresh = {name: rng.integers(0, 256, image.shape, np.uint8) for name, image in first.items()}
            shown = {**fresh, "wrist": first["wrist"]} if frozen else fresh
            now = dataclasses.replace(measured(made.contract, shown, home + travel * cycle / 8), time=0.0125 * cycle)
            controller.decide(now, NO_COMMAND)

    after(0.5, False)
    after(0.1, True)
    with pytest.raises(RobotError, match=r"camera 'wrist' shows the same picture to the last bit though a joint moved"):
        after(0.5, True)


def test_a_policy_without_a_planner_takes_no_instruction() -> None:
    class Plain:
        contract = dataclasses.replace(
            planners.looking()[0].contract, step=dataclasses.replace(planners.looking()[0].contract.step, planner=None)
        )

    assert type(controller_of(Plain())) is Controller  # type: ignore[arg-type]
    with pytest.raises(EmbodiedError, match=f"the policy of '{TASK}' takes none"):
        controller_of(Plain(), "open it")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_simulated_robot_shows_what_an_environment_shows(made: Bundle) -> None:
    env = embodied.make(TASK, 1, "mujoco", cameras=("view", "wrist"), resolution=SIZE)
    observed = env.reset(seed=5)
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[0], env.world())
    state = jax.tree.map(lambda leaf: np.asarray(leaf)[0], env.task_state)
    drawn = Photographer(env.task, planner_of(made.contract)).beside({}, one, state)
    for camera in ("view", "wrist"):
        np.testing.assert_array_equal(drawn[f"image.{camera}"], observed[PIXELS + camera][0].permute(1, 2, 0))
    assert drawn["image.view"].std() > 10  # something is to be seen


@pytest.fixture(scope="module")
def simulated(made: Bundle) -> Iterator[Robot]:
    """With patterns of its state for images, of which the first would take seconds, in which kernels compile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(photographer, "BatchRenderer", Painter)
        robot = connect("mujoco", made.contract, SimulatedOptions(realtime=False, seed=5))
        yield robot
        robot.close()


def test_a_simulated_robot_has_the_cameras_and_an_estimator_may_replace_them(simulated: Robot) -> None:
    shown = simulated.read().readings
    assert {"image.view", "image.wrist"} <= set(shown)
    black = np.zeros((*SIZE[::-1], 3), np.uint8)
    masked = EstimatedRobot(simulated, lambda _: {"image.view": black}).read().readings
    np.testing.assert_array_equal(masked["image.view"], black)
    np.testing.assert_array_equal(masked["image.wrist"], shown["image.wrist"])


def test_the_readme_wires_it(made: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python, as it stands, with a camera and motors put in: the targets are those of our own loop."""
    text = (made.path / "README.md").read_text()
    tokens, wiring = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    images, _ = seen()
    joints = home_of(made.contract)
    cycles, targets = iter(range(7)), []
    names: dict[str, Any] = {
        "running": lambda: next(cycles, None) is not None,
        "photograph": lambda name: images[name],
        "write": lambda target: targets.append(np.array(target)),
    }
    monkeypatch.chdir(made.path)
    exec(tokens, names)
    words = given(planner_of(made.contract).words)
    for instruction in ("Open the drawer.", "öffne: 3 Schubladen!"):
        np.testing.assert_array_equal(names["tokens_of"](instruction), tokens_of(instruction, words))
    assert "given = {" in wiring
    inputs = given(re.search(r"given = \{(.*?)\}", wiring))
    exec(wiring.replace(inputs[0], "given = {'joint_pos': joints}"), {**names, "joints": joints})
    controller = controller_of(made)
    ours = [controller.decide(measured(made.contract, images), NO_COMMAND)[2] for _ in range(7)]
    np.testing.assert_allclose(targets, ours, atol=1e-5)


def test_c_observes_what_the_planner_reads(made: Bundle, tmp_path: Path) -> None:
    library = str(tmp_path / "policy.so")
    compile_c(["-std=c99", "-O0", "-shared", "-fPIC", str(made.path / "policy.c"), "-lm", "-o", library])
    policy = ctypes.CDLL(library)
    fields = [(source.name, ctypes.c_float * source.size) for source in made.contract.step.sources]
    inputs = type("Input", (ctypes.Structure,), {"_fields_": [*fields, ("planned", ctypes.c_float * ACTIONS)]})()
    state = (ctypes.c_float * 64)()
    inputs.joint_pos[:] = home_of(made.contract)
    inputs.planned[:] = [np.inf] * ACTIONS  # not planned yet
    observation = (ctypes.c_float * made.contract.observation_size)()
    policy.policy_begin(ctypes.byref(inputs), state)
    assert policy.policy_observe(ctypes.byref(inputs), state, observation) == 0
    ours = controller_of(made).decide(measured(made.contract, seen()[0]), NO_COMMAND)[0]
    np.testing.assert_allclose(np.array(observation), ours, atol=1e-5)
    inputs.joint_pos[0] = np.inf
    assert policy.policy_observe(ctypes.byref(inputs), state, observation) == 1


def test_the_contract_says_what_is_seen(made: Bundle) -> None:
    schema = json.loads(Path("docs/contract.schema.json").read_text())
    document = json.loads((made.path / "contract.json").read_text())
    pytest.importorskip("jsonschema").validate(document, schema)
    assert [camera["name"] for camera in document["step"]["planner"]["cameras"]] == ["view", "wrist"]
