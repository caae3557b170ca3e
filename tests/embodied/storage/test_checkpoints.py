import errno
import json
import math
import os
import shutil
from pathlib import Path

import pytest
import torch

import embodied
from embodied.errors import CheckpointError
from embodied.storage import checkpoints
from embodied.storage.checkpoints import STATE, TENSORS, latest, load, prune, save, set_aside, steps
from embodied.storage.runs import Run

DTYPES = [getattr(torch, name) for name in sorted(checkpoints.DTYPES)]
META = {
    "task": "swarm/hover",
    "nested": {"list": [1, 2.5, None, True], "text": "ü\ud800"},
    "big": 2**200,
    "tiny": 5e-324,
}


def bits(tensor: torch.Tensor) -> tuple[torch.dtype, tuple[int, ...], bytes]:
    """Everything that makes two tensors the same, NaN payloads included."""
    flat = tensor.contiguous().reshape(-1)
    return tensor.dtype, tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def refusal(path: Path) -> str:
    """The message with which a checkpoint is refused, without its path."""
    with pytest.raises(CheckpointError) as raised:
        load(path)
    message = str(raised.value)
    assert "\n" not in message
    return message.removeprefix(f"checkpoint '{path}': ")


@pytest.fixture
def two(tmp_path):
    """A folder with checkpoints 100 and 200."""
    for step in (100, 200):
        save(tmp_path, step, {"weight": torch.full((100,), step, dtype=torch.float32)}, {"step": step})
    return tmp_path


def reseal(path: Path, **changes) -> None:
    """Change `state.json` and its digest with it, as another version of the program would write it."""
    document = json.loads((path / STATE).read_text())
    del document["sha256"]
    (path / STATE).write_bytes(checkpoints.seal({**document, **changes}))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (17,), (2, 3, 4)], ids=str)
def test_every_dtype_and_shape_comes_back_bit_for_bit(shape, tmp_path):
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for dtype in DTYPES:
        raw = torch.randint(0, 256, (math.prod(shape) * dtype.itemsize,), dtype=torch.uint8, generator=generator)
        # A boolean has but two valid bytes; every other type takes any bits, NaN payloads and subnormals among them.
        tensors[str(dtype)] = (raw % 2).bool().reshape(shape) if dtype == torch.bool else raw.view(dtype).reshape(shape)
    loaded = load(save(tmp_path, 0, tensors, META))
    assert {name: bits(t) for name, t in loaded.tensors.items()} == {name: bits(t) for name, t in tensors.items()}
    assert loaded.meta == META
    assert (loaded.step, loaded.path) == (0, tmp_path / "000000000000")


def test_nothing_to_save_is_a_checkpoint_too(tmp_path):
    loaded = load(save(tmp_path, 1, {}, {}))
    assert (loaded.tensors, loaded.meta) == ({}, {})


def test_non_finite_metadata_and_tuples(tmp_path):
    meta = load(save(tmp_path, 1, {}, {"best": -math.inf, "mean": math.nan, "shape": (1, 2)})).meta
    assert meta["best"] == -math.inf
    assert math.isnan(meta["mean"])
    assert meta["shape"] == [1, 2]


