"""Do the devices of a claim serve what its object asks for: how many, which, how much of each; and what there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.ledger import Grant
from berth.rules.device_request import device_requests
from berth.transaction.claims import Claim

DIVIDED = (names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.NPU_CORE, names.NPU_CPU, names.NPU_DVPP)
"""What of a request is spread evenly over its cards."""
KINDS = frozenset({"gpu", "rdma", "fpga"})
PERCENT = (names.GPU_CORE, names.GPU_MEMORY_RATIO)


def device_problems(claim: Claim, inventory: NodeInventory | None) -> Iterator[str]:
    """Compares the claim's grants with its amounts and with the devices that the node has."""
    asked = device_requests(claim.amounts)
    if isinstance(asked, Problem):
        yield f"{asked.field}: {asked.message}"
        return
    if set(asked) - {"gpu"}:
        yield f"asks for devices of kind {', '.join(sorted(asked))}, which are not handed out"
    gpu = asked.get("gpu", {})
    grants = [grant for grant in claim.grants if grant.kind in KINDS]
    if {grant.kind for grant in grants} - {"gpu"}:
        yield "was given devices of a kind that it does not ask for"
    count = _cards(gpu)
    if len(grants) != count:
        yield f"asks for {count} devices, was given {len(grants)}"
        return
    if len({(grant.kind, grant.minor) for grant in grants}) != count:
        yield "was given one device twice"
    slots = {(slot.kind, slot.minor): slot for slot in inventory.devices} if inventory else {}
    for grant in grants:
        slot = slots.get((grant.kind, grant.minor))
        if slot is None or not slot.healthy:
            yield f"{grant.kind} {grant.minor} is {'not healthy' if slot else 'not there'}"
            continue
        yield from _amount_problems(grant, slot, gpu, count)


def device_capacity(inventory: NodeInventory | None) -> dict[tuple[str, ...], int]:
    """What healthy devices report, by kind, id and resource: a device is governed by that."""
    totals: dict[tuple[str, ...], int] = {}
    for slot in inventory.devices if inventory else ():
        if slot.healthy:
            for name, amount in slot.amounts.items():
                if amount:
                    bound = min(amount, 100) if name in PERCENT else amount
                    totals[slot.kind, str(slot.minor), name] = bound
    return totals


def _cards(gpu: Mapping[str, int]) -> int:
    """Over how many cards a normalised request is spread."""
    if not gpu:
        return 0
    if gpu.get(names.GPU_SHARED):
        return gpu[names.GPU_SHARED]
    whole, rest = divmod(gpu.get(names.GPU_MEMORY_RATIO, 0), 100)
    return whole if whole > 1 and not rest else 1


def _amount_problems(grant: Grant, slot: DeviceSlot, gpu: Mapping[str, int], count: int) -> Iterator[str]:
    where = f"{grant.kind} {grant.minor}"
    for name in DIVIDED:
        if gpu.get(name) and grant.amounts.get(name, 0) != gpu[name] // count:
            yield f"{where}: {grant.amounts.get(name, 0)} of {name} given, {gpu[name] // count} asked for"
        if gpu.get(name) and not slot.amounts.get(name):
            yield f"{where} has no {name}"
    capacity = slot.amounts.get(names.GPU_MEMORY, 0)
    ratio, memory = grant.amounts.get(names.GPU_MEMORY_RATIO, 0), grant.amounts.get(names.GPU_MEMORY, 0)
    # A pod that asks for one form of memory holds the other as well, else requests of both forms would overlap.
    if gpu.get(names.GPU_MEMORY_RATIO) and memory < ratio * capacity // 100:
        yield f"{where}: {ratio} % of memory is held as {memory} bytes only"
    if gpu.get(names.GPU_MEMORY) and capacity and ratio < memory * 100 // capacity:
        yield f"{where}: {memory} bytes of memory are held as {ratio} % only"
