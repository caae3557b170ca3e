"""Waveforms that excite joints over a band of frequencies: chirps and multi-sines, bounded in amplitude and speed."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import numpy as np

from embodied.errors import EmbodiedError

GOLDEN = 2.399963  # rad, the golden angle: phases that are multiples of it never bunch
TONES = 10  # frequencies of a multi-sine per joint, our choice


class Waveform(StrEnum):
    """Excitation signal of a joint."""

    CHIRP = "chirp"
    """A sine whose frequency rises and falls, as many octaves per second throughout."""
    MULTISINE = "multisine"
    """A sum of sines at once, no two joints with one in common."""


class Order(StrEnum):
    """Which joints move when."""

    ALL = "all"
    """All at once, distinguished by where in the band they are."""
    EACH = "each"
    """One after the other, each for the whole time."""


class Motion(Protocol):
    """A movement about the centre, to be scaled."""

    def __call__(self, amplitude: np.ndarray, speed: np.ndarray) -> np.ndarray:
        """(t, n) rad within amplitudes (n,) rad and, in the middle of the band, speeds (n,) rad/s."""
        ...


def motion(
    waveform: Waveform, time: np.ndarray, joints: int, band: tuple[float, float], order: Order, ramp: float
) -> Motion:
    """The movement of all joints.

    Args:
        waveform: Of each joint.
        time: (t,) s at an even rate from 0; one after the other, each joint gets an equal part.
        joints: How many.
        band: Hz, lowest and highest frequency.
        order: Which joints move when.
        ramp: s over which each joint's movement grows from nothing, and fades.
    """
    if order is Order.ALL:
        window = fade(time, ramp)[:, None]
        moved = PLAYERS[waveform](time, np.arange(joints), joints, band)
        return lambda amplitude, speed: window * moved(amplitude, speed)
    parts = np.array_split(np.arange(len(time)), joints)
    players = [PLAYERS[waveform](time[: len(part)], np.zeros(1, int), 1, band) for part in parts]

    def one_by_one(amplitude: np.ndarray, speed: np.ndarray) -> np.ndarray:
        result = np.zeros((len(time), joints))
        for joint, (part, player) in enumerate(zip(parts, players, strict=True)):
            window = fade(time[: len(part)], ramp)
            result[part, joint] = window * player(amplitude[[joint]], speed[[joint]])[:, 0]
        return result

    return one_by_one


def fade(time: np.ndarray, ramp: float) -> np.ndarray:
    """(t,) 0 at both ends and 1 in between, twice differentiable. Source: Flash and Hogan 1985, minimum jerk."""
    share = np.clip(np.minimum(time - time[0], time[-1] - time) / ramp, 0.0, 1.0) if ramp > 0 else np.ones_like(time)
    return share**3 * (10 - 15 * share + 6 * share**2)


def _chirps(time: np.ndarray, joints: np.ndarray, count: int, band: tuple[float, float]) -> Motion:
    """Once up and down the band in logarithmic steps; joints begin at even distances along this way.

    So two joints hardly ever have the same frequency, and their responses can be separated.
    """
    low, high = band
    way = np.mod((time - time[0])[:, None] / max(time[-1] - time[0], 1e-9) + joints / count, 1.0)
    frequency = low * (high / low) ** (1 - np.abs(1 - 2 * way))
    step = time[1] - time[0] if len(time) > 1 else 0.0
    phase = 2 * np.pi * np.cumsum(frequency, axis=0) * step + GOLDEN * joints
    wave, omega = np.sin(phase), 2 * np.pi * frequency

    def moved(amplitude: np.ndarray, speed: np.ndarray) -> np.ndarray:
        # The fourth power joins the two bounds smoothly: .84 of either where they meet.
        return wave * ((1 / amplitude) ** 4 + (omega / speed) ** 4) ** -0.25

    return moved


def _multisines(time: np.ndarray, joints: np.ndarray, count: int, band: tuple[float, float]) -> Motion:
    """Sums of harmonics of the whole duration, dealt to the joints in turn.

    Phases after Schroeder, "Synthesis of low-peak-factor signals", IEEE Trans. Information Theory 16 (1970).
    """
    length = max(time[-1] - time[0], 1e-9)
    first, last = max(1, round(band[0] * length)), max(2, round(band[1] * length))
    harmonics = np.unique(np.round(np.geomspace(first, last, TONES * count)).astype(int))
    if len(harmonics) < count:
        raise EmbodiedError(
            f"a multisine of {length:.3g} s has {len(harmonics)} frequencies from {band[0]:g} to {band[1]:g} Hz; "
            f"expected one or more of each of {count} joints: play it longer, or in a wider band"
        )
    waves, omegas = [], []
    for joint in joints:
        own = harmonics[joint::count]
        phases = -np.pi * np.arange(len(own)) * (np.arange(len(own)) + 1) / len(own)
        omega = 2 * np.pi * own / length
        waves.append(np.sin(np.outer(time - time[0], omega) + phases))
        omegas.append(omega)

    def moved(amplitude: np.ndarray, speed: np.ndarray) -> np.ndarray:
        columns = []
        for wave, omega, high, fast in zip(waves, omegas, amplitude, speed, strict=True):
            column = wave @ (1 / (1 / high + omega / fast))
            peak_speed = np.abs(np.gradient(column, time)).max()
            columns.append(column * min(high / np.abs(column).max(), fast / peak_speed))
        return np.stack(columns, 1)

    return moved


PLAYERS = {Waveform.CHIRP: _chirps, Waveform.MULTISINE: _multisines}
"""Waveform -> what computes it."""
