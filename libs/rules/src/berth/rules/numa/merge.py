"""Which set of zones satisfies all providers, and whether the policy admits the pod with it.

One hint is taken of each resource; the zones that all of them name are the pod's. Preferred is a choice of preferred
hints that all name the same zones. Of all choices a preferred one goes before others, then the one with fewer zones,
then the higher score, then the lower zones (as numbers whose bits are zones). That is Koordinator's order, but for the
last two, which there depend on the order of hints and providers; here no order matters.

Zones that a pod must not share are no matter of preference: a pod that requires exclusive zones gets no others, under
any policy.

No product of all hints is made: a preferred choice is a set that is in every list. Only where there is none, sets are
intersected, list by list; where a list would take more than `PAIRS_MAX` intersections, the whole node stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.rules.cpus.kubelet import BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE
from berth.rules.numa.exclusive import NOT_EXCLUSIVE, may_hold
from berth.rules.numa.hints import Hint, Hints
from berth.rules.numa.policy import REQUIRED
from berth.rules.numa.zone_sets import ZoneSet, mask_text

PAIRS_MAX: Final = 65_536
REPORTED_PAIRS_MAX: Final = 4_096
"""The same where the pod is refused in any case, and the set is only shown."""

_JOINTS: Final = {RESTRICTED: " & ", SINGLE_NUMA_NODE: ","}


class Unaligned(NamedTuple):
    """What one resource asked for where no set satisfied all of them; a zone set None is any."""

    resource: str
    preferred: tuple[ZoneSet | None, ...]
    among: tuple[ZoneSet | None, ...]

    def __str__(self) -> str:
        """The words of the refusal."""
        preferred, among = (" ".join(map(mask_text, sets)) for sets in (self.preferred, self.among))
        return f"{self.resource} prefer [{preferred}] among [{among}]"


class Alignment(NamedTuple):
    """The zones of a pod, and whether its policy admits it.

    Attributes:
        zones: what it is to stay on; None: nothing that it asks for lies in zones, or it is refused.
        admitted: whether it may use the node; if not, the `reasons`.
        preferred: whether every provider prefers these zones.
        unsatisfied: whether a provider wanted more zones than these.
        unaligned: what each resource asked for, where that is the reason.
    """

    zones: ZoneSet | None
    admitted: bool
    preferred: bool = False
    unsatisfied: bool = False
    reasons: tuple[str, ...] = ()
    unaligned: tuple[Unaligned, ...] = ()


class _Column(NamedTuple):
    """One resource: the score of each set, of the preferred ones again, and what it says of any zones at all."""

    scores: Mapping[int, int]
    preferred: Mapping[int, int]
    has_any: bool
    prefers_any: bool


class _Best(NamedTuple):
    mask: int
    preferred: bool = False
    unsatisfied: bool = False
    is_named: bool = True
    """Whether any hint named zones."""


def merge(
    zones: Iterable[int],
    providers: Iterable[Hints],
    policy: str,
    *,
    exclusive: str = "",
    status: Mapping[int, str] | None = None,
) -> Alignment:
    """The zones for a pod under a policy.

    Args:
        zones: all zones of the node.
        providers: what each of them says, by resource. One that says nothing does not mind.
        policy: the policy of pod and node; none admits without zones.
        exclusive: Required, or anything else for no such wish.
        status: how each zone is held (`zone_status`).
    """
    if policy not in (BEST_EFFORT, *_JOINTS):
        return Alignment(None, admitted=True, preferred=True)
    order = tuple(sorted(zones))
    lists = [(name, hints) for each in providers for name, hints in each.items() if hints is not None]
    unsatisfied = [f"Unsatisfied NUMA {name}" for name, hints in lists if not hints]
    is_strict = policy != BEST_EFFORT
    if unsatisfied and is_strict:
        return Alignment(None, admitted=False, reasons=tuple(sorted(unsatisfied)))
    bit_of = {zone: 1 << place for place, zone in enumerate(order)}
    columns = [_column(hints, bit_of, only_single=policy == SINGLE_NUMA_NODE) for _, hints in lists]
    whole = (1 << len(order)) - 1

    def permits(mask: int) -> bool:
        return exclusive != REQUIRED or may_hold(_zones(mask, order), status or {})

    def permits_all(mask: int) -> bool:
        return True

    best = _preferred(columns, whole, permits)
    if best is None and is_strict and _preferred(columns, whole, permits_all) is not None:
        return Alignment(None, admitted=False, reasons=(NOT_EXCLUSIVE,))
    if best is None:
        limit = REPORTED_PAIRS_MAX if is_strict else PAIRS_MAX
        best = _narrowest(columns, whole, permits_all if is_strict else permits, limit)
    if is_strict and not best.preferred:
        unaligned = tuple(sorted((_unaligned(name, hints) for name, hints in lists), key=str))
        reason = "Unaligned NUMA Hint cause " + _JOINTS[policy].join(map(str, unaligned))
        shown = None if policy == SINGLE_NUMA_NODE and best.mask == whole else _zones(best.mask, order)
        return Alignment(shown, False, False, best.unsatisfied, (reason,), unaligned)
    if not is_strict and best.unsatisfied:
        best = _Best(whole)
    if not is_strict and best.is_named and not permits(best.mask):
        return Alignment(None, admitted=False, reasons=(NOT_EXCLUSIVE,))
    if policy == SINGLE_NUMA_NODE and not best.is_named:
        return Alignment(None, admitted=True, preferred=True)
    return Alignment(_zones(best.mask, order), True, best.preferred)


def _column(hints: Sequence[Hint], bit_of: Mapping[int, int], *, only_single: bool) -> _Column:
    scores: dict[int, int] = {}
    preferred: dict[int, int] = {}
    has_any = prefers_any = False
    for hint in hints:
        if only_single and not hint.preferred:
            continue
        if hint.zones is None:
            has_any = True
            prefers_any = prefers_any or hint.preferred
            continue
        if not all(zone in bit_of for zone in hint.zones):
            continue  # a provider that knows of more zones than the node has
        mask = sum(bit_of[zone] for zone in set(hint.zones))
        if mask == 0 or (only_single and mask.bit_count() > 1):
            continue
        scores[mask] = max(hint.score, scores.get(mask, 0))
        if hint.preferred:
            preferred[mask] = max(hint.score, preferred.get(mask, 0))
    return _Column(scores, preferred, has_any, prefers_any)


def _preferred(columns: Sequence[_Column], whole: int, permits: Callable[[int], bool]) -> _Best | None:
    """The best set that every resource prefers, as far as it minds."""
    minding = [column for column in columns if not column.prefers_any]
    if minding:
        masks = set(minding[0].preferred)
        for column in minding[1:]:
            masks &= column.preferred.keys()
    else:
        masks = {mask for column in columns for mask in column.preferred}
    allowed = [mask for mask in masks if permits(mask)]
    if allowed:
        return _Best(min(allowed, key=lambda mask: _rank(mask, [column.preferred for column in columns])), True)
    return None if minding else _Best(whole, True, is_named=False)


def _narrowest(columns: Sequence[_Column], whole: int, permits: Callable[[int], bool], limit: int) -> _Best:
    """The best set where none is preferred: what one set of each resource has in common."""
    together = {whole}
    for column in columns:
        if len(together) * len(column.scores) > limit:
            return _Best(whole)
        narrowed = {mask & each for mask in together for each in column.scores} - {0}
        together = narrowed | together if column.has_any else narrowed
    allowed = [mask for mask in together if mask != whole and permits(mask)]
    if not allowed:
        return _Best(whole)
    scores = [column.scores for column in columns]
    mask = min(allowed, key=lambda each: _rank(each, scores))
    is_asked_for = any(mask in each for each in scores)
    return _Best(mask, unsatisfied=not (is_asked_for and all(mask in each.scores or each.has_any for each in columns)))


def _rank(mask: int, scores: Iterable[Mapping[int, int]]) -> tuple[int, int, int]:
    return (mask.bit_count(), -sum(each.get(mask, 0) for each in scores), mask)


def _zones(mask: int, order: ZoneSet) -> ZoneSet:
    return tuple(zone for place, zone in enumerate(order) if mask >> place & 1)


def _unaligned(name: str, hints: Sequence[Hint]) -> Unaligned:
    return Unaligned(name, tuple(hint.zones for hint in hints if hint.preferred), tuple(hint.zones for hint in hints))
