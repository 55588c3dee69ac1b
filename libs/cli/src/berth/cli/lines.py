"""Events and grants as lines for people."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from berth.contracts import event
from berth.contracts.base import Reason
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.grants import CPU, ZONE, all_of, percent
from berth.contracts.ledger import Grant
from berth.resources.amounts import format_amount
from berth.rules.cpus.cpuset import format_cpuset
from berth.rules.node_evictions.notes import NODE
from berth.rules.records.resource_status import cpus_of
from berth.transaction.revocations import group_of

PODS_SHOWN = 3


def event_line(data: bytes) -> str:
    """One event as one line; what cannot be read is said to be so, never raised."""
    try:
        message = decode(data, cast(Any, event.Event))
    except InvalidMessage as error:
        return f"{'unreadable':<12}{error}"
    line: str = _LINES[type(message)](message)
    return line


def stamped(text: str, now: float) -> str:
    """A line with the local time in front."""
    return f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now * 1000) % 1000:03d}  {text}"


def grants_text(grants: Sequence[Grant]) -> str:
    """`gpu 0,1` for whole devices, `gpu 3 (40 %)` for a share, virtual functions by their bus addresses, `cpus 0-3`,
    `zone 0` of NUMA nodes."""
    whole: dict[str, list[str]] = {}
    parts = []
    for grant in grants:
        if grant.kind == CPU:
            continue
        share = percent(grant)
        if share % 100 == 0:
            whole.setdefault(grant.kind, []).append(grant.id)
        else:
            parts.append(f"{grant.kind} {grant.id} ({share} %)")
    cpus = cpus_of(grants)
    owned = [f"cpus {format_cpuset(cpus)}"] if cpus else []
    return ", ".join([*(f"{kind} {','.join(ids)}" for kind, ids in whole.items()), *parts, *owned])


def held_lines(grants: Sequence[Grant]) -> list[tuple[str, str]]:
    """What was granted, by what it is: devices, CPUs, NUMA nodes with what is taken of each."""
    zones = [
        f"{grant.id} ({', '.join(f'{name} {format_amount(name, amount)}' for name, amount in grant.amounts.items())})"
        for grant in grants
        if grant.kind == ZONE
    ]
    return [
        ("devices", grants_text([grant for grant in grants if grant.kind not in (CPU, ZONE)])),
        ("cpus", format_cpuset(cpus_of(grants))),
        ("zones", ", ".join(zones)),
    ]


def reason_line(reason: Reason) -> str:
    """`on 12 nodes: Insufficient cpu`, with the field to blame."""
    where = f"on {reason.nodes} node{'s' if reason.nodes != 1 else ''}: " if reason.nodes else ""
    field = f" [{reason.field}]" if reason.field and reason.field not in reason.message else ""
    return f"{where}{reason.message}{field}"


def _named(message: Any) -> str:
    return _called(f"{message.namespace}/{message.name}")


def _called(name: str) -> str:
    """A pod by `namespace/name`; a node, a Reservation, a group that gives back by what it is: none has a namespace."""
    space, _, rest = name.partition("/")
    if space or not rest:
        return name
    if rest.startswith(NODE):
        return f"node {rest.removeprefix(NODE)}"
    group = group_of(("", rest))
    return f"quota {'/'.join(filter(None, group))}" if group else f"reservation/{rest}"


def _decided(message: event.PlacementDecided) -> str:
    placed = [f"{_called(pod)} on {node}" for pod, node in zip(message.pods, message.nodes, strict=False)]
    shown = ", ".join(placed[:PODS_SHOWN]) + (", ..." if len(placed) > PODS_SHOWN else "")
    gang = f"gang {message.gang}  " if message.gang else ""
    return (
        f"{'decided':<12}{len(placed)} pod{'s' if len(placed) != 1 else ''} in {message.took_ms:.0f} ms  {gang}{shown}"
    )


def _bounded(message: event.PlacementBounded) -> str:
    bound = message.bound
    if bound.status == "unknown":
        what = f"how many could be is unknown: {bound.problem}"
    elif bound.bound > bound.objective:
        what = f"{bound.bound - bound.objective} more of priority {bound.priority} at most"
    else:
        what = "no plan places more"
    return f"{'judged':<12}{bound.placed} of {bound.pods} pods placed  {what}"


def _bound(message: event.PlacementBound) -> str:
    facts = [_named(message), message.node]
    facts += [text for text in (grants_text(all_of(message.grants, message.devices)),) if text]
    facts += [
        f"{what} {name}"
        for what, name in (
            ("quota", message.quota.removeprefix("/")),
            ("reservation", message.reservation),
            ("gang", message.gang),
        )
        if name
    ]
    facts += [f"{message.latency_ms:.0f} ms"] if message.latency_ms else []
    return f"{'bound':<12}{'  '.join(facts)}"


def _ended(message: event.PlacementEnded) -> str:
    return f"{'ended':<12}{_named(message)}  {message.node}  {message.reason}"


def _failed(message: event.PlacementFailed) -> str:
    return f"{'withdrawn':<12}{_named(message)}  {message.node}  {message.reason}"


def _refused(message: event.PlacementUnschedulable) -> str:
    return f"{'refused':<12}{_named(message)}  {message.message}"


def _nominated(message: event.PlacementNominated) -> str:
    victims = ", ".join(f"{each.namespace}/{each.name}" for each in message.victims)
    return f"{'nominated':<12}{_named(message)}  {message.node}  once {victims} left"


def _eviction(
    message: event.EvictionMarked | event.EvictionSent | event.EvictionRefused | event.EvictionSpared,
) -> str:
    what = _EVICTIONS[type(message)]
    why = getattr(message, "message", "")
    line = f"{what:<12}{_named(message)}  {message.node}  for {_called(message.beneficiary)}"
    return f"{line}  {why}" if why else line


def _given_up(message: event.NominationWithdrawn) -> str:
    return f"{'given up':<12}{_named(message)}  {message.node}  {message.reason}"


def _epoch(message: event.EpochRaised) -> str:
    return f"{'epoch':<12}{message.epoch}  {message.reason}"


def _quota(message: event.QuotaChanged) -> str:
    group = f"{message.tree}/{message.group}" if message.tree else message.group
    runtime = ", ".join(f"{name} {amount}" for name, amount in message.runtime.items())
    return f"{'quota':<12}{group}  {message.message or runtime}"


def _reservation(message: event.ReservationChanged) -> str:
    rest = "  ".join(text for text in (message.node, message.message) if text)
    return f"{'reservation':<12}{message.name}  {message.phase}  {rest}".rstrip()


def _object(message: event.ObjectRefused) -> str:
    name = f"{message.namespace}/{message.name}" if message.namespace else message.name
    problems = "; ".join(f"{problem.field}: {problem.message}" for problem in message.problems)
    return f"{'bad object':<12}{message.kind} {name}  {problems}"


def _node(message: event.NodeChanged) -> str:
    return f"{'node':<12}{message.node}  {message.message}"


def _scattered(message: event.GangScattered) -> str:
    if not message.lasts:
        return f"{'gathered':<12}{message.namespace}/{message.name}  {message.layer}"
    domains = ", ".join(f"{path} ({count})" for path, count in sorted(message.domains.items()))
    return f"{'scattered':<12}{message.namespace}/{message.name}  {message.layer} {domains}"


def _finding(message: event.FindingReported) -> str:
    container = f"  {message.container}" if message.container else ""
    word = "finding" if message.lasts else "over"
    return f"{word:<12}{message.namespace}/{message.name}{container}  {message.node}  {message.message}"


def _difference(message: event.AuditReported) -> str:
    if not message.lasts:
        return f"{'no longer':<12}{message.promise} {message.title}  {message.subject}"
    return f"{'difference':<12}{message.promise} {message.title}  {message.evidence or message.subject}"


_EVICTIONS: dict[type, str] = {
    event.EvictionMarked: "marked",
    event.EvictionSent: "evicted",
    event.EvictionRefused: "not evicted",
    event.EvictionSpared: "spared",
}

_LINES: dict[type, Any] = {
    event.PlacementDecided: _decided,
    event.PlacementBounded: _bounded,
    event.PlacementBound: _bound,
    event.PlacementEnded: _ended,
    event.PlacementFailed: _failed,
    event.PlacementUnschedulable: _refused,
    event.PlacementNominated: _nominated,
    **dict.fromkeys(_EVICTIONS, _eviction),
    event.NominationWithdrawn: _given_up,
    event.EpochRaised: _epoch,
    event.QuotaChanged: _quota,
    event.ReservationChanged: _reservation,
    event.ObjectRefused: _object,
    event.NodeChanged: _node,
    event.GangScattered: _scattered,
    event.FindingReported: _finding,
    event.AuditReported: _difference,
}
