"""The figures that an ElasticQuota object shows its owner, and when they are worth a write.

Kubernetes is asked only when the object shows something else than the truth, and at most once per group and interval:
thousands of pods may come and go in that time. A request that had no effect is repeated after a while.
"""

import heapq
from collections.abc import Container, Mapping
from typing import Final, NamedTuple

import msgspec

from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.contracts.command import PatchObject
from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.objects import read_amounts
from berth.resources.amounts import Amounts, clamped, format_amounts, without_zeros

API: Final = "scheduling.sigs.k8s.io/v1alpha1/elasticquotas"

_encode = msgspec.json.Encoder(order="sorted").encode


class Shown(NamedTuple):
    """What an object says of itself now. `figures` holds None where an annotation is absent or unreadable."""

    namespace: str
    name: str
    uid: str
    used: Amounts
    figures: Mapping[str, Amounts | None]
    state: str = ""
    """The annotation `quota-state`."""


_WRITTEN: Final = (
    names.ANNOTATION_QUOTA_RUNTIME,
    names.ANNOTATION_QUOTA_REQUEST,
    names.ANNOTATION_QUOTA_CHILD_REQUEST,
    names.ANNOTATION_QUOTA_NON_PREEMPTIBLE_REQUEST,
    names.ANNOTATION_QUOTA_NON_PREEMPTIBLE_USED,
)
_WRITTEN_WITH_GUARANTEE: Final = (names.ANNOTATION_QUOTA_GUARANTEED, names.ANNOTATION_QUOTA_ALLOCATED)


def shown_by(quota: state.ElasticQuota) -> Shown:
    """What the object shows."""
    figures = {}
    for name in (*_WRITTEN, *_WRITTEN_WITH_GUARANTEE):
        amounts = read_amounts(quota.annotations, name)
        figures[name] = None if isinstance(amounts, Problem) or amounts is None else without_zeros(amounts)
    state_shown = quota.annotations.get(names.ANNOTATION_QUOTA_STATE, "")
    return Shown(quota.namespace, quota.name, quota.uid, without_zeros(quota.used), figures, state_shown)


def figures_of(group: Group, runtime: Amounts) -> dict[str, Amounts]:
    """What the annotations should say, by annotation."""
    figures = dict(
        zip(_WRITTEN, (runtime, group.request, group.child_request, group.np_request, group.np_used), strict=True)
    )
    if group.guarantees:
        figures |= dict(zip(_WRITTEN_WITH_GUARANTEE, (group.guaranteed, group.allocated), strict=True))
    return {name: clamped(amounts) for name, amounts in figures.items()}


def patch(shown: Shown, figures: Mapping[str, Amounts], used: Amounts, told: str = "") -> PatchObject | None:
    """The request that makes the object show these figures, and what is `told` of them; None when it does.

    Zero and absent are equal.
    """
    used = clamped(used)
    wrong = {
        name: amounts for name, amounts in figures.items() if (shown.figures.get(name) or {}) != without_zeros(amounts)
    }
    uses_otherwise = without_zeros(used) != shown.used
    if not wrong and not uses_otherwise and told == shown.state:
        return None
    annotations: dict[str, str | None] = {
        name: _encode(format_amounts(amounts)).decode() for name, amounts in wrong.items()
    }
    if told != shown.state:
        annotations[names.ANNOTATION_QUOTA_STATE] = told or None
    status = {"used": format_amounts(dict.fromkeys(shown.used, 0) | used)} if uses_otherwise else None
    return PatchObject(
        api=API,
        namespace=shown.namespace,
        name=shown.name,
        uid=shown.uid,
        annotations=annotations,
        status=status,
        status_subresource=False,
    )


class Pace:
    """When each group may be looked at next: at once, then at most once per interval."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._looked: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due)

    def want(self, name: str, now: float) -> None:
        """Something about the group changed: look at it as soon as its interval allows."""
        self.again(name, max(now, self._looked.get(name, float("-inf")) + self.interval_s))

    def again(self, name: str, at: float) -> None:
        """Look at the group then, unless it is due earlier."""
        if at < self._due.get(name, float("inf")):
            self._due[name] = at
            heapq.heappush(self._heap, (at, name))

    def take(self, now: float, most: int) -> list[str]:
        """Up to `most` groups whose time has come, longest due first; they are no longer waiting."""
        ready: list[str] = []
        while self._heap and len(ready) < most and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._due.get(name) == at:
                del self._due[name]
                self._looked[name] = now
                ready.append(name)
        return ready

    def forget(self, name: str) -> None:
        """A group that is no longer known."""
        self._due.pop(name, None)
        self._looked.pop(name, None)

    def keep(self, known: Container[str]) -> None:
        """Forgets groups that are no longer known."""
        for name in [name for name in {*self._due, *self._looked} if name not in known]:
            self._due.pop(name, None)
            self._looked.pop(name, None)
