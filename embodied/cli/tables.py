"""Tables of results: in columns on a terminal, a line for each row elsewhere, so that other programs can read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Columns
from rich.text import Text

from embodied.cli.commands import as_called
from embodied.cli.terminal import output

Cell = str | Text
GAP = 2  # blanks between columns
NARROWEST = 16  # characters of a column of prose


@dataclasses.dataclass(frozen=True)
class Table:
    """A title, headings, and rows of cells."""

    title: str
    rows: tuple[tuple[Cell, ...], ...]
    headings: tuple[str, ...] = ()
    """Of every column; or none at all."""
    right: tuple[int, ...] = ()
    """Numbers of the columns that are flush right: figures."""
    prose: tuple[int, ...] = ()
    """Numbers of the columns that are wrapped where a terminal is narrow; the others stay in one line."""
    sections: tuple[int, ...] = ()
    """Numbers of the rows before which a terminal shows a blank line."""

    def plain(self) -> str:
        """The table for a pipe or a file: cells apart by tabs, nothing filled up, wrapped or coloured."""
        rows = [*([self.headings] if self.headings else []), *self.rows]
        lines = ["\t".join(" ".join(_plain(cell).split()) for cell in row) for row in rows]
        return "\n".join([*([self.title] if self.title else []), *lines])

    def drawn(self, width: int) -> RenderableType:
        """The table for a terminal of so many columns.

        Where columns that may not be wrapped do not fit side by side, every row becomes a paragraph.
        """
        title = [Text(self.title, "bold")] if self.title else []
        cells = [*([self.headings] if self.headings else []), *self.rows]
        widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
        least = [min(size, NARROWEST) if number in self.prose else size for number, size in enumerate(widths)]
        fits = sum(least) + GAP * (len(least) - 1) <= width
        return Group(*title, self._columns() if fits else self._paragraphs())

    def _columns(self) -> RenderableType:
        table = Columns(
            box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=bool(self.headings), header_style="dim"
        )
        for number in range(len(self.rows[0]) if self.rows else 0):
            table.add_column(
                self.headings[number] if self.headings else "",
                justify="right" if number in self.right else "left",
                no_wrap=number not in self.prose,
                overflow="fold",
            )
        for number, row in enumerate(self.rows):
            if number in self.sections:
                table.add_row()
            table.add_row(*map(_text, row))
        return table

    def _paragraphs(self) -> RenderableType:
        """The first cell of each row, and below it the others by their headings."""
        lines: list[RenderableType] = []
        names = self.headings or ("",) * (len(self.rows[0]) if self.rows else 0)
        for row in self.rows:
            lines.append(_text(row[0]))
            for name, cell in zip(names[1:], row[1:], strict=True):
                said = Text.assemble((f"{name} " if name else "", "dim"), _text(cell))
                lines += [Padding(said, (0, 0, 0, GAP))] if _width(cell) else []
        return Group(*lines)


def table(title: str, rows: Mapping[str, Cell]) -> Table:
    """Two columns: name and value."""
    return Table(title, tuple(rows.items()), prose=(1,))


def show(*results: Table | Text | str) -> None:
    """Print results to standard output: tables, and lines that stay whole however long they are.

    Lines name commands as they were typed.
    """
    screen = output()
    for shown in results:
        result = as_called(shown) if isinstance(shown, str) else shown
        if not screen.is_terminal:
            print(result.plain() if isinstance(result, Table) else _plain(result))
        elif isinstance(result, Table):
            screen.print(result.drawn(screen.width))
        else:
            screen.print(result, soft_wrap=True, markup=False, emoji=False)


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _plain(cell: Cell) -> str:
    return cell.plain if isinstance(cell, Text) else cell


def _width(cell: Cell) -> int:
    """Columns that a cell takes in one piece: those of its longest line."""
    return max(map(cell_len, _plain(cell).splitlines()), default=0)
