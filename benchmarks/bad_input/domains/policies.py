"""Stored policies: checkpoints, bundles and demonstrations that are damaged, forged, or whose parts do not fit."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from benchmarks.bad_input import examples, mutate
from benchmarks.bad_input.box import Box
from benchmarks.bad_input.case import Attempt, Kinds, Must, call
from embodied.core import initial_states
from embodied.storage.files import seal
from policies.data import demonstrations
from policies.training.loading import load_policy
from sim2real.bundles import bundle

OBSERVATION = torch.linspace(-1.0, 1.0, 16).repeat(2, 1)


def acted(path: Path | str) -> torch.Tensor:
    """What a policy does, on a fixed observation and then in the environment, which refuses what is not finite."""
    env = examples.env()
    action = load_policy(path, env)({"policy": OBSERVATION, "critic": OBSERVATION})
    env.step(action)
    return action


def differs(good: Path) -> Callable[[torch.Tensor], str]:
    """Whether a policy does something else than the valid one."""

    def wrong(action: torch.Tensor) -> str:
        return "" if torch.equal(action, acted(good / "policy")) else f"it acts {action[0].tolist()}"

    return wrong


def no_action(action: torch.Tensor) -> str:
    """Whether what a forged policy does is no action at all."""
    fits = tuple(action.shape) == (2, 4) and bool(torch.isfinite(action).all()) and float(action.abs().max()) <= 1.0
    return "" if fits else f"it acts {action.tolist()!s:.100}"


def resealed(path: Path, change: Callable[[Any], Any] = lambda document: document) -> None:
    """Let the document agree with the tensors beside it, as an attacker would."""
    data = (path / "state.safetensors").read_bytes()
    document = json.loads((path / "state.json").read_bytes())
    document.pop("sha256")
    document["tensors"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (path / "state.json").write_bytes(seal(change(document)))


def damaged_file(rng: random.Random, box: Box) -> Attempt:
    """Other bytes in one of its files: sums and the seal hold them."""
    path = box.copied("policy")
    file = rng.choice(mutate.files_of(path))
    data, how = mutate.damaged(file.read_bytes(), rng)
    file.write_bytes(data)
    return Attempt(f"{file.name}: {how}", lambda: acted(path), wrong=differs(box.good))


def replaced(rng: random.Random, box: Box) -> Attempt:
    """Something else in the place of a file or of the folder."""
    path = box.copied("policy")
    how = mutate.replaced(rng.choice([path, *mutate.files_of(path)]), rng, box.precious)
    return Attempt(how, lambda: acted(path), wrong=differs(box.good))


def forged_description(rng: random.Random, box: Box) -> Attempt:
    """Another value in what describes the policy, sealed again."""
    path = box.copied("policy")
    how: list[str] = []

    def change(document: Any) -> Any:
        new, said = mutate.edited(document, rng, ("meta",))
        how.append(said)
        return new

    resealed(path, change)
    return Attempt(how[0], lambda: acted(path), wrong=no_action)


def added_description(rng: random.Random, box: Box) -> Attempt:
    """Things in the description that this policy does not have: of other kinds, of suites, of environments."""
    path = box.copied("policy")
    additions: dict[str, Any] = {
        "identities": ["swarm/hover"], "task_encoding": "words", "needs": {"config": 1}, "format": 7, "structure": {},
        "memory": 128, "heads": 0, "own": -1, "stochastic": True, "kind": "vla", "cameras": ["front"],
    }  # fmt: skip
    name = rng.choice(sorted(additions))
    value = additions[name] if rng.random() < 0.5 else mutate.other_value(rng, additions[name])
    into = rng.choice(("meta", "policy"))

    def change(document: Any) -> Any:
        (document["meta"] if into == "meta" else document["meta"]["policy"])[name] = value
        return document

    resealed(path, change)
    act = rng.choice(
        (
            lambda: acted(path),
            lambda: call(
                "embodied.evaluate", examples.TASK, "--policy", str(path), "--episodes", "2", "--num-envs", "2"
            ),
        )
    )
    wrong = (lambda result: "") if name in ("kind",) else lambda r: no_action(r) if isinstance(r, torch.Tensor) else ""
    return Attempt(f"{into} has {name} {value!r:.60}", act, wrong=wrong)


def forged_tensors(rng: random.Random, box: Box) -> Attempt:
    """Tensors that are missing, renamed, of other shapes, types or values; their sums are right."""
    path = box.copied("policy")
    tensors = safetensors.torch.load_file(path / "state.safetensors")
    name = rng.choice(sorted(tensors))
    tensor = tensors[name]
    must = Must.REFUSE
    way = rng.choice(
        ("missing", "renamed", "longer", "empty", "transposed", "type", "nan", "inf", "one nan", "huge", "more")
    )
    if way == "missing":
        del tensors[name]
    elif way == "renamed":
        tensors[name.upper()] = tensors.pop(name)
    elif way == "longer":
        tensors[name] = torch.cat([tensor, tensor])
    elif way == "empty":
        tensors[name] = tensor[:0].clone()
    elif way == "transposed":
        tensors[name] = tensor[None].transpose(0, -1).contiguous()
    elif way == "type":
        kind = rng.choice((torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64, torch.uint8))
        tensors[name], must, way = tensor.to(kind), Must.EITHER, f"as {kind}"
    elif way in ("nan", "inf"):
        tensors[name] = torch.full_like(tensor, float(way))
        must = Must.EITHER if name.endswith(("log_std", "count")) else Must.REFUSE
    elif way == "one nan":
        tensors[name].view(-1)[rng.randrange(max(1, tensor.numel()))] = float("nan")
        must = Must.EITHER if name.endswith(("log_std", "count")) else Must.REFUSE
    elif way == "huge":
        tensors[name], must = torch.full_like(tensor, rng.choice((1e38, -1e38, 1e-45, 0.0))), Must.EITHER
    else:
        tensors["policy/extra"] = torch.zeros(3)
    safetensors.torch.save_file(tensors, path / "state.safetensors")
    resealed(path)
    return Attempt(f"{name} {way}", lambda: acted(path), must, no_action)


def forged_header(rng: random.Random, box: Box) -> Attempt:
    """Other shapes, types, offsets and lengths in the tensors' header; their sums are right."""
    path = box.copied("policy")
    file = path / "state.safetensors"
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, how = mutate.edited(json.loads(data[8 : 8 + length]), rng)
    written = json.dumps(header).encode()
    claimed = len(written)
    if rng.random() < 0.2:
        claimed = rng.choice((0, 1, 2**40, 2**64 - 1, len(written) + 1, 10**8 + 1))
        how += f", claims {claimed} bytes"
    file.write_bytes(claimed.to_bytes(8, "little") + written + data[8 + length :])
    resealed(path)
    return Attempt(how, lambda: acted(path), wrong=no_action)


