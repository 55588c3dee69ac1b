"""What became of the pods that came, on one of the two sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from berth.cli.shadow.packing import Packing


@dataclass
class Side:
    """`came` is how many pods asked for a node. `nodes` says where each went, by uid, `waited_s` how long it took; who
    got none is in neither. `victims` are those who were made to leave, by why."""

    came: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    waited_s: dict[str, float] = field(default_factory=dict)
    victims: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """Pods that were gone with their node."""
    packings: list[Packing] = field(default_factory=list)


class Differences:
    """Of the pods that came: who has another node, and whom only one side has placed."""

    def __init__(self, recorded: Side, shadow: Side) -> None:
        ours, theirs = recorded.nodes, shadow.nodes
        self.elsewhere = sorted(uid for uid, node in ours.items() if theirs.get(uid, node) != node)
        self.only_recorded = sorted(ours.keys() - theirs.keys())
        self.only_shadow = sorted(theirs.keys() - ours.keys())

    @property
    def count(self) -> int:
        """Decisions that differ."""
        return len(self.elsewhere) + len(self.only_recorded) + len(self.only_shadow)


def waits(side: Side) -> dict[str, float]:
    """How long those waited that were placed, in seconds."""
    listed = sorted(side.waited_s.values())
    if not listed:
        return {}
    return {
        "mean": sum(listed) / len(listed),
        "median": _at(listed, 0.5),
        "p90": _at(listed, 0.9),
        "p99": _at(listed, 0.99),
        "longest": listed[-1],
    }


def _at(listed: Sequence[float], part: float) -> float:
    return listed[min(int(part * len(listed)), len(listed) - 1)]


def figures(packings: Iterable[Packing]) -> dict[str, float]:
    """The mean over moments that lie equally far apart; parts of what there is as fractions."""
    found: dict[str, list[float]] = {}
    for each in packings:
        for name, (taken, whole) in each.allocated.items():
            found.setdefault(f"{name} allocated", []).append(taken / whole)
        if each.gpus:
            found.setdefault("GPUs allocated", []).append(each.gpus_allocated / each.gpus)
            found.setdefault("whole GPUs left", []).append(each.gpus_whole)
            found.setdefault("nodes left with all GPUs", []).append(each.nodes_whole)
            found.setdefault("idle GPUs of no use", []).append(each.gpus_stranded)
    return {name: sum(values) / len(values) for name, values in found.items()}


def said(side: Side) -> dict[str, Any]:
    """For programs."""
    return {
        "placed": len(side.nodes),
        "not_placed": side.came - len(side.nodes),
        "waited_s": {name: round(value, 3) for name, value in waits(side).items()},
        "victims": sum(side.victims.values()),
        "victims_by_reason": dict(sorted(side.victims.items())),
        "gone_with_their_node": side.lost,
        "packing": {
            "mean": {name: round(value, 4) for name, value in figures(side.packings).items()},
            "at_the_end": {name: round(value, 4) for name, value in figures(side.packings[-1:]).items()},
        },
    }
