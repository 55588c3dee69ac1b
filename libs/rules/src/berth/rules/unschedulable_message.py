"""The text of a pod that no node takes, word for word as kube-scheduler writes it (release 1.34).

It is the message of the condition PodScheduled=False and, cut to what an event may hold, the note of the event
FailedScheduling. Whatever Berth adds follows after the whole known text, so that whoever parses it finds what he
expects: `0/4 nodes are available: 1 Insufficient memory, 3 Insufficient cpu. To repair: ...`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

NO_NODES: Final = "no nodes available to schedule pods"
"""The whole text where there are no nodes at all."""
NOTE_BYTES_MAX: Final = 1024
"""What the note of an event may hold."""
_CUT: Final = " ..."


def unschedulable_message(
    nodes: int, reasons: Mapping[str, int], *, pre_filter: str = "", post_filter: str = ""
) -> str:
    """Why none of so many nodes takes the pod.

    Args:
        nodes: all nodes there are.
        reasons: how many nodes each reason rules out. A node may count for several.
        pre_filter: what rules out all nodes at once, without a full stop; it takes the place of the reasons.
        post_filter: what preemption said, with its own full stop.
    """
    if nodes == 0:
        return NO_NODES
    text = f"0/{nodes} nodes are available:"
    if pre_filter:
        text += f" {pre_filter}."
    elif reasons:
        # Sorted as texts, number and all: 10 comes before 2.
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
    return f"{text} {post_filter}" if post_filter else text


def counted(reasons_per_node: Iterable[Iterable[str]]) -> Counter[str]:
    """How many nodes each reason rules out."""
    return Counter(reason for reasons in reasons_per_node for reason in reasons)


def with_repair(message: str, repair: str) -> str:
    """The message and, after it, what would let the pod in; the message alone where nothing is known."""
    if not repair:
        return message
    return f"{message}{'' if message.endswith('.') else '.'} To repair: {repair}."


def event_note(message: str) -> str:
    """The message as an event may carry it: at most 1,024 bytes, the last four ` ...` where it is cut."""
    encoded = message.encode()
    if len(encoded) <= NOTE_BYTES_MAX:
        return message
    return encoded[: NOTE_BYTES_MAX - len(_CUT)].decode(errors="ignore") + _CUT
