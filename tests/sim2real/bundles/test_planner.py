"""Policies that see: what a bundle plans is what torch plans, whoever wires it; what does not fit is named."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

import embodied
from embodied.core.hooks import PIXELS, PROPRIO
from embodied.env.vec_env import ObservationSpec
from embodied.errors import EmbodiedError
from embodied.registry import join_content
from embodied.storage.runs import Run
from embodied.storage.trees import flatten
from policies.networks.mlp import NetworkConfig
from policies.off_policy.svea.network import ImageEncoder, PixelActor
from policies.off_policy.svea.policy import NormalizedPixelActor, PixelGroups, PixelPolicy
from policies.vla.data.normalization import Normalization
from policies.vla.data.robot_spec import RobotSpec, TrainingTask
from policies.vla.model.config import Head
from policies.vla.model.token_head import TokenHead
from policies.vla.policy import VLAPolicy
from sim2real import export
from sim2real.bundles import bundle
from sim2real.bundles.bundle import Bundle
from sim2real.bundles.files import BundleError
from sim2real.bundles.planner.golden import TOLERANCE
from sim2real.bundles.planner.network import SEEING, cameras_of
from sim2real.bundles.planner.runtime import tokens_of
from sim2real.contract.contract import Contract
from sim2real.contract.planner import Planner
from sim2real.deployment.controllers import PlanningController, StepController, controller_of
from sim2real.robots.base import Measurement, RobotError
from sim2real.robots.estimated import EstimatedRobot
from sim2real.robots.registry import connect
from sim2real.robots.simulation.photographer import Photographer
from sim2real.robots.simulation.simulated import SimulatedOptions
from tasks.swarm.gate_race import EYE, GateRace, GateRaceConfig
from tests.policies.vla.toy_demonstrations import SMALL

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.timeout(240)

TASK = "manipulation/drawer-open"
SIZE, CONTROL_DT = (32, 32), 0.0125
STATE, ACTIONS = 11, 4


def vla(head: Head = Head.TOKENS, execute: int = 3) -> VLAPolicy:
    torch.manual_seed(0)
    ones = torch.ones(STATE)
    normalization = Normalization(-ones[:ACTIONS], 0.5 * ones[:ACTIONS], 0.1 * ones, 2.0 * ones)
    spec = RobotSpec(("view", "wrist"), SIZE, STATE, ACTIONS, CONTROL_DT)
    config = dataclasses.replace(SMALL, head=head, flow_steps=2, bins=32, keypoints=2)
    known = [TrainingTask(TASK, ("open the drawer", "pull it")), TrainingTask("manipulation/reach", ("reach",))]
    policy = VLAPolicy.untrained(config, normalization, spec, known, execute)
    if isinstance(policy.network.head, TokenHead):  # whose medians all lie in the middle while it knows nothing
        torch.nn.init.normal_(policy.network.head.out.weight, std=2.0)
    return policy


def pixels() -> PixelPolicy:
    generator = torch.Generator().manual_seed(0)
    image = ObservationSpec((3, *SIZE), torch.uint8)
    groups = PixelGroups.of({PROPRIO: ObservationSpec((STATE,)), PIXELS + "view": image, PIXELS + "wrist": image})
    encoder = ImageEncoder(STATE, groups.image_shape, 16, generator)
    actor = PixelActor(encoder, ACTIONS, NetworkConfig((32,)), stochastic=True, generator=generator)
    network = NormalizedPixelActor(actor, torch.zeros(STATE), torch.ones(STATE), 5.0)
    return PixelPolicy(network, NetworkConfig((32,)), groups)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, VLAPolicy]:
    """A bundle from the command line, of a run."""
    folder, policy = tmp_path_factory.mktemp("vla"), vla()
    run = Run.create(folder, "vla", {}, folder / "run")
    meta, tensors = policy.to_tensors()
    run.save(1, flatten({"policy": tensors}), {"policy": meta})
    assert export.main([str(run.path), "--task", TASK, "--out", str(folder / "bundle")]) == 0
    return bundle.load(folder / "bundle"), policy


def planner_of(contract: Contract) -> Planner:
    assert contract.step is not None
    assert contract.step.planner is not None
    return contract.step.planner


def seen(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Images and an observation."""
    rng = np.random.default_rng(seed)
    images = {name: rng.integers(0, 256, (*SIZE[::-1], 3), np.uint8) for name in ("view", "wrist")}
    return images, rng.standard_normal(STATE).astype(np.float32)


