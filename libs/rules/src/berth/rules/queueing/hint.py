"""What a hint is: whether an event may let in a pod that one constraint has rejected.

A hint errs to the side of another try: a pod that is tried in vain costs a moment, one that is forgotten waits for
minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from berth.contracts.state import Pod
from berth.rules.queueing.events import Action, Event
from berth.rules.selectors import Labels

NamespaceLabels: TypeAlias = Callable[[str], Labels]
"""The labels of a namespace by its name."""
Hint: TypeAlias = Callable[[Pod, Event, NamespaceLabels], bool]
"""Whether the waiting pod is worth another try after the event."""
Hints: TypeAlias = Mapping[tuple[str, Action], Hint]
"""The events that a constraint listens to, by resource and action, with its hint for each."""


def always(pod: Pod, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """Every such event is worth a try."""
    return True


def is_own(pod: Pod, event: Event) -> bool:
    """The event is about the waiting pod itself."""
    changed = event.new or event.old
    return changed is not None and changed.uid == pod.uid


def held_capacity(pod: Pod) -> bool:
    """The pod was bound, or nominated to a node."""
    return bool(pod.node or pod.nominated)
