"""What the buckets show: STATE as quotas see it, QUOTA as published, the revisions that LEDGER names.

Sinks only record and mark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import AccountStamp
from berth.contracts.quota import PodCharge, QuotaGroup
from berth.quota_manager.core.engine import Engine
from berth.quota_manager.core.hooks.classes import HookedClasses
from berth.quota_manager.core.hooks.published import PublishedCharges, is_charge
from berth.quota_manager.core.limits import PublishedGroups
from berth.quota_manager.core.made_quotas import QuotaObjects
from berth.quota_manager.core.objects import NodeView, PodView, read_pod, read_quota
from berth.quota_manager.core.profiles import NodeOfPool, Profiles
from berth.quota_manager.core.slipped import Slipped
from berth.quota_manager.core.writeback import Shown, shown_by
from berth.rules.quota_hooks.seen import hooked_pod

REQUIRED_KINDS: Final = frozenset(("pods", "nodes", "elasticquotas", "elasticquotaprofiles"))
"""Without a complete view of these, totals or demand would be too low, and groups, or the nodes that a tree is kept to,
would seem to be gone."""
STAMPS: Final = "*.account.quota.>"
"""What of LEDGER is read: the stamps of groups, of every epoch."""
EVERYTHING: Final = "everything"
"""The only name: all groups hang together."""


class StateView:
    """STATE as quotas see it: pods and nodes go straight into the engine's books, quotas also into `shown`."""

    def __init__(
        self, engine: Engine, slipped: Slipped, hooked: HookedClasses | None = None, *, on_news: Callable[[], None]
    ) -> None:
        """`hooked`: where hooks are asked about pods that wait."""
        self.shown: dict[str, Shown] = {}
        """What each ElasticQuota shows of itself, by STATE key."""
        self.seen_again: set[str] = set()
        """Names of quotas whose object was seen since they were last looked at."""
        self.invalid = 0
        self._engine = engine
        self._slipped = slipped
        self._hooked = hooked
        self._on_news = on_news
        self.profiles = Profiles()
        self.objects = QuotaObjects()
        self.namespaces: set[str] = set()
        """Keys of the namespaces that are there."""
        self._complete_kinds: set[str] = set()
        self._is_at_end = False
        self._readers: dict[str, Callable[[str, bytes], None]] = {
            "pod": self._pod,
            "node": self._node,
            "elasticquota": self._quota,
            "elasticquotaprofile": self._profile,
            "namespace": lambda key, value: self.namespaces.add(key),
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
        if self._hooked is not None:
            self._hooked.reset()
        self._slipped.reset()
        self.profiles.reset()
        self.objects.reset()
        self.namespaces.clear()
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
                self.invalid += 1
        if self._is_at_end:
            self._on_news()

    def end(self, sequence: int) -> None:
        """The end of the bucket; from then on every message is news of its own."""
        if not self._is_at_end:
            self._is_at_end = True
            self._on_news()

    def _pod(self, key: str, value: bytes) -> None:
        pod = decode(value, PodView)
        booked = read_pod(pod, self._engine.rules.charging)
        if booked is None or pod.node:
            self._waits_no_longer(key)
        elif self._hooked is not None:
            seen = hooked_pod(pod.namespace, decode(value, state.Pod).template)
            booked = booked[0], self._hooked.see(key, seen, *booked)
        if booked is None:
            self._engine.book.remove(key)
        else:
            self._engine.book.put(key, *booked)

    def _waits_no_longer(self, key: str) -> None:
        if self._hooked is not None:
            self._hooked.forget(key)

    def _node(self, key: str, value: bytes) -> None:
        node = decode(value, NodeView)
        self._engine.put_node(key, node.allocatable)
        offered = {name: max(0, amount) for name, amount in node.allocatable.items()}
        self.profiles.put_node(key, NodeOfPool(node.labels, offered, node.ready and not node.unschedulable))

    def _quota(self, key: str, value: bytes) -> None:
        quota = decode(value, state.ElasticQuota)
        spec, known = read_quota(quota), self._engine.spec_of(key)
        if spec.problems and not spec.max and known is not None:
            # Without a max a group limits nothing: an object that became unreadable keeps the limits it had.
            spec = replace(known, problems=spec.problems)
        self._engine.put_quota(key, spec)
        self._slipped.put(key, quota, spec)
        self.objects.put(quota)
        self.shown[key] = shown_by(quota)
        self.seen_again.add(quota.name)

    def _profile(self, key: str, value: bytes) -> None:
        self.profiles.put(key, decode(value, state.ElasticQuotaProfile))

    def _synced(self, key: str, value: bytes) -> None:
        marker = decode(value, state.Synced)
        if marker.complete:
            self._complete_kinds.add(marker.kind)

    def _forget(self, kind: str, key: str) -> None:
        if kind == "pod":
            self._waits_no_longer(key)
            self._engine.book.remove(key)
        elif kind == "node":
            self._engine.remove_node(key)
            self.profiles.remove_node(key)
        elif kind == "elasticquota":
            self._engine.remove_quota(key)
            shown = self.shown.pop(key, None)
            if shown is not None:
                self._slipped.remove(key, shown.name)
                self.objects.remove(shown.namespace, shown.name)
        elif kind == "elasticquotaprofile":
            self.profiles.remove(key)
        elif kind == "namespace":
            self.namespaces.discard(key)


class PublishedView:
    """Our own bucket, as it really is: after a restart, beside another replica, after a loss."""

    def __init__(
        self,
        published_groups: PublishedGroups,
        published_charges: PublishedCharges,
        reconsider: Callable[[str | None], None],
        renew: Callable[[], None],
    ) -> None:
        self.keys: set[str] = set()
        """Keys that are there, counting our writes on their way."""
        self._published_groups = published_groups
        self._published_charges = published_charges
        self._reconsider = reconsider
        self._renew = renew

    def reset(self) -> None:
        """The bucket begins anew. Revisions do not."""
        self.keys.clear()
        self._published_groups.messages.clear()
        self._published_charges.messages.clear()
        self._renew()

    def apply(self, entry: Entry) -> None:
        """A message as published, by us or by the other replica. An unreadable one will be written again."""
        self.wrote(entry.key, None if entry.deleted else entry)
        if is_charge(entry.key):
            self._published_charges.saw(entry.key, None if entry.deleted else entry.value)
            return
        message: QuotaGroup | None = None
        if not entry.deleted:
            try:
                message = decode(entry.value, QuotaGroup)
            except InvalidMessage:
                message = None
        if message is None and entry.key in self._published_groups.messages:
            # An echo of an older write may have hidden that the group, which is back, has to be written again.
            self._reconsider(None)
        self._published_groups.saw(entry.key, message)

    def wrote(self, key: str, message: object) -> None:
        """A write that is on its way (None: a deletion); what it says was noted when it was decided."""
        (self.keys.discard if message is None else self.keys.add)(key)

    def get(self, key: str) -> QuotaGroup | PodCharge | None:
        """What a key shows."""
        return (self._published_charges if is_charge(key) else self._published_groups).messages.get(key)

    def name_of(self, key: str) -> str:
        """A write of this key was refused: it is compared with the bucket again."""
        self._reconsider(key)
        return EVERYTHING

    def end(self, sequence: int) -> None:
        """Nothing to do at the end."""


class LedgerView:
    """The revisions that LEDGER names: solvers plan on no less (R14), whatever QUOTA lost and the clock says."""

    def __init__(self, published_groups: PublishedGroups, on_news: Callable[[], None]) -> None:
        self.is_at_end = False
        """The stamps were read once. What a LEDGER that begins anew shows is not above what was seen."""
        self.unreadable = 0
        self._published_groups = published_groups
        self._on_news = on_news

    def reset(self) -> None:
        """The bucket begins anew. Revisions do not."""

    def apply(self, entry: Entry) -> None:
        """The stamp of a group; one that cannot be read is counted."""
        if entry.deleted:
            return
        try:
            revision = decode(entry.value, AccountStamp).revision
        except InvalidMessage:
            self.unreadable += 1
            return
        self._published_groups.revision = max(self._published_groups.revision, revision)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self.is_at_end:
            self.is_at_end = True
            self._on_news()
