"""Signals are remembered, and what was ignored stays ignored."""

import signal

import pytest

from embodied.cli.interrupts import SIGNALS, Interrupts


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_remembered(number):
    before = signal.signal(number, signal.SIG_DFL)  # whoever started the tests in the background may ignore it
    try:
        with Interrupts() as interrupts:
            assert interrupts.signal is None
            signal.raise_signal(number)
            assert interrupts.signal == signal.Signals(number).name
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
            assert interrupts.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)