def other_policy(rng: random.Random, box: Box) -> Attempt:
    """A policy of another task, by a name or a path, and names of none."""
    shutil.copytree(box.good / "policy", box.work / "mine")
    names = ("", "shiped", "expert2", "zero ", "mine/state.jsn", "mine/..", "no/such", "x.py", "x.py:f", "x.py:",
        ":f", "/dev/null",
             "assets", "random.", "\0", "a\nb", "~", "mt10", "x" * 5000)  # fmt: skip
    text = rng.choice(names)
    (box.work / "x.py").write_text("f = 3\n")
    return Attempt(
        f"policy {text[:40]!r}", lambda: acted(Path(text)) if rng.random() < 0.5 else acted(text), Must.REFUSE
    )  # type: ignore[arg-type]


def own_policy(rng: random.Random, box: Box) -> Attempt:
    """A user's function as a policy, which returns or raises anything."""
    bodies = ("None", "obs", "'left'", "torch.zeros(2, 3)", "torch.zeros(4)", "torch.full((2, 4), float('nan'))",
        "np.zeros((2, 4))", "[0] * 4",
              "1 / 0", "torch.zeros(2, 4, dtype=torch.int64)", "torch.zeros(2, 4).to_sparse()",
              "torch.zeros(2, 4, device='meta')",
              "obs['nothing']", "exec('raise SystemExit(3)')", "exec('raise KeyboardInterrupt')", "policy(obs)",
              "torch.zeros(2, 4, 1)",
              "torch.zeros(2, 4, dtype=torch.complex64)", "exec('raise GeneratorExit')", "(_ for _ in ())",
              "torch.ones(2, 4) * 1e30")  # fmt: skip
    body = rng.choice(bodies)
    name = f"own_{rng.randrange(10**9)}"
    text = f"import numpy as np\nimport torch\n\ndef policy(obs):\n    return {body}\n"
    (box.work / f"{name}.py").write_text(text)
    words = (examples.TASK, "--policy", f"{name}.py:policy", "--episodes", "2", "--num-envs", "2")
    valid = body.endswith("1e30") or body == "np.zeros((2, 4))"
    return Attempt(f"returns {body}", lambda: call("embodied.evaluate", *words), Must.EITHER if valid else Must.REFUSE)


def damaged_bundle(rng: random.Random, box: Box) -> Attempt:
    """A bundle of which one byte is another, a file is missing or more: it is refused."""
    path = box.copied("bundle")
    file = rng.choice(mutate.files_of(path))
    if rng.random() < 0.5:
        data, how = mutate.damaged(file.read_bytes(), rng)
        how = f"{file.name}: {how}"
        same = data == file.read_bytes()
        file.write_bytes(data)
    else:
        how, same = mutate.replaced(file, rng, box.precious), False
    return Attempt(how, lambda: bundle.load(path), Must.EITHER if same else Must.REFUSE)