def groups_of(images: dict[str, np.ndarray], observation: np.ndarray) -> dict[str, torch.Tensor]:
    """The same as an environment observes it."""
    rows = {PIXELS + name: torch.from_numpy(image).permute(2, 0, 1)[None] for name, image in images.items()}
    return {**rows, PROPRIO: torch.from_numpy(observation)[None]}


@pytest.mark.parametrize("instruction", ["open the drawer", "Pull IT, please!", "öffne die Schublade"])
def test_a_bundle_plans_what_the_policy_plans(seeing: tuple[Bundle, VLAPolicy], instruction: str) -> None:
    made, policy = seeing
    differences = []
    for seed in range(8):
        images, observation = seen(seed)
        with torch.no_grad():
            text = policy.encode_instructions([instruction])
            expected = policy.plan(groups_of(images, observation), text)[0].numpy()
        chunk = made.plan(images, observation, instruction)
        assert chunk.shape == (SMALL.chunk, ACTIONS)
        differences.append(np.abs(chunk - expected))
    # Where two tokens are almost equally likely, rounding may tip one: by one bin in a hundred numbers at most.
    assert (np.array(differences) > TOLERANCE).mean() < 0.01


def test_its_default_instruction_is_the_first_of_its_task(seeing: tuple[Bundle, VLAPolicy]) -> None:
    made, _ = seeing
    images, observation = seen()
    np.testing.assert_array_equal(made.plan(images, observation), made.plan(images, observation, "open the drawer"))
    assert not np.array_equal(made.plan(images, observation), made.plan(images, observation, "reach"))


@pytest.mark.parametrize(("kind", "policy"), [("flow", vla(Head.FLOW)), ("pixels", pixels())])
def test_every_kind_that_sees_is_exported(kind: str, policy: Any, tmp_path: Path) -> None:
    task = join_content()[TASK].load()()
    network = SEEING[type(policy)](policy, task, TASK)
    made = export.write_planner(tmp_path / "bundle", network, task, TASK)
    images, observation = seen()
    if kind == "pixels":
        expected = policy(groups_of(images, observation)).numpy()
        np.testing.assert_allclose(made.plan(images, observation), expected, atol=TOLERANCE)
        with pytest.raises(EmbodiedError, match="'open it': this policy is told nothing"):
            made.plan(images, observation, "open it")
    else:  # drawn anew each time
        assert not np.array_equal(made.plan(images, observation), made.plan(images, observation))
        assert np.abs(made.plan(images, observation)).max() <= 1
    assert np.isnan(made.plan(images, np.full(STATE, np.inf, np.float32))).all()


def test_the_same_policy_gives_the_same_bytes(seeing: tuple[Bundle, VLAPolicy], tmp_path: Path) -> None:
    made, policy = seeing
    task = join_content()[TASK].load()()
    again = export.write_planner(tmp_path / "again", SEEING[VLAPolicy](policy, task, TASK), task, TASK)
    assert again.sha256 == made.sha256
    assert (again.path / "planner.onnx").read_bytes() == (made.path / "planner.onnx").read_bytes()


def test_cameras_are_where_the_simulation_has_them(seeing: tuple[Bundle, VLAPolicy]) -> None:
    """A point ahead of a camera by its contract lies on its axis in MuJoCo, where -z is ahead."""
    made, _ = seeing
    model = join_content()[TASK].load()().visual_model
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
        cameras_of(join_content()[TASK].load()(), ["sideways"], SIZE)


def test_of_a_team_the_camera_is_the_one_that_its_first_robot_carries() -> None:
    (camera,) = cameras_of(GateRace(GateRaceConfig(agents=2)), ("fpv",), (64, 64))
    assert (camera.name, camera.body) == ("fpv", "cf0_cf")
    assert camera.position == pytest.approx(EYE)


def test_images_and_instructions_that_do_not_fit_are_named(seeing: tuple[Bundle, VLAPolicy]) -> None:
    made, _ = seeing
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


