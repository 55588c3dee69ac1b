"""Quota at the creation of pods: what a quota has room for, and how often a booking is tried.

A pod that can never fit the ceiling is refused when it is created. What was let in counts as the `child-request` of the
quota for those that come after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.resources.amounts import Amounts, add, format_amount

RETRIES: Final = 3
"""A single pod is tried so often again; a larger batch once more for each doubling."""

LIMITING: Final = frozenset(
    (
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "kubernetes.io/batch-cpu",
        "kubernetes.io/batch-memory",
        "kubernetes.io/mid-cpu",
        "kubernetes.io/mid-memory",
        "koordinator.sh/gpu",
        "nvidia.com/gpu",
        "koordinator.sh/gpu.shared",
        "koordinator.sh/gpu-memory-ratio",
    )
)
"""A quota whose max names none of these lets every pod in."""


class Asked(NamedTuple):
    """A request about one pod."""

    operation: str
    """CREATE, UPDATE (the pod comes from another quota) or DELETE, which books nothing."""
    request: Mapping[str, int]


class Excess(NamedTuple):
    """What one pod asks for, only in the resources that are exceeded."""

    requested: Amounts
    used: Amounts
    limited: Amounts

    def text(self, namespace: str, name: str) -> str:
        """As the creator of the pod is told."""
        shown = ", ".join(
            f"{what}: {_listed(amounts)}"
            for what, amounts in (("requested", self.requested), ("used", self.used), ("limited", self.limited))
        )
        return f"exceeded quota: {namespace}/{name}, {shown}"


def book(
    ceiling: Mapping[str, int], admission: Mapping[str, int], booked: Mapping[str, int], asked: Iterable[Asked]
) -> tuple[list[Excess | None], Amounts]:
    """Lets pods in one after another: for each the excess that refuses it (None: admitted), and what is booked then.

    Args:
        ceiling: the max of the quota.
        admission: the annotation `admission`, the limit in place of the max unless it is empty.
        booked: the `child-request` before.
        asked: the requests, in their order.
    """
    limit = admission or ceiling
    results: list[Excess | None] = []
    total = dict(booked)
    for operation, request in asked:
        counted = {key: amount for key, amount in request.items() if amount and key in ceiling}
        if operation == "DELETE" or LIMITING.isdisjoint(ceiling):
            results.append(None)
            continue
        wanted = add(total, counted)
        beyond = sorted(key for key in counted if key in limit and wanted[key] > limit[key])
        if beyond:
            used = {key: total.get(key, 0) for key in beyond}
            results.append(Excess({key: counted[key] for key in beyond}, used, {key: limit[key] for key in beyond}))
        else:
            total = wanted
            results.append(None)
    return results, total


def retries_of(batch: int, most: int) -> int:
    """How often the booking of a batch of pods is tried again after a conflict; `most` is the setting."""
    return min(RETRIES + max(batch, 1).bit_length() - 1, max(RETRIES, most))


def _listed(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{key}={format_amount(key, amounts[key])}" for key in sorted(amounts))
