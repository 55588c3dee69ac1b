"""Do the devices of a claim serve what its object asks for: how many, which, how much of each, where they lie; and what
there is.

What a pod and a node say is read by `berth.rules`; which devices were chosen, and how, is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import COUNT, DEVICE_KINDS, OWN_ROOT, VF, device_of
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.ledger import Grant
from berth.contracts.state import Node, PodTemplate
from berth.rules.device_cordon import REASON as CORDONED
from berth.rules.devices.hints import APPLY_FOR_ALL, NO_HINT, PCIE_LEVEL, Hint
from berth.rules.devices.joint_request import SAME_NUMA
from berth.rules.devices.kubelet_counts import DIVIDED, counts_shown
from berth.rules.devices.partition_spec import RESTRICTED
from berth.rules.devices.partitions import HONOR, partition_rules
from berth.rules.devices.request import DeviceRequest, read_request
from berth.rules.devices.templates import Templates, model_key, needs_template
from berth.rules.devices.topology import DEVICE, NUMA_NODE, PCIE
from berth.rules.gpu_request import per_card
from berth.rules.records import registry
from berth.rules.records.explained_devices import Limit, limits_of_request
from berth.rules.scheduler_config import DeviceShareArgs
from berth.transaction.claims import Claim

KINDS: Final = DEVICE_KINDS | {VF}
ANNOTATIONS: Final = (
    names.ANNOTATION_DEVICE_HINT,
    names.ANNOTATION_DEVICE_JOINT,
    names.ANNOTATION_GPU_PARTITION_SPEC,
    names.ANNOTATION_GPU_SPLIT,
)
"""Those that say more of what a pod asks for."""
PERCENT: Final = (names.GPU_CORE, names.GPU_MEMORY_RATIO)
GPU: Final = "gpu"
NO_TEMPLATES: Final[Templates] = {}
_PLAIN: Final = ("", OWN_ROOT)
"""Extensions of devices that are cut to no size."""


class _Given(NamedTuple):
    """A device that was given, with what the node says of it and the virtual functions that came with it."""

    grant: Grant
    slot: DeviceSlot
    functions: Sequence[Grant]

    @property
    def text(self) -> str:
        return f"{self.grant.kind} {self.grant.minor}"


def device_problems(
    claim: Claim,
    template: PodTemplate,
    node: Node,
    inventory: NodeInventory | None,
    *,
    npu_templates: Templates = NO_TEMPLATES,
    args: DeviceShareArgs | None = None,
) -> Iterator[str]:
    """Compares the claim's grants with what its object asks for and with the devices that the node has."""
    is_plain = not claim.grants and registry.GRANTED_RESOURCES.isdisjoint(claim.amounts)
    if is_plain and template.annotations.keys().isdisjoint(ANNOTATIONS):
        return
    request = read_request(claim.amounts, template.annotations)
    grants = [grant for grant in claim.grants if grant.kind in KINDS]
    hints = {} if isinstance(request, Problem) else request.hints
    for grant in grants:
        is_own = bool(hints) and hints.get(grant.kind, NO_HINT).exclusive == PCIE_LEVEL
        if (grant.extension == OWN_ROOT) != is_own:
            yield f"{grant.kind} {grant.minor}: whether its PCIe root is the pod's own is not what is asked for"
    if isinstance(request, Problem):
        if grants or any(claim.amounts.get(name) for name in (*PERCENT, names.RDMA, names.FPGA)):
            yield f"{request.field}: {request.message}"
        return
    limits = limits_of_request(request)
    if counts_shown(node.allocatable) & {name for name, amount in claim.amounts.items() if amount > 0}:
        yield from _number_problems(request, grants)
        return
    given: dict[str, list[_Given]] = {}
    is_asked = bool(grants or limits)
    slots = {(slot.kind, slot.minor): slot for slot in inventory.devices} if inventory and is_asked else {}
    functions = [grant for grant in grants if grant.kind == VF]
    for grant in grants:
        if grant.kind == VF:
            continue
        if grant.kind not in limits:
            yield f"was given devices of kind {grant.kind}, for which it does not ask"
            continue
        slot = slots.get((grant.kind, grant.minor))
        if slot is None or not slot.healthy:
            yield f"{grant.kind} {grant.minor} is {'not healthy' if slot else 'not there'}"
            continue
        mine = [each for each in functions if device_of(each) == (grant.kind, grant.minor)] if functions else ()
        given.setdefault(grant.kind, []).append(_Given(grant, slot, mine))
    if len({(grant.kind, grant.id) for grant in grants}) != len(grants):
        yield "was given one device twice"
    if functions and len(functions) != sum(len(each.functions) for some in given.values() for each in some):
        yield "was given virtual functions of devices that it was not given"
    for kind, limit in limits.items():
        hint = request.hints.get(kind, NO_HINT)
        yield from _count_problems(kind, limit, hint, given.get(kind, ()), slots.values())
        for each in given.get(kind, ()):
            yield from _amount_problems(each, limit)
            if each.functions or hint is not NO_HINT:
                yield from _hint_problems(each, hint)
    if cards := given.get(GPU):
        yield from _split_problems(request, cards)
        yield from _scope_problems(request, cards)
        yield from _partition_problems(request, cards, node, inventory)
        args = args or DeviceShareArgs()
        yield from _size_problems(request, cards, node, npu_templates, args.templates.matched_resources)
        yield from sharing_problems(claim, template, node, args)
    yield from _joint_problems(request, given)