def test_what_was_edited_is_refused(seeing: tuple[Bundle, VLAPolicy], tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    made, policy = seeing
    task = join_content()[TASK].load()()
    network = SEEING[VLAPolicy](policy, task, TASK)
    contract = made.contract
    files = {path.name: path.read_bytes() for path in made.path.iterdir() if path.name != "manifest.json"}
    model = onnx.load_model_from_string(files["planner.onnx"])
    model.graph.node.append(onnx.helper.make_node("Loop", [], [], name="forever"))
    cases = {
        "operators that no exported policy has: Loop": {"planner.onnx": model.SerializeToString()},
        "made for another contract": {"planner.onnx": network.serialised(contract)},
        "not an ONNX model": {"planner.onnx": b"nothing"},
        "its tensors are not those of the contract": {"planner.safetensors": files["planner.safetensors"][:8] + b"{}"},
        "belong to a contract with a planner": {"planner.safetensors": None},
    }
    for number, (why, changed) in enumerate(cases.items()):
        kept = {name: data for name, data in {**files, **changed}.items() if data is not None}
        if why.startswith("its tensors"):
            kept["planner.safetensors"] = (2).to_bytes(8, "little") + b"{}"
        with pytest.raises(BundleError, match=why):
            export.finished(tmp_path / f"edited{number}", kept, contract, made.sha256)


def test_images_are_asked_for_at_the_planners_rate(seeing: tuple[Bundle, VLAPolicy]) -> None:
    """And each planned action is carried out once, in its order."""
    made, _ = seeing
    controller = controller_of(made, "pull it")
    assert isinstance(controller, PlanningController)
    images, _ = seen()
    looked: list[str] = []

    class Readings(dict[str, np.ndarray]):
        def get(self, name: str, default: Any = None) -> Any:
            looked.extend([name] if name.startswith("image.") else [])
            return super().get(name, default)

    joints = np.array([joint.default for joint in made.contract.joints])
    readings = Readings({f"image.{name}": image for name, image in images.items()})
    measured = Measurement(0.0, joint_pos=joints, joint_vel=0 * joints, readings=readings)
    actions = [controller.decide(measured, np.zeros(ACTIONS), np.zeros(0))[1] for _ in range(7)]
    assert looked == ["image.view", "image.wrist"] * 3
    observation = controller_of(made, "pull it").decide(measured, np.zeros(ACTIONS), np.zeros(0))[0]
    np.testing.assert_allclose(actions[:3], made.plan(images, observation, "pull it")[:3], atol=1e-6)
    with pytest.raises(
        RobotError, match=r"sees through 'view' \(32 x 32 pixels, fixed to world\), and this robot has no"
    ):
        controller_of(made).decide(dataclasses.replace(measured, readings={}), np.zeros(ACTIONS), np.zeros(0))


def test_a_frozen_camera_is_named(seeing: tuple[Bundle, VLAPolicy]) -> None:
    """Pictures may stay the same while the robot rests, not while it moves."""
    made, _ = seeing
    rng, joints = np.random.default_rng(0), np.array([joint.default for joint in made.contract.joints])

    def after(travel: float, frozen: bool) -> None:
        controller = controller_of(made)
        first, _ = seen()
        for cycle in range(9):
            fresh = {name: rng.integers(0, 256, image.shape, np.uint8) for name, image in first.items()}
            shown = {**fresh, "wrist": first["wrist"]} if frozen else fresh
            readings = {f"image.{name}": image for name, image in shown.items()}
            pose = joints + travel * cycle / 8
            measured = Measurement(0.0125 * cycle, joint_pos=pose, joint_vel=0 * pose, readings=readings)
            controller.decide(measured, np.zeros(ACTIONS), np.zeros(0))

    after(0.5, False)
    after(0.1, True)
    with pytest.raises(RobotError, match=r"camera 'wrist' shows the same picture to the last bit though a joint moved"):
        after(0.5, True)


def test_a_policy_that_is_told_nothing_takes_no_instruction() -> None:
    class Told:
        contract = export.describe_step(join_content()[TASK].load()(), TASK).contract

    assert isinstance(controller_of(Told()), StepController)  # type: ignore[arg-type]
    with pytest.raises(EmbodiedError, match=f"the policy of '{TASK}' is told nothing"):
        controller_of(Told(), "open it")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_simulated_robot_shows_what_an_environment_shows(seeing: tuple[Bundle, VLAPolicy]) -> None:
    made, _ = seeing
    env = embodied.make(TASK, 1, "mujoco", cameras=("view", "wrist"), resolution=SIZE)
    observed = env.reset(seed=5)
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[0], env.world())
    state = jax.tree.map(lambda leaf: np.asarray(leaf)[0], env.task_state)
    drawn = Photographer(env.task, planner_of(made.contract)).beside({}, one, state)
    for camera in ("view", "wrist"):
        np.testing.assert_array_equal(drawn[f"image.{camera}"], observed[PIXELS + camera][0].permute(1, 2, 0))
    assert drawn["image.view"].std() > 10  # something is to be seen


