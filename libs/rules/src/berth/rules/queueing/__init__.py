"""When a pod that was rejected is worth another try: back-off, events, and what each constraint waits for.

for event in events_of(NODE, before, now):
    hint = HINTS[plugin].get((event.resource, event.action))  # of a constraint that has rejected the pod
    if hint is not None and hint(pod, event, namespace_labels):
        ...  # to the back-off, or the queue
"""

from __future__ import annotations

from typing import Final

from berth.rules.queueing import load, node_hints, peers, take_overs, volumes
from berth.rules.queueing.back_off import FLUSH_S, INITIAL_MS, MAX_MS, BackOff
from berth.rules.queueing.events import Action, Event, events_of
from berth.rules.queueing.hint import Hints, NamespaceLabels, Reader, Waiter
from berth.rules.selectors import Labels

HINTS: Final[dict[str, Hints]] = {**node_hints.HINTS, **peers.HINTS, **volumes.HINTS, **load.HINTS, **take_overs.HINTS}
"""What each constraint listens to, by its name."""
MORE: Final[dict[str, Hints]] = {**peers.MORE, **volumes.MORE}
"""What is worth another try as well, where kube-scheduler lets a pod wait for its flush."""
READS: Final[dict[str, Reader]] = {**node_hints.READS, **peers.READS, **volumes.READS, **load.READS, **take_overs.READS}
"""What of a waiting pod its hints look at, by the same names."""


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
]
