"""Quota groups: what is used of one stays within what QUOTA said at the revision that the plan has stamped (I31).

A plan that charges a group names on its account the newest revision of QUOTA that it has used. So nothing has to be
allowed for what somebody has not read yet: the limit is the runtime that QUOTA has under that revision, and what counts
as used is what is charged to the groups that were below it then. Of groups above it the max binds, and the runtime as
well where quota-manager is set so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import AccountStamp, Decision
from berth.contracts.quota import PodCharge, QuotaGroup
from berth.invariants.counts import Excuse
from berth.invariants.observer.capacity import Capacity
from berth.invariants.observer.holds import Hold
from berth.invariants.observer.sight import Reader
from berth.invariants.observer.verdicts import Verdicts
from berth.invariants.payers import RULES_KEY

LAW: Final = "I31"
KEPT_MAX: Final = 64
"""Messages of one group that are kept: a stamp names none that is older."""

Key: TypeAlias = tuple[str, str]
"""Tree and name."""


class Said(NamedTuple):
    """What QUOTA said of a group, and when it did first."""

    group: QuotaGroup
    at_s: float


CHARGES: Final = subjects.charge_key("")
"""What keys of QUOTA begin with that say what hooks charge."""


class Shares:
    """What QUOTA has said of each group, and whether plans keep to it."""

    def __init__(self, verdicts: Verdicts, capacity: Capacity) -> None:
        self._verdicts = verdicts
        self._capacity = capacity
        self._said: dict[str, list[Said]] = {}
        """By name of a group, in whichever tree, by rising revision."""
        self._gone: set[Key] = set()
        self._moves: set[int] = set()
        """Revisions with which a group has moved."""
        self._batch: list[Decision] = []

    def see(self, key: str, value: bytes, deleted: bool) -> None:
        """The next message that QUOTA has stored."""
        if deleted:
            self._gone.update(place for place in self._places() if subjects.quota_key(*place) == key)
            return
        try:
            if key.startswith(CHARGES):
                decode(value, PodCharge)  # what of it was decided, decisions say
                return
            group = decode(value, QuotaGroup)
        except InvalidMessage as error:
            self._verdicts.add("I0", f"QUOTA {key}", f"QUOTA key {key} cannot be read: {error}")
            return
        self._gone.discard((group.tree, group.name))
        if group.moved:
            self._moves.add(group.moved)
        said = self._said.setdefault(group.name, [])
        # Under one revision only the demand and the problems differ.
        if all((each.group.revision, each.group.tree) != (group.revision, group.tree) for each in said):
            said.append(Said(group, self._capacity.sight.now_s))
            said.sort(key=lambda each: each.group.revision)
            del said[:-KEPT_MAX]
        if key == RULES_KEY and group.rules != self._capacity.rules:
            self._capacity.rules = group.rules
            self._capacity.claims.uses_default = group.rules.uses_default
            self._capacity.regroup()
            self._capacity.quotas_changed()

    def knows(self, key: Key) -> bool:
        """Whether QUOTA has said anything of a group."""
        return any(each.group.tree == key[0] for each in self._said.get(key[1], ()))

    def decided(self, decision: Decision) -> None:
        """A decision of a batch of which the end is still to come."""
        if decision.quota:
            self._batch.append(decision)

    def lost(self) -> None:
        """LEDGER has lost something: the rest of a batch does not come."""
        self._batch.clear()

    def planned(self, plan: str, stamps: Mapping[str, AccountStamp]) -> None:
        """The last message of a batch: what it has charged is there, and so are the stamps."""
        batch, self._batch = self._batch, []
        together = {decision.uid: decision.quota.rpartition("/")[2] for decision in batch if decision.plan == plan}
        judged: set[tuple[Key, str, bool]] = set()
        for decision in batch:
            hold = self._capacity.holds.get(decision.uid)
            if decision.plan != plan or hold is None or hold.is_bound:
                continue
            tree, _, name = decision.quota.rpartition("/")
            for place in self._line((tree, name), stamps, plan):
                is_own = place == (tree, name)
                for resource, amount in hold.charged.items():
                    if amount > 0 and (place, resource, is_own) not in judged:
                        judged.add((place, resource, is_own))
                        self._judge(place, resource, stamps, together, is_own=is_own)

    def _line(self, key: Key, stamps: Mapping[str, AccountStamp], plan: str) -> Iterator[Key]:
        """The group and those above it, as far as this plan has stamped them."""
        said = self.said(key, stamps)
        for place in (key, *((key[0], name) for name in (said.group.ancestors if said is not None else ()))):
            stamp = stamps.get(subjects.quota_account(*place))
            if stamp is not None and stamp.plan == plan:
                yield place

    def _judge(
        self,
        place: Key,
        resource: str,
        stamps: Mapping[str, AccountStamp],
        together: Mapping[str, str],
        *,
        is_own: bool,
    ) -> None:
        """`together`: who is decided in the same batch, and the group of each."""
        said = self.said(place, stamps)
        if said is None or resource not in said.group.limits:
            return
        revision = stamps[subjects.quota_account(*place)].revision
        self._verdicts.judged(LAW)
        later: set[str] = set()
        if is_own and not said.group.rules.checks_parents:
            # Those of groups below may have come after its own pods, and are bound by its max alone.
            later = {uid for uid, group in together.items() if group != place[1]}
        holders = self.holders(place, resource, revision, later)
        most = _bound(said.group, resource, is_own=is_own)
        total = sum(amount for _, amount in holders())
        if total <= most:
            return
        before = self._before(said, revision)
        if before is not None and total <= _bound(before.group, resource, is_own=is_own):
            self._verdicts.excused(LAW, Excuse.UNSEEN)
            return
        subject = f"quota {place[1]} at revision {revision}"
        self._capacity.beyond(LAW, subject, resource, most, holders, Reader.QUOTA)

    def said(self, key: Key, stamps: Mapping[str, AccountStamp]) -> Said | None:
        """What was said of a group under the revision that is stamped on it."""
        stamp = stamps.get(subjects.quota_account(*key))
        if stamp is None:
            return None
        of_it = [each for each in self._said.get(key[1], ()) if each.group.tree == key[0]]
        return next((each for each in reversed(of_it) if each.group.revision <= stamp.revision), None)

    def _before(self, said: Said, revision: int) -> Said | None:
        """What was said before, where that may be what the solver had read.

        A move is a revision of its whole tree: who has read of it stamps that revision on every account, also of groups
        of which the message of the same round is still to come.
        """
        if said.group.revision != revision or not self.may_be_unread(said):
            return None
        of_it = [each for each in self._said[said.group.name] if each.group.tree == said.group.tree]
        at = of_it.index(said)
        return of_it[at - 1] if at else None

    def may_be_unread(self, said: Said) -> bool:
        """Whether a solver that names its revision may have read of the move, and not of this group."""
        return said.group.revision in self._moves and not self._capacity.sight.has_seen(Reader.QUOTA, said.at_s)

    def holders(
        self, place: Key, resource: str, revision: int, without: Collection[str] = ()
    ) -> Callable[[], Iterator[tuple[Hold, int]]]:
        """Who is charged to a group or to one that was below it under this revision, and how much."""
        below = {name for name in self._said if self._is_below(name, place, revision)}

        def holders() -> Iterator[tuple[Hold, int]]:
            for hold in self._capacity.holds.values():
                if hold.quota in below and hold.uid not in without:
                    yield hold, hold.charged.get(resource, 0)

        return holders

    def _is_below(self, name: str, place: Key, revision: int) -> bool:
        """Whether a group is this one, or below it, by what whoever had read this revision must have read."""
        said = next((each for each in reversed(self._said[name]) if each.group.revision <= revision), None)
        if said is None or (said.group.tree, name) in self._gone or said.group.tree != place[0]:
            return False
        if name == place[1]:
            return True
        is_unread = said.group.revision == revision and self.may_be_unread(said)
        return place[1] in said.group.ancestors and not is_unread

    def _places(self) -> set[Key]:
        return {(each.group.tree, name) for name, said in self._said.items() for each in said}


def _bound(group: QuotaGroup, resource: str, *, is_own: bool) -> int:
    """What binds of a group: its runtime for its own pods, its max for those of groups below it, where no more does."""
    limit = group.runtime if is_own or group.rules.checks_parents else group.max
    return limit.get(resource, 0)