def test_views_shared_memory_and_gradients_are_stored_as_values(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    parameter = torch.nn.Parameter(base.clone())
    tensors = {"a": base, "b": base, "t": base.T, "row": base[1], "step": base[:, ::2], "p": parameter, "c": base + 1j}
    tensors["c"] = tensors["c"].conj()
    loaded = load(save(tmp_path, 1, tensors, {})).tensors
    assert {name: bits(t) for name, t in loaded.items()} == {
        name: bits(t.detach().resolve_conj()) for name, t in tensors.items()
    }


def test_loaded_tensors_are_independent_of_the_file(two):
    path = two / "000000000200"
    loaded, changed = (load(path).tensors["weight"] for _ in range(2))
    changed.fill_(0)
    assert torch.all(load(path).tensors["weight"] == 200)
    with (path / TENSORS).open("rb+") as file:
        file.write(b"\0" * (path / TENSORS).stat().st_size)
    assert torch.all(loaded == 200)


def test_nothing_is_overwritten(two):
    with pytest.raises(CheckpointError) as raised:
        save(two, 200, {}, {})
    assert str(raised.value) == f"checkpoint '{two}/000000000200' exists already; nothing was overwritten"
    assert load(two / "000000000200").meta == {"step": 200}
    assert sorted(p.name for p in two.iterdir()) == ["000000000100", "000000000200"]


@pytest.mark.parametrize(
    ("tensors", "meta", "message"),
    [
        ({"a": [1]}, {}, "'a' is a list, expected a tensor; use flatten()"),
        ({"a": torch.zeros(1, dtype=torch.complex128)}, {}, "'a' is complex128 strided on cpu; checkpoints hold dense"),
        ({"a": torch.eye(2).to_sparse()}, {}, "'a' is float32 sparse_coo on cpu; checkpoints hold dense tensors"),
        ({"a": torch.zeros(1, device="meta")}, {}, "'a' is float32 strided on meta; checkpoints hold dense tensors"),
        ({"__metadata__": torch.zeros(1)}, {}, "cannot store a tensor named '__metadata__'; names are strings"),
        ({1: torch.zeros(1)}, {}, "cannot store a tensor named 1; names are strings"),
        ({}, {"a": [{"b": torch.zeros(1)}]}, "meta/a/0/b is a Tensor; expected JSON (arrays belong among the tensors)"),
        ({}, {"a": {1: 2}}, "meta/a has the key 1 of type int; keys are strings"),
    ],
)
def test_save_refuses_by_name_and_leaves_no_trace(tensors, meta, message, tmp_path):
    with pytest.raises(CheckpointError) as raised:
        save(tmp_path / "checkpoints", 1, tensors, meta)
    assert str(raised.value).startswith(message)
    with pytest.raises(CheckpointError, match="step -1 is negative; steps count from 0"):
        save(tmp_path / "checkpoints", -1, {}, {})
    assert list(tmp_path.iterdir()) == []


def test_steps_sort_as_numbers_and_pass_over_the_rest(tmp_path):
    for step in (10**12, 5, 10**12 - 1):
        save(tmp_path, step, {}, {})
    for other in (".tmp-000000000007-x", "7", "000000000006.aside-1", "0000000000008", "notes"):
        (tmp_path / other).mkdir()
    assert steps(tmp_path) == [5, 10**12 - 1, 10**12]
    assert latest(tmp_path) == tmp_path / "1000000000000"
    assert steps(tmp_path / "absent") == []
    assert latest(tmp_path / "absent") is None


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 60, 200, -1])
def test_truncated_tensors(size, two):
    path = two / "000000000200"
    whole = (path / TENSORS).stat().st_size
    os.truncate(path / TENSORS, size % whole)
    assert refusal(path) == (
        f"{TENSORS} is truncated or edited: it has {size % whole} bytes, expected {whole}; steps beside it: 100"
    )


def test_every_flipped_byte_is_noticed(tmp_path):
    path = save(tmp_path, 7, {"w": torch.arange(5)}, {"lr": 0.1})
    for name in (TENSORS, STATE):
        whole = (path / name).read_bytes()
        for position in range(len(whole)):
            flipped = bytearray(whole)
            flipped[position] ^= 0x10
            if name == STATE and chr(whole[position]).isspace() and chr(flipped[position]).isspace():
                continue
            (path / name).write_bytes(flipped)
            assert refusal(path).endswith("; no other checkpoint is beside it")
        (path / name).write_bytes(whole)
    assert load(path).meta == {"lr": 0.1}


def test_every_truncated_state_is_noticed(tmp_path):
    path = save(tmp_path, 7, {}, {"lr": 0.1})
    whole = (path / STATE).read_bytes()
    for size in range(len(whole) - 2):  # Without its final newline the document is still whole.
        (path / STATE).write_bytes(whole[:size])
        assert refusal(path).startswith(f"{STATE} is truncated or edited: not JSON (")
        assert f"; {size} bytes)" in refusal(path)


def edit_step(path: Path) -> None:
    (path / STATE).write_text((path / STATE).read_text().replace('"step": 200', '"step": 300'))


