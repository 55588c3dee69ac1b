"""From messages to figures, and from figures to what is written.

`StateSink` and `ShelfSink` only record what the buckets show. `Desk` is asked, with the time as an argument, what
should be written, patched and announced now; it waits for nothing and sends nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.base import Problem as WireProblem
from berth.contracts.codec import decode
from berth.contracts.command import PatchObject
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import ObjectRefused, QuotaChanged
from berth.contracts.quota import QuotaGroup
from berth.contracts.subjects import event_subject, quota_key
from berth.quota_manager.core.alarms import Alarms
from berth.quota_manager.core.engine import Engine, Rules
from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.group import Problem
from berth.quota_manager.core.limits import Shelf, group_message
from berth.quota_manager.core.objects import NodeView, PodView, read_pod, read_quota
from berth.quota_manager.core.writeback import Pace, Shown, figures_of, patch, shown_by
from berth.resources.amounts import format_amounts
from berth.rules.quota_of_pod import DEFAULT_GROUP

REQUIRED_KINDS: Final = frozenset(("pods", "nodes", "elasticquotas"))
"""Without a complete view of these, totals or demand would be too low, or groups would seem to be gone."""
PROBLEMS_MAX: Final = 20
"""Problems carried in one message; the first ones are enough to begin repairing."""


class StateSink:
    """STATE as quotas see it: pods and nodes go straight into the engine's books, quotas also into `shown`."""

    def __init__(self, engine: Engine, *, on_news: Callable[[], None], ignores_deleting: bool = False) -> None:
        self.shown: dict[str, Shown] = {}
        """What each ElasticQuota shows of itself, by STATE key."""
        self.seen_again: set[str] = set()
        """Names of quotas whose object was seen since the desk last looked."""
        self.broken = 0
        self._engine = engine
        self._on_news = on_news
        self._ignores_deleting = ignores_deleting
        self._complete_kinds: set[str] = set()
        self._is_at_end = False
        self._readers: dict[str, Callable[[str, bytes], None]] = {
            "pod": self._pod,
            "node": self._node,
            "elasticquota": self._quota,
            "synced": self._synced,
        }

    @property
    def is_complete(self) -> bool:
        """All that counts was seen since the view was last empty."""
        return self._is_at_end and self._complete_kinds >= REQUIRED_KINDS

    @property
    def missing(self) -> str:
        """What a complete view still lacks, for people."""
        if not self._is_at_end:
            return "reading the state of the cluster"
        lacking = sorted(REQUIRED_KINDS - self._complete_kinds)
        return f"waiting for {', '.join(lacking)}" if lacking else "complete"

    def reset(self) -> None:
        """The bucket begins anew."""
        self._engine.reset()
        self.shown.clear()
        self._complete_kinds.clear()
        self._is_at_end = False

    def apply(self, entry: Entry) -> None:
        """Records one message. One that cannot be read is counted and leaves what was known before."""
        kind = entry.key.partition(".")[0]
        reader = self._readers.get(kind)
        if reader is None:
            return
        if entry.deleted:
            self._forget(kind, entry.key)
        else:
            try:
                reader(entry.key, entry.value)
            except InvalidMessage:
                self.broken += 1
        if self._is_at_end:
            self._on_news()

    def end(self, sequence: int) -> None:
        """The end of the bucket; from then on every message is news of its own."""
        if not self._is_at_end:
            self._is_at_end = True
            self._on_news()

    def _pod(self, key: str, value: bytes) -> None:
        booked = read_pod(decode(value, PodView), ignores_deleting=self._ignores_deleting)
        if booked is None:
            self._engine.book.remove(key)
        else:
            self._engine.book.put(key, *booked)

    def _node(self, key: str, value: bytes) -> None:
        self._engine.put_node(key, decode(value, NodeView).allocatable)

    def _quota(self, key: str, value: bytes) -> None:
        quota = decode(value, state.ElasticQuota)
        spec, known = read_quota(quota), self._engine.spec_of(key)
        if spec.problems and not spec.max and known is not None:
            # Without a max a group limits nothing: an object that became unreadable keeps the limits it had.
            spec = replace(known, problems=spec.problems)
        self._engine.put_quota(key, spec)
        self.shown[key] = shown_by(quota)
        self.seen_again.add(quota.name)

    def _synced(self, key: str, value: bytes) -> None:
        marker = decode(value, state.Synced)
        if marker.complete:
            self._complete_kinds.add(marker.kind)

    def _forget(self, kind: str, key: str) -> None:
        if kind == "pod":
            self._engine.book.remove(key)
        elif kind == "node":
            self._engine.remove_node(key)
        elif kind == "elasticquota":
            self._engine.remove_quota(key)
            self.shown.pop(key, None)