def _number_problems(request: DeviceRequest, grants: Sequence[Grant]) -> Iterator[str]:
    """Of cards that kubelet picks none is chosen, and nothing that one would have to be chosen for is asked."""
    if grants:
        yield "was given devices where kubelet picks the cards"
    is_any = request.amounts.keys() == {GPU} and all(hint is NO_HINT for hint in request.hints.values())
    if not is_any or request.partition is not None or request.split is not None:
        yield "asks for certain cards where kubelet picks them"


def numbers_beyond(
    node: Node, inventory: NodeInventory | None, held: Sequence[Claim], arriving: Sequence[Claim]
) -> Iterator[str]:
    """Where kubelet picks cards, no more of them are asked for than are healthy, if any are listed at all, and none
    where one is cordoned."""
    cards = [slot for slot in (inventory.devices if inventory else ()) if slot.kind == GPU]
    cordoned = [slot.minor for slot in cards if slot.reason == CORDONED and not slot.healthy]
    for name in sorted(counts_shown(node.allocatable)) if cordoned else ():
        if any(claim.amounts.get(name, 0) > 0 for claim in arriving if not claim.is_reservation):
            yield f"{name}: kubelet may pick gpu {cordoned[0]}, which is cordoned"
    if not cards or any(slot.reason == DIVIDED and not slot.healthy for slot in cards):
        return
    healthy = [slot.healthy for slot in cards]
    for name in sorted(counts_shown(node.allocatable)):
        comes, there = (
            sum(claim.amounts.get(name, 0) for claim in claims if not claim.is_reservation)
            for claims in (arriving, held)
        )
        if comes > 0 and comes + there > sum(healthy):
            yield f"{name}: {comes + there} claimed of {sum(healthy)} healthy"


def sharing_problems(claim: Claim, template: PodTemplate, node: Node, args: DeviceShareArgs) -> Iterator[str]:
    """Parts of GPUs are isolated where that is asked for, and of models that may be shared."""
    if not args.unsupported and names.LABEL_GPU_ISOLATION not in template.labels:
        return
    parts = [grant for grant in claim.grants if grant.kind == GPU and not _is_whole(grant)]
    if not parts:
        return
    asked, there = (labels.get(names.LABEL_GPU_ISOLATION, "") for labels in (template.labels, node.labels))
    if asked and asked.lower() != there.lower():
        yield f"asks for parts of GPUs isolated by {asked[:64]}, {node.name} has {there[:64] or 'nothing'}"
    vendor, model = node.labels.get(names.LABEL_GPU_VENDOR), node.labels.get(names.LABEL_GPU_MODEL)
    if any((each.vendor, each.model) == (vendor, model) for each in args.unsupported):
        yield f"was given a part of a GPU of {model}, which is not shared"


def _is_whole(grant: Grant) -> bool:
    return grant.amounts.get(names.GPU_MEMORY_RATIO, 0) >= 100


def cut_problems(inventory: NodeInventory | None, held: Sequence[Claim], arriving: Sequence[Claim]) -> Iterator[str]:
    """A chip that is cut into virtual NPUs gives pods nothing in another way, nor is one cut that does."""
    npus = {
        str(slot.minor)
        for slot in (inventory.devices if inventory else ())
        if slot.kind == GPU and slot.amounts.get(names.NPU_CORE)
    }
    if not npus:
        return
    pods = [claim for claim in arriving if not claim.is_reservation]
    there = [claim for claim in held if not claim.is_reservation]
    for at, claim in enumerate(pods):
        for grant in claim.grants:
            if grant.kind != GPU or grant.id not in npus:
                continue
            for other in (*there, *pods[:at]):
                if any(_is_beside(grant, each) for each in other.grants):
                    yield f"gpu {grant.id} is cut into virtual NPUs and given out otherwise, to {'/'.join(other.name)}"


