"""Of what load is a percentage: what a node has, before anything was amplified."""

from __future__ import annotations

from collections.abc import Mapping

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_RAW_ALLOCATABLE
from berth.resources.amounts import Amounts, parse_amounts
from berth.rules.bounded_json import read_annotation


def capacity_of(allocatable: Mapping[str, int], annotations: Mapping[str, str]) -> tuple[Amounts, Problem | None]:
    """Allocatable with what its annotation says of it before amplification; what cannot be read says nothing."""
    found = read_annotation(annotations, ANNOTATION_RAW_ALLOCATABLE, dict[str, str | int | float])
    if found is None:
        return dict(allocatable), None
    if isinstance(found, Problem):
        return dict(allocatable), found
    raw, problems = parse_amounts(found, f"metadata.annotations[{ANNOTATION_RAW_ALLOCATABLE}]")
    if problems:
        field, message = problems[0]
        return dict(allocatable), Problem(field=field, message=message)
    return {**allocatable, **raw}, None
