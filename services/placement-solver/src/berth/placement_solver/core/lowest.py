"""A row of numbers of which the lowest is asked for again and again, while a few change in between."""

from __future__ import annotations

from typing import Final

import numpy as np

from berth.placement_solver.core.seams import Floats, RowArray

BLOCK: Final = 256


class Lowest:
    """`values` in blocks, with the minimum of each block kept beside them: asking costs two short searches."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        whole = values.size // BLOCK * BLOCK
        minima = values[:whole].reshape(-1, BLOCK).min(axis=1) if whole else np.zeros(0)
        rest = values[whole:]
        self._minima: Floats = np.append(minima, rest.min()) if rest.size else minima

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self.values.nbytes + self._minima.nbytes

    def put(self, rows: RowArray, values: Floats) -> None:
        """Change some of the numbers."""
        self.values[rows] = values
        for block in set((rows // BLOCK).tolist()):
            self._minima[block] = self.values[block * BLOCK : (block + 1) * BLOCK].min()

    def first(self) -> int:
        """Where the lowest number stands, the first of equals; there has to be one."""
        start = int(self._minima.argmin()) * BLOCK
        return start + int(self.values[start : start + BLOCK].argmin())
