"""The resources to which the policy Restricted of a Reservation is narrowed."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts import kube, names
from berth.contracts.base import Problem
from berth.rules.bounded_json import read_annotation


class _Restricted(kube.View, frozen=True, kw_only=True):
    resources: list[str] = []


def restricted_options(annotations: Mapping[str, str]) -> list[str] | Problem:
    """Those that the annotation lists, sorted; none where there is no annotation."""
    read = read_annotation(annotations, names.ANNOTATION_RESERVATION_RESTRICTED, _Restricted)
    if isinstance(read, Problem):
        return read
    return sorted(read.resources) if read is not None else []
