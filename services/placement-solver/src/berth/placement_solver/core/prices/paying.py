"""Limits of quota groups on GPUs, in cards, and who is charged there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from berth.placement_solver.core.prices.workload import Group, Workload
from berth.placement_solver.core.quotas import UNLIMITED
from berth.rules.gpu_request import FAMILY

if TYPE_CHECKING:
    from berth.placement_solver.core.classes import PodClass
    from berth.placement_solver.core.quotas import Quotas


class Charge(NamedTuple):
    """A limit of a group: `limit` in cards. Pods of `payers`, groups that it is or is above, are charged there.

    `asked` is what they ask for, in cards for each pod that arrives; `unit` how much of the resource one card is.
    """

    name: str
    limit: float
    payers: frozenset[Group]
    asked: float
    resource: str
    unit: float

    def of(self, cls: PodClass) -> float:
        """What a pod of the class is charged, in cards."""
        return cls.requests.get(self.resource, 0) / self.unit


def charges_of(workload: Workload, quotas: Quotas) -> list[Charge]:
    """The limits on GPUs of the groups that pay for what arrives, one for each group: the tightest."""
    below: dict[Group, set[Group]] = {}
    asked: dict[tuple[Group, str], float] = {}
    unit: dict[str, float] = {}
    for cls, payer, part in workload.paid():
        if cls.price is None or not cls.price.gpus:
            continue
        for resource in FAMILY & cls.requests.keys():
            each = float(cls.requests[resource])
            unit[resource] = max(unit.get(resource, 0.0), each / cls.price.gpus)
            for group in quotas.line(payer):
                below.setdefault(group, set()).add(payer)
                asked[group, resource] = asked.get((group, resource), 0.0) + part * each
    found: dict[Group, Charge] = {}
    for (group, resource), amount in asked.items():
        limit = _limit(quotas, group, resource, is_payer=group in below[group])
        if limit is None or unit[resource] <= 0.0:
            continue
        card = unit[resource]
        charge = Charge("/".join(group), limit / card, frozenset(below[group]), amount / card, resource, card)
        if group not in found or charge.limit * found[group].asked < found[group].limit * charge.asked:
            found[group] = charge
    return list(found.values())


def _limit(quotas: Quotas, group: Group, resource: str, *, is_payer: bool) -> float | None:
    """Of the resource; None where it is not limited."""
    seen = quotas.groups.get(group)
    if seen is None or resource not in seen.limits:
        return None
    limits = [seen.max.get(resource, UNLIMITED)]
    if is_payer or seen.rules.checks_parents:
        limits.append(seen.runtime.get(resource, UNLIMITED))
    return float(min(limits)) if min(limits) < UNLIMITED else None
