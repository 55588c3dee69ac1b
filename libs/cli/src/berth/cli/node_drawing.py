"""A node as lines for people: amounts, devices, NUMA nodes with their cores, pods, what is in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_letters
from typing import Final

from berth.cli.lines import grants_text
from berth.cli.output import WIDTH_MAX, columns, fitted, wrapped
from berth.contracts import names
from berth.contracts.grants import DEVICE_KINDS
from berth.contracts.question import Holding, NodeAnswer, NodeDevice, NodePod, NodeZone
from berth.resources.amounts import format_amount
from berth.rules.cpus.cpuset import NO_CPUS, read_cpuset
from berth.rules.records import registry

PODS_SHOWN: Final = 40
HEADINGS: Final = {"gpu": "GPU", "rdma": "NIC", "fpga": "FPGA"}
LABEL_WIDTH: Final = 12
MAP_INDENT: Final = 4
GROUP: Final = 8
"""So many CPUs of a map stand together."""
KEPT: Final = "#"
SHARED: Final = "."
BEYOND: Final = "+"
"""CPUs of somebody for whom there was no letter left."""
IN_FLIGHT: Final = ("decided", "nominated")
FIRST: Final = (names.CPU, names.MEMORY, names.PODS)


def drawn(answer: NodeAnswer, columns_max: int = WIDTH_MAX) -> list[str]:
    """The answer in lines of so many columns."""
    if answer.outcome != "known":
        return [f"node/{answer.name}  {answer.outcome}", *_listed("", answer.message, columns_max)]
    state = [(answer.ready and "ready") or "not ready", *(["cordoned"] if answer.cordoned else [])]
    lines = [f"node/{answer.name}  {', '.join(state)}"]
    if answer.taints:
        lines += _listed("taints", ", ".join(answer.taints), columns_max)
    amounts = [
        (f"{format_amount(name, answer.free.get(name, 0))} free of", format_amount(name, whole), name)
        for name, whole in sorted(answer.allocatable.items(), key=lambda each: _order(each[0]))
    ]
    lines += columns(amounts, indent="  ", gap=" ", right=(0, 1))
    for kind in dict.fromkeys(device.kind for device in answer.devices):
        lines += ["", *_devices(kind, [each for each in answer.devices if each.kind == kind])]
    if answer.zones:
        lines += ["", *_zones(answer, columns_max)]
    bound = [pod for pod in answer.pods if pod.state not in IN_FLIGHT]
    waiting = [pod for pod in answer.pods if pod.state in IN_FLIGHT]
    for heading, pods in (("PODS", bound), ("IN FLIGHT", waiting)):
        if pods:
            lines += ["", f"  {heading}", *_pods(pods)]
    if answer.pods_left_out:
        lines.append(f"    and {answer.pods_left_out} more")
    for problem in answer.problems:
        lines += _listed("problem", f"{problem.field}: {problem.message}", columns_max)
    return [fitted(line, columns_max) for line in lines]


def _order(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


# --- devices ---------------------------------------------------------------------------------------------------------


def _devices(kind: str, devices: Sequence[NodeDevice]) -> list[str]:
    heading = HEADINGS.get(kind, kind.upper())
    rows = [(heading, "HEALTH", "ZONE", "HELD", "BY")]
    for device in devices:
        health = "ok" if device.healthy else "ill" if device.reported else "gone"
        zone = str(device.numa_node) if device.numa_node >= 0 else "-"
        shares = [(each.holder, _share(each.amounts, device.amounts)) for each in device.holdings]
        total = _share(_sum(device.holdings), device.amounts)
        by = ", ".join(holder if share is None or share == total else f"{holder} {share} %" for holder, share in shares)
        rows.append((str(device.minor), health, zone, "-" if total is None else f"{total} %", by or "-"))
    return columns(rows, indent="  ", right=(0, 3))


def _share(amounts: Mapping[str, int], whole: Mapping[str, int]) -> int | None:
    """Percent of a device, by what is taken most of, rounded up; None: its totals are not known."""
    known = [-(-100 * amount // whole[name]) for name, amount in amounts.items() if whole.get(name)]
    return max(known, default=None if amounts else 0)


def _sum(holdings: Iterable[Holding]) -> dict[str, int]:
    total: dict[str, int] = {}
    for holding in holdings:
        for name, amount in holding.amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


# --- NUMA nodes and cores --------------------------------------------------------------------------------------------


def _zones(answer: NodeAnswer, columns_max: int) -> Iterator[str]:
    letters = dict(zip(answer.own_cpus, ascii_letters, strict=False))
    marks: dict[int, str] = dict.fromkeys(_cpus(answer.kept_cpus), KEPT)
    for holder, text in answer.own_cpus.items():
        marks.update(dict.fromkeys(_cpus(text), letters.get(holder, BEYOND)))
    for zone in answer.zones:
        yield f"  ZONE {zone.id}  {_zone_amounts(zone)}".rstrip()
        cells = "".join(marks.get(cpu, SHARED) for core in zone.cores for cpu in core)
        yield from _map(cells, columns_max)
    if not any(zone.cores for zone in answer.zones):
        return
    legend = [(letters.get(holder, BEYOND), f"cpus {text}", holder) for holder, text in answer.own_cpus.items()]
    if answer.kept_cpus:
        legend.append((KEPT, f"cpus {answer.kept_cpus}", "given to nobody"))
    yield from columns([*legend, (SHARED, "the others", "shared")], indent=" " * MAP_INDENT)


def _cpus(text: str) -> frozenset[int]:
    cpus = read_cpuset(text, "cpus")
    return cpus if isinstance(cpus, frozenset) else NO_CPUS


def _zone_amounts(zone: NodeZone) -> str:
    held = _sum(zone.holdings)
    amounts = [
        f"{name} {format_amount(name, held.get(name, 0))} of {format_amount(name, whole)} held"
        for name, whole in sorted(zone.amounts.items(), key=lambda each: _order(each[0]))
        if whole or held.get(name)
    ]
    return ", ".join(amounts)


def _map(cells: str, columns_max: int) -> Iterator[str]:
    """CPUs in the order of cores, threads of a core side by side, in lines of whole groups."""
    groups = [cells[at : at + GROUP] for at in range(0, len(cells), GROUP)]
    per_line = max(1, min((columns_max - MAP_INDENT + 1) // (GROUP + 1), 8))
    for at in range(0, len(groups), per_line):
        yield " " * MAP_INDENT + " ".join(groups[at : at + per_line])


# --- pods ------------------------------------------------------------------------------------------------------------


def _pods(pods: Sequence[NodePod]) -> list[str]:
    rows = []
    for pod in pods[:PODS_SHOWN]:
        plain = {name: amount for name, amount in pod.amounts.items() if name not in registry.GRANTED_RESOURCES}
        amounts = [f"{name} {format_amount(name, amount)}" for name, amount in plain.items() if amount]
        given = [
            grants_text([grant for grant in pod.grants if grant.kind in DEVICE_KINDS]),
            f"cpus {pod.cpus}" if pod.cpus else "",
            f"zone {','.join(map(str, pod.zones))}" if pod.zones else "",
            pod.message,
        ]
        state = [pod.state] if pod.state in IN_FLIGHT else []
        rows.append((pod.holder, *state, ", ".join([*amounts, *filter(None, given)])))
    lines = columns(rows, indent="    ")
    more = len(pods) - PODS_SHOWN
    return [*lines, f"    and {more} more: --json has them"] if more > 0 else lines


def _listed(what: str, text: str, columns_max: int) -> list[str]:
    indent = " " * (LABEL_WIDTH + 2)
    first, *rest = wrapped(text, indent=indent, width=columns_max)
    return [f"  {what:<{LABEL_WIDTH}}{first[len(indent) :]}", *rest]
