"""What a Reservation is while it is placed: a pod of its template, with what the object itself says laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from berth.contracts import names
from berth.contracts.kube import Meta, PodTemplate


class StandIn(NamedTuple):
    """Labels and annotations of the pod that stands for a Reservation."""

    labels: dict[str, str]
    annotations: dict[str, str]


def stand_in(meta: Meta, template: PodTemplate) -> StandIn:
    """Those of the template, overlaid by those of the Reservation; and which Reservation it is for, on which node."""
    marks = {names.ANNOTATION_RESERVE_POD: "true", names.ANNOTATION_RESERVATION_NAME: meta.name}
    if template.spec.node_name:
        marks[names.ANNOTATION_RESERVATION_NODE] = template.spec.node_name
    return StandIn(
        _overlaid(template.metadata.labels, meta.labels),
        _overlaid(template.metadata.annotations, meta.annotations) | marks,
    )


def _overlaid(below: Mapping[str, str] | None, above: Mapping[str, str] | None) -> dict[str, str]:
    return {**(below or {}), **(above or {})}
