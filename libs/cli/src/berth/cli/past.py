"""What became of a pod, from the events that the bus still keeps: decided, bound, refused, withdrawn, ended; nominated,
and evicted for whom."""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime
from typing import Any, NamedTuple, cast

import msgspec

from berth.bus import Bus, Message
from berth.cli.lines import event_line
from berth.contracts import event
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import PREFIX, escape, event_subject

ABOUT_PODS = ("placement", "eviction", "nomination")
"""Kinds of events whose subjects end with a namespace and a pod."""
READ_MAX = 5_000
EVENTS_MAX = 500
SHOWN_MAX = 10


class Past(NamedTuple):
    """One event of a pod's past: unix time (0 where it is not known), its place in the stream, the message."""

    at: float
    sequence: int
    data: bytes

    def line(self) -> str:
        """For people: date and time, and what happened."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.at)) if self.at else "?"
        return f"{stamp}  {event_line(self.data)}"

    def json(self) -> Any:
        """The message with its time, for programs."""
        when = datetime.fromtimestamp(self.at).astimezone().isoformat() if self.at else ""
        return {"time": when, "event": msgspec.Raw(self.data)}


async def past_of(bus: Bus, namespace: str, name: str) -> list[Past]:
    """The events of a pod (of a Reservation, with an empty namespace) in order; the newest, where there are many.

    A decision stands before what came of it, though its event may come later: another service publishes it.
    Raises BusError.
    """
    found: list[Past] = []
    for kind in ABOUT_PODS:
        newest: deque[Past] = deque(maxlen=EVENTS_MAX)
        read = 0
        async for message in bus.past_events(f"{PREFIX}.evt.{kind}.*.{escape(namespace)}.{escape(name)}"):
            newest.append(_past(message))
            read += 1
            if read >= READ_MAX:
                break
        found += newest
    began: dict[str, int] = {}
    for each in found:
        for plan in _plans(each.data):
            began[plan] = min(began.get(plan, each.sequence), each.sequence)
    decisions = []
    for plan, sequence in began.items():
        last = await bus.last_event(event_subject("placement", "decided", plan))
        if last is not None:
            decided = _past(last)
            decisions.append(decided._replace(sequence=min(decided.sequence, sequence)))
    return sorted([*decisions, *found], key=lambda each: each.sequence)


def past_lines(past: list[Past]) -> list[str]:
    """The newest of them for people."""
    left_out = len(past) - SHOWN_MAX
    lines = [f"({left_out} earlier events)"] if left_out > 0 else []
    return lines + [each.line() for each in past[-SHOWN_MAX:]]


def _past(message: Message) -> Past:
    try:
        at = datetime.fromisoformat(message.headers.get("ce-time", "").replace("Z", "+00:00")).timestamp()
    except ValueError:
        at = 0.0
    return Past(at, message.sequence, message.data)


def _plans(data: bytes) -> list[str]:
    try:
        message = decode(data, cast(Any, event.Event))
    except InvalidMessage:
        return []
    return [message.plan] if isinstance(message, event.PlacementBound | event.PlacementFailed) else []
