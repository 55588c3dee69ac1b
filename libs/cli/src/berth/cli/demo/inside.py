"""The acts within one machine: CPUs of a pod's own, devices side by side, and a card that falls ill and heals."""

from __future__ import annotations

import time

from berth.cli.demo.machine import CPUS, FAULT, ILL, NAME, with_card
from berth.cli.demo.scenario import Scenario
from berth.cli.demo.stage import Stage
from berth.contracts.grants import VF, device_of
from berth.contracts.ledger import Grant
from berth.contracts.question import NodeDevice
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.cpus.resource_status import ResourceStatus, read_resource_status
from berth.rules.records.device_allocated import DeviceAllocated

DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"


async def own_cpus(stage: Stage, plot: Scenario) -> bool:
    """A pod has CPUs to itself, whole cores of one NUMA node."""
    (name,) = await stage.create([plot.inside.own])
    (fate,) = await stage.settled([name])
    status = read_resource_status(fate.annotations)
    if not fate.node or not isinstance(status, ResourceStatus):
        stage.tell("pod", name.partition("/")[2], "waiting", fate.refusal)
        return False
    zones = [share.zone for share in status.zones]
    facts = f"{fate.node}, CPUs {format_cpuset(status.cpus)} to itself, in NUMA node {', '.join(map(str, zones))}"
    stage.tell("pod", name.partition("/")[2], "placed", facts)
    return fate.node == NAME and len(status.cpus) == CPUS and len(zones) == 1


async def side_by_side(stage: Stage, plot: Scenario) -> bool:
    """A pod gets a card and a virtual function of a NIC on the same PCIe root."""
    (name,) = await stage.create([plot.inside.beside])
    (fate,) = await stage.settled([name])
    granted = DeviceAllocated().read(fate.annotations) or ()
    functions = [grant for grant in granted if grant.kind == VF]
    if not fate.node or not functions:
        stage.tell("pod", name.partition("/")[2], "waiting", fate.refusal)
        return False
    roots = {await _root(stage, fate.node, grant) for grant in granted}
    cards = ",".join(grant.id for grant in granted if grant.kind == "gpu")
    kind, minor = device_of(functions[0])
    facts = f"{fate.node} gpu {cards} beside function {functions[0].id} of {kind} {minor}"
    stage.tell("pod", name.partition("/")[2], "placed", facts)
    return bool(cards) and len(roots) == 1


async def illness(stage: Stage, plot: Scenario) -> bool:
    """A card falls ill: nobody gets it, and who needs it waits until it is well."""
    path = f"{DEVICES}/{NAME}"
    await stage.change(path, with_card(await stage.object(path), ILL, fault=FAULT | {"lastTransitionTime": _now()}))
    is_seen = await stage.until_node(NAME, lambda node: any(_is_ill(each) for each in node.devices))
    stage.tell("card", f"{NAME} gpu {ILL}", "ill", f"{FAULT['reason']}: {FAULT['message']}")
    (name,) = await stage.create([plot.inside.rest])
    (fate,) = await stage.settled([name])
    was_refused = not fate.node
    answer = await stage.why(name.partition("/")[2])
    said = [reason.message for reason in answer.reasons if reason.code == "DeviceShare"] if answer else []
    stage.tell("pod", name.partition("/")[2], "waits" if was_refused else "placed", "DeviceShare" if said else "")
    stage.more("because", answer.message if answer else "no reason")
    await stage.change(path, with_card(await stage.object(path), ILL, fault=None))
    await stage.until(lambda: bool(fate.node))
    stage.tell("card", f"{NAME} gpu {ILL}", "well")
    cards = [grant.minor for grant in DeviceAllocated().read(fate.annotations) or () if grant.kind == "gpu"]
    facts = f"{fate.node} gpu {','.join(map(str, cards))}" if fate.node else fate.refusal
    stage.tell("pod", name.partition("/")[2], "placed" if fate.node else "waiting", facts)
    return is_seen and was_refused and bool(said) and ILL in cards


async def _root(stage: Stage, node: str, grant: Grant) -> str:
    """The PCIe root of what was granted."""
    place = device_of(grant) if grant.kind == VF else (grant.kind, grant.minor)
    device = await stage.object(f"{DEVICES}/{node}")
    found = (each for each in device["spec"]["devices"] if (each["type"], each["minor"]) == place)
    return next((str(each["topology"]["pcieID"]) for each in found), "")


def _is_ill(device: NodeDevice) -> bool:
    return (device.kind, device.minor, device.healthy, device.reason) == ("gpu", ILL, False, FAULT["reason"])


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
