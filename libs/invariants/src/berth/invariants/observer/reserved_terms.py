"""What a Reservation demands of its users, beside that it names them: read from its object alone (I29)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.contracts.reservation import ReservedCapacity
from berth.resources.amounts import Amounts
from berth.rules.bounded_json import read_annotation
from berth.rules.reservation_fit import RESTRICTED, Matched, allocated_of, reservation_lacks, tracked_names
from berth.rules.reservation_inner import inner_part_of
from berth.rules.reservation_match import failed_check, request_of
from berth.rules.reservation_owners import PodIdentity

NO_LABELS: Final[Mapping[str, str]] = {}
UNJUDGED: Final = frozenset({"owners", "affinity"})
"""Owners are a promise of their own; selectors look at labels of nodes, too."""


class _Options(kube.View, frozen=True, kw_only=True):
    resources: list[str] = []


class Terms(NamedTuple):
    """As the object says them. `tracked` is about what it holds; empty where it is not Restricted."""

    capacity: ReservedCapacity
    options: frozenset[str]
    inner: Amounts


def terms_of(data: Mapping[str, Any]) -> Terms:
    """Those of a Reservation."""
    meta, spec = data.get("metadata") or {}, data.get("spec") or {}
    notes = meta.get("annotations") or {}
    read = read_annotation(notes, names.ANNOTATION_RESERVATION_RESTRICTED, _Options)
    options = read.resources if read is not None and not isinstance(read, Problem) else ()
    capacity = ReservedCapacity(
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        revision=0,
        phase="",
        allocate_policy=spec.get("allocatePolicy") or "",
        taints=msgspec.convert(spec.get("taints") or [], list[kube.Taint]),
        unschedulable=bool(spec.get("unschedulable")),
        labels=meta.get("labels") or {},
    )
    return Terms(capacity, frozenset(options), inner_part_of(notes)[0])


def unmet(
    terms: Terms, held: Mapping[str, int], identity: PodIdentity, notes: Mapping[str, str], requests: Mapping[str, int]
) -> str:
    """The check that keeps this pod off; empty when none does."""
    wish = request_of(identity, notes, requests)
    if wish is None:
        return "ignored"
    failed = failed_check(wish, terms.capacity, lambda _: True, NO_LABELS, held)
    return failed if failed is not None and failed not in UNJUDGED else ""


def overdrawn(
    terms: Terms, held: Mapping[str, int], mine: Mapping[str, int], others: Iterable[Mapping[str, int]]
) -> Iterator[str]:
    """What of a Restricted one this user takes beyond what the others leave."""
    if terms.capacity.allocate_policy != RESTRICTED:
        return
    beside = list(others)
    used = allocated_of(beside, held)
    tracked = tracked_names(held, terms.options)
    name = terms.capacity.name
    matched = Matched(name, RESTRICTED, tracked, held, used, terms.inner, len(beside))
    for each in reservation_lacks(mine, matched):
        yield f"{each.requested} of {each.resource} beside {each.used} used of {each.capacity}"
