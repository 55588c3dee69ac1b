"""One moment of the modelled system, as a value that can be compared and kept in a set.

Resource versions are positions in `State.log`, the API server's history of the pods, counted from 1. Sequences of
LEDGER are positions in `State.ledger`, so cutting its tail makes them be used again. A pod's uid is
`name * 8 + generation`.
Nothing here is a string, apart from a verdict: equal runs have equal fingerprints in every process.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.world import FAULTS, World

NOWHERE = -1
"""The slot of a pod that is not bound."""
DECISION, ACCOUNT, PLAN, EPOCH = range(4)
"""Families of the ledger's keys."""
ABSENT, OPEN, COMMITTED, ABORTED = range(4)
"""The status of a plan; ABSENT without an entry, or with a deleted one."""
STANDBY, COMPARING, ACTIVE, RAISING = range(4)
"""What a writer is about."""


class Pod(NamedTuple):
    """A pod as the API server has it. `plan` is the plan under which it was bound."""

    uid: int
    attempt: int
    slot: int
    plan: int
    version: int


class Change(NamedTuple):
    """One version of a pod in the API server's history; uid 0: deleted."""

    name: int
    uid: int
    attempt: int
    slot: int
    plan: int


class Decision(NamedTuple):
    """A claim. `id` counts decisions, for traces; everything else is a field of the message of the same name."""

    id: int
    name: int
    uid: int
    attempt: int
    slot: int
    pod_version: int
    basis: int
    plan: int
    size: int
    """Members of its strict gang in the plan; 0 without a gang."""
    epoch: int


class Message(NamedTuple):
    """One message of LEDGER. `value` is a plan's status or an epoch; `decision` is None in a deletion marker."""

    family: int
    key: int
    value: int = 0
    decision: Decision | None = None
    pods_version: int = 0


class View(NamedTuple):
    """What a follower of STATE has read.

    `position`: how far in the history. `through`: the version through which it is complete. `held`: per name the
    version that it shows, 0 for none. `left`: names still to come while STATE is listed again.
    """

    position: int
    through: int
    held: tuple[int, ...]
    left: tuple[int, ...] = ()


class Held(NamedTuple):
    """A decision key with the sequence of its message."""

    sequence: int
    decision: Decision | None


class Entry(NamedTuple):
    """A plan entry with the sequence of its message."""

    plan: int
    status: int
    sequence: int


class Ledger(NamedTuple):
    """What a follower of LEDGER has read: the current epoch, and its keys with their sequences."""

    stamps: tuple[int, ...]
    decisions: tuple[Held, ...]
    plans: tuple[Entry, ...]
    epoch: int
    pods_version: int

    def plan(self, plan: int) -> Entry:
        """The entry of a plan."""
        for entry in self.plans:
            if entry.plan == plan:
                return entry
        return Entry(plan, ABSENT, 0)


class Stage(NamedTuple):
    """A staged plan of which the first batch is in: what comes next, and what it stands on."""

    plan: int
    entry_sequence: int
    rest: Decision | None
    known: Ledger


class Look(NamedTuple):
    """What a wave has found at the leader: it may begin `plans` if the Lease still names `before`."""

    newest: int
    before: int
    plans: frozenset[int]


class Writer(NamedTuple):
    """cluster-writer. `remembered` are committed decisions that it has read in this epoch; `begun` the plans of its
    waves; `sent` decisions with a request on its way or answered for good; `given_up` those to be withdrawn; `fences`
    the names whose attempt is still to be raised before the new epoch is written."""

    mode: int
    ledger: Ledger
    remembered: frozenset[Decision] = frozenset()
    begun: frozenset[int] = frozenset()
    sent: frozenset[int] = frozenset()
    given_up: frozenset[int] = frozenset()
    epoch: int = 0
    look: Look | None = None
    fences: tuple[int, ...] = ()


class Request(NamedTuple):
    """A bind on its way. `version` 0: not guarded. `writer` NOWHERE: nobody waits for its answer. `noted`: the second
    patch of a Reservation's bind."""

    decision: Decision
    version: int
    writer: int
    noted: bool = False


class Lease(NamedTuple):
    """The Lease: who may act, the newest plan acted on, the epoch."""

    holder: int
    plan: int
    epoch: int


class State(NamedTuple):
    """The whole system. Views: solvers first, then writers."""

    pods: tuple[Pod | None, ...]
    log: tuple[Change, ...]
    views: tuple[View, ...]
    ledger: tuple[Message | None, ...]
    """None: a message that a newer one of its key has replaced."""
    known: tuple[Ledger, ...]
    """Per solver: what it has read of LEDGER."""
    stages: tuple[Stage | None, ...]
    writers: tuple[Writer, ...]
    network: frozenset[Request]
    failed: frozenset[int]
    """Decisions that an event called failed; none with R6."""
    lease: Lease
    budget: tuple[int, ...]
    next_id: int
    bad: str
    """What a step has broken on its way; empty while all is well."""
    kept: tuple[tuple[Message | None, ...], ...] = ()
    """Per follower of LEDGER, solvers first, then writers: what it had read when LEDGER lost some of that, and does not
    compare (R16). None with R16: whoever reads late reads what is there then."""

    def readable(self, follower: int) -> tuple[Message | None, ...]:
        """LEDGER as this follower may read it."""
        kept = self.kept[follower] if self.kept else ()
        return kept + self.ledger[len(kept) :] if kept else self.ledger

    def left(self, fault: str) -> int:
        """How often this may still happen."""
        return self.budget[FAULTS.index(fault)]

    def spend(self, fault: str) -> State:
        """It happens once."""
        at = FAULTS.index(fault)
        return self._replace(budget=(*self.budget[:at], self.budget[at] - 1, *self.budget[at + 1 :]))

    def store(self, name: int, uid: int, attempt: int = 0, slot: int = NOWHERE, plan: int = 0) -> State:
        """The API server stores a pod; uid 0 deletes it."""
        log = (*self.log, Change(name, uid, attempt, slot, plan))
        pod = Pod(uid, attempt, slot, plan, len(log)) if uid else None
        return self._replace(log=log, pods=(*self.pods[:name], pod, *self.pods[name + 1 :]))

    def become(self, index: int, writer: Writer) -> State:
        """One writer is in another state."""
        return self._replace(writers=(*self.writers[:index], writer, *self.writers[index + 1 :]))

    def read(self, follower: int, view: View) -> State:
        """One follower of STATE has read on."""
        return self._replace(views=(*self.views[:follower], view, *self.views[follower + 1 :]))


class Step(NamedTuple):
    """Something that may happen next: what, to whom, and the moment after it."""

    what: str
    details: tuple[object, ...]
    after: State


def first_uid(name: int) -> int:
    """The uid of a name's first pod."""
    return name * 8 + 1


def budget_of(world: World) -> tuple[int, ...]:
    """The faults that a world allows."""
    return tuple(int(getattr(world, fault)) for fault in FAULTS)
