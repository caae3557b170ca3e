"""Nothing is collected while Warp records kernels, and it says nothing of what it loads."""

from __future__ import annotations

import gc

import pytest

from embodied.engines.mjx.warp_library import import_warp, without_collection


class Recording:
    """A capture that says whether the collector was on when it began and ended."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.seen = fails, []

    def __enter__(self):
        self.seen.append(gc.isenabled())
        if self.fails:
            raise RuntimeError("stream is capturing")
        return self

    def __exit__(self, *raised):
        self.seen.append(gc.isenabled())


def test_the_collector_is_off_within_and_as_before_after():
    with without_collection(Recording)() as capture:
        assert not gc.isenabled()
    assert capture.seen == [False, False]
    assert gc.isenabled()


def test_a_capture_that_does_not_begin_leaves_it_on():
    with pytest.raises(RuntimeError, match="capturing"), without_collection(Recording)(fails=True):
        pass
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off():
    gc.disable()
    try:
        with without_collection(Recording)():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_captures_of_warps_callables_are_of_this_kind(capfd):
    warp = import_warp()
    assert import_warp().ScopedCapture is warp.ScopedCapture
    from warp._src.jax import ffi  # where MJX's kernels are captured: by this name, at their first call

    assert vars(ffi)["wp"].ScopedCapture is warp.ScopedCapture
    warp.zeros(1, device="cpu")
    assert "initialized" not in "".join(capfd.readouterr())
