"""Which quota group pays for a pod, and how much: one rule for quota-manager, solver, verifier and auditors.

Who paid at the bind goes on paying while that group exists, wherever it has been moved to: labels of a running pod, and
namespaces that change hands, hand no use from one group to another. Else `quota_of_pod` says who pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from berth.contracts.quota import QuotaRules
from berth.resources.amounts import Amounts
from berth.resources.quantity import AMOUNT_MAX
from berth.rules.quota_of_pod import DEFAULT_GROUP, QuotaMap


def group_in(paid: str) -> str:
    """The group of a record `tree/group`, as decisions and annotations have it; names are unique in the cluster."""
    return paid.rpartition("/")[2]


def payer_of(groups: QuotaMap, paid: str, label: str | None, namespace: str) -> str | None:
    """The group that pays for a pod; None: nobody does.

    Args:
        groups: those there are.
        paid: who paid at the bind, by its decision, else by the annotation; empty for a pod that is not bound.
        label: the group that the pod names.
        namespace: of the pod.
    """
    name = group_in(paid)
    if name in groups and (groups.uses_default or name != DEFAULT_GROUP):
        return name
    return groups.group_of(label, namespace)


def pays_for(rules: QuotaRules, *, is_deleting: bool) -> bool:
    """Whether a pod is paid for at all."""
    return not (is_deleting and rules.ignores_terminating)


def uncharged(rules: QuotaRules, overhead: Mapping[str, int]) -> Amounts:
    """What of a pod's request no group is charged for."""
    return dict(overhead) if rules.ignores_overhead else {}


NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def charged(
    requests: Mapping[str, int], free: Mapping[str, int], surcharge: Mapping[str, int] = NOTHING
) -> Mapping[str, int]:
    """What a group is charged for a pod that asks for `requests`, of which `free` is charged to nobody.

    `surcharge` is what hooks charge beyond them, no more of it together with the request than a message can carry.
    """
    if free:
        requests = {name: max(0, amount - free.get(name, 0)) for name, amount in requests.items()}
    if not surcharge:
        return requests
    more = {name: min(requests.get(name, 0) + amount, AMOUNT_MAX) for name, amount in surcharge.items()}
    return {**requests, **more}
