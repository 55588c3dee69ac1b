"""The workload: which pods with GPUs arrive, and how many of them leave again. What arrived long ago counts less, and
nothing any more once another mix arrives (`changing.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from berth.contracts import names
from berth.contracts.state import Pod
from berth.placement_solver.core.prices.changing import Block, Changing, Mix
from berth.rules.gpu_request import FAMILY
from berth.transaction.book import FINISHED_PHASES

if TYPE_CHECKING:
    from berth.placement_solver.core.classes import PodClass
    from berth.placement_solver.core.devices import Want

Group: TypeAlias = tuple[str, str]
"""Tree and name of a quota group."""
K = TypeVar("K")
HALVED_AFTER: Final = 3000
"""An arrival counts half once so many others have come."""
CLASSES_MAX: Final = 1024
BLOCK: Final = 200
"""Arrivals after each of which it is looked whether the mix is another one."""
_GROWTH: Final = 2.0 ** (1.0 / HALVED_AFTER)
_LARGE: Final = 1e12


class _Seen:
    """Of a stretch of arrivals the weight of each class, of each with who pays for it, of who came and who left, and
    the cores of those without GPUs."""

    def __init__(self) -> None:
        self.by_class: dict[PodClass, float] = {}
        self.paid: dict[tuple[PodClass, Group], float] = {}
        self.came = self.left = self.plain_cores = 0.0

    def add(self, cls: PodClass, payer: Group | None, weight: float) -> None:
        """One with GPUs has come."""
        self.by_class[cls] = self.by_class.get(cls, 0.0) + weight
        if payer is not None:
            self.paid[cls, payer] = self.paid.get((cls, payer), 0.0) + weight
        self.came += weight

    def add_all(self, other: _Seen) -> None:
        """Those of another stretch, too."""
        for cls, weight in other.by_class.items():
            self.by_class[cls] = self.by_class.get(cls, 0.0) + weight
        for each, weight in other.paid.items():
            self.paid[each] = self.paid.get(each, 0.0) + weight
        self.came += other.came
        self.left += other.left
        self.plain_cores += other.plain_cores


class Workload:
    """A histogram over classes of pods. It takes constant time an event.

    Instead of making all that is there smaller with each arrival, the next one counts more; only ratios are read.
    """

    def __init__(self) -> None:
        self._next = 1.0
        self._seen, self._block = _Seen(), _Seen()
        self._kinds: Counter[Hashable] = Counter()
        self._plain = 0
        self._changing: Changing[_Seen] = Changing()
        self.total = 0.0
        """Weight of all classes that are kept."""
        self.arrivals = 0
        """So many have come, ever."""
        self.began = 0
        """So many had come when what arrives became the mix that it is."""

    def came(self, cls: PodClass, payer: Group | None = None) -> None:
        """A pod of the class waits for the first time, for which the group pays; of those without GPUs their cores
        count."""
        if cls.want is None:
            cores = cls.requests.get(names.CPU, 0) / 1000.0
            self._seen.plain_cores += self._next * cores
            self._block.plain_cores += cores
            self._plain += 1
            return
        self.arrivals += 1
        self._seen.add(cls, payer, self._next)
        self._block.add(cls, payer, 1.0)
        self._kinds[_kind_of(cls, cls.want)] += 1
        self.total += self._next
        self._next *= _GROWTH
        if self.arrivals % BLOCK == 0:
            self._end_block()
        if self._next > _LARGE or max(len(self._seen.by_class), len(self._seen.paid)) > CLASSES_MAX:
            self._renew()

    def left(self) -> None:
        """A pod with GPUs that had a node is gone."""
        self._seen.left += self._next
        self._block.left += 1.0

    @property
    def turnover(self) -> float:
        """How many leave for each that comes."""
        return self._seen.left / self._seen.came if self._seen.came else 0.0

    @property
    def plain_cores(self) -> float:
        """How many cores pods without GPUs ask for, for each arrival with some."""
        return self._seen.plain_cores / self.total if self.total else 0.0

    def classes(self) -> Iterator[tuple[PodClass, float]]:
        """Those that arrive, each with its part of all arrivals."""
        return ((cls, weight / self.total) for cls, weight in self._seen.by_class.items())

    def paid(self) -> Iterator[tuple[PodClass, Group, float]]:
        """Those for whom a quota group pays, each with its part of all arrivals."""
        return ((cls, payer, weight / self.total) for (cls, payer), weight in self._seen.paid.items())

    def _end_block(self) -> None:
        """Begin anew with the blocks of another mix, if it is one."""
        since = self._changing.add(Block(Mix(self._kinds, self._plain), self._block))
        self._block, self._kinds, self._plain = _Seen(), Counter(), 0
        if since is None:
            return
        self._seen, self._next = _Seen(), 1.0
        for block in since:
            self._seen.add_all(block)
        self.total = sum(self._seen.by_class.values())
        self.began = self.arrivals - BLOCK * len(since)

    def _renew(self) -> None:
        seen, kept = self._seen, _Seen()
        kept.by_class = self._kept(seen.by_class)
        kept.paid = {each: weight for each, weight in self._kept(seen.paid).items() if each[0] in kept.by_class}
        kept.came = seen.came / self._next  # with those of classes that are not kept: who leaves may be of one
        kept.left = seen.left / self._next
        kept.plain_cores = seen.plain_cores / self._next
        self._seen, self._next = kept, 1.0
        self.total = sum(kept.by_class.values())

    def _kept(self, weights: dict[K, float]) -> dict[K, float]:
        """The largest of them, as they count from now on."""
        kept = sorted(weights.items(), key=lambda each: -each[1])[: CLASSES_MAX // 2]
        return {each: weight / self._next for each, weight in kept if weight / self._next > 1e-6}


def _kind_of(cls: PodClass, want: Want) -> Hashable:
    """What matters for prices: cards, cores to the next power of two, and whether it is particular about nodes."""
    template = cls.template
    affinity = template.affinity.node_affinity if template.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    is_bound = bool(template.node_selector) or required is not None
    return want.amounts, want.instances, cls.requests.get(names.CPU, 0).bit_length(), is_bound


def has_left(before: Pod | None, now: Pod | None) -> bool:
    """Whether a pod with GPUs runs no more by what is shown of its name now."""
    if before is None or before.phase in FINISHED_PHASES or FAMILY.isdisjoint(before.template.requests):
        return False
    return now is None or now.uid != before.uid or now.phase in FINISHED_PHASES
