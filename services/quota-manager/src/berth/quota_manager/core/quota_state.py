"""What an ElasticQuota shows of how its figures came about: the annotation `scheduling.berth.sh/quota-state`.

One short JSON object: how much of the min can be honoured, what is lent and borrowed and with whom, how many of the
pods that belong to the group wait, for which resources it has no more room, and what hooks show. Parts that say nothing
are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.loans import Loan
from berth.resources.amounts import Amounts, clamped, format_amounts, without_zeros

RESOURCES_MAX: Final = 16
"""Of each list so many resources are shown, by name."""

NOTHING: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({})

_encode = msgspec.json.Encoder(order="sorted").encode


def state_text(group: Group, loan: Loan, waiting: int, shown: Mapping[str, Mapping[str, str]] = NOTHING) -> str:
    """The content for a group, of whose own pods so many wait; nothing for one that belongs to no tree. `shown` is what
    hooks add, by hook."""
    if group.is_detached:
        return ""
    parts: dict[str, Any] = {
        "effectiveMin": _listed(group.effective_min),
        "lent": _listed(loan.lent),
        "lentTo": list(loan.lent_to),
        "borrowed": _listed(loan.borrowed),
        "borrowedFrom": list(loan.borrowed_from),
        "waitingPods": waiting,
        "short": [] if not waiting else sorted(short_of(group))[:RESOURCES_MAX],
        "hooks": shown,
    }
    return str(_encode({name: part for name, part in parts.items() if part}).decode())


def short_of(group: Group) -> list[str]:
    """Resources of which more is asked for than may be used."""
    limits = {**group.spec.max, **group.runtime}  # of what its level does not share the max is the limit
    return [key for key, limit in limits.items() if group.request.get(key, 0) > limit]


def _listed(amounts: Amounts) -> dict[str, str]:
    shown = without_zeros(clamped(amounts))
    return format_amounts({key: shown[key] for key in sorted(shown)[:RESOURCES_MAX]})
