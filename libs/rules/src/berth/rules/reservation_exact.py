"""The exact-match annotation: a pod takes only a Reservation of its own size, in the resources that it lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from berth.contracts import kube


class ExactMatch(kube.View, frozen=True, kw_only=True):
    """What the annotation says."""

    resource_names: list[str] = []


def sizes_are_equal(request: Mapping[str, int], reserved: Mapping[str, int], listed: Iterable[str]) -> bool:
    """Whether both have the same of each listed resource.

    A name that neither has is passed over, one that only one of them has is a difference.
    """
    return all(request.get(name) == reserved.get(name) for name in listed)
