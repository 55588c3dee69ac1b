"""What a hint is: whether an event may let in a pod that one constraint has rejected.

A hint errs to the side of another try: a pod that is tried in vain costs a moment, one that is forgotten waits for
minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from berth.contracts.state import Pod, PodTemplate
from berth.rules.queueing.events import Action, Event
from berth.rules.selectors import Labels


class Waiter(Protocol):
    """Who waits for a node: a pod, or what asks for a place like one."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def template(self) -> PodTemplate: ...


NamespaceLabels: TypeAlias = Callable[[str], Labels]
"""The labels of a namespace by its name."""
Hint: TypeAlias = Callable[[Waiter, Event, NamespaceLabels], bool]
"""Whether the waiting pod is worth another try after the event."""
Reader: TypeAlias = Callable[[Waiter], object]
"""What of a waiting pod the hints of a constraint look at: pods of which it is the same get the same hints."""
Hints: TypeAlias = Mapping[tuple[str, Action], Hint]
"""The events that a constraint listens to, by resource and action, with its hint for each."""


def always(pod: Waiter, event: Event, namespace_labels: NamespaceLabels) -> bool:
    """Every such event is worth a try."""
    return True


def is_own(pod: Waiter, event: Event) -> bool:
    """The event is about the waiting pod itself."""
    changed = event.new or event.old
    return changed is not None and changed.uid == pod.uid


def held_capacity(pod: Pod) -> bool:
    """The pod was bound, or nominated to a node."""
    return bool(pod.node or pod.nominated)
