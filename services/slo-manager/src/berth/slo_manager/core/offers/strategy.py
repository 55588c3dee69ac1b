"""`colocation-config`: by which rules a node lends.

What holds on a node is the cluster's strategy, or the first of `nodeConfigs` whose selector matches, overlaid with the
node's annotation, overlaid with its labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.state import Node
from berth.rules.bounded_json import annotation_field, label_field, read_annotation
from berth.rules.node_strategies.colocation import Colocation
from berth.rules.node_strategies.overlay import overlay
from berth.rules.node_strategies.shapes import check

_RATIO_LENGTH_MAX: Final = 32
_RATIO_MAX: Final = Decimal(1_000_000)
_RATIOS: Final = {
    names.LABEL_CPU_RECLAIM_RATIO: "cpuReclaimThresholdPercent",
    names.LABEL_MEMORY_RECLAIM_RATIO: "memoryReclaimThresholdPercent",
    names.LABEL_MID_CPU_RATIO: "midStaticCPUReservedPercent",
    names.LABEL_MID_MEMORY_RATIO: "midStaticMemoryReservedPercent",
}


class NodeStrategy(NamedTuple):
    """What holds on a node, and what on the node says otherwise and cannot be used."""

    value: Mapping[str, Any]
    problems: tuple[Problem, ...]


def strategy_of(base: Mapping[str, Any], node: Node, *, as_reference: bool = False) -> NodeStrategy:
    """Lay what a node says of itself over the strategy that is configured for it.

    What is out of range on the node counts for nothing, each source by itself.

    Args:
        base: what the configuration has for the node.
        node: with labels and annotations.
        as_reference: read ratios in binary floating point as the reference does, where `0.29` is 28 percent.
    """
    value, problems = dict(base), list[Problem]()
    said = read_annotation(node.annotations, names.ANNOTATION_COLOCATION_STRATEGY, dict[str, Any])
    if isinstance(said, Problem):
        problems.append(said)
    elif said is not None:
        value = _over(value, said, annotation_field(names.ANNOTATION_COLOCATION_STRATEGY), problems)
    for label, field in _RATIOS.items():
        text = node.labels.get(label)
        if text is None:
            continue
        percent = _percent(text, as_reference=as_reference)
        if percent is None:
            problems.append(Problem(field=label_field(label), message="is no number from 0 on"))
        else:
            value = _over(value, {field: percent}, label_field(label), problems)
    return NodeStrategy(value, tuple(problems))


def _over(value: dict[str, Any], said: Mapping[str, Any], field: str, problems: list[Problem]) -> dict[str, Any]:
    merged = overlay(value, said)
    problem = check(merged, Colocation, field)
    if problem is None:
        return merged
    problems.append(problem)
    return value


def _percent(text: str, *, as_reference: bool) -> int | None:
    if len(text) > _RATIO_LENGTH_MAX or not text.isascii():
        return None
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        return None
    if not ratio.is_finite() or not 0 <= ratio <= _RATIO_MAX:
        return None
    return int(float(text) * 100) if as_reference else int(ratio * 100)
