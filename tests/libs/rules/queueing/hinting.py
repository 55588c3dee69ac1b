"""What a constraint's hint says of an event."""

from __future__ import annotations

from berth.rules.queueing import HINTS, NO_LABELS, Event, NamespaceLabels, Waiter


def hint_of(
    plugin: str, pod: Waiter, event: Event, namespace_labels: NamespaceLabels = lambda name: NO_LABELS
) -> bool | None:
    """Whether an event may let in a pod that this constraint has rejected; None: it does not listen to such events."""
    hint = HINTS[plugin].get((event.resource, event.action))
    return None if hint is None else hint(pod, event, namespace_labels)
