"""The lowest of a row that changes here and there is where a plain search finds it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.placement_solver.core.lowest import BLOCK, Lowest

NUMBERS = st.one_of(st.integers(0, 3).map(float), st.just(np.inf))


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7])
@given(data=st.data())
def test_it_is_the_first_of_the_lowest(size: int, data: st.DataObject) -> None:
    values = np.full(size, np.inf)
    lowest = Lowest(values.copy())
    for _ in range(data.draw(st.integers(1, 4))):
        rows = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=8, unique=True)), np.intp)
        values[rows] = data.draw(st.lists(NUMBERS, min_size=rows.size, max_size=rows.size))
        if len(rows) > 3:
            lowest.put_all(rows, values[rows])
        else:
            for row in rows.tolist():
                lowest.put(row, float(values[row]))
        assert lowest.first() == int(np.argmin(values))
