"""Accelerators of one pod on one node: as a partition, else close together, else any.

A virtual NPU that must be of a size goes the same way and is stamped with the size's name.
"""

from __future__ import annotations

from typing import Final

from berth.rules.devices.candidates import Candidates
from berth.rules.devices.gpus import allocate_gpus
from berth.rules.devices.partition_spec import RESTRICTED, PartitionSpec
from berth.rules.devices.partitions import NO_RULES, Partition, PartitionRules, feasible
from berth.rules.devices.slots import Grant, NoCapacity
from berth.rules.devices.topology import DEVICE, share

SCOPE_SHORT: Final = NoCapacity("Insufficient Topology Scoped GPU Devices")


def partitions_for(
    found: Candidates, rules: PartitionRules, spec: PartitionSpec | None, scope: int = 0
) -> list[Partition] | NoCapacity | None:
    """The partitions that the request may be served as, the best first; None: partitions are nothing to it.

    They bind a pod that asks for one, and every pod where the node says so. Else a failure is as good as none.
    """
    if found.want.shared:
        return None
    answer = feasible(
        rules.table,
        found.want.instances,
        able=found.offers.keys(),
        used=found.used(),
        preferred=found.preferred,
        restricted=spec is not None and spec.policy == RESTRICTED,
        bandwidth=spec.bandwidth if spec is not None else 0,
    )
    if not isinstance(answer, NoCapacity) and scope:
        places = {slot.minor: slot for slot in found.slots}
        answer = [each for each in answer if share(scope, [places[minor] for minor in each.minors])] or SCOPE_SHORT
    if isinstance(answer, NoCapacity):
        return answer if is_bound(rules, spec) else None
    return answer


def is_bound(rules: PartitionRules, spec: PartitionSpec | None) -> bool:
    """Whether whole cards are given out as a partition alone."""
    return spec is not None or rules.honors


def allocate_accelerators(
    found: Candidates,
    *,
    rules: PartitionRules = NO_RULES,
    spec: PartitionSpec | None = None,
    scope: int = 0,
    template: str = "",
) -> tuple[Grant, ...] | NoCapacity:
    """The devices of the request. `scope` is the level that they share, `template` the name that is stamped on them."""
    want = found.want
    partitions = partitions_for(found, rules, spec, scope)
    if isinstance(partitions, NoCapacity):
        return partitions
    if partitions:
        return found.grants(partitions[0].minors, template)
    if scope == DEVICE and not (want.shared and want.instances > 1):
        if want.instances > 1:
            return SCOPE_SHORT
        scope = 0  # one device is in the scope of one device
    chosen = allocate_gpus(
        found.slots,
        want,
        scoring=found.scoring,
        preferred=found.preferred,
        required=found.offers.keys(),
        scope=scope,
    )
    return chosen if isinstance(chosen, NoCapacity) else found.grants([each.minor for each in chosen], template)
