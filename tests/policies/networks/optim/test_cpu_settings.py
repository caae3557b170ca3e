"""CPU settings of long trainings: progress, rounded matrix products, memory that stays."""

import platform

import torch

from policies.networks.optim.cpu_settings import announced, keep_freed_memory, products


def test_a_long_phase_says_how_far_it_is(monkeypatch, capsys):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("policies.networks.optim.cpu_settings.time.monotonic", lambda: next(clock))
    assert list(announced(4, "offline updates")) == [0, 1, 2, 3]
    assert capsys.readouterr().err.splitlines() == ["offline updates: 2 of 4", "offline updates: 4 of 4"]


def test_products_are_rounded_within_and_exact_after():
    a, b = torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(0))
    exact = a @ b
    with products(rounded=True):
        assert torch.get_float32_matmul_precision() == "medium"
        torch.testing.assert_close(a @ b, exact, atol=0.3, rtol=0.02)
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.equal(a @ b, exact)
    with products(rounded=False):
        assert torch.get_float32_matmul_precision() == "highest"


def test_memory_is_kept_where_the_c_library_can_be_told():
    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
