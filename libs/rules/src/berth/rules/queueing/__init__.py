"""When a pod that was rejected is worth another try: back-off, events, and what each constraint waits for.

for event in events_of(NODE, before, now):
    if any(hint_of(plugin, pod, event, namespace_labels) for plugin in rejected_by):
        ...  # to the back-off, or the queue
"""

from __future__ import annotations

from typing import Final

from berth.rules.queueing import load, node_hints, peers, volumes
from berth.rules.queueing.back_off import FLUSH_S, INITIAL_MS, MAX_MS, BackOff, is_backing_off
from berth.rules.queueing.events import Action, Event, events_of
from berth.rules.queueing.hint import Hints, NamespaceLabels, Reader, Waiter
from berth.rules.selectors import Labels

HINTS: Final[dict[str, Hints]] = {**node_hints.HINTS, **peers.HINTS, **volumes.HINTS, **load.HINTS}
"""What each constraint listens to, by its name."""
MORE: Final[dict[str, Hints]] = {**peers.MORE, **volumes.MORE}
"""What is worth another try as well, where kube-scheduler lets a pod wait for its flush."""
READS: Final[dict[str, Reader]] = {**node_hints.READS, **peers.READS, **volumes.READS, **load.READS}
"""What of a waiting pod its hints look at, by the same names."""


def hint_of(
    plugin: str, pod: Waiter, event: Event, namespace_labels: NamespaceLabels = lambda name: NO_LABELS
) -> bool | None:
    """Whether an event may let in a pod that this constraint has rejected; None: it does not listen to such events.

    Of a constraint that is not known, every event may.
    """
    hints = HINTS.get(plugin)
    if hints is None:
        return True
    hint = hints.get((event.resource, event.action))
    return None if hint is None else hint(pod, event, namespace_labels)


NO_LABELS: Final[Labels] = {}

__all__ = [
    "FLUSH_S",
    "HINTS",
    "INITIAL_MS",
    "MAX_MS",
    "MORE",
    "NO_LABELS",
    "READS",
    "Action",
    "BackOff",
    "Event",
    "Hints",
    "NamespaceLabels",
    "Reader",
    "Waiter",
    "events_of",
    "hint_of",
    "is_backing_off",
]
