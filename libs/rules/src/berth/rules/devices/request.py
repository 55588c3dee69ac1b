"""All that a pod asks of the devices of a node: amounts, hints, joint allocation, partitions, templates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from berth.contracts.base import Problem
from berth.rules.device_request import device_requests
from berth.rules.devices.columns import GPU
from berth.rules.devices.hints import Hint, read_hints
from berth.rules.devices.joint_request import JointRequest, read_joint
from berth.rules.devices.partition_spec import PartitionSpec, read_partition_spec
from berth.rules.devices.split import Split, read_split
from berth.rules.devices.templates import NO_MATCH, TRIGGERS, Templates, matching, needs_template
from berth.rules.gpu_request import per_card


class DeviceRequest(NamedTuple):
    """`amounts` are normalised requests by device type. `templates` are the names of the sizes that a virtual NPU may
    have, by model; None: no template is needed. `split`: the share of cards is divided unevenly.
    """

    amounts: Mapping[str, Mapping[str, int]]
    hints: Mapping[str, Hint] = {}
    joint: JointRequest | None = None
    partition: PartitionSpec | None = None
    templates: Mapping[str, tuple[str, ...]] | None = None
    split: Split | None = None


def read_request(
    requests: Mapping[str, int], annotations: Mapping[str, str], templates: Templates | None = None
) -> DeviceRequest | Problem:
    """What a pod's summed requests and annotations ask for; a Problem names what cannot be read or served anywhere.

    Without a table of `templates` shared NPUs are served like every other share.
    """
    split = read_split(requests, annotations)
    if isinstance(split, Problem):
        return split
    amounts = device_requests(requests if split is None else split.evened(requests))
    if isinstance(amounts, Problem):
        return amounts
    hints = read_hints(annotations)
    if isinstance(hints, Problem):
        return hints
    joint = read_joint(annotations)
    if isinstance(joint, Problem):
        return joint
    partition = read_partition_spec(annotations)
    if isinstance(partition, Problem):
        return partition
    request = DeviceRequest(amounts, hints, joint, partition, None, split)
    return request if templates is None else sized(request, templates)


def sized(
    request: DeviceRequest, templates: Templates, triggers: Collection[str] = TRIGGERS
) -> DeviceRequest | Problem:
    """The request with the names of the templates that it is, if it is for a virtual NPU; a Problem where none is.

    `triggers` are the resources by which a shared request is known as one for a virtual NPU.
    """
    cards = per_card(request.amounts[GPU.name]) if GPU.name in request.amounts else None
    if cards is None or not needs_template(cards, triggers):
        return request
    named = matching(templates, cards.each)
    return request._replace(templates=named) if named else Problem(field="resources.requests", message=NO_MATCH)
