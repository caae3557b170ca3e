"""ONNX Runtime and a C compiler compute what a graph says, operation by operation; torch's networks become graphs."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from policies.networks.mlp import Architecture, NetworkConfig
from policies.networks.recurrent import RecurrentNetwork
from sim2real.graphs import onnx_check, to_onnx
from sim2real.graphs.graph import BINARY, REDUCE, UNARY, Builder, Graph, GraphError
from sim2real.graphs.to_c import HELPERS, CText
from sim2real.graphs.tracing.from_torch import inline, inline_all
from tests.kit.bundles import compile_c

pytestmark = pytest.mark.timeout(120)
onnxruntime = pytest.importorskip("onnxruntime")
SIZE = 12
A = np.random.default_rng(0).uniform(-0.95, 0.95, SIZE).astype(np.float32)
B = np.random.default_rng(1).uniform(0.2, 3.0, SIZE).astype(np.float32)


def everything() -> Graph:
    """One node at least of every kind and function."""
    build = Builder()
    a, b, one = build.input("a", SIZE), build.input("b", SIZE), build.input("one", 1)
    outputs = {f"unary {name}": build.unary(name, b if name in ("log", "sqrt") else a) for name in UNARY}
    outputs |= {
        f"binary {name}": build.binary(name, build.unary("abs", a) if name == "pow" else a, b) for name in BINARY
    }
    outputs |= {f"single {name}": build.binary(name, one, b) for name in BINARY}
    outputs |= {f"reduce {name}": build.reduce(name, b, 4) for name in REDUCE}
    outputs["where"] = build.where(build.binary("lt", a, build.constant(0.0)), a, b)
    outputs["concat"] = build.concat([a, one, b])
    outputs["take"] = build.take(build.concat([a, b]), np.array([3, 17, 3, 0, 23]))
    outputs["stride"] = build.take(a, np.arange(1, SIZE, 3))
    outputs["lookup"] = build.lookup(
        b, build.unary("floor", build.binary("mul", build.unary("abs", a), build.constant(SIZE)))
    )
    outputs["matmul"] = build.matmul(a, b, 4, 3)
    outputs["argsort"] = build.argsort(build.take(a, np.array([0, 1, 0, 2] * 3)), 4)  # of equal ones the first first
    return build.graph({name.replace(" ", "_"): node for name, node in outputs.items()}, whole=["a", "b", "one"])


GIVEN = {"a": A, "b": B, "one": np.array([0.7], np.float32)}


def test_onnx_runtime_computes_it() -> None:
    graph = everything()
    model = to_onnx.build(graph, "test", {"of": "a test"})
    assert {node.op_type for node in model.graph.node} <= onnx_check.OPERATORS
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [*graph.outputs]
    found = dict(zip(names, session.run(names, GIVEN), strict=True))
    for name, value in graph.run(**GIVEN).items():
        np.testing.assert_allclose(found[name], value, rtol=2e-6, atol=1e-6, err_msg=name)


def test_c_computes_it(tmp_path: Path) -> None:
    graph = everything()
    text = CText(graph, {name: name for name in graph.inputs})
    copies = "\n".join(
        f"for (i = 0; i < {size}; i++) out[at + i] = {text.output(name)}[i];\nat += {size};"
        for name, size in graph.sizes(graph.outputs).items()
    )
    (tmp_path / "step.c").write_text(
        "#include <math.h>\n" + "\n".join([*text.tables, *text.memory, *HELPERS.values()])
        + "\nvoid step(const float *a, const float *b, const float *one, float *out) {\nint i, j, at = 0; (void)j;\n"
        + "\n".join(text.statements) + "\n" + copies + "\n}\n"
    )  # fmt: skip
    library = str(tmp_path / "step.so")
    strict = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wdouble-promotion"]
    compile_c(["-std=c99", "-O2", *strict, "-fPIC", "-shared", str(tmp_path / "step.c"), "-lm", "-o", library])
    expected = graph.run(**GIVEN)
    out = np.zeros(sum(value.size for value in expected.values()), np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*GIVEN.values(), out)]
    ctypes.CDLL(library).step(*pointers)
    for name, value in expected.items():
        found, out = out[: value.size], out[value.size :]
        np.testing.assert_allclose(found, value, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """What torch loads when it exports for the first time."""
    build = Builder()
    inline(build, nn.Linear(2, 1).eval(), build.input("x", 2))


class Attention(nn.Module):
    """A bit of everything that policies are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.mix, self.norm = (
            nn.Linear(4, 8),
            nn.MultiheadAttention(8, 2, batch_first=True),
            nn.LayerNorm(8),
        )
        self.outward = nn.Sequential(nn.Linear(24, 8), nn.SiLU(), nn.Linear(8, 5), nn.ELU(), nn.Linear(5, 2), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.relu(self.inward(x.reshape(-1, 3, 4)))
        mixed, _ = self.mix(rows, rows, rows, need_weights=False)
        gone = x.reshape(-1, 3, 4)[..., :1] < 0
        return self.outward(self.norm(rows + mixed).masked_fill(gone, 0.0).flatten(1)).clamp(-0.5, 0.5)


def test_a_network_in_torch_becomes_a_graph() -> None:
    torch.manual_seed(0)
    network = Attention().eval()
    build = Builder()
    graph = build.graph({"y": inline(build, network, build.input("x", SIZE))})
    for seed in range(5):
        x = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
        with torch.no_grad():
            expected = network(torch.from_numpy(x)[None])[0].numpy()
        np.testing.assert_allclose(graph.run(x=x)["y"], expected, atol=2e-6)


def test_a_network_that_remembers_gives_its_hidden_state_too() -> None:
    config = NetworkConfig((6,), architecture=Architecture.GRU, memory=5)
    network = RecurrentNetwork(SIZE, 2, config, torch.Generator().manual_seed(0)).eval()
    build = Builder()
    y, following = inline_all(build, network, [build.input("x", SIZE), build.input("hidden", 5)])
    graph = build.graph({"y": y, "following": following})
    x, hidden = (np.random.default_rng(size).standard_normal(size).astype(np.float32) for size in (SIZE, 5))
    with torch.no_grad():
        expected = network(torch.from_numpy(x)[None], torch.from_numpy(hidden)[None])
    found = graph.run(x=x, hidden=hidden)
    for name, value in zip(("y", "following"), expected, strict=True):
        np.testing.assert_allclose(found[name], value[0].numpy(), atol=2e-6)


def test_what_a_network_does_that_has_no_translation_is_named() -> None:
    build = Builder()
    with pytest.raises(GraphError, match=r"the network uses aten.erfinv.* which has no translation"):
        inline(build, _Odd(), build.input("x", 3))


class _Odd(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erfinv(x)
