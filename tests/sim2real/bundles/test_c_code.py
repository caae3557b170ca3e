"""The C code computes what torch does, compiles without a warning, and gives safe targets where it cannot act."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest
import torch

from policies.networks.mlp import Activation
from sim2real.bundles import c_code
from sim2real.bundles.contents import golden_of
from sim2real.bundles.files import ExportError
from sim2real.contract.contract import ContractError
from sim2real.graphs.to_c import number
from tests.kit.bundles import (
    Compiled,
    compile_c,
    observations,
    small_contract,
    small_described,
    small_policy,
    target_of,
)

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

CONTRACT = small_contract()
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror")
MCU = (*STRICT, "-pedantic", "-Wconversion", "-Wdouble-promotion", "-Wshadow", "-Wstrict-prototypes")


def sources(folder, policy, contract=CONTRACT, golden=None):
    made = small_described(policy, contract)
    for name, text in c_code.sources(made.graph, made.contract, golden or golden_of(made, policy), "0" * 64).items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "network", [{"activation": one} for one in Activation] + [{"hidden": one} for one in ((), (16,), (1, 40, 3), (17,))]
)
@pytest.mark.parametrize("optimised", ["-O0", "-O3"])
def test_actions_and_targets_are_torchs_of_any_width_and_number_of_layers(tmp_path, network, optimised):
    policy = small_policy(**network)
    step = Compiled(sources(tmp_path, policy), (*MCU, optimised))
    seen = observations(policy)
    expected = policy(torch.from_numpy(seen)).numpy()
    why, action, target = zip(*map(step, seen), strict=True)
    assert set(why) == {0}
    np.testing.assert_allclose(action, expected, atol=1e-5)
    np.testing.assert_allclose(target, target_of(CONTRACT, expected), atol=1e-5)
    assert (np.array(target) <= CONTRACT.row("upper").astype(np.float32)).all()


@pytest.mark.parametrize("flag", ["-O2", "-ffast-math"])
def test_what_is_not_finite_is_refused_with_resting_targets(tmp_path, flag):
    policy = small_policy()
    step = Compiled(sources(tmp_path, policy), (*MCU, flag))
    usual = observations(policy, 1)[0]
    for bad in (np.nan, np.inf, -np.inf):
        for place in (0, 4, 8):  # of each input; what is remembered was a step's own
            seen = usual.copy()
            seen[place] = bad
            why, action, target = step(seen)
            assert why == 1
            assert not action.any()
            np.testing.assert_array_equal(target, CONTRACT.row("offset").astype(np.float32))
    assert step(usual)[0] == 0, "it refuses everything"


def test_a_network_that_overflows_is_refused_with_resting_targets(tmp_path):
    policy = small_policy(Activation.RELU)
    actor: Any = policy.network.actor  # whose layers torch says little of
    layers = actor.mean.linears
    layers[0].bias.data.fill_(1e30)
    for layer in layers[1:]:
        layer.weight.data.fill_(1e30)
        layer.weight.data[:, ::2] *= -1  # infinities of both signs, which add up to what is no number
    # The golden steps of such a network hold infinities: its check is another's.
    sources(tmp_path, policy, golden=golden_of(small_described(), small_policy()))
    why, action, target = Compiled(tmp_path, MCU)(np.full(9, 3.0))
    assert why == 2
    assert not action.any()
    np.testing.assert_array_equal(target, CONTRACT.row("offset").astype(np.float32))


@pytest.mark.parametrize("flags", [STRICT, MCU, (*STRICT, "-Os"), ("-std=c11", *MCU[1:])], ids=" ".join)
def test_all_files_compile_without_a_warning(tmp_path, flags):
    sources(tmp_path, small_policy())
    for name in ("policy", "check"):
        compile_c([*flags, "-c", str(tmp_path / f"{name}.c"), "-o", str(tmp_path / f"{name}.o")])


def test_nothing_is_allocated_and_only_math_is_linked(tmp_path):
    sources(tmp_path, small_policy(Activation.SILU))
    compile_c([*MCU, "-O2", "-fno-pie", "-c", str(tmp_path / "policy.c"), "-o", str(tmp_path / "policy.o")])
    listed = subprocess.run(["nm", str(tmp_path / "policy.o")], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r" U (\w+)", listed)) <= {"expf", "_GLOBAL_OFFSET_TABLE_"}
    assert sorted(re.findall(r" T (\w+)", listed)) == ["policy_begin", "policy_observe", "policy_step"]
    assert {kind for kind in re.findall(r" ([A-Za-z]) ", listed) if kind in "dDbB"} <= {"b"}, "a variable has content"


VALGRIND = pytest.param(
    (21, 5), ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"], "-O1", id="valgrind",
    marks=pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("hidden", "under", "flag"), [VALGRIND, *((h, [], "-fsanitize=address,undefined") for h in ((33, 17), (17, 33)))]
)
def test_valgrind_and_sanitisers_find_nothing(tmp_path, hidden, under, flag):
    sources(tmp_path, small_policy(hidden=hidden))
    files = [str(tmp_path / name) for name in ("check.c", "policy.c")]
    compile_c([*MCU, "-g", flag, *files, "-lm", "-o", str(tmp_path / "check")])
    command = [*under, str(tmp_path / "check")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_check_of_the_code_passes_and_can_fail(tmp_path):
    sources(tmp_path, small_policy())
    assert "largest difference from the exporting machine" in (c_code.prove(tmp_path) or "")
    code = (tmp_path / "policy.c").read_text()
    assert "tanhf(" in code
    (tmp_path / "policy.c").write_text(code.replace("tanhf(", "0.9f * tanhf("))
    with pytest.raises(ExportError, match="the C code fails its check: largest difference"):
        c_code.prove(tmp_path)
    (tmp_path / "policy.c").write_text("int policy_step")
    with pytest.raises(ExportError, match=r"the C code does not compile: .*error"):
        c_code.prove(tmp_path)


def test_a_step_hands_its_state_on_and_a_refused_one_keeps_it(tmp_path):
    policy = small_policy()
    step = Compiled(sources(tmp_path, policy), MCU)
    seen = observations(policy, 1)[0]
    _, action, _ = step(seen)
    np.testing.assert_array_equal(step.state, action[:2])
    seen[0] = np.nan
    step(seen)
    np.testing.assert_array_equal(step.state, seen[6:8])


def test_literals_are_exact_and_short():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    values = bits[np.isfinite(bits)]
    literals = [number(value) for value in values]
    np.testing.assert_array_equal(np.array([np.float32(text[:-1]) for text in literals]), values)
    assert max(map(len, literals)) <= 16
    assert all(re.fullmatch(r"-?\d\.\d+e[+-]\d+f", text) for text in literals), "without a point it would be no float"


def test_names_become_constants_and_cannot_leave_their_comments(tmp_path):
    evil = dataclasses.replace(CONTRACT, task="a */ int evil; /* b", robot="leg\n#error")
    sources(tmp_path, small_policy(), evil)
    header = (tmp_path / "policy.h").read_text()
    assert "POLICY_ACTUATOR_ANKLE_ROLL = 2" in header
    assert "float joint_pos[3]; /* rad: joint angles */" in header
    compile_c([*MCU, "-c", str(tmp_path / "policy.c"), "-o", str(tmp_path / "policy.o")])
    listed = subprocess.run(["nm", str(tmp_path / "policy.o")], capture_output=True, text=True, check=True).stdout
    assert "evil" not in listed


def test_names_that_would_be_one_are_refused():
    first, *others = CONTRACT.actuators
    with pytest.raises(ContractError):
        dataclasses.replace(CONTRACT, actuators=(first, first, *others[1:]))
    twins = dataclasses.replace(CONTRACT, actuators=(first, dataclasses.replace(first, name="HIP"), *others[1:]))
    with pytest.raises(ExportError, match="'hip' and 'HIP' would both be called POLICY_ACTUATOR_HIP"):
        c_code.sources(small_described().graph, twins, golden_of(small_described(), None), "0" * 64)