def _is_beside(grant: Grant, other: Grant) -> bool:
    """Whether one of two parts of a chip is a virtual NPU, and the other is none."""
    if (other.kind, other.id) != (grant.kind, grant.id):
        return False
    return bool(grant.amounts.get(names.NPU_CORE)) != bool(other.amounts.get(names.NPU_CORE))


def root_problems(inventory: NodeInventory | None, held: Sequence[Claim], arriving: Sequence[Claim]) -> Iterator[str]:
    """A PCIe root that is a pod's own has no device of the kind that another pod holds. Where a device of one lies is
    known."""
    pods = [claim for claim in arriving if not claim.is_reservation]
    there = [claim for claim in held if not claim.is_reservation]
    if not any(grant.extension == OWN_ROOT for claim in (*pods, *there) for grant in claim.grants):
        return
    places = {(slot.kind, slot.minor): slot.pcie for slot in (inventory.devices if inventory else ())}
    for at, claim in enumerate(pods):
        for grant in claim.grants:
            if grant.kind not in DEVICE_KINDS:
                continue
            root = places.get((grant.kind, grant.minor), "")
            if grant.extension == OWN_ROOT and not root:
                yield f"{grant.kind} {grant.minor} is to have its PCIe root to itself, and nobody knows where it is"
            for other in (*there, *pods[:at]):
                for each in other.grants:
                    if each.kind == grant.kind and OWN_ROOT in (grant.extension, each.extension):
                        beside = places.get((each.kind, each.minor), "")
                        if root == beside or not (root and beside):
                            yield (
                                f"{grant.kind} {grant.minor} shares the PCIe root {root or 'unknown'} with "
                                f"{each.kind} {each.minor} of {'/'.join(other.name)}, which is one pod's own"
                            )


def device_capacity(inventory: NodeInventory | None) -> dict[tuple[str, ...], int]:
    """What healthy devices report, by kind, id and resource, and each virtual function once: a device is governed by
    that."""
    totals: dict[tuple[str, ...], int] = {}
    for slot in inventory.devices if inventory else ():
        if slot.healthy:
            for name, amount in slot.amounts.items():
                if amount:
                    bound = min(amount, 100) if name in PERCENT else amount
                    totals[slot.kind, str(slot.minor), name] = bound
            for each in slot.functions:
                totals[VF, each.bus, COUNT] = 1
    return totals


def _count_problems(
    kind: str, limit: Limit, hint: Hint, mine: Sequence[_Given], there: Iterable[DeviceSlot]
) -> Iterator[str]:
    least, most = limit.least, limit.most
    if kind != GPU and hint.strategy == APPLY_FOR_ALL and limit.most > limit.least:
        listed = [slot for slot in there if slot.kind == kind]
        least = most = sum(hint.selector is None or hint.selector(slot.labels) for slot in listed)
    if not least <= len(mine) <= most or not mine:
        asked = f"{least}" if least == most else f"{least} to {most}"
        yield f"asks for {asked} devices of kind {kind}, was given {len(mine)}"


def _amount_problems(given: _Given, limit: Limit) -> Iterator[str]:
    amounts, slot = given.grant.amounts, given.slot
    for name, asked in limit.each.items():
        if limit.split is None and amounts.get(name, 0) != asked:
            yield f"{given.text}: {amounts.get(name, 0)} of {name} given, {asked} asked for"
        if not slot.amounts.get(name):
            yield f"{given.text} has no {name}"
    capacity = slot.amounts.get(names.GPU_MEMORY, 0)
    ratio, memory = amounts.get(names.GPU_MEMORY_RATIO, 0), amounts.get(names.GPU_MEMORY, 0)
    # A pod that asks for one form of memory holds the other as well, else requests of both forms would overlap.
    if names.GPU_MEMORY_RATIO in limit.each and memory < ratio * capacity // 100:
        yield f"{given.text}: {ratio} % of memory is held as {memory} bytes only"
    if names.GPU_MEMORY in limit.each and capacity and ratio < memory * 100 // capacity:
        yield f"{given.text}: {memory} bytes of memory are held as {ratio} % only"


def _hint_problems(given: _Given, hint: Hint) -> Iterator[str]:
    if hint.selector is not None and not hint.selector(given.slot.labels):
        yield f"{given.text} has not the labels that are asked for"
    wanted = 0 if hint.functions is None else 1
    if len(given.functions) != wanted:
        yield f"{given.text}: {len(given.functions)} virtual functions given, {wanted} asked for"
    listed = {each.bus: each for each in given.slot.functions}
    for function in given.functions:
        there = listed.get(function.id)
        if there is None:
            yield f"{given.text} has no virtual function {function.id}"
        elif hint.functions is not None and not hint.functions(there.labels):
            yield f"virtual function {function.id} has not the labels that are asked for"


