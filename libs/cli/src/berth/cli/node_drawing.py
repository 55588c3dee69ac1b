"""A node as lines for people: amounts, devices, NUMA nodes with their cores, what it lends, pods, what is in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_letters
from typing import Final, NamedTuple

from berth.cli.lending_lines import lending_lines, strategy_lines, trail_lines
from berth.cli.lines import grants_text
from berth.cli.output import WIDTH_MAX, columns, fitted, wrapped
from berth.contracts import names
from berth.contracts.grants import DEVICE_KINDS, VF
from berth.contracts.node_audit import LendingAnswer, TrailAnswer
from berth.contracts.question import Holding, NodeAnswer, NodeDevice, NodePod, NodeZone
from berth.resources.amounts import format_amount, in_bytes
from berth.rules.cpus.cpuset import NO_CPUS, format_cpuset, read_cpuset
from berth.rules.device_cordon import REASON as CORDONED
from berth.rules.devices.partitions import HONOR
from berth.rules.records import registry

PODS_SHOWN: Final = 40
HEADINGS: Final = {"gpu": "GPU", "rdma": "NIC", "fpga": "FPGA"}
LABEL_WIDTH: Final = 12
MAP_INDENT: Final = 4
MAP_WIDTH: Final = 8 * 9 - 1
GROUP: Final = 8
"""So many CPUs of a map stand together."""
PARTITIONS_SHOWN: Final = 40
FUNCTIONS_SHOWN: Final = 40
SHOWN_GRANTS: Final = DEVICE_KINDS | {VF}
"""What is said of a pod by its grants; CPUs and NUMA nodes have words of their own."""
KEPT: Final = "#"
SHARED: Final = "."
BEYOND: Final = "+"
"""CPUs of somebody for whom there was no letter left."""
IN_FLIGHT: Final = ("decided", "nominated")
FIRST: Final = (names.CPU, names.MEMORY, names.PODS)


class Beside(NamedTuple):
    """What others say of a node: how its agent's strategies stand, what the agent has written last, what it lends."""

    strategies: Mapping[str, str] = {}
    trail: TrailAnswer | None = None
    lending: LendingAnswer | None = None


NOTHING: Final = Beside()


def drawn(answer: NodeAnswer, columns_max: int = WIDTH_MAX, beside: Beside = NOTHING) -> list[str]:
    """The answer in lines of so many columns."""
    if answer.outcome != "known":
        return [f"node/{answer.name}  {answer.outcome}", *_listed("", answer.message, columns_max)]
    state = [(answer.ready and "ready") or "not ready", *(["cordoned"] if answer.cordoned else [])]
    lines = [f"node/{answer.name}  {', '.join(state)}"]
    for what, text in (("taints", ", ".join(answer.taints)), ("cpus", _policies(answer))):
        lines += _listed(what, text, columns_max) if text else []
    amounts = [
        (f"{_rounded(name, answer.free.get(name, 0))} free of", format_amount(name, whole), name)
        for name, whole in sorted(answer.allocatable.items(), key=lambda each: _order(each[0]))
    ]
    lines += columns(amounts, indent="  ", gap=" ", right=(0, 1))
    for kind in dict.fromkeys(device.kind for device in answer.devices):
        lines += ["", *_devices(kind, [each for each in answer.devices if each.kind == kind], columns_max)]
    if partitions := list(_partitions(answer)):
        lines += ["", *partitions]
    if answer.zones:
        lines += ["", *_zones(answer, columns_max)]
    if beside.lending is not None:
        lines += lending_lines(beside.lending, columns_max)
    if beside.strategies:
        lines += ["", "  STRATEGIES", *strategy_lines(beside.strategies, columns_max)]
    if beside.trail is not None:
        lines += trail_lines(beside.trail)
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