def test_a_simulated_robot_has_the_cameras_and_an_estimator_may_replace_them(seeing: tuple[Bundle, VLAPolicy]) -> None:
    made, _ = seeing
    robot = connect("mujoco", made.contract, SimulatedOptions(realtime=False, seed=5))
    shown = robot.read().readings
    assert {"image.view", "image.wrist"} <= set(shown)
    black = np.zeros((*SIZE[::-1], 3), np.uint8)
    masked = EstimatedRobot(robot, lambda _: {"image.view": black}).read().readings
    np.testing.assert_array_equal(masked["image.view"], black)
    np.testing.assert_array_equal(masked["image.wrist"], shown["image.wrist"])
    robot.close()


def test_the_readme_wires_it(seeing: tuple[Bundle, VLAPolicy], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python, as it stands, with a camera and motors put in: the targets are those of our own loop."""
    made, _ = seeing
    text = (made.path / "README.md").read_text()
    tokens, wiring = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    images, _ = seen()
    joints = np.array([joint.default for joint in made.contract.joints], np.float32)
    cycles, targets = iter(range(7)), []
    names: dict[str, Any] = {
        "running": lambda: next(cycles, None) is not None,
        "photograph": lambda name: images[name],
        "write": lambda target: targets.append(np.array(target)),
    }
    monkeypatch.chdir(made.path)
    exec(tokens, names)
    words = planner_of(made.contract).words
    assert words is not None
    for instruction in ("Open the drawer.", "öffne: 3 Schubladen!"):
        np.testing.assert_array_equal(names["tokens_of"](instruction), tokens_of(instruction, words))
    assert "given = {" in wiring
    given = re.search(r"given = \{(.*?)\}", wiring)
    assert given is not None
    exec(wiring.replace(given[0], "given = {'joint_pos': joints}"), {**names, "joints": joints})
    controller = controller_of(made)
    readings = {f"image.{name}": image for name, image in images.items()}
    measured = Measurement(0.0, joint_pos=joints, joint_vel=0 * joints, readings=readings)
    ours = [controller.decide(measured, np.zeros(ACTIONS), np.zeros(0))[2] for _ in range(7)]
    np.testing.assert_allclose(targets, ours, atol=1e-5)


def test_c_observes_what_the_planner_reads(seeing: tuple[Bundle, VLAPolicy], tmp_path: Path) -> None:
    made, _ = seeing
    library = tmp_path / "policy.so"
    compiled = subprocess.run(
        ["cc", "-std=c99", "-O2", "-shared", "-fPIC", str(made.path / "policy.c"), "-lm", "-o", str(library)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert not compiled.returncode, compiled.stderr
    policy = ctypes.CDLL(str(library))
    step = made.contract.step
    assert step is not None
    joints = np.array([joint.default for joint in made.contract.joints], np.float32)
    fields = [(source.name, ctypes.c_float * source.size) for source in step.sources]
    inputs = type("Input", (ctypes.Structure,), {"_fields_": [*fields, ("planned", ctypes.c_float * ACTIONS)]})()
    state = (ctypes.c_float * 64)()
    inputs.joint_pos[:] = joints
    inputs.planned[:] = [np.inf] * ACTIONS  # not planned yet
    observation = (ctypes.c_float * made.contract.observation_size)()
    policy.policy_begin(ctypes.byref(inputs), state)
    assert policy.policy_observe(ctypes.byref(inputs), state, observation) == 0
    controller = controller_of(made)
    images, _ = seen()
    readings = {f"image.{name}": image for name, image in images.items()}
    measured = Measurement(0.0, joint_pos=joints, joint_vel=0 * joints, readings=readings)
    np.testing.assert_allclose(
        np.array(observation), controller.decide(measured, np.zeros(4), np.zeros(0))[0], atol=1e-5
    )
    inputs.joint_pos[0] = np.inf
    assert policy.policy_observe(ctypes.byref(inputs), state, observation) == 1


def test_the_contract_says_what_is_seen(seeing: tuple[Bundle, VLAPolicy]) -> None:
    made, _ = seeing
    schema = json.loads(Path("docs/contract.schema.json").read_text())
    document = json.loads((made.path / "contract.json").read_text())
    pytest.importorskip("jsonschema").validate(document, schema)
    assert [camera["name"] for camera in document["step"]["planner"]["cameras"]] == ["view", "wrist"]
