"""The workload: which pods with GPUs arrive, and how many of them leave again. What arrived long ago counts less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from berth.contracts import names
from berth.contracts.state import Pod
from berth.rules.gpu_request import FAMILY
from berth.transaction.book import FINISHED_PHASES

if TYPE_CHECKING:
    from berth.placement_solver.core.classes import PodClass

Group: TypeAlias = tuple[str, str]
"""Tree and name of a quota group."""
K = TypeVar("K")
HALVED_AFTER: Final = 3000
"""An arrival counts half once so many others have come."""
CLASSES_MAX: Final = 1024
_GROWTH: Final = 2.0 ** (1.0 / HALVED_AFTER)
_LARGE: Final = 1e12


class Workload:
    """A histogram over classes of pods. It takes constant time an event.

    Instead of making all that is there smaller with each arrival, the next one counts more; only ratios are read.
    """

    def __init__(self) -> None:
        self._next = 1.0
        self._by_class: dict[PodClass, float] = {}
        self._paid: dict[tuple[PodClass, Group], float] = {}
        self._came = 0.0
        self._left = 0.0
        self._plain_cores = 0.0
        self.total = 0.0
        """Weight of all classes that are kept."""
        self.arrivals = 0
        """So many have come, ever."""

    def came(self, cls: PodClass, payer: Group | None = None) -> None:
        """A pod of the class waits for the first time, for which the group pays; of those without GPUs their cores
        count."""
        if cls.want is None:
            self._plain_cores += self._next * cls.requests.get(names.CPU, 0) / 1000.0
            return
        self.arrivals += 1
        self._by_class[cls] = self._by_class.get(cls, 0.0) + self._next
        if payer is not None:
            self._paid[cls, payer] = self._paid.get((cls, payer), 0.0) + self._next
        self.total += self._next
        self._came += self._next
        self._next *= _GROWTH
        if self._next > _LARGE or max(len(self._by_class), len(self._paid)) > CLASSES_MAX:
            self._renew()

    def left(self) -> None:
        """A pod with GPUs that had a node is gone."""
        self._left += self._next

    @property
    def turnover(self) -> float:
        """How many leave for each that comes."""
        return self._left / self._came if self._came else 0.0

    @property
    def plain_cores(self) -> float:
        """How many cores pods without GPUs ask for, for each arrival with some."""
        return self._plain_cores / self.total if self.total else 0.0

    def classes(self) -> Iterator[tuple[PodClass, float]]:
        """Those that arrive, each with its part of all arrivals."""
        return ((cls, weight / self.total) for cls, weight in self._by_class.items())

    def paid(self) -> Iterator[tuple[PodClass, Group, float]]:
        """Those for whom a quota group pays, each with its part of all arrivals."""
        return ((cls, payer, weight / self.total) for (cls, payer), weight in self._paid.items())

    def _renew(self) -> None:
        self._by_class = self._kept(self._by_class)
        self._paid = {each: weight for each, weight in self._kept(self._paid).items() if each[0] in self._by_class}
        self._came /= self._next  # with those of classes that are not kept: who leaves may be of one
        self._left /= self._next
        self._plain_cores /= self._next
        self.total = sum(self._by_class.values())
        self._next = 1.0

    def _kept(self, weights: dict[K, float]) -> dict[K, float]:
        """The largest of them, as they count from now on."""
        kept = sorted(weights.items(), key=lambda each: -each[1])[: CLASSES_MAX // 2]
        return {each: weight / self._next for each, weight in kept if weight / self._next > 1e-6}


def has_left(before: Pod | None, now: Pod | None) -> bool:
    """Whether a pod with GPUs runs no more by what is shown of its name now."""
    if before is None or before.phase in FINISHED_PHASES or FAMILY.isdisjoint(before.template.requests):
        return False
    return now is None or now.uid != before.uid or now.phase in FINISHED_PHASES
