"""Live curves of the page: reward terms, the command and the robot's response to it, and how a run has learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import viser
from viser import uplot

LENGTH = 300  # control steps in a plot
PALETTE = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#888888")
ASPECT = 1.4  # width by height
TOLD = "command: "  # before the name of a curve that is not measured


@dataclasses.dataclass(frozen=True)
class History:
    """The last control steps of the environment that is watched.

    A step makes another history and leaves this one as it is, so that any thread may read one while others step.
    """

    seconds: tuple[float, ...] = ()
    """s since the episode began."""
    terms: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    """Reward term -> its weighted value of each step."""
    commands: tuple[np.ndarray, ...] = ()
    """(k,) numbers of `Operator.ranges` that held."""
    responses: tuple[np.ndarray, ...] = ()
    """(k,) what the robot did, NaN where unknown."""

    def after(self, seconds: float, terms: Mapping[str, float], command: np.ndarray, response: np.ndarray) -> History:
        """The history with one step more, and without those that are too long ago."""
        return History(
            _later(self.seconds, seconds),
            {name: _later(self.terms.get(name, ()), value) for name, value in terms.items()},
            _later(self.commands, command),
            _later(self.responses, response),
        )

    def followed(self, names: Sequence[str], units: Sequence[str]) -> dict[str, Sequence[float]]:
        """Curves of the command and of what the robot did; of numbers in the first one's unit only."""
        curves: dict[str, Sequence[float]] = {}
        for number, (name, unit) in enumerate(zip(names, units, strict=True)):
            if unit == units[0]:
                curves[TOLD + name] = [command[number] for command in self.commands]
                curves[name] = [response[number] for response in self.responses]
        return curves


def _later(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    return (*values[1 - LENGTH :], value)


class Plots:
    """Plots by title, each in a folder of the panel."""

    def __init__(self, gui: viser.GuiApi) -> None:
        """None at first."""
        self._gui = gui
        self._handles: dict[str, Any] = {}

    def clear(self) -> None:
        """Take all plots down."""
        for handle in self._handles.values():
            handle.remove()
        self._handles = {}

    def show(
        self, title: str, folder: Any, x: Sequence[float], curves: Mapping[str, Sequence[float]], dashed: str = "\0"
    ) -> None:
        """Draw curves over x, or renew those of that title; curves whose names begin with `dashed` are dashed."""
        shortest = min(len(x), *(len(values) for values in curves.values()))
        data = tuple(np.array(values, float)[-shortest:] for values in (x, *curves.values()))
        if title in self._handles:
            self._handles[title].data = data
            return
        colours: dict[str, str] = {}
        series = [uplot.Series(label="s")]
        for name in curves:
            colour = colours.setdefault(name.removeprefix(dashed), PALETTE[len(colours) % len(PALETTE)])
            line: uplot.Series = {"label": name, "stroke": colour, "width": 2}
            if name.startswith(dashed):
                line["dash"] = (4, 4)
            series.append(line)
        with folder:
            self._handles[title] = self._gui.add_uplot(
                data,
                tuple(series),
                title=title,
                scales={"x": uplot.Scale(time=False)},
                aspect=ASPECT,
                legend={"live": False},
            )
