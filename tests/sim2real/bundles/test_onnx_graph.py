"""The ONNX model computes what torch does, and nothing else passes for one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch

from embodied.storage.configs import from_json
from policies.networks.build import make_actor
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.policy import NormalizedActor, Policy
from sim2real.bundles import onnx_graph
from sim2real.bundles.network import ExportError, Network
from sim2real.contract.contract import Contract
from sim2real.contract.document import contract_text
from sim2real.graphs import onnx_check
from tests.kit.bundles import observations, small_contract, small_policy

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

CONTRACT = small_contract()


def built(policy: Policy):
    return onnx_graph.build(Network.of(policy), CONTRACT, contract_text(CONTRACT))


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def run(running, seen):
    return running.run(["action", "target"], {"observation": seen})


@pytest.mark.parametrize("activation", Activation)
def test_actions_and_targets_are_torchs(activation):
    policy = small_policy(activation)
    seen = observations(policy)
    action, target = run(session(built(policy)), seen)
    expected = policy(torch.from_numpy(seen)).numpy()
    assert 0 < (np.abs(expected) == 1).sum() < expected.size
    np.testing.assert_allclose(action, expected, atol=1e-5)
    np.testing.assert_allclose(target, CONTRACT.target(expected), atol=1e-5)
    assert (target >= -0.5).all()
    assert (target[:, 1] == -0.5).any(), "no target reached its limit"


@pytest.mark.parametrize("hidden", [(), (16,), (1, 40, 3)])
def test_any_number_of_layers(hidden):
    policy = small_policy(hidden=hidden)
    seen = observations(policy, 20)
    np.testing.assert_allclose(run(session(built(policy)), seen)[0], policy(torch.from_numpy(seen)), atol=1e-5)


def test_what_is_not_a_number_stays_so_and_infinities_are_clipped_as_in_torch():
    policy = small_policy(Activation.ELU)
    seen = np.tile(observations(policy, 1)[:1], (3, 1))
    seen[:, 4] = [np.nan, np.inf, -np.inf]
    action, target = run(session(built(policy)), seen)
    assert np.isnan(action[0]).all()
    assert np.isnan(target[0]).all()
    np.testing.assert_allclose(action[1:], policy(torch.from_numpy(seen[1:])), atol=1e-5)


def test_a_batch_is_a_loop_of_singles():
    policy = small_policy(Activation.SILU)
    seen, running = observations(policy, 10), session(built(policy))
    singles = [run(running, row[None]) for row in seen]
    for i, whole in enumerate(run(running, seen)):
        np.testing.assert_allclose(whole, np.concatenate([single[i] for single in singles]), atol=1e-6)


def test_the_contract_is_inside_at_full_precision():
    model = built(small_policy())
    text = {entry.key: entry.value for entry in model.metadata_props}["contract"]
    assert from_json(Contract, json.loads(text)) == CONTRACT
    assert "-0.123456789" in text


def test_the_same_policy_gives_the_same_bytes_and_another_does_not():
    first, second = (onnx_graph.serialised(built(small_policy())) for _ in range(2))
    assert first == second
    assert first != onnx_graph.serialised(built(small_policy(Activation.ELU)))


def test_other_architectures_are_refused_with_what_can_be_exported():
    config = NetworkConfig((8, 8), architecture=Architecture.ENTITIES, own=4)
    actor = make_actor(4 + 3 * 16, 2, config)
    policy = Policy(NormalizedActor(actor, torch.zeros(52), torch.ones(52), 10.0), config)
    with pytest.raises(ExportError, match=r"architecture 'entities' cannot be exported; 'mlp' can, with .*elu.*silu"):
        Network.of(policy)


def test_a_diverged_policy_is_refused():
    policy = small_policy()
    actor: Any = policy.network.actor  # whose layers torch says little of
    layers = actor.mean.linears
    layers[0].weight.data[0, 0] = float("nan")
    with pytest.raises(ExportError, match="not finite"):
        Network.of(policy)


def renamed(model):
    model.graph.node[0].op_type = "NonZero"


def foreign(model):
    model.graph.node[0].domain = "com.stranger"


def outside(model):
    entry = model.graph.initializer[0]
    entry.ClearField("raw_data")
    entry.data_location = onnx.TensorProto.EXTERNAL
    entry.external_data.add(key="location", value="../../etc/passwd")


def narrower(model):
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 8


def unreadable(model):
    text = model.SerializeToString().replace(b"centred", b"centr\xff\xfe"[:7])
    model.ParseFromString(text)


def endless(model):
    model.graph.node.extend([model.graph.node[0]] * 300)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (renamed, "operators that no exported policy has: NonZero"),
        (foreign, "foreign operators"),
        (outside, "constants lie in other files"),
        (narrower, r"it maps observation\['batch', 8\].*the contract says observation\['batch', 9\]"),
        (unreadable, "not text|not an ONNX model"),
        (endless, "at most 256"),
    ],
)
def test_only_exported_models_pass(damage, message):
    model = built(small_policy())
    assert onnx_check.inspect(model.SerializeToString(), CONTRACT)["producer"].startswith("embodied")
    damage(model)
    with pytest.raises(ValueError, match=message):
        onnx_check.inspect(model.SerializeToString(), CONTRACT)


def test_bytes_that_are_no_model_are_refused():
    with pytest.raises(ValueError, match="not an ONNX model"):
        onnx_check.inspect(b"\x80\x04 nonsense", CONTRACT)


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch):
    import sys

    from embodied.errors import EmbodiedError

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EmbodiedError, match=r'pip install "embodied-sim\[sim2real\]"'):
        built(small_policy())


def test_digests_tell_networks_and_contracts_apart():
    network, text = Network.of(small_policy()), contract_text(CONTRACT)
    changed = dataclasses.replace(network, clip=4.0)
    assert len({network.digest(text), network.digest(text + " "), changed.digest(text)}) == 3
