"""The table of GPU partitions that a Device object carries, and what of it cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.inventory import CardPartition
from berth.device_inventory.core import legacy
from berth.device_inventory.core.check import AMOUNT_MAX, MINOR_MAX
from berth.rules.bounded_json import annotation_field
from berth.rules.devices.partitions import policy_of, read_table

SCORE_MAX: Final = 1 << 30
FIELD: Final = annotation_field(names.ANNOTATION_GPU_PARTITIONS)


class Partitions(NamedTuple):
    """`policy` is empty where the Device has no table; `table` is empty where it cannot be read."""

    policy: str = ""
    table: tuple[CardPartition, ...] = ()
    problems: tuple[Problem, ...] = ()


def partitions_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Partitions:
    """What a Device with these labels and annotations says."""
    text = annotations.get(names.ANNOTATION_GPU_PARTITIONS, "")
    if not text:
        return Partitions()
    policy = policy_of(legacy.renamed(labels, legacy.LABELS))
    table = read_table(text)
    if isinstance(table, Problem):
        return Partitions(policy, (), (table,))
    kept: list[CardPartition] = []
    problems: list[Problem] = []
    for size, partitions in table.items():
        for at, each in enumerate(partitions):
            where = f"{FIELD}[{size}][{at}]"
            if not len(set(each.minors)) == size == len(each.minors):
                problems.append(Problem(field=f"{where}.minors", message=f"must name {size} GPUs, each once"))
            elif max(each.minors) > MINOR_MAX or abs(each.score) > SCORE_MAX or not 0 <= each.bandwidth <= AMOUNT_MAX:
                message = (
                    f"a minor is above {MINOR_MAX}, the score beyond {SCORE_MAX} or the bandwidth above {AMOUNT_MAX}"
                )
                problems.append(Problem(field=where, message=message))
            else:
                kept.append(
                    CardPartition(
                        minors=list(each.minors), score=each.score, bandwidth=each.bandwidth, link=each.link[:64]
                    )
                )
    return Partitions(policy, tuple(kept), tuple(problems))
