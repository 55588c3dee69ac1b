"""In which domain of a label each node lies: for every label key that is asked about, a code per row.

Codes are made when a key is first asked about, and brought up to date by the log of reshaped rows.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berth.placement_solver.core.nodes import Nodes

Codes: TypeAlias = npt.NDArray[np.int32]

KEYS_MAX: Final = 128
"""More keys than these are worked out anew each time they come back."""

NOWHERE: Final = 0
"""The code of nodes without the label."""
EMPTY: Final = 1
"""The code of nodes whose label has the empty value."""


class Domains:
    """One label key. `codes` has one for each row of the columns; there are `count` codes, `NOWHERE` among them."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.codes: Codes = np.zeros(0, np.int32)
        self.read_to = -1
        self._values: dict[str, int] = {"": EMPTY}

    @property
    def count(self) -> int:
        """One more than the greatest code."""
        return len(self._values) + 1

    def write(self, row: int, value: str | None) -> None:
        """The value of the label of one node; None: it has none."""
        if value is None:
            self.codes[row] = NOWHERE
        else:
            self.codes[row] = self._values.setdefault(value, len(self._values) + 1)


class LabelDomains:
    """The domains of all keys that are asked about."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._domains: OrderedDict[str, Domains] = OrderedDict()

    def of(self, key: str) -> Domains:
        """The domains of a key, as the nodes are now."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains(key)
            if len(self._domains) > KEYS_MAX:
                self._domains.popitem(last=False)
        else:
            self._domains.move_to_end(key)
        self._refresh(found)
        return found

    def _refresh(self, domains: Domains) -> None:
        nodes = self._nodes
        end, size = nodes.reshaped.end, len(nodes.alive)
        if len(domains.codes) != size:
            domains.codes = np.pad(domains.codes, (0, size - len(domains.codes)))
        if domains.read_to == end:
            return
        changed = nodes.reshaped.since(domains.read_to) if domains.read_to >= 0 else None
        for row in range(len(nodes.states)) if changed is None else changed:
            node = nodes.states[row]
            domains.write(row, None if node is None else node.labels.get(domains.key))
        domains.read_to = end
