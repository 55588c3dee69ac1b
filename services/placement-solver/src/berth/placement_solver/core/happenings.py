"""What has happened since those who wait were last looked at, and for whom of them that may open a node.

Events are gathered by kind. Of a kind that is too frequent they are not kept one by one: then whoever listens to it is
tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from berth.contracts.state import Pod
from berth.placement_solver.core.queue import Waiting
from berth.rules.queueing import HINTS, MORE, Action, Event, Hints, NamespaceLabels, events_of
from berth.rules.queueing.events import NODE, NODE_METRIC, POD

EVENTS_MAX: Final = 256
"""Of one kind; each is looked at for each class of those who wait."""
APART: Final = frozenset({(POD, Action.ADD), (POD, Action.POD_LABEL), (NODE_METRIC, Action.UPDATE)})
"""Kinds that give nothing back that was taken: they concern only constraints that listen to them."""

AMOUNTS: Final = "NodeResourcesFit"
NO_HINTS: Final[Hints] = {}


class Happenings:
    """A log of events between two looks at the queue."""

    def __init__(
        self, namespace_labels: NamespaceLabels, could_hold: Callable[[Waiting, str], bool] = lambda waiting, node: True
    ) -> None:
        """`could_hold`: whether a node is large enough for one that waits, whoever else leaves it."""
        self._namespace_labels = namespace_labels
        self._could_hold = could_hold
        self._kinds: dict[tuple[str, Action], list[Event] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def clear(self) -> None:
        """They have been looked at."""
        self._kinds.clear()

    def changed(self, resource: str, old: Any, new: Any) -> None:
        """An object of STATE is there, is another now, or is gone."""
        if old is not None and new is not None and resource == NODE and old.uid != new.uid:
            old = None  # another node under the same name
        for event in events_of(resource, old, new):
            self._note(event)

    def relabelled(self, old: Pod | None, new: Pod | None) -> None:
        """A bound pod is shown anew. What it holds is told by `came` and `left`."""
        if old is not None and new is not None and old.uid == new.uid and old.node and new.node:
            for event in events_of(POD, old, new):
                if event.action is Action.POD_LABEL:
                    self._note(event)

    def came(self, pod: Pod | None) -> None:
        """A pod holds capacity: it is bound, or decided. None: which one is not known."""
        self._note(Event(POD, Action.ADD, None, pod))

    def left(self, pod: Pod | None) -> None:
        """A pod holds its capacity no longer. None: which one it was is not known."""
        self._note(Event(POD, Action.DELETE, pod, None))

    def eased(self) -> None:
        """Some node is less busy than it was, as far as anybody knows."""
        self._note(Event(NODE_METRIC, Action.UPDATE))

    def _note(self, event: Event) -> None:
        kind = (event.resource, event.action)
        known = self._kinds.setdefault(kind, [])
        if known is None:
            return
        if len(known) >= EVENTS_MAX or (event.old is None and event.new is None):
            self._kinds[kind] = None
        else:
            known.append(event)

    def concern(self, waiting: Waiting) -> bool:
        """Whether something of it may let this one in, whom the constraints named by its reasons have rejected."""
        return any(self._concerns(code, waiting) for code in {reason.code for reason in waiting.reasons} or {""})

    def _concerns(self, code: str, waiting: Waiting) -> bool:
        hints = HINTS.get(code)
        if hints is None:
            return not self._kinds.keys() <= APART
        for kind, hint in (*hints.items(), *MORE.get(code, NO_HINTS).items()):
            if kind in self._kinds:
                events = self._kinds[kind]
                if events is None:
                    return True
                for each in events:
                    if hint(waiting.object, each, self._namespace_labels) and self._may_matter(code, waiting, each):
                        return True
        return False

    def _may_matter(self, code: str, waiting: Waiting, event: Event) -> bool:
        """What a pod has left on a node that is too small helps nobody to amounts."""
        if code != AMOUNTS or event.action is not Action.DELETE or not isinstance(event.old, Pod) or not event.old.node:
            return True
        return self._could_hold(waiting, event.old.node)