def _split_problems(request: DeviceRequest, cards: Sequence[_Given]) -> Iterator[str]:
    """Unequal shares: so much in all, and as much of the cores as of the memory where cores are asked for."""
    split = request.split
    if split is None:
        return
    shares = [each.grant.amounts.get(names.GPU_MEMORY_RATIO, 0) for each in cards]
    if sum(shares) != split.percent or not all(0 < share <= 100 for share in shares):
        yield f"asks for {split.percent} % of GPUs in all, was given {', '.join(map(str, shares)) or 'none'}"
    cores = [each.grant.amounts.get(names.GPU_CORE, 0) for each in cards]
    if cores != (shares if split.with_core else [0] * len(shares)):
        yield f"was given {', '.join(map(str, cores))} % of the cores of cards with {', '.join(map(str, shares))} %"


def _size_problems(
    request: DeviceRequest,
    cards: Sequence[_Given],
    node: Node,
    npu_templates: Templates,
    triggers: Sequence[str],
) -> Iterator[str]:
    """A share of an NPU has the name of a size that is what it asks for; nothing else has one."""
    if request.amounts[GPU].keys().isdisjoint(triggers) and all(each.grant.extension in _PLAIN for each in cards):
        return
    asked, sizes = per_card(request.amounts[GPU]), npu_templates.get(model_key(node.labels), {})
    for each in cards:
        name = each.grant.extension
        if not needs_template(asked, triggers):
            if name not in _PLAIN:
                yield f"{each.text} was cut to {name}, and a size is not asked for"
        elif name not in sizes:
            yield f"{each.text} was cut to {name or 'no size'}, which its model has not"
        elif {**sizes[name]} != {key: amount for key, amount in asked.each.items() if amount}:
            yield f"{each.text} was cut to {name}, which is not what is asked for"


def _scope_problems(request: DeviceRequest, cards: Sequence[_Given]) -> Iterator[str]:
    level = request.hints.get(GPU, NO_HINT).scope
    if level < NUMA_NODE:
        return
    if level >= DEVICE:
        places: set[tuple[object, ...]] = {(each.slot.minor,) for each in cards}
    elif level >= PCIE:
        places = {(each.slot.numa_node, each.slot.pcie) for each in cards}
    else:
        places = {(each.slot.numa_node,) for each in cards}
    if len(places) > 1 or (level < DEVICE and not all(each.slot.pcie for each in cards)):
        yield "was given GPUs that do not lie in the scope that is asked for"


def _joint_problems(request: DeviceRequest, given: Mapping[str, Sequence[_Given]]) -> Iterator[str]:
    """With a scope, the devices of all types lie at the same places."""
    joint = request.joint
    if joint is None or not joint.scope:
        return
    types = [
        kind
        for kind in joint.types
        if kind in request.amounts and request.hints.get(kind, NO_HINT).strategy != APPLY_FOR_ALL
    ]
    if len(types) < 2:
        return
    places = [{_place(each.slot, is_numa=joint.scope == SAME_NUMA) for each in given.get(kind, ())} for kind in types]
    if "" in places[0] or any(each != places[0] for each in places):
        yield f"was given devices of {', '.join(types)} at different places, {joint.scope} is asked for"


def _place(slot: DeviceSlot, *, is_numa: bool) -> str:
    if not slot.pcie or (is_numa and slot.numa_node < 0):
        return ""
    return str(slot.numa_node) if is_numa else slot.pcie


def _partition_problems(
    request: DeviceRequest, cards: Sequence[_Given], node: Node, inventory: NodeInventory | None
) -> Iterator[str]:
    """Whole cards are one group of the node's table, if the pod asks for one or the node gives out no others."""
    if any(each.grant.amounts.get(names.GPU_MEMORY_RATIO, 0) < 100 for each in cards):
        return
    spec = request.partition
    if inventory is not None and inventory.partition_policy:
        is_bound = inventory.partition_policy == HONOR
        table = [(frozenset(each.minors), each.score, each.bandwidth) for each in inventory.partitions]
    else:
        rules = partition_rules(node.labels, {}, {})
        is_bound = rules.honors
        table = [(frozenset(p.minors), p.score, p.bandwidth) for each in (rules.table or {}).values() for p in each]
    if not is_bound and spec is None:
        return
    mine = frozenset(each.grant.minor for each in cards)
    best = max([score for minors, score, _ in table if len(minors) == len(mine)], default=0)
    for minors, score, bandwidth in table:
        if minors != mine or (spec is not None and bandwidth < spec.bandwidth):
            continue
        if spec is None or spec.policy != RESTRICTED or score == best:
            return
    yield f"was given GPUs {', '.join(map(str, sorted(mine)))}, which are no partition of the node"
