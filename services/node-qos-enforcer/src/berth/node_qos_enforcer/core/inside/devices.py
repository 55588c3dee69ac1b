"""Which devices a container has of those that its pod was given, and what it takes to use them."""

from __future__ import annotations

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.inventory import NodeInventory
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.seen import PodSeen
from berth.vendors import pci
from berth.vendors.containers import edits
from berth.vendors.given import given_to
from berth.vendors.probe import Probe
from berth.vendors.registry import ACCELERATOR
from berth.vendors.vendor import Container, Edits, Given, given_field


def has_devices(pod: PodSeen) -> bool:
    """Whether its record is more than that there are none."""
    return pod.annotations.get(names.ANNOTATION_DEVICE_ALLOCATED, "") not in ("", "{}", "null")


def device_edits(pod: PodSeen, container: str, facts: InsideFacts, probe: Probe) -> Edits | Problem:
    """What a container gets. A problem names the record and what in it cannot be honoured on this node.

    Devices are compared with the node's inventory where that is known: another card under the same minor is not the one
    that was given. Where it is not, nobody says whose the node's accelerators are, and none is given.
    """
    given = given_to(pod.annotations, container)
    if isinstance(given, Problem):
        return _of(pod, given)
    inventory = facts.inventory
    for each in given:
        strange = _unknown(each) if inventory is None else _strange(each, inventory)
        if strange is not None:
            return _of(pod, strange)
    described = Container(
        pod_uid=pod.uid, name=container, pod_labels=pod.labels, library=facts.library, monitors=facts.monitors
    )
    found = edits(given, described, probe, gpu_vendor=inventory.gpu_vendor if inventory is not None else "")
    return _of(pod, found) if isinstance(found, Problem) else found


def _unknown(given: Given) -> Problem | None:
    if given.kind != ACCELERATOR:
        return None
    message = "cannot be given: whose it is is not known while the inventory of the node was never read"
    return Problem(field=given_field(given, "minor"), message=message)


def _strange(given: Given, inventory: NodeInventory) -> Problem | None:
    slot = next((each for each in inventory.devices if (each.kind, each.minor) == (given.kind, given.minor)), None)
    if slot is None:
        return Problem(field=given_field(given, "minor"), message="is no device of this node")
    if given.id and slot.uuid and given.id != slot.uuid:
        return Problem(
            field=given_field(given, "id"), message=f"is {given.id[:80]!r}, and the device there is {slot.uuid[:80]!r}"
        )
    there = {_bus(each.bus) for each in slot.functions}
    for bus in given.functions:
        if _bus(bus) not in there:
            message = f"names {bus[:80]!r}, which is no virtual function of the device there"
            return Problem(field=given_field(given, "extension.vfs"), message=message)
    return None


def _bus(text: str) -> str:
    return pci.address(text) or text


def _of(pod: PodSeen, problem: Problem) -> Problem:
    return Problem(field=f"{pod.key}.{problem.field}", message=problem.message)
