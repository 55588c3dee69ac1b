"""A node's status as its kubelet reports it: what it can give is amplified by the node's ratios.

Kubelet reports what there is; what it was is kept as an annotation, since the next report repeats the amplified amounts
unless something changed. Whatever is wrong with the annotations, the report passes: it is the heartbeat of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_AMPLIFICATION_RATIO, ANNOTATION_RAW_ALLOCATABLE, CPU, MEMORY
from berth.resources.amounts import parse_amounts
from berth.resources.quantity import AMOUNT_MAX, QuantityError, format_bytes, format_milli, parse_milli
from berth.rules.admission.draft import mapping_in, texts_in
from berth.rules.admission.seam import Case
from berth.rules.amplification import read_ratios
from berth.rules.bounded_json import annotation_field, read_annotation

AMPLIFIED: Final = (CPU, MEMORY)
_MILLI: Final = 1000
_RAW: Final = ("metadata", "annotations", ANNOTATION_RAW_ALLOCATABLE)
_FIELD: Final = annotation_field(ANNOTATION_RAW_ALLOCATABLE)


class Amplified(NamedTuple):
    """What a node shows, and what it was; `raw` None: the annotation goes."""

    allocatable: Mapping[str, Any]
    raw: Mapping[str, Any] | None
    problems: tuple[Problem, ...] = ()


def has_changed(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    """Whether cpu or memory differ, by value; where one side is not known nothing has."""
    if old is None or new is None:
        return False
    before, now = (parse_amounts({n: each[n] for n in AMPLIFIED if n in each}, "")[0] for each in (old, new))
    return before != now


def amplify_status(
    annotations: Mapping[str, str], allocatable: Mapping[str, Any], old_allocatable: Mapping[str, Any] | None
) -> Amplified:
    """The status that is to be stored in place of the one that is reported.

    Args:
        annotations: the node's.
        allocatable: as reported.
        old_allocatable: as it is stored; None: not known, which counts as unchanged.
    """
    if ANNOTATION_AMPLIFICATION_RATIO not in annotations:
        return Amplified(allocatable, None)
    problems: list[Problem] = []
    ratios = read_ratios(annotations)
    if isinstance(ratios, Problem):
        problems.append(ratios)
        ratios = {}
    reported = {name: allocatable[name] for name in AMPLIFIED if name in allocatable}
    raw: Mapping[str, Any] | None = None
    if not has_changed(old_allocatable, allocatable):
        found = read_annotation(annotations, ANNOTATION_RAW_ALLOCATABLE, dict[str, str | int | float])
        if isinstance(found, Problem):
            # What was reported before is lost, and what is stored may be amplified already.
            return Amplified(allocatable, {}, (*problems, found))
        raw = found
    if raw is None:
        raw = reported
    shown = dict(allocatable)
    for name in AMPLIFIED:
        ratio = ratios.get(name, 1.0)
        if ratio <= 1 or name not in raw:
            continue
        try:
            amount = int(parse_milli(raw[name]) * ratio)  # thousandths, of a byte as well
        except QuantityError as error:
            problems.append(Problem(field=f"{_FIELD}[{name}]", message=str(error)))
            continue
        if amount > AMOUNT_MAX:
            field = f"{annotation_field(ANNOTATION_AMPLIFICATION_RATIO)}[{name}]"
            problems.append(Problem(field=field, message=f"{ratio:g} makes more than can be said"))
            continue
        shown[name] = _text(name, amount)
    return Amplified(shown, raw, tuple(problems))


def run(case: Case) -> None:
    """The rule."""
    draft = case.draft
    old = case.request.old_object
    stored = mapping_in(old, "status", "allocatable") if old is not None else None
    reported = mapping_in(draft.now, "status", "allocatable")
    if not reported:
        return
    found = amplify_status(texts_in(draft.now, "metadata", "annotations"), reported, stored)
    for problem in found.problems:
        case.note(problem)
    for name in AMPLIFIED:
        if found.allocatable.get(name) != reported.get(name):
            draft.put(("status", "allocatable", name), found.allocatable[name])
            case.counts["amplified"] += 1
    if found.raw is None:
        draft.drop(_RAW)
    elif found.raw and found.raw != read_annotation(draft.annotations, ANNOTATION_RAW_ALLOCATABLE, dict[str, Any]):
        draft.put(_RAW, msgspec.json.encode(found.raw, order="sorted").decode())


def _text(name: str, milli: int) -> str:
    if name == MEMORY and milli % _MILLI == 0:
        return format_bytes(milli // _MILLI)
    return format_milli(milli)
