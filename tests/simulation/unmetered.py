"""Metrics that nobody reads are not kept: in a simulation there is no scrape.

Metrics are still declared and labelled, so a wrong label is found here too; only the numbers stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest.mock import patch

from prometheus_client import Counter, Gauge, Histogram

_WRITES: Final = (
    (Counter, "inc"),
    (Gauge, "inc"),
    (Gauge, "dec"),
    (Gauge, "set"),
    (Histogram, "observe"),
)


@contextmanager
def unmetered() -> Iterator[None]:
    """For the length of a `with` block no metric of this interpreter changes."""
    with ExitStack() as stack:
        for kind, name in _WRITES:
            stack.enter_context(patch.object(kind, name, _nothing))
        yield


def _nothing(*_: object, **__: object) -> None: ...
