"""A site: its nodes, and who arrived there and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.bus.port import Entry
from berth.cli.errors import CliError
from berth.contracts.state import PodTemplate
from berth.rules.gpu_request import FAMILY

GPUS_MIN: Final = 200
"""Fewer arrivals with GPUs in one of both parts say nothing."""
Message = tuple[str, Entry]
"""Of a bucket."""


class Arrival(NamedTuple):
    """A pod that came, in unix seconds, and for how long it stays once it has a node."""

    at_s: float
    template: PodTemplate
    stay_s: float

    @property
    def asks_gpus(self) -> bool:
        """Whether it asks for GPUs or parts of one."""
        return not FAMILY.isdisjoint(self.template.requests)


class Site(NamedTuple):
    """Nodes as messages of the buckets, in the order of their names.

    `shapes` says which nodes are alike, `common` is what belongs to no node. `configuration` is the text of the
    KubeSchedulerConfiguration that holds, `scheduler` the name whose profile is tuned.
    """

    nodes: Mapping[str, Sequence[Message]]
    shapes: Mapping[str, str]
    common: Sequence[Message]
    scheduler: str
    configuration: str | None = None
    about: Sequence[str] = ()
    """What was left out or assumed, in words."""

    def sample(self, most: int, seed: int) -> Site:
        """So many nodes, of each shape its part, at least one."""
        if most >= len(self.nodes):
            return self
        rng = np.random.default_rng(seed)
        by_shape: dict[str, list[str]] = {}
        for name in self.nodes:
            by_shape.setdefault(self.shapes[name], []).append(name)
        chosen: set[str] = set()
        for names in by_shape.values():
            count = max(1, round(len(names) * most / len(self.nodes)))
            chosen.update(names[at] for at in rng.permutation(len(names))[:count])
        return self._replace(nodes={name: each for name, each in self.nodes.items() if name in chosen})


class Parts(NamedTuple):
    """Arrivals to search on, and later ones to judge by."""

    seen: Sequence[Arrival]
    unseen: Sequence[Arrival]


def parted(arrivals: Sequence[Arrival], seen: float) -> Parts:
    """Split by time: the first part is seen. Raises CliError where one of both is too small to say anything."""
    ordered = sorted(arrivals, key=lambda each: each.at_s)
    cut = round(seen * len(ordered))
    parts = Parts(ordered[:cut], ordered[cut:])
    for name, part in zip(Parts._fields, parts, strict=True):
        count = sum(each.asks_gpus for each in part)
        if count < GPUS_MIN:
            raise CliError(f"{count} of the {len(part)} {name} arrivals ask for GPUs: {GPUS_MIN} are needed")
    return parts
