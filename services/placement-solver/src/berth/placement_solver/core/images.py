"""Images on the nodes: how many nodes have each, and on demand which size it has on every node.

Names are counted as nodes come, change and go; the sizes of one image over all nodes are gathered from the nodes when
a score asks for them, and then kept up to date, so that images nobody waits for cost a count.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Final

import numpy as np

from berth.placement_solver.core.change_log import ChangeLog
from berth.placement_solver.core.nodes import AMOUNT_MAX, Ints

BYTES_MAX: Final = 32 << 20
"""Kept sizes of all images together; those asked for longest ago are gathered anew."""
_NONE: Final[Mapping[str, int]] = {}


class Images:
    """Images by node row."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.nodes = 0
        """How many nodes there are, with images or without."""
        self._rows: list[Mapping[str, int] | None] = []
        self._counts: Counter[str] = Counter()
        self._log = ChangeLog()
        self._sizes: OrderedDict[str, tuple[Ints, int]] = OrderedDict()
        self._bytes_max = bytes_max

    def see(self, row: int, images: Mapping[str, int] | None) -> None:
        """The images of a node with their sizes in bytes, by every name that they have; None: the node is gone."""
        while len(self._rows) <= row:
            self._rows.append(None)
        before = self._rows[row]
        if before is None and images is None:
            return
        self.nodes += (images is not None) - (before is not None)
        if images == before:
            return
        self._rows[row] = images
        old, new = before or _NONE, images or _NONE
        for name in old.keys() - new.keys():
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]
        for name in new.keys() - old.keys():
            self._counts[name] += 1
        if old or new:
            self._log.add(row)

    def count(self, name: str) -> int:
        """How many nodes have the image."""
        return self._counts.get(name, 0)

    def sizes(self, name: str) -> Ints:
        """The size of the image on each row, 0 where it is not. A node's own word counts for its own copy."""
        kept = self._sizes.pop(name, None)
        changed = self._log.since(kept[1]) if kept is not None else None
        if kept is None or changed is None or kept[0].shape[0] < len(self._rows):
            sizes = np.array([_size(images, name) for images in self._rows], np.int64)
        else:
            sizes = kept[0]
            for row in changed:
                sizes[row] = _size(self._rows[row], name)
        self._sizes[name] = (sizes, self._log.end)
        while len(self._sizes) > 1 and len(self._sizes) * sizes.nbytes > self._bytes_max:
            self._sizes.popitem(last=False)
        return sizes


def _size(images: Mapping[str, int] | None, name: str) -> int:
    return 0 if images is None else max(0, min(images.get(name, 0), AMOUNT_MAX))
