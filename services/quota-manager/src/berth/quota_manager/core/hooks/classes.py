"""The classes of pods that hooks are asked about: who of them waits, who would pay, and what is said.

Pods come and go here as they are read; the hooks are asked when figures are worked out, each class once, and again
when another group would pay, when that group has another object, and a while after a hook has failed. What is said of a
class stays while pods of it wait, and for some time after: its workload will make more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from berth.contracts import names
from berth.contracts.quota import PodCharge
from berth.quota_manager.core.book import Book, ClassKey
from berth.quota_manager.core.book import Claim as Booked
from berth.quota_manager.core.hooks.asking import Charge, Hooks
from berth.resources.amounts import Amounts
from berth.rules.quota_hooks.seen import HookedGroup, HookedPod, class_id
from berth.rules.quota_payer import charged

ASKED_AT_ONCE: Final = 256
"""So many questions are asked in one round; the others are asked in the next one."""
ASKING_S: Final = 0.25
"""Nor does one round go on asking once calls have taken so long: limits have to be published meanwhile."""
RETRY_S: Final = 60.0
"""After this a class is asked about once more for which a hook has failed."""
AWAITED_S: Final = 0.5
"""And after this, where a hook has not answered yet: it is slow, or at another class. Nothing is said of this one
before, for whoever fails open would have pods placed without a charge."""
IDLE_MAX: Final = 1000
"""Of so many classes without waiting pods is kept what was said."""
SAYS_NOTHING: Final = Charge({})
PAID_BY: Final = "paid by"
NAMING: Final = "naming"
WITHIN: Final = "within"


class _Class:
    """One class. `pods` are those that wait, as they are booked without a surcharge."""

    __slots__ = ("charge", "group", "id", "is_awaited", "payer", "pod", "pods", "refusals", "retry_at")

    def __init__(self, id_: str, pod: HookedPod) -> None:
        self.id = id_
        self.pod = pod
        self.pods: dict[str, tuple[ClassKey, Booked]] = {}
        self.charge: Charge | None = None
        self.payer: str | None = None
        """The group that hooks were asked for; None: none yet, empty: nobody would pay."""
        self.group: HookedGroup | None = None
        self.refusals = SAYS_NOTHING
        self.is_awaited = False
        """Whether they refuse it for this group is not answered yet."""
        self.retry_at = float("inf")

    @property
    def message(self) -> PodCharge | None:
        """What is published; None: not all was asked yet."""
        if self.charge is None or self.payer is None or self.is_awaited:
            return None
        return PodCharge(
            id=self.id,
            group=self.payer,
            surcharge=self.charge.surcharge,
            refusals=[*self.charge.refusals, *self.refusals.refusals],
        )


class HookedClasses:
    """All of them, and the indexes by which news finds those that it concerns."""

    def __init__(self, hooks: Hooks, payer_of: Callable[[HookedPod], str | None]) -> None:
        self._hooks = hooks
        self._payer_of = payer_of
        self._classes: dict[str, _Class] = {}
        self._of_pod: dict[str, _Class] = {}
        self._uncharged: dict[str, None] = {}
        self._unjudged: dict[str, None] = {}
        self._retries: dict[str, None] = {}
        self._idle: dict[str, None] = {}
        self._index: dict[tuple[str, str], set[str]] = {}
        self._changed: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._classes)

    def __contains__(self, id_: object) -> bool:
        """Whether there is such a class, asked about or not."""
        return id_ in self._classes

    @property
    def has_questions(self) -> bool:
        """Some are still to be asked."""
        return bool(self._uncharged or self._unjudged)

    def see(self, key: str, pod: HookedPod, booking: ClassKey, booked: Booked) -> Booked:
        """A pod waits; how it is to be booked, by what is known of its class."""
        id_ = class_id(pod)
        known = self._of_pod.get(key)
        if known is not None and known.id != id_:
            self.forget(key)
        found = self._classes.get(id_)
        if found is None:
            found = self._classes[id_] = _Class(id_, pod)
            self._uncharged[id_] = self._unjudged[id_] = None
            for place in _places(pod):
                self._index.setdefault(place, set()).add(id_)
        self._idle.pop(id_, None)
        self._of_pod[key] = found
        found.pods[key] = (booking, booked)
        return _with(booked, found.charge.surcharge if found.charge is not None else {})

    def forget(self, key: str) -> None:
        """The pod waits no longer."""
        known = self._of_pod.pop(key, None)
        if known is None:
            return
        known.pods.pop(key, None)
        if not known.pods:
            self._idle[known.id] = None
            if len(self._idle) > IDLE_MAX:
                self._drop(next(iter(self._idle)))

    def reset(self) -> None:
        """Forgets every pod; what is published of classes that do not come again is deleted by and by."""
        for key in list(self._of_pod):
            self.forget(key)

    def ask_charges(self, book: Book, now: float) -> None:
        """Ask what pods of new classes cost, and book those that wait."""
        for id_ in [id_ for id_ in self._retries if self._classes[id_].retry_at <= now]:
            del self._retries[id_]
            self._uncharged[id_] = self._unjudged[id_] = None
        for id_ in self._taken(self._uncharged):
            found = self._classes[id_]
            before = found.charge.surcharge if found.charge is not None else {}
            said = self._hooks.charge(found.pod)
            self._note(found, said, now)
            if said.is_awaited:
                continue
            found.charge = said
            self._changed[id_] = None
            if found.charge.surcharge != before:
                for key, (booking, booked) in found.pods.items():
                    book.put(key, booking, _with(booked, found.charge.surcharge))

    def concerned(self, groups: Iterable[str], namespaces: Iterable[str]) -> None:
        """These groups have come, gone, or have another object, or pay for pods of these namespaces now."""
        places = [(index, name) for name in groups for index in (PAID_BY, NAMING)]
        for place in [*places, *((WITHIN, namespace) for namespace in namespaces)]:
            self._unjudged.update(dict.fromkeys(sorted(self._index.get(place, ()))))

    def all_concerned(self) -> None:
        """All groups may be others."""
        self._unjudged.update(dict.fromkeys(self._classes))

    def ask_refusals(self, group_of: Callable[[str], HookedGroup], now: float) -> None:
        """Ask whether pods are refused, for the group that would pay."""
        for id_ in self._taken(self._unjudged):
            found = self._classes[id_]
            payer = self._payer_of(found.pod) or ""
            group = group_of(payer) if payer else None
            is_same = found.payer == payer and found.group == group
            if is_same and not found.refusals.has_failed and not found.is_awaited:
                continue
            if found.payer:
                self._leave((PAID_BY, found.payer), id_)
            if payer:
                self._index.setdefault((PAID_BY, payer), set()).add(id_)
            found.payer, found.group = payer, group
            said = self._hooks.refusals(found.pod, group) if group is not None else SAYS_NOTHING
            self._note(found, said, now)
            found.is_awaited = said.is_awaited
            if not said.is_awaited:
                found.refusals = said
                self._changed[id_] = None

    def changes(self) -> Iterator[tuple[str, PodCharge | None]]:
        """By id of a class: what is said now, or None where nothing is any more; of those where it may be news."""
        changed, self._changed = self._changed, {}
        for id_ in changed:
            found = self._classes.get(id_)
            if found is None:
                yield id_, None
            elif found.message is not None:
                yield id_, found.message

    def said_of(self, id_: str) -> PodCharge | None:
        """What is said of one class; None: nothing."""
        found = self._classes.get(id_)
        return found.message if found is not None else None

    def all(self) -> dict[str, PodCharge]:
        """What is said of each class."""
        return {id_: message for id_, each in self._classes.items() if (message := each.message) is not None}

    def _taken(self, ids: dict[str, None]) -> Iterator[str]:
        """Those that are asked about in this round."""
        began_s = self._hooks.spent_s()
        for id_ in list(islice(ids, ASKED_AT_ONCE)):
            if self._hooks.spent_s() - began_s > ASKING_S:
                return
            del ids[id_]
            yield id_

    def _note(self, found: _Class, said: Charge, now: float) -> None:
        if said.has_failed or said.is_awaited:
            at = now + (AWAITED_S if said.is_awaited else RETRY_S)
            found.retry_at = min(at, found.retry_at) if found.id in self._retries else at
            self._retries[found.id] = None

    def _drop(self, id_: str) -> None:
        found = self._classes.pop(id_)
        for index in (self._idle, self._uncharged, self._unjudged, self._retries):
            index.pop(id_, None)
        for place in _places(found.pod):
            self._leave(place, id_)
        if found.payer:
            self._leave((PAID_BY, found.payer), id_)
        self._changed[id_] = None

    def _leave(self, place: tuple[str, str], id_: str) -> None:
        self._index[place].discard(id_)
        if not self._index[place]:
            del self._index[place]


def _places(pod: HookedPod) -> Iterator[tuple[str, str]]:
    """Where a class is found by what its pods say."""
    yield WITHIN, pod.namespace
    label = pod.labels.get(names.LABEL_QUOTA_NAME)
    if label:
        yield NAMING, label


def _with(booked: Booked, surcharge: Amounts) -> Booked:
    """A pod as it is booked with a surcharge."""
    if not surcharge:
        return booked
    return booked._replace(amounts=tuple(sorted(charged(dict(booked.amounts), {}, surcharge).items())))