def forged_contract(rng: random.Random, box: Box) -> Attempt:
    """A bundle's contract with another value, its manifest made to agree."""
    path = box.copied("bundle")
    file = path / rng.choice(("contract.json", "manifest.json", "golden.csv"))
    how = ["a cell"]

    def change(document: Any) -> Any:
        new, said = mutate.edited(document, rng)
        how[0] = said
        return new

    if file.suffix == ".csv":
        rows = [line.split(",") for line in file.read_text().splitlines()]
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(("", "nan", "1e999", "x", "9" * 400, '"'))
        file.write_text("\n".join(",".join(row) for row in rows))
    else:
        mutate.rewritten(file, change)
    if file.name != "manifest.json":
        manifest = json.loads((path / "manifest.json").read_text())
        data = file.read_bytes()
        manifest["files"][file.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest.pop("sha256")
        (path / "manifest.json").write_bytes(seal(manifest))
    return Attempt(f"{file.name}: {how[0]}", lambda: bundle.load(path), Must.REFUSE)


def forged_demonstrations(rng: random.Random, box: Box) -> Attempt:
    """Steps that are not whole, finite, of the right sizes, or no actions at all."""
    steps = 6
    tensors = {
        "action": torch.zeros(steps, 4), "reward": torch.zeros(steps), "terminated": torch.zeros(steps,
        dtype=torch.bool),
        "truncated": torch.tensor([False, False, True] * 2), "source": torch.zeros(steps, dtype=torch.int64),
        **{f"{kind}/{group}": torch.zeros(steps, *spec.shape) for kind in ("obs", "next_obs")
           for group, spec in examples.env().observation_spec.items()},
    }  # fmt: skip
    name = rng.choice(sorted(tensors))
    tensor, must = tensors[name], Must.REFUSE
    way = rng.choice(("missing", "shorter", "wider", "nan", "huge", "none", "complex", "scalar", "valid"))
    if way == "missing":
        del tensors[name]
    elif way == "shorter":
        tensors[name] = tensor[:-1].clone()
    elif way == "wider":
        tensors[name] = torch.stack([tensor, tensor], -1)
    elif way in ("nan", "huge"):
        tensors[name] = torch.full(tensor.shape, float("nan") if way == "nan" else 1e30)
    elif way == "none":
        tensors = {key: value[:0].clone() for key, value in tensors.items()}
    elif way == "complex":
        tensors[name] = tensor.to(torch.complex64)
    elif way == "scalar":
        tensors[name] = torch.zeros(())
    else:
        must = Must.WORK
    path = box.work / "demos.safetensors"
    safetensors.torch.save_file(tensors, path)
    env = examples.env()

    def read() -> Any:
        loaded = demonstrations.load(path, env.observation_spec, env.action_size)
        return loaded, demonstrations.load_source(path)

    return Attempt(f"{name} {way}", read, must)


def forged_states(rng: random.Random, box: Box) -> Attempt:
    """Initial states of another task, of other sizes, not finite, or with weights that are none."""
    task = examples.env().task
    import jax

    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    buffer = initial_states.InitialStateBuffer(jax.vmap(task.reset)(keys), np.ones(4))
    path = box.work / "states.safetensors"
    initial_states.save(path, buffer)
    tensors = safetensors.torch.load_file(path)
    name = rng.choice(sorted(tensors))
    tensor, must = tensors[name], Must.REFUSE
    way = rng.choice(("missing", "shorter", "nan", "type", "negative", "zero", "more", "valid", "none"))
    floating = tensor.is_floating_point()
    if way == "missing":
        del tensors[name]
        must = Must.EITHER if name == initial_states.WEIGHT else must
    elif way == "shorter":
        tensors[name] = tensor[:-1].clone()
    elif way == "nan" and floating:
        tensors[name] = torch.full_like(tensor, float("nan"))
    elif way == "type":
        tensors[name] = tensor.to(torch.int16)
    elif way == "negative":
        tensors[initial_states.WEIGHT] = -torch.ones(4, dtype=torch.float64)
    elif way == "zero":
        tensors[initial_states.WEIGHT] = torch.zeros(4, dtype=torch.float64)
    elif way == "none":
        tensors = {key: value[:0].clone() for key, value in tensors.items()}
    elif way == "more":
        tensors["other"] = torch.zeros(4)
    else:
        way, must = "valid", Must.WORK
    safetensors.torch.save_file(tensors, path)

    def read() -> Any:
        return initial_states.InitialStates(task, initial_states.load(path, task))

    return Attempt(f"{name} {way}", read, must)


KINDS: Kinds = {
    "damaged file": damaged_file,
    "something in its place": replaced,
    "forged description": forged_description,
    "added description": added_description,
    "forged tensors": forged_tensors,
    "forged header": forged_header,
    "no such policy": other_policy,
    "own policy": own_policy,
    "damaged bundle": damaged_bundle,
    "forged contract": forged_contract,
    "forged demonstrations": forged_demonstrations,
    "forged initial states": forged_states,
}
