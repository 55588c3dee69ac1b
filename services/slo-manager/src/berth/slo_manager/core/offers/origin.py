"""From sums to what a node shows: cpu as the work of a reference CPU, and less what third parties have taken.

All sums are physical; only here is cpu turned into the unit that batch pods ask in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, format_amount, parse_amounts
from berth.rules.bounded_json import read_annotation
from berth.rules.cpu_normalization import ratio_of
from berth.rules.cpus.zone_reservation import zone_part
from berth.slo_manager.core.offers.sums import Sum
from berth.slo_manager.core.offers.third_parties import TAKEN, taken_by_third_parties

RATIO_MAX: Final = 100.0
NORMALIZATION: Final = "normalization"
THIRD_PARTIES: Final = "thirdParties"
"""Terms of what is done to a sum at the end."""


class Values(NamedTuple):
    """What a node is to show of each resource, and of batch resources before third parties; `sums` end in the first.

    A resource of which nothing is said is not there.
    """

    sums: Mapping[str, Sum]
    origin: Amounts
    taken: Amounts
    problems: tuple[Problem, ...]

    @property
    def resources(self) -> Amounts:
        """The amounts to show."""
        return {name: each.amount for name, each in self.sums.items()}


class _Origin(msgspec.Struct, frozen=True):
    resources: dict[str, Any] | None = None


def shown_values(sums: Mapping[str, Sum], annotations: Mapping[str, str], taken_before: Mapping[str, int]) -> Values:
    """Work out what is shown.

    Args:
        sums: by resource; empty: the node lends nothing, and shows nothing.
        annotations: the node's, as they are to be: the ratio of CPU normalisation, and what third parties have.
        taken_before: what third parties had when that could be read last.
    """
    taken, problem = taken_by_third_parties(annotations, taken_before)
    problems = [] if problem is None else [problem]
    ratio = ratio_of(annotations)
    if isinstance(ratio, Problem):
        problems.append(ratio)
    found, origin = dict(sums), dict.fromkeys(TAKEN, 0)
    for name in TAKEN:
        if name not in found:
            continue
        whole = found[name]
        if name == names.BATCH_CPU and (work := _work(ratio)) > 1:
            whole = whole.plus(NORMALIZATION, math.ceil(whole.amount * work) - whole.amount)
        origin[name] = whole.amount
        found[name] = whole.plus(THIRD_PARTIES, -min(taken.get(name, 0), whole.amount))
    return Values(found, origin, taken, tuple(problems))


def shown_zones(
    zones: Mapping[int, Amounts], annotations: Mapping[str, str], taken: Mapping[str, int]
) -> dict[int, Amounts]:
    """The same of NUMA nodes. What third parties have lies in no one in particular, so each lacks an equal part."""
    work = _work(ratio_of(annotations))
    found: dict[int, Amounts] = {}
    for zone, amounts in zones.items():
        whole = {name: int(amount * work) if name == names.BATCH_CPU else amount for name, amount in amounts.items()}
        parts = {name: zone_part(taken.get(name, 0), len(zones)) for name in whole}
        found[zone] = {name: max(0, amount - parts[name]) for name, amount in whole.items()}
    return found


def _work(ratio: float | Problem | None) -> Decimal:
    """How many times the work of a reference CPU one does; 1 where that is not known, or cannot be."""
    return Decimal(repr(ratio)) if isinstance(ratio, float) and 1 < ratio <= RATIO_MAX else Decimal(1)


def origin_text(origin: Mapping[str, int]) -> str:
    """As the annotation has it."""
    amounts = {name: format_amount(name, amount) for name, amount in sorted(origin.items())}
    return msgspec.json.encode({"resources": amounts}).decode()


def read_origin(annotations: Mapping[str, str]) -> Amounts:
    """What the annotation says; nothing where it cannot be read."""
    read = read_annotation(annotations, names.ANNOTATION_ORIGIN_ALLOCATABLE, _Origin)
    if read is None or isinstance(read, Problem):
        return {}
    return parse_amounts(read.resources, "resources")[0]