FOREIGN = f"{STATE} is not written by embodied for a checkpoint: it lacks the key 'format';"
DAMAGES = {
    "an edited state": (edit_step, f"{STATE} is edited after it was written: its sha256 is "),
    "tensors of another step": (
        lambda path: shutil.copy(path.parent / "000000000100" / TENSORS, path / TENSORS),
        f"{TENSORS} is edited: its sha256 is ",
    ),
    "no state": (lambda path: (path / STATE).unlink(), f"expected {STATE} and {TENSORS}, found {TENSORS};"),
    "no tensors": (lambda path: (path / TENSORS).unlink(), f"expected {STATE} and {TENSORS}, found {STATE};"),
    "nothing": (
        lambda path: [file.unlink() for file in path.iterdir()],
        f"expected {STATE} and {TENSORS}, found nothing;",
    ),
    "another version": (
        lambda path: reseal(path, format=2, embodied="9.9"),
        f"{STATE} is written in checkpoint format 2 by embodied 9.9; this is embodied {embodied.__version__}, "
        "which reads format 1;",
    ),
    "a list": (lambda path: (path / STATE).write_text("[]"), FOREIGN),
    "an empty document": (lambda path: (path / STATE).write_text("{}"), FOREIGN),
    "an empty state": (
        lambda path: (path / STATE).write_text(""),
        f"{STATE} is truncated or edited: not JSON (Expecting value, line 1; 0 bytes);",
    ),
    "a document without sizes": (lambda path: reseal(path, tensors={}), f"{STATE} lacks the key 'bytes';"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_told_with_the_steps_that_are_left(damage, two):
    path = two / "000000000200"
    change, said = DAMAGES[damage]
    change(path)
    message = refusal(path)
    assert message.startswith(said)
    assert message.endswith("; steps beside it: 100")


def test_missing_checkpoint(two):
    assert refusal(two / "000000000300") == (
        f"checkpoint '{two}/000000000300' does not exist, expected a folder; steps beside it: 100, 200"
    )
    assert refusal(two / "000000000200" / STATE).endswith(
        "is a file, expected a folder; no other checkpoint is beside it"
    )
    assert refusal(two) == f"expected {STATE} and {TENSORS}, found 000000000100, 000000000200; " + (
        "it holds the steps 100, 200: name one of them"
    )


def test_renamed_checkpoint(two):
    path = (two / "000000000200").rename(two / "000000000300")
    assert refusal(path) == f"its folder was renamed: {STATE} says step 200; steps beside it: 100"
    copy = shutil.copytree(two / "000000000100", two / "best")  # A name that claims no step is fine.
    assert load(copy).step == 100


def test_latest_warns_about_what_it_skips(two):
    os.truncate(two / "000000000200" / TENSORS, 5)
    with pytest.warns(UserWarning, match="skipped: checkpoint .*000000000200.* truncated"):
        assert latest(two) == two / "000000000100"


def test_prune_keeps_the_newest(tmp_path):
    for step in range(5):
        save(tmp_path, step, {}, {})
    assert prune(tmp_path, keep=2) == [0, 1, 2]
    assert prune(tmp_path, keep=2) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000000003", "000000000004"]
    with pytest.raises(CheckpointError, match="cannot keep 0 checkpoints; keep at least 1"):
        prune(tmp_path, keep=0)


def test_prune_never_removes_the_newest_that_loads(tmp_path):
    for step in range(4):
        save(tmp_path, step, {}, {})
    for step in (2, 3):
        (tmp_path / checkpoints.name_of(step) / STATE).unlink()
    with pytest.warns(UserWarning, match="skipped"):
        assert prune(tmp_path, keep=1) == [0, 2]
    assert steps(tmp_path) == [1, 3]


def test_set_aside_keeps_the_files(two):
    (moved,) = set_aside(two, after=100)
    assert steps(two) == [100]
    assert load(moved).step == 200
    assert moved.name.startswith("000000000200.aside-")
    save(two, 200, {}, {})


def test_remains_of_killed_processes_are_swept(two):
    stale = two / ".tmp-000000000300-abc"
    stale.mkdir()
    (stale / TENSORS).write_bytes(b"half")
    assert latest(two) == two / "000000000200"
    save(two, 300, {}, {})
    assert not stale.exists()
    assert steps(two) == [100, 200, 300]


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("stage", ["_write_tensors", "_fingerprint", "write_synced", "sync_folder"])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full disk", "interrupt"])
def test_what_fails_leaves_everything_earlier_intact_and_no_trace(error, stage, two, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(checkpoints, stage, fail)
    with pytest.raises((CheckpointError, KeyboardInterrupt)) as raised:
        save(two, 300, {"w": torch.zeros(3)}, {})
    monkeypatch.undo()
    if error is FULL:
        assert str(raised.value) == (
            f"cannot save checkpoint '{two}/000000000300': No space left on device; "
            "earlier checkpoints are intact: 100, 200"
        )
    assert sorted(p.name for p in two.iterdir()) == ["000000000100", "000000000200"]
    assert latest(two) == two / "000000000200"


def test_really_full_disk(full_disk):
    small, large = {"w": torch.ones(1000)}, {"w": torch.ones(100_000)}
    save(full_disk, 1, small, {})
    for tensors, meta in ((large, {}), (small, {"text": "x" * 60_000})):
        with pytest.raises(CheckpointError) as raised:
            save(full_disk, 2, tensors, meta)
        assert str(raised.value).startswith(f"cannot save checkpoint '{full_disk}/000000000002': ")
        assert "No space left on device" in str(raised.value)
        assert str(raised.value).endswith("; earlier checkpoints are intact: 1")
        assert [p.name for p in full_disk.iterdir()] == ["000000000001"]
    assert torch.equal(load(full_disk / "000000000001").tensors["w"], small["w"])
    save(full_disk, 2, small, {})  # The space the failed attempts took is free again.


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError) as raised:
        save(tmp_path / "file" / "checkpoints", 1, {}, {})
    assert str(raised.value) == (
        f"cannot save checkpoint '{tmp_path}/file/checkpoints/000000000001': Not a directory; none existed yet"
    )


def save_in(run: Run, step: int) -> None:
    """Log and save one step, whose content can be told from its number."""
    run._metrics._append(b'{"step": %d}\n' % step)  # without TensorBoard, whose thread goes on after an end
    run.save(step, {"a": torch.full((1000,), step), "b": torch.zeros(0)}, {"step": step})
    prune(run.checkpoints, keep=3)


def verify(run: Run, at_least: int) -> int:
    """Check that every checkpoint loads, and that the newest is no older than the last one acknowledged."""
    for step in steps(run.checkpoints):
        run.load(step)
    found = Run.open(run.path).load()
    assert found.step >= at_least, (found.step, at_least)
    assert found.meta == {"step": found.step}
    assert torch.all(found.tensors["a"] == found.step)
    logged = [record["step"] for record in run.metrics()]
    assert max(logged) >= found.step, (logged, found.step)
    return found.step


class Killed(BaseException):
    """Stands for a kill: from one call to the file system on, none is carried out, those that clean up included."""


def die_at_call(patch: pytest.MonkeyPatch, number: int) -> None:
    done = 0

    def stopping(function):
        def called(*args, **kwargs):
            nonlocal done
            done += 1
            if done >= number:
                raise Killed
            return function(*args, **kwargs)

        return called

    for name in ("mkdir", "fsync", "rename", "replace", "unlink", "rmdir"):
        patch.setattr(os, name, stopping(getattr(os, name)))
    patch.setattr(checkpoints, "_write_tensors", stopping(checkpoints._write_tensors))


def test_an_end_at_any_call_leaves_a_loadable_checkpoint(tmp_path, monkeypatch):
    """Real kills are those of a training, in `test_train.py`."""
    run = Run.create(tmp_path, "test/kill", {})
    for step in (1, 2, 3):
        save_in(run, step)
    step, calls, killed = 3, 0, True
    while killed:
        with monkeypatch.context() as patch:
            die_at_call(patch, calls + 1)
            try:
                save_in(run, step + 1)
                killed = False
            except Killed:
                calls += 1
        step = verify(run, at_least=step if killed else step + 1)
    assert calls >= 12  # mkdir, write, three syncs, rename, two syncs, and those of pruning
    save_in(run, step + 1)
    assert not [path.name for path in run.checkpoints.iterdir() if path.name.startswith(".tmp-")]
