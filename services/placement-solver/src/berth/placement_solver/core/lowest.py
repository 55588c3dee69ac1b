"""A row of numbers of which the lowest is asked for again and again, while a few change in between."""

from __future__ import annotations

from typing import Final

import numpy as np

from berth.placement_solver.core.seams import Floats, RowArray

BLOCK: Final = 256


class Lowest:
    """A copy of `values` in blocks, with the minimum of each block beside them: asking costs two short searches."""

    def __init__(self, values: Floats) -> None:
        count = -(-values.size // BLOCK)
        padded = np.full(count * BLOCK, np.inf)
        self.values = padded[: values.size]
        self.values[:] = values
        self._blocks = padded.reshape(count, BLOCK)
        self._minima: Floats = self._blocks.min(axis=1)
        self.nbytes: Final = padded.nbytes + self._minima.nbytes
        """How much memory it takes."""

    def put(self, row: int, value: float) -> None:
        """Change one of the numbers."""
        block = row // BLOCK
        lowest, before = self._minima[block], self.values[row]
        self.values[row] = value
        if value <= lowest:
            self._minima[block] = value
        elif before == lowest:
            values = self._blocks[block]
            self._minima[block] = values[values.argmin()]  # `min` takes twice as long for so few

    def put_all(self, rows: RowArray, values: Floats) -> None:
        """Change many of the numbers."""
        self.values[rows] = values
        blocks = np.flatnonzero(np.bincount(rows // BLOCK))
        self._minima[blocks] = self._blocks[blocks].min(axis=1)

    def first(self) -> int:
        """Where the lowest number stands, the first of equals; there has to be one."""
        start = int(self._minima.argmin()) * BLOCK
        return start + int(self.values[start : start + BLOCK].argmin())
