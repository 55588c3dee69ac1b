"""Who waits, and who is looked at next: priority, gang group, age, back-off.

Everything that waits is either ready, in a heap by the protocol's queue order, or rests after a refusal until something
happens that may help it, and its back-off is over. Those whom the same events help are kept together, since replicas
wait by the thousand, and of those who are alike as many are tried as fit (`core.twins`). Of a gang group one member at
a time stands in the heap for all that are ready, at the time of the group's last round: groups of one priority take
turns. Time comes in as an argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from berth.contracts import names
from berth.contracts.base import Reason
from berth.contracts.explanation import Explanation
from berth.contracts.state import Pod, PodTemplate, Reservation
from berth.placement_solver.core.twins import NO_TWIN, Twins
from berth.placement_solver.core.withdrawals import Withdrawals
from berth.rules.numbers import parse_integer
from berth.rules.queue_order import OrderKey, QueueEntry, order_key
from berth.rules.queueing import FLUSH_S, MAX_MS, READS, BackOff
from berth.transaction.claims import Name

BACKOFF_MAX_S: Final = MAX_MS / 1_000
RETRY_S: Final = 60.0
"""Who is refused for a reason that no event is known to end is tried again after this."""

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(eq=False)
class Waiting:
    """Something that waits for a node. Times are monotonic seconds; `retry_at` infinite means until woken.

    `named_at` and `named_version` are of the moment when it was first seen with the quota label that it has. `watch` is
    the class of those who rest until the same events, `twin` of those who were alike when it was refused. `held`: it
    was not tried, for want of something that is on its way; `held_for_reservation_at`: since when for want of reserved
    capacity. `rejected`: the verifier rejected a plan for it alone, so it is tried behind the others. `is_counted`: the
    workload knows of it, however often it is tried anew. `reported` and what begins like it is what was asked for last
    to be shown; `reported_plan` the plan that it is to let go.
    """

    name: Name
    object: Pod | Reservation
    since: float
    seen_ms: int
    trace: str = ""
    group: str = ""
    tries: int = 0
    retry_at: float = 0.0
    tried_at: float = 0.0
    ready: bool = False
    reasons: tuple[Reason, ...] = ()
    message: str = ""
    explanation: Explanation | None = None
    named_at: float = 0.0
    named_version: int = 0
    watch: bytes = b""
    twin: bytes = NO_TWIN
    held: bool = False
    held_for_reservation_at: float | None = None
    rejected: bool = False
    is_counted: bool = False
    reported: str = ""
    reported_at: float = float("-inf")
    reported_attempt: int = 0
    repeats: int = 0
    reported_version: int = 0
    reported_plan: str = ""
    order: OrderKey = field(default_factory=lambda: order_key(QueueEntry("")))

    @property
    def shown(self) -> str:
        """The refusal that the object carries."""
        if not isinstance(self.object, Reservation):
            return self.object.unschedulable
        shown = (each.message for each in self.object.conditions if (each.type, each.status) == ("Scheduled", "False"))
        return next(shown, "")

    @property
    def is_overtaken(self) -> bool:
        """A refusal was sent for an older version of a Reservation, which guards it; this one does not show it."""
        is_newer = isinstance(self.object, Reservation) and self.object.version > self.reported_version
        return bool(self.reported) and is_newer and self.shown != self.reported

    @property
    def template(self) -> PodTemplate:
        """What it asks for."""
        return self.object.template


@dataclass(eq=False)
class Group:
    """The members of a gang group that wait. `since` is when the first of them came, `last_round` when all were tried
    last; `first` of those that are `ready` stands in the heap of all."""

    since: float
    last_round: float | None = None
    members: dict[Name, Waiting] = field(default_factory=dict)
    ready: list[tuple[OrderKey, Name]] = field(default_factory=list)
    first: tuple[OrderKey, Name] | None = None


class Queue:
    """Everything that waits, by name."""

    def __init__(self) -> None:
        self.waiting: dict[Name, Waiting] = {}
        self.back_off = BackOff()
        """How long each is left alone after a refusal, at least."""
        self._heap: list[tuple[OrderKey, Name]] = []
        self._resting: list[tuple[float, Name]] = []
        self._watching: dict[bytes, dict[Name, Waiting]] = {}
        self._twins = Twins()
        self._now = 0.0
        self._withdrawals = Withdrawals()
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, name: Name, obj: Pod | Reservation, group: str, now: float, now_ms: int, trace: str) -> Waiting:
        """Something waits, or what waits has changed; ready at once unless it is backing off unchanged, or its
        decisions were withdrawn one after the other."""
        known = self.waiting.get(name)
        if known is not None and known.object.uid == obj.uid:
            changed = _asked(known.object) != _asked(obj)
            if changed or known.group != group:
                self._try_next(known)
            if _quota_of(known.object) != _quota_of(obj):
                known.named_at, known.named_version = now, obj.version
            is_another = (
                isinstance(obj, Pod) and isinstance(known.object, Pod) and obj.nominated != known.object.nominated
            )
            known.object = obj
            if is_another:
                self._twins.renew(known)
            if known.group != group:
                self._leave(known)
                self._join(known, group)
                if known.ready:
                    known.ready = False
                    self.make_ready(known)  # among others now
            if changed:
                known.tries = 0
                known.rejected = False
                self.make_ready(known)
            return known
        self.drop(name)
        waiting = Waiting(
            name, obj, since=now, seen_ms=now_ms, trace=trace, group=group, named_at=now, named_version=obj.version
        )
        self.waiting[name] = waiting
        self._join(waiting, group)
        row = self._withdrawals.seen(name, obj, now)
        waiting.is_counted = row is not None  # it had a place that was withdrawn
        pause_s = self.back_off.pause_ms(row.rejections) / 1_000 if row is not None else 0.0
        if row is None or row.at + pause_s <= now:
            self.make_ready(waiting)
        else:
            waiting.tries, waiting.tried_at = row.rejections, row.at
            waiting.reasons, waiting.message = (row.reason,), row.reason.message
            self.rest_until(waiting, row.at + pause_s)
        return waiting

    def drop(self, name: Name) -> Waiting | None:
        """It waits no longer."""
        waiting = self.waiting.pop(name, None)
        if waiting is not None:
            self._try_next(waiting)
            self._unwatch(waiting)
            self._leave(waiting)
        return waiting

    def make_ready(self, waiting: Waiting) -> None:
        """Try it in the next batch."""
        self._unwatch(waiting)
        group = self._groups.get(waiting.group)
        order = _order(waiting, group)
        if waiting.ready and waiting.order == order:
            return
        waiting.ready, waiting.order = True, order
        if group is None:
            heapq.heappush(self._heap, (order, waiting.name))
        else:
            heapq.heappush(group.ready, (order, waiting.name))
            self._offer(group)

    def refuse(self, waiting: Waiting, reasons: tuple[Reason, ...], now: float) -> None:
        """It was tried in vain: back off, then wait for a sign that something changed."""
        waiting.ready = waiting.held = False
        waiting.held_for_reservation_at = None
        waiting.reasons, waiting.explanation = reasons, None
        waiting.tries += 1
        waiting.tried_at = now
        self._watch(waiting, now)

    def tell(self, waiting: Waiting, reasons: tuple[Reason, ...], explanation: Explanation | None = None) -> None:
        """The reasons of a refusal are these, and no others that might have been: if it still rests for them, it does
        until something happens that helps with these."""
        waiting.reasons, waiting.explanation = reasons, explanation
        members = self._watching.get(waiting.watch)
        if members is None or members.get(waiting.name) is not waiting:
            return
        self._no_longer_watches(waiting)
        rests_s = self._watch_for(waiting)
        self.rest_until(waiting, max(waiting.tried_at + rests_s, self._now))

    def hold(self, waiting: Waiting, reasons: tuple[Reason, ...], now: float, *, until: float | None = None) -> None:
        """It cannot be tried yet (its gang gathers): no failure, so no back-off when that changes, or at `until`."""
        waiting.ready, waiting.held = False, True
        waiting.reasons = reasons
        self._watch(waiting, now)
        if until is not None:
            self.rest_until(waiting, until)

    def rest_until(self, waiting: Waiting, at: float) -> None:
        """Try it again at this time, unless it is woken before."""
        waiting.retry_at = at
        heapq.heappush(self._resting, (at, waiting.name))

    def wake(
        self,
        now: float,
        concerns: Callable[[Waiting], bool] = lambda waiting: True,
        *,
        by_itself: Callable[[Waiting], bool] = lambda waiting: False,
    ) -> None:
        """Something came back: those it may concern are tried again, each after its own back-off; of those who are
        alike as many as fit, beside those who are looked at `by_itself`."""
        found = [each for each in self.waiting.values() if not each.ready and concerns(each)]
        self._wake_some(found, now, by_itself)

    def wake_classes(
        self,
        now: float,
        concerns: Callable[[Waiting], bool],
        *,
        by_itself: Callable[[Waiting], bool] = lambda waiting: False,
    ) -> None:
        """The same for those who rest after a refusal; one of each class is looked at."""
        for members in list(self._watching.values()):
            if concerns(next(iter(members.values()))):
                self._wake_some(list(members.values()), now, by_itself)

    def _wake_some(self, found: Sequence[Waiting], now: float, by_itself: Callable[[Waiting], bool]) -> None:
        self._now = now
        alike: list[Waiting] = []
        for each in found:
            if by_itself(each):
                self._wake(each, now)
            else:
                alike.append(each)
        for each in self._twins.some(alike):
            self._wake(each, now)

    def _try_next(self, waiting: Waiting) -> None:
        """Others who were like this one are tried, if it was tried for all of them."""
        for each in self._twins.next_after(waiting):
            self._wake(each, self._now)

    def try_again(self, waiting: Waiting, now: float) -> None:
        """After its back-off it is tried again, whatever happens."""
        if not waiting.ready:
            self._wake(waiting, now)

    def _wake(self, waiting: Waiting, now: float) -> None:
        pause_s = self.back_off.pause_ms(waiting.tries) / 1_000
        at = max(now, waiting.tried_at + pause_s)
        if at < waiting.retry_at:
            self._unwatch(waiting)
            self.rest_until(waiting, at)

    def _watch(self, waiting: Waiting, now: float) -> None:
        """It rests until something happens that may help it, or for as long as nothing does."""
        self._unwatch(waiting)
        rests_s = self._watch_for(waiting)
        if not waiting.held:  # who was not tried says nothing of those who are alike
            self._twins.rest(waiting)
        self.rest_until(waiting, now + rests_s)

    def _watch_for(self, waiting: Waiting) -> float:
        """Keep it with those whom the same events help; for how long it rests where none does."""
        codes = sorted({reason.code for reason in waiting.reasons})
        is_known = bool(codes) and all(code in READS for code in codes)
        waiting.watch = _encode([(code, READS[code](waiting.object)) for code in codes] if is_known else codes)
        self._watching.setdefault(waiting.watch, {})[waiting.name] = waiting
        return FLUSH_S if is_known else RETRY_S

    def _unwatch(self, waiting: Waiting) -> None:
        self._twins.rise(waiting)
        self._no_longer_watches(waiting)

    def _no_longer_watches(self, waiting: Waiting) -> None:
        members = self._watching.get(waiting.watch)
        if members is not None and members.get(waiting.name) is waiting:
            del members[waiting.name]
            if not members:
                del self._watching[waiting.watch]

    def has_ready(self, now: float) -> bool:
        """Whether a batch would find something."""
        self._now = now
        self._rested(now)
        while self._heap:
            order, name = self._heap[0]
            waiting = self.waiting.get(name)
            if waiting is not None and waiting.ready and waiting.order == order:
                return True
            heapq.heappop(self._heap)
            if waiting is not None:
                self._followed(waiting, order)
        return False

    def ready_about(self) -> int:
        """About how many are ready; entries that are out of date count too."""
        return len(self._heap)

    def position(self, waiting: Waiting) -> int:
        """How many of those who wait come before it, if all were ready."""
        return sum(1 for each in self.waiting.values() if each.order < waiting.order)

    def next_retry(self) -> float:
        """When the next back-off ends; infinite without one."""
        while self._resting:
            at, name = self._resting[0]
            waiting = self.waiting.get(name)
            if waiting is not None and not waiting.ready and waiting.retry_at == at:
                return at
            heapq.heappop(self._resting)
        return float("inf")

    def take(self, now: float) -> Waiting | None:
        """The first that is ready, no longer ready then; the caller puts it back or refuses it."""
        if not self.has_ready(now):
            return None
        order, name = heapq.heappop(self._heap)
        waiting = self.waiting[name]
        waiting.ready, waiting.retry_at = False, 0.0  # a rest that a change cut short is over
        self._followed(waiting, order)
        return waiting

    def pull(self, members: Iterable[Name], now: float) -> list[Waiting]:
        """The members of a group that wait, whether ready or not, none of them ready then: a round of theirs begins."""
        found = [self.waiting[name] for name in members if name in self.waiting]
        for group in {waiting.group for waiting in found if waiting.group}:
            self._groups[group].last_round = now
        for waiting in found:
            waiting.ready = False
            self._unwatch(waiting)
        return found

    @property
    def waiting_groups(self) -> int:
        """How many gang groups have members that wait."""
        return len(self._groups)

    def last_round(self, group: str) -> float | None:
        """When all members of a group that waits were tried last; None: not yet."""
        found = self._groups.get(group)
        return found.last_round if found is not None else None

    # --- gang groups -------------------------------------------------------------------------------------------------

    def _join(self, waiting: Waiting, name: str) -> None:
        waiting.group = name
        if name:
            group = self._groups.setdefault(name, Group(waiting.since))
            group.members[waiting.name] = waiting

    def _leave(self, waiting: Waiting) -> None:
        """The group is forgotten with the last that waits: who comes later begins anew."""
        group = self._groups.get(waiting.group)
        if group is None:
            return
        group.members.pop(waiting.name, None)
        if not group.members:
            del self._groups[waiting.group]
        else:
            self._offer(group)

    def _followed(self, waiting: Waiting, order: OrderKey) -> None:
        """One that stood in the heap with this order does so no longer: the next of its group does."""
        group = self._groups.get(waiting.group)
        if group is not None and group.first == (order, waiting.name):
            group.first = None
            self._offer(group)

    def _offer(self, group: Group) -> None:
        """The first of those that are ready stands for the group."""
        while group.ready:
            order, name = group.ready[0]
            waiting = group.members.get(name)
            if waiting is not None and waiting.ready and waiting.order == order:
                if group.first != (order, name):
                    group.first = (order, name)
                    heapq.heappush(self._heap, (order, name))
                return
            heapq.heappop(group.ready)
        group.first = None

    def _rested(self, now: float) -> None:
        while self._resting and self._resting[0][0] <= now:
            at, name = heapq.heappop(self._resting)
            waiting = self.waiting.get(name)
            if waiting is not None and not waiting.ready and waiting.retry_at == at:
                self.make_ready(waiting)


def _asked(obj: Pod | Reservation) -> tuple[object, ...]:
    """What decides on its place, beside the capacity there is: of a pod also whose it is, for it may own a
    Reservation; of a Reservation that takes over pods which those are."""
    if isinstance(obj, Pod):
        return obj.template, obj.attempt, obj.problems, obj.owners
    said = (obj.template, obj.attempt, obj.problems, obj.required_node)
    if not obj.pre_allocation:
        return said
    how = (obj.allocate_policy, obj.allocate_once, obj.pre_allocation_mode, obj.pre_allocation_multiple, obj.taints)
    return (*said, obj.owners, obj.labels, *how)


def _quota_of(obj: Pod | Reservation) -> str:
    return obj.template.labels.get(names.LABEL_QUOTA_NAME, "")


def _order(waiting: Waiting, group: Group | None) -> OrderKey:
    template = waiting.object.template
    text = template.labels.get(names.LABEL_PRIORITY, "")
    namespace, name = waiting.name
    return order_key(
        QueueEntry(
            name=name,
            namespace=namespace,
            priority=template.priority,
            sub_priority=parse_integer(text) or 0,
            time=_time_of(waiting, group),
            group_id=waiting.group,
            gang_id=waiting.group,
            rounds=waiting.tries,
        )
    )


def _time_of(waiting: Waiting, group: Group | None) -> float:
    if group is None:
        return waiting.since
    return group.since if group.last_round is None else group.last_round