class ShelfSink:
    """Our own bucket, as it really is: after a restart, beside another replica, after a loss."""

    def __init__(self, shelf: Shelf, reconsider: Callable[[], None], renew: Callable[[], None]) -> None:
        self._shelf = shelf
        self._reconsider = reconsider
        self._renew = renew

    def reset(self) -> None:
        """The bucket begins anew. Revisions do not."""
        self._shelf.messages.clear()
        self._renew()

    def apply(self, entry: Entry) -> None:
        """A group as published, by us or by the other replica. An unreadable one will be written again."""
        message: QuotaGroup | None = None
        if not entry.deleted:
            try:
                message = decode(entry.value, QuotaGroup)
            except InvalidMessage:
                message = None
        if message is None and entry.key in self._shelf.messages:
            # An echo of an older write may have hidden that the group, which is back, has to be written again.
            self._reconsider()
        self._shelf.saw(entry.key, message)

    def end(self, sequence: int) -> None:
        """Nothing to do at the end."""


class Announcement(NamedTuple):
    """An event on its way."""

    subject: str
    event: QuotaChanged | ObjectRefused
    kind: str
    text: str


class Desk:
    """What should be written now. All of it follows from the engine, the shelf and the time given."""

    def __init__(
        self,
        rules: Rules,
        *,
        on_news: Callable[[], None],
        ignores_deleting: bool = False,
        interval_s: float = 2.0,
        retry_s: float = 30.0,
        grace_s: float = 5.0,
    ) -> None:
        self.engine = Engine(rules)
        self.shelf = Shelf()
        self.state = StateSink(self.engine, on_news=on_news, ignores_deleting=ignores_deleting)
        self.own = ShelfSink(self.shelf, self.reconsider, self.renew)
        self.pace = Pace(interval_s)
        self.alarms = Alarms(grace_s)
        self.problems: list[Problem] = []
        """What is wrong now; another list whenever it may have changed."""
        self._said: list[Problem] | None = None
        self._by_object: tuple[list[Problem], dict[str, list[WireProblem]]] = ([], {})
        self._rules = rules
        self._retry_s = retry_s
        self._everything = True
        self._renews = False
        self._limits: set[str] = set()
        self._demand: set[str] = set()
        self._objects: dict[str, str] = {}  # group -> STATE key of its object
        self._served: dict[str, list[str]] = {}

    def reconsider(self, key: str | None = None) -> None:
        """Compare everything with the shelf again: a take-over, a lost bucket, or (with its key) a refused write."""
        if key is not None:
            self.shelf.messages.pop(key, None)
        self._everything = True

    def renew(self) -> None:
        """Write every group under a new revision: a take-over, or a bucket that may have lost its newest messages.

        Limits that came back to what an older message says would pass for written, while LEDGER names the revision that
        was lost, and no solver may plan on less (R14).
        """
        self._renews = True
        self.reconsider()

    def settle(self, now: float) -> None:
        """Brings the figures in order. `now` is monotonic, in seconds."""
        settled = self.engine.settle()
        if settled.rebuilt:
            self._everything = True
            self._map_objects()
            self.pace.keep(self.engine.forest.groups)
            self.alarms.forget_all_but(self.engine.forest.groups)
        self.problems = self.engine.problems()
        groups = self.engine.forest.groups
        self._limits |= settled.limits
        seen, self.state.seen_again = self.state.seen_again, set()
        for name in sorted((settled.limits | settled.figures | seen) & groups.keys()):
            self.pace.want(name, now)
            group = groups[name]
            if not group.is_detached:
                self.alarms.measure(name, group.used, group.runtime, now)
            else:
                self.alarms.measure(name, {}, {}, now)

    def writes(self, now_ms: int, present: Iterable[str]) -> dict[str, QuotaGroup | None]:
        """What to put under which key of QUOTA (None: delete), in order. `present` are the keys that are there.

        Groups come behind those above them, and the default group behind all: who reads a QUOTA that begins anew, and
        sees the default group, sees every group.
        """
        if not (self._everything or self._limits or self._demand):
            return {}
        groups = self.engine.forest.groups
        everything, self._everything = self._everything, False
        renews, self._renews = self._renews, False
        names = groups.keys() if everything else (self._limits | self._demand) & groups.keys()
        problems = self._problems_by_object()
        revision = self.shelf.next_revision(now_ms)
        changes: dict[str, QuotaGroup | None] = {}
        for group in sorted((groups[name] for name in names), key=_place):
            name = group.name
            wanted = group_message(
                group,
                self._served.get(name, []),
                problems.get(group.spec.object, []),
                uses_runtime=self._rules.uses_runtime,
            )
            key = quota_key(group.tree, name)
            demand_too = everything or name in self._demand
            message = self.shelf.successor(key, wanted, revision, demand_too=demand_too, renews=renews)
            if message is not None:
                changes[key] = message
        if everything:
            for key in sorted(set(present) - {quota_key(group.tree, group.name) for group in groups.values()}):
                changes[key] = None
                self.shelf.saw(key, None)
        self._limits.clear()
        self._demand.clear()
        return changes

    def patches(self, now: float, most: int) -> list[PatchObject]:
        """Write-backs whose time has come, at most so many groups at once."""
        asked: list[PatchObject] = []
        for name in self.pace.take(now, most):
            group = self.engine.forest.groups.get(name)
            if group is None:
                continue
            self._demand.add(name)
            shown = self.state.shown.get(self._objects.get(name, ""))
            request = None if shown is None else self._patch(group, shown)
            if request is not None:
                asked.append(request)
                self.pace.again(name, now + self._retry_s)
        return asked

    def announcements(self, now: float) -> list[Announcement]:
        """Events that are due."""
        events = self._refusals()
        for group, excess in self.alarms.overuse(now):
            known = self.engine.forest.groups.get(group)
            tree = known.tree if known is not None else ""
            runtime = known.runtime if known is not None else {}
            text = _overuse(excess)
            event = QuotaChanged(tree=tree, group=group, runtime=runtime, message=text)
            verb = "exceeded" if excess else "recovered"
            events.append(
                Announcement(event_subject("quota", "changed", verb, tree, group), event, f"quota.{verb}", text)
            )
        return events

    def _refusals(self) -> list[Announcement]:
        if self.problems is self._said:
            return []
        self._said = self.problems
        events: list[Announcement] = []
        for owner, listed in self.alarms.refusals(self.problems).items():
            namespace, _, name = owner.rpartition("/")
            event = ObjectRefused(kind="ElasticQuota", namespace=namespace, name=name, problems=_on_wire(listed))
            subject = event_subject("object", "refused", "elasticquotas", namespace, name)
            text = "; ".join(f"{problem.field}: {problem.message}" for problem in listed[:PROBLEMS_MAX])
            events.append(Announcement(subject, event, "quota.refused", text))
        return events

    def _map_objects(self) -> None:
        self._served = self.engine.map.namespaces_of()
        by_place = {(shown.namespace, shown.name): key for key, shown in self.state.shown.items()}
        self._objects = {}
        for name, group in self.engine.forest.groups.items():
            key = by_place.get((group.spec.namespace, name))
            if key is not None:
                self._objects[name] = key

    def _problems_by_object(self) -> dict[str, list[WireProblem]]:
        source, cached = self._by_object
        if source is self.problems:
            return cached
        by_object: dict[str, list[Problem]] = {}
        for problem in self.problems:
            by_object.setdefault(problem.object, []).append(problem)
        cached = {owner: _on_wire(listed) for owner, listed in by_object.items()}
        self._by_object = (self.problems, cached)
        return cached

    def _patch(self, group: Group, shown: Shown) -> PatchObject | None:
        figures = figures_of(group, group.runtime, guarantees_use=self._rules.guarantees_use)
        return patch(shown, figures, group.used)


def _place(group: Group) -> tuple[bool, int, str]:
    """Its place among the groups that are written at once."""
    return group.name == DEFAULT_GROUP, group.depth, group.name


def encode_group(message: QuotaGroup) -> bytes:
    """The bytes of a group; equal messages give equal bytes."""
    return _encoder.encode(message)


_encoder = msgspec.json.Encoder()


def _overuse(excess: dict[str, int]) -> str:
    if not excess:
        return "within its runtime again"
    listed = ", ".join(f"{key} by {amount}" for key, amount in sorted(format_amounts(excess).items()))
    return f"uses more than its runtime: {listed}"


def _on_wire(problems: Iterable[Problem]) -> list[WireProblem]:
    return [WireProblem(field=problem.field, message=problem.message) for problem in problems][:PROBLEMS_MAX]
