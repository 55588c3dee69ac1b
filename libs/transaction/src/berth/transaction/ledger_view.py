"""What a follower of LEDGER knows: the current epoch's decisions, account stamps and plans with their sequences.

Keys of other epochs are not read. Sequences serve as expected sequences of the next write, and for nothing else.

What cannot be read changes nothing (R15): the view keeps what it knew of the key, and expects what it expected.
"""

from __future__ import annotations

from typing import NamedTuple

from berth.contracts import subjects
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import AccountStamp, Decision, Epoch, Plan, PlanStatus
from berth.transaction.claims import Name
from berth.transaction.markers import Markers


class Held(NamedTuple):
    """A decision with the sequence of its message."""

    sequence: int
    decision: Decision


class Change(NamedTuple):
    """What one message changed: the name whose decision changed, the plan whose entry changed, or the epoch.

    `settles`: the plan was aborted, or is no longer, so that its decisions hold no capacity, or hold it again.
    """

    name: Name | None = None
    plan: str = ""
    epoch: bool = False
    settles: bool = False


NOTHING = Change()
FAMILIES = frozenset({"decision", "plan", "account"})


class LedgerView:
    """Fold of the ledger's messages, in order.

    `sequence` is that of the newest message applied. A deleted key keeps the sequence of its marker, which the next
    write has to expect for as long as the server keeps the marker: the owner of a long-lived view calls
    `forget_markers` now and then. A deleted plan keeps nothing, since its id is never used again. `unreadable` are the
    keys whose newest message cannot be read, with its sequence: what they hold is not known. `other_epochs` are those
    of whose keys a message was read that is no deletion.
    """

    def __init__(self) -> None:
        self.epoch = Epoch(epoch=0)
        self.sequence = 0
        self.decisions: dict[Name, Held] = {}
        self.plans: dict[str, Plan] = {}
        self.stamps: dict[str, AccountStamp] = {}
        self.members: dict[str, set[Name]] = {}
        self.unreadable: dict[str, int] = {}
        self.other_epochs: set[int] = set()
        self._sequences: dict[str, int] = {}
        self._markers = Markers()
        self._began = 0  # sequence of the entry that began the epoch: of its keys, those behind it were read
        self._prefix = subjects.epoch_prefix(0)

    def reset(self) -> None:
        """Another stream, or a lower end: forget everything."""
        self.__init__()  # type: ignore[misc]

    def apply(self, key: str, value: bytes, deleted: bool, sequence: int) -> Change:
        """Take in one message. Raises InvalidMessage: then only `sequence` and `unreadable` have moved."""
        self.sequence = max(self.sequence, sequence)
        if key == subjects.EPOCH_KEY:
            return self._apply_epoch(value, deleted, sequence)
        if not key.startswith(self._prefix):
            if not deleted and (epoch := subjects.epoch_of(key)) is not None:
                self.other_epochs.add(epoch)
            return NOTHING
        family, _, rest = key[len(self._prefix) :].partition(".")
        try:
            if family == "decision":
                change = self._apply_decision(rest, value, deleted, sequence)
            elif family == "plan":
                change = self._apply_plan(rest, value, deleted)
            elif family == "account":
                change = self._apply_stamp(rest, value, deleted)
            else:
                raise InvalidMessage(key, "unknown family of ledger keys")
        except (InvalidMessage, ValueError):
            if family == "account" and not rest.startswith(subjects.QUOTA_ACCOUNTS):
                # Its revision is compared by nobody, and its sequence says that what was decided before was read.
                self._sequences[key] = sequence
            elif family in FAMILIES:
                self.unreadable[key] = sequence
            raise
        self._read(key, family, deleted, sequence)
        return change

    def _read(self, key: str, family: str, deleted: bool, sequence: int) -> None:
        """A message was read: from now on its sequence is the one to expect (R1)."""
        if self.unreadable:
            self.unreadable.pop(key, None)
        if not deleted:
            self._sequences[key] = sequence
            return
        self._sequences.pop(key, None)  # with the key's old copy: the markers share the new one
        if family != "plan":
            self._sequences[key] = sequence
            self._markers.add(key, sequence)

    def learn_absent(self, key: str, expected: int) -> None:
        """Take the leader's word that it holds no message for a key, not even a marker: its next write expects 0.

        A sequence is never taken from the leader, but for that of a marker (`learn_marker`): a write may expect only
        what the view has read the content of (R1).

        Args:
            key: of LEDGER.
            expected: what a write of it expected when the leader was asked. What was read since then is newer.
        """
        if key.startswith(self._prefix) and self.expected(key) == expected:
            self._sequences.pop(key, None)

    def learn_marker(self, key: str, sequence: int) -> None:
        """Take the leader's word that a key which this view knows nothing of has a marker: its next write expects that.

        A marker that was forgotten while the server still keeps it would refuse every write. This view has read all
        that was stored up to the marker, and nothing of the key is left of that: the key is empty, as the marker says.
        So its content was read (R1). A marker that is not read yet is left to be read, and with it what came before.
        Whatever was read since the leader was asked is newer, and stays.

        Args:
            key: of LEDGER. The view has to be one that reads every key of its family.
            sequence: of the marker.
        """
        was_read = self._began < sequence <= self.sequence
        if key in self.unreadable:
            return
        if was_read and key.startswith(self._prefix) and not self.expected(key):
            self._sequences[key] = sequence
            self._markers.add(key, sequence)

    def forget_markers(self, now_s: float, kept_s: float) -> None:
        """Forget the deletions that were read `kept_s` ago and before the call then: a write of their keys expects 0.

        Forgotten too early or too late, a write is refused until its writer has asked the leader (`learn_marker`,
        `learn_absent`).

        Args:
            now_s: of a clock that does not go back.
            kept_s: how long the server keeps a marker, and a margin; 0 for an owner that writes no key but plans'.
        """
        for key, sequence in self._markers.expired(now_s, kept_s):
            if self._sequences.get(key) == sequence:
                del self._sequences[key]

    def expected(self, key: str) -> int:
        """The sequence that a write of this key has to expect."""
        return self._sequences.get(key, 0)

    def plan_status(self, plan: str) -> PlanStatus | None:
        """Status of a plan of this epoch; None without an entry."""
        entry = self.plans.get(plan)
        return entry.status if entry else None

    def _apply_epoch(self, value: bytes, deleted: bool, sequence: int) -> Change:
        epoch = Epoch(epoch=0) if deleted else decode(value, Epoch)
        if epoch == self.epoch:
            self._sequences[subjects.EPOCH_KEY] = sequence
            return NOTHING
        newest, others = self.sequence, self.other_epochs | {self.epoch.epoch}
        self.reset()
        self.sequence, self.other_epochs = newest, others - {epoch.epoch, 0}
        self.epoch = epoch
        self._prefix = subjects.epoch_prefix(epoch.epoch)
        self._sequences[subjects.EPOCH_KEY] = self._began = sequence
        return Change(epoch=True)

    def _apply_decision(self, rest: str, value: bytes, deleted: bool, sequence: int) -> Change:
        parts = subjects.parts(rest)
        if len(parts) != 2:
            raise InvalidMessage(rest, "a decision's key has a namespace and a name")
        name = (parts[0], parts[1])
        decision = None if deleted else decode(value, Decision)
        if decision is not None and (decision.namespace, decision.name) != name:
            raise InvalidMessage("name", f"is {decision.namespace}/{decision.name} under the key of {'/'.join(name)}")
        old = self.decisions.pop(name, None)
        if old:
            self._leave(old.decision.plan, name)
        if decision is not None:
            self.decisions[name] = Held(sequence, decision)
            self.members.setdefault(decision.plan, set()).add(name)
        return Change(name=name)

    def _leave(self, plan: str, name: Name) -> None:
        names = self.members.get(plan)
        if names is not None:
            names.discard(name)
            if not names:
                del self.members[plan]

    def _apply_plan(self, rest: str, value: bytes, deleted: bool) -> Change:
        plan = subjects.unescape(rest)
        entry = None if deleted else decode(value, Plan)
        if entry is not None and entry.id != plan:
            raise InvalidMessage("id", f"is {entry.id} under the key of {plan}")
        was = self.plan_status(plan)
        if entry is None:
            self.plans.pop(plan, None)
        else:
            self.plans[plan] = entry
        return Change(plan=plan, settles=PlanStatus.ABORTED in (was, self.plan_status(plan)))

    def _apply_stamp(self, account: str, value: bytes, deleted: bool) -> Change:
        if deleted:
            self.stamps.pop(account, None)
        else:
            self.stamps[account] = decode(value, AccountStamp)
        return NOTHING