def _policies(answer: NodeAnswer) -> str:
    """How CPUs and NUMA nodes are given out here, as far as the node says."""
    said = [
        f"NUMA policy {answer.numa_policy}" if answer.numa_policy else "",
        f"kubelet's CPU manager is {answer.cpu_manager}" if answer.cpu_manager not in ("", "none") else "",
        "kubelet admits whole cores only" if answer.full_cores else "",
        f"shown {answer.cpu_ratio:g} times" if answer.cpu_ratio > 1 else "",
    ]
    return ", ".join(filter(None, said))


def _rounded(name: str, amount: int) -> str:
    """What is free of an amount of bytes, rounded down to a unit that is easily read."""
    unit = next((shift for shift in (30, 20) if in_bytes(name) and amount >= 10 << shift), 0)
    return format_amount(name, amount >> unit << unit)


def _order(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


# --- devices ---------------------------------------------------------------------------------------------------------


def _devices(kind: str, devices: Sequence[NodeDevice], columns_max: int) -> Iterator[str]:
    has_functions = any(device.functions for device in devices)
    rows = [(HEADINGS.get(kind, kind.upper()), "HEALTH", "ZONE", "HELD", *(["VFS"] if has_functions else []))]
    holders = ["BY"]
    for device in devices:
        zone = str(device.numa_node) if device.numa_node >= 0 else "-"
        total = _share(_sum(device.holdings), device.amounts)
        vfs = sum(1 for each in device.functions if each.holder)
        of = sum(1 for each in device.functions if each.reported)
        held = "-" if total is None else f"{total} %"
        rows.append(
            (
                str(device.minor),
                _health(device),
                zone,
                held,
                *([f"{vfs} of {of or '-'}" if vfs or of else "-"] if has_functions else []),
            )
        )
        by = [_holding(each, _share(each.amounts, device.amounts), total) for each in device.holdings]
        holders.append(", ".join(by) or "-")
    left = columns(rows, indent="  ", right=(0, 3, 4))
    beside = max(map(len, left))
    for line, text in zip(left, holders, strict=True):
        yield from _beside(line.ljust(beside), text, columns_max)
    held_functions = [
        (f"vf {each.bus} of {device.minor}", f"{each.holder}{'' if each.reported else ', gone'}")
        for device in devices
        for each in device.functions
        if each.holder
    ]
    yield from columns(held_functions[:FUNCTIONS_SHOWN], indent="    ")
    yield from _more(len(held_functions) - FUNCTIONS_SHOWN)


def _health(device: NodeDevice) -> str:
    if not device.reported:
        return "gone"
    if device.reason == CORDONED:
        return "cordoned"
    return "ok" if device.healthy else f"ill: {device.reason}" if device.reason else "ill"


def _holding(holding: Holding, share: int | None, total: int | None) -> str:
    """Who, how much of the device where that is not all that is held of it, and the size that it is cut to."""
    text = holding.holder if share is None or share == total else f"{holding.holder} {share} %"
    return f"{text} ({holding.extension})" if holding.extension else text


def _partitions(answer: NodeAnswer) -> Iterator[str]:
    """The groups of several cards, each with what of it is held."""
    if not answer.partition_policy:
        return
    cards = {each.minor: each for each in answer.devices if each.kind == "gpu"}
    rows = []
    groups = [each for each in answer.partitions if len(each.minors) > 1]
    for each in groups[:PARTITIONS_SHOWN]:
        members = [cards.get(minor, NodeDevice(kind="gpu", minor=minor, healthy=False)) for minor in each.minors]
        holders = dict.fromkeys(holding.holder for card in members for holding in card.holdings)
        held = sum(1 for card in members if card.holdings)
        ill = sum(1 for card in members if not card.healthy)
        state = f"{held} of {len(members)} held by {', '.join(holders)}" if held else "free" if not ill else ""
        state = ", ".join(filter(None, [state, f"{ill} out of use" if ill else ""]))
        rows.append((f"gpu {format_cpuset(frozenset(each.minors))}", each.link or "-", state))
    rule = (
        "whole cards are given out in these groups alone"
        if answer.partition_policy == HONOR
        else "whole cards are given out in these groups first"
    )
    yield f"  PARTITIONS  {rule}"
    yield from columns(rows, indent="    ")
    yield from _more(len(groups) - PARTITIONS_SHOWN)


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
        yield from _beside(f"  ZONE {zone.id}", _zone_amounts(zone), columns_max)
        cpus = format_cpuset(frozenset(cpu for core in zone.cores for cpu in core if cpu >= 0))
        if cpus:
            yield from _beside("    cpus", cpus, columns_max)
        yield from _map(["".join(marks.get(cpu, SHARED) for cpu in core) for core in zone.cores], columns_max)
    if not any(zone.cores for zone in answer.zones):
        return
    legend = [(letters.get(holder, BEYOND), holder, f"cpus {text}") for holder, text in answer.own_cpus.items()]
    if answer.kept_cpus:
        legend.append((KEPT, "given to nobody", f"cpus {answer.kept_cpus}"))
    yield from columns([*legend, (SHARED, "shared", "the others")], indent=" " * MAP_INDENT)


def _cpus(text: str) -> frozenset[int]:
    cpus = read_cpuset(text, "cpus")
    return cpus if isinstance(cpus, frozenset) else NO_CPUS


def _zone_amounts(zone: NodeZone) -> str:
    amounts = [
        f"{name} {_rounded(name, zone.free.get(name, 0))} free of {format_amount(name, whole)}"
        for name, whole in sorted(zone.amounts.items(), key=lambda each: _order(each[0]))
        if whole
    ]
    return ", ".join(amounts)


def _map(cores: Sequence[str], columns_max: int) -> Iterator[str]:
    """CPUs in the order of cores, threads of a core side by side.

    Cores of as many threads stand in groups of `GROUP` CPUs; where some have more than others, each core stands alone.
    """
    cells = "".join(cores)
    if len({len(core) for core in cores}) > 1:
        groups = [core for core in cores if core]
    else:
        groups = [cells[at : at + GROUP] for at in range(0, len(cells), GROUP)]
    line = ""
    for group in groups:
        if line and len(line) + 1 + len(group) > min(columns_max - MAP_INDENT, MAP_WIDTH):
            yield " " * MAP_INDENT + line
            line = ""
        line = f"{line} {group}" if line else group
    if line:
        yield " " * MAP_INDENT + line


# --- pods ------------------------------------------------------------------------------------------------------------


def _pods(pods: Sequence[NodePod]) -> list[str]:
    rows = []
    for pod in pods[:PODS_SHOWN]:
        plain = {name: amount for name, amount in pod.amounts.items() if name not in registry.GRANTED_RESOURCES}
        amounts = [f"{name} {format_amount(name, amount)}" for name, amount in plain.items() if amount]
        given = [
            grants_text([grant for grant in pod.grants if grant.kind in SHOWN_GRANTS]),
            f"cpus {pod.cpus}" if pod.cpus else "",
            f"zone {','.join(map(str, pod.zones))}" if pod.zones else "",
            pod.message,
        ]
        state = [pod.state] if pod.state in IN_FLIGHT else []
        rows.append((pod.holder, *state, ", ".join([*amounts, *filter(None, given)])))
    return [*columns(rows, indent="    "), *_more(len(pods) - PODS_SHOWN)]


def _listed(what: str, text: str, columns_max: int) -> list[str]:
    return _beside(f"  {what:<{LABEL_WIDTH - 2}}", text, columns_max)


def _beside(title: str, text: str, columns_max: int) -> list[str]:
    """A text two columns after its title, wrapped below itself where it is longer than the line."""
    indent = " " * (len(title) + 2)
    if len(indent) > columns_max // 2:
        return [f"{title}  {text}"]
    first, *rest = wrapped(text, indent=indent, width=columns_max)
    return [f"{title}  {first[len(indent) :]}".rstrip(), *rest]


def _more(count: int) -> list[str]:
    return [f"    and {count} more: --json has them"] if count > 0 else []
