"""Reservations as members of gangs: what their templates say, with what they say themselves laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from berth.contracts import kube
from berth.invariants.facts import ENDED
from berth.rules.gang_config import GangConfig, gang_name_of_pod, gang_of_pod

NAMESPACE_DEFAULT = "default"


class Said(NamedTuple):
    """Where a member lives, and its labels and annotations."""

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def gang(self) -> str:
        """The id of its gang, or empty."""
        name = gang_name_of_pod(self.labels, self.annotations)
        return f"{self.namespace}/{name}" if name else ""

    @property
    def config(self) -> GangConfig | None:
        """What it says of its gang."""
        return gang_of_pod(self.namespace, self.labels, self.annotations)


def said_by_json(data: Mapping[str, Any]) -> Said:
    """What a Reservation says, from its object."""
    below = ((data.get("spec") or {}).get("template") or {}).get("metadata") or {}
    above = data["metadata"]
    return Said(
        below.get("namespace") or NAMESPACE_DEFAULT,
        {**(below.get("labels") or {}), **(above.get("labels") or {})},
        {**(below.get("annotations") or {}), **(above.get("annotations") or {})},
    )


def said_by(reservation: kube.Reservation) -> Said:
    """The same, from what was read of the object."""
    template, meta = reservation.spec.template, reservation.metadata
    below = template.metadata if template is not None else kube.PodTemplateMeta()
    return Said(
        below.namespace or NAMESPACE_DEFAULT,
        {**(below.labels or {}), **(meta.labels or {})},
        {**(below.annotations or {}), **(meta.annotations or {})},
    )


def stands_for_a_member(reservation: kube.Reservation) -> bool:
    """Whether one moment has to count it: it is to be placed, or was. One that has ended on its node was a member when
    its gang began, and that it is lost since is nobody's fault."""
    return bool(reservation.status.node_name) or reservation.status.phase not in ENDED


def is_ours(reservation: kube.Reservation, schedulers: frozenset[str]) -> bool:
    """Whether Berth places it: its template names one of these schedulers, or none."""
    template = reservation.spec.template
    name = template.spec.scheduler_name if template is not None else ""
    return not name or name in schedulers
