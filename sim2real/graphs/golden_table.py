"""A table of golden numbers: CSV with named columns, to the last bit of float32."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np


def written(columns: Sequence[str], rows: np.ndarray) -> str:
    """The text of rows (count, n)."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(str(value) for value in row)
    return table.getvalue()


def read(data: bytes, columns: Sequence[str]) -> np.ndarray:
    """(count, n) float32 that were written; a `ValueError` where columns differ or a number is not finite."""
    try:
        header, *rows = list(csv.reader(io.StringIO(data.decode())))
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if header != list(columns):
        raise ValueError("its columns are not those of the contract")
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"it has rows that are not of {len(header)} numbers")
    values = np.array(rows, np.float32).reshape(len(rows), len(header))
    if not len(rows) or not np.isfinite(values).all():
        raise ValueError("it has no rows, or numbers that are not finite")
    return values
