"""A bundle is read whole and unchanged, or refused with one line that names what is wrong with it."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from embodied.storage.files import seal
from sim2real.bundles import bundle
from sim2real.bundles.bundle import load
from sim2real.bundles.contents import golden_of
from sim2real.bundles.files import MANIFEST, MAX_BYTES, REQUIRED, BundleError
from sim2real.contract import document
from sim2real.graphs import golden
from tests.kit import commands
from tests.kit.bundles import (
    inputs_of,
    observations,
    reseal,
    small_bundle,
    small_contract,
    small_described,
    small_policy,
    target_of,
)

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

FILES = (MANIFEST, *REQUIRED)


@pytest.fixture(scope="module")
def made():
    return small_bundle()


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "bundle")


def refused(folder) -> str:
    """The message with which a bundle is refused: one line that names it."""
    with pytest.raises(BundleError) as caught:
        load(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_a_bundle_computes_what_the_policy_does(made):
    policy, ready = small_policy(), load(made)
    assert ready.contract == small_contract()
    assert ready.path == made
    for row in observations(policy, 20):
        found = ready.step(inputs_of(row))
        expected = policy(torch.from_numpy(row[None]))[0].numpy()
        assert found["action"].dtype == found["target"].dtype == np.float32
        np.testing.assert_array_equal(found["observation"], row)
        np.testing.assert_allclose(found["action"], expected, atol=1e-5)
        np.testing.assert_allclose(found["target"], target_of(ready.contract, expected), atol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_input_that_is_not_finite_never_looks_like_a_command(made, bad):
    ready, seen = load(made), np.zeros(9)
    assert np.isfinite(ready.step(inputs_of(seen))["target"]).all()
    seen[7] = bad
    assert all(np.isnan(value).all() for value in ready.step(inputs_of(seen)).values())


@pytest.mark.parametrize("shape", [(2,), (1, 3), ()])
def test_an_input_of_another_shape_is_refused_by_name(made, shape):
    with pytest.raises(BundleError, match=r"input 'joint_pos' has shape .*; expected \(3,\)"):
        load(made).step({**inputs_of(np.zeros(9)), "joint_pos": np.zeros(shape)})


def flipped(data):
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


def zipped(data):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data.pkl", pickle.dumps([1]))
    return archive.getvalue()


DAMAGES = {
    "flipped": (flipped, "edited|truncated|not text|not JSON"),
    "truncated": (lambda data: data[:-7], "truncated"),
    "emptied": (lambda data: b"", "truncated"),
    "extended": (lambda data: data + b"\n", "edited|not JSON|formed"),
    "pickled": (lambda data: pickle.dumps({"weights": [1.0]}), "a pickle; nothing of it was read"),
    "zipped": (zipped, "a zip archive, such as torch.save"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_name(folder, name, damage):
    if (name, damage) == (MANIFEST, "extended"):
        pytest.skip("JSON may end with any number of line breaks; they say nothing")
    change, message = DAMAGES[damage]
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    said = refused(folder)
    assert re.search(message, said)
    assert name in said


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert re.search(rf"incomplete: {name} missing|has no {name}", refused(folder))


@pytest.mark.parametrize("name", FILES)
def test_links_pipes_and_folders_in_a_files_place_are_refused(folder, name):
    place, elsewhere = folder / name, folder.parent / "elsewhere"
    place.rename(elsewhere)
    for instead in (lambda: place.symlink_to(elsewhere), lambda: os.mkfifo(place), place.mkdir):
        instead()
        assert re.search(rf"{name}: it .* plain file|has no {name}", refused(folder))
        place.rmdir() if place.is_dir() else place.unlink()
    elsewhere.rename(place)
    load(folder)


@pytest.mark.parametrize("name", ["weights.pkl", "policy.onnx.data", ".hidden", "crazyflie/more.c", "new/file.txt"])
def test_a_file_that_does_not_belong_is_named(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("")
    assert name.partition("/")[0] in refused(folder)
    assert "not part of it" in refused(folder)


def test_what_is_no_bundle_is_said_so(tmp_path):
    assert "does not exist; python -m sim2real.export" in refused(tmp_path / "nowhere")
    assert "has no manifest.json" in refused(tmp_path)


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("content", [pickle.dumps([1]), zipped(b""), b"\x93NUMPY", b"\x1f\x8b"])
def test_foreign_content_is_refused_even_with_a_new_seal(folder, name, content):
    (folder / name).write_bytes(content)
    reseal(folder)
    assert f"{name}: it is a" in refused(folder)


ANOTHER = "policy.onnx: it was made for another contract than contract.json"
FORGERIES = {
    "offset": (lambda d: d["actuators"][0].update(offset=0.1), ANOTHER),
    "limit": (lambda d: d["actuators"][0].update(upper=9.0), ANOTHER),
    "gain": (lambda d: d["actuators"][2].update(stiffness=99.0), ANOTHER),
    "unit": (lambda d: d["actuators"][1].update(unit="deg"), ANOTHER),
    "rate": (lambda d: d.update(control_hz=50.0), ANOTHER),
    "order": (lambda d: d["joints"].reverse(), ANOTHER),
    "name": (lambda d: d["joints"][0].update(name="elbow"), "contract.json"),
    "no number": (lambda d: d.update(control_hz=float("nan")), "NaN is no number"),
    "word": (lambda d: d.update(control_hz="fast"), "contract.json"),
    "words": (lambda d: d["actuators"][0].update(lower="a", upper="z", offset="k"), "contract.json"),
    "nothing": (lambda d: d.clear(), "contract.json"),
    "no field": (lambda d: d.pop("workspace"), "not written as embodied writes it"),
    "fewer": (lambda d: d["actuators"].pop(), "it maps gyro"),
    "terms": (lambda d: d.update(terms=7), "contract.json"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_contract_is_refused(folder, forgery):
    change, message = FORGERIES[forgery]
    document = json.loads((folder / "contract.json").read_text())
    change(document)
    (folder / "contract.json").write_text(json.dumps(document, indent=2) + "\n")
    reseal(folder)
    assert message in refused(folder)


def heavier(graph):
    weight = max(graph.initializer, key=lambda entry: len(entry.raw_data))
    weight.raw_data = (1.1 * np.frombuffer(weight.raw_data, np.float32)).astype(np.float32).tobytes()


FORGED_NETWORKS = {
    "weight": (heavier, "away from golden.csv"),
    "edge": (lambda graph: graph.node[3].input.__setitem__(0, "nothing"), "ONNX Runtime refuses it"),
    "domain": (lambda graph: setattr(graph.node[0], "domain", "com.example"), "foreign operators"),
    **{
        operator: (
            lambda graph, operator=operator: setattr(graph.node[0], "op_type", operator),
            f"it has operators that no exported policy has: {operator}",
        )
        for operator in ("NonZero", "Loop", "If", "Scan", "Conv")
    },
}


@pytest.mark.parametrize("forgery", FORGED_NETWORKS)
def test_a_forged_network_is_refused(folder, forgery):
    change, message = FORGED_NETWORKS[forgery]
    model = onnx.load(folder / "policy.onnx")
    change(model.graph)
    (folder / "policy.onnx").write_bytes(model.SerializeToString())
    reseal(folder)
    assert message in refused(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"gyro\[0\]", "gyro[9]", "columns"),
        (",", ";", "columns"),
        (r"\n0\.0,", r"\n", "rows that are not of 13 numbers"),
        (r"\n0\.0,", r"\nnan,", "finite"),
        (r"\n0\.0,", r"\nx,", "could not convert"),
        (r"\n[\s\S]*", r"\n", "no rows"),
    ],
)
def test_forged_golden_steps_are_refused(folder, old, new, message):
    text, changes = re.subn(old, new, (folder / "golden.csv").read_text(), count=1)
    assert changes
    (folder / "golden.csv").write_text(text)
    reseal(folder)
    assert re.search(rf"golden\.csv: .*{message}", refused(folder))


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "more.pkl", "crazyflie/../x"])
def test_a_manifest_cannot_point_elsewhere(folder, name):
    rewrite_manifest(folder, lambda document: document["files"].update({name: {"bytes": 1, "sha256": "0" * 64}}))
    assert repr(name) in refused(folder)


def rewrite_manifest(folder, change):
    document = json.loads((folder / MANIFEST).read_bytes())
    del document["sha256"]
    change(document)
    (folder / MANIFEST).write_bytes(seal(document))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("files", [], MANIFEST),
        ("files", {"README.md": 3}, MANIFEST),
        ("policy", None, MANIFEST),
        ("format", 99, MANIFEST),
        ("format", 2, r"bundle format 2 by embodied .*, which reads format 3; export the policy again$"),
    ],
)
def test_a_manifest_of_another_form_or_version_is_refused(folder, field, value, message):
    rewrite_manifest(folder, lambda document: document.update({field: value}))
    assert re.search(message, refused(folder))


@pytest.mark.parametrize("name", [MANIFEST, "contract.json", "golden.csv"])
def test_sizes_are_bounded(folder, name):
    with (folder / name).open("r+b") as file:
        file.truncate(MAX_BYTES[name] + 1)
    assert f"larger than {MAX_BYTES[name]} bytes" in refused(folder)


def test_texts_keep_numbers_to_the_last_bit():
    contract, steps = small_contract(), golden_of(small_described(), small_policy())
    assert bundle.read_contract(document.contract_text(contract).encode(), Path("bundle")) == contract
    again = golden.read(golden.written(contract, steps).encode(), contract)
    for name, values in steps.inputs.items():
        np.testing.assert_array_equal(again.inputs[name], values)
    np.testing.assert_array_equal(again.action, steps.action)
    np.testing.assert_array_equal(again.target, steps.target)


def test_the_command_line_verifies(folder, capsys):
    assert bundle.main([str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "family/task" in shown
    assert "hip, knee, ankle roll" in shown
    (folder / "README.md").write_text("")
    assert commands.refused(bundle.main, str(folder)).startswith("error: bundle")


def test_deploying_needs_neither_torch_nor_jax(made):
    code = (
        "import sys; from sim2real.bundles.bundle import load; import sim2real.deployment.controllers;"
        "ready = load(sys.argv[1]);"
        "print(ready.contract.task, sorted({'torch', 'jax', 'mujoco'} & set(sys.modules)))"
    )
    done = commands.interpreted("-c", code, str(made))
    assert done.stdout.strip() == "family/task []"
