"""One moment: the API server's pods with their history, the followers, LEDGER, writers, requests on their way.

The API server's history of pods is `log`, read by every follower at its own pace, in order. The ledger is a list of
batches; a key's sequence is the place in it of the newest batch that wrote the key. Requests that can outlive their
sender (binds, marks, deletions) lie in `net` until they land; all others are guarded by the version that was seen, and
land at once or not at all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.evictions.world import FAULTS

STANDBY, ACTIVE, RAISING = "standby", "active", "raising"
STAMP, CLAIM, APART = "A", "D", "N"
"""Families of keys: accounts, decisions and nominations, nominations under keys of their own (without E1)."""


class Pod(NamedTuple):
    uid: int
    attempt: int
    place: int
    """0: not bound."""
    ends: int
    """1: terminating."""
    mark: tuple[int, ...]
    """(plan, for whom) or ()."""
    noted: tuple[int, ...]
    """(plan, place) as nominated, or ()."""
    let_go: tuple[int, ...]
    """Plans that were given up."""
    guarded: int
    """1: must not be evicted."""
    version: int
    basis: int = 0
    """Of another kind than its victims: the id of the version of theirs that a planner's view must have."""
    refused: tuple[int, ...] = ()
    """Uids of pods whose deletion for it was refused."""


class Claim(NamedTuple):
    """A decision (no victims) or a nomination; `victims` are ((name, uid), ...) of the whole plan."""

    plan: int
    name: int
    uid: int
    attempt: int
    place: int
    victims: tuple[tuple[int, int], ...]
    nominates: int
    size: int
    epoch: int


class Batch(NamedTuple):
    """`writes` are (family, key, claim or None). An epoch's entry has plan 0, and `mark`, the id of its version."""

    plan: int
    epoch: int
    writes: tuple[tuple[str, int, Claim | None], ...]
    mark: int = 0


class Known(NamedTuple):
    """LEDGER as read: per name (sequence, claim or None), the same of nominations apart, sequences of accounts."""

    epoch: int
    mark: int
    claims: tuple[tuple[int, Claim | None], ...]
    apart: tuple[tuple[int, Claim | None], ...]
    stamps: tuple[int, ...]
    plans: frozenset[int]


class Writer(NamedTuple):
    mode: str
    known: Known
    remembered: frozenset[Claim]
    begun: frozenset[int]
    epoch: int
    todo: tuple[int, ...]


Pods = tuple[Pod | None, ...]


class State(NamedTuple):
    pods: Pods
    base: Pods
    """The pods as everybody has seen them."""
    log: tuple[tuple[int, Pod | None], ...]
    """Changes since."""
    gens: tuple[int, ...]
    views: tuple[int, ...]
    """Per follower: how many of the log; solvers first."""
    missed: tuple[tuple[int, ...], ...]
    """Per follower: which of these it has not read."""
    ledger: tuple[Batch, ...]
    known: tuple[Known, ...]
    writers: tuple[Writer, ...]
    net: frozenset[tuple[Any, ...]]
    lease: tuple[int, int, int]
    """Holder, plan, epoch."""
    bases: tuple[int, ...]
    """By id: the planner's view was complete through it, its pods and victims no newer; of epochs: to be reached."""
    unfit: int
    pdb: int
    promised: frozenset[tuple[int, int, int, int]]
    """(name, uid, place, plan): a victim was evicted for this."""
    paid: frozenset[tuple[int, int]]
    """(for whom, plan): a victim was evicted."""
    lost: bool
    made: int
    """Plans."""
    budget: tuple[int, ...]
    bad: str

    def left(self, fault: str) -> int:
        return self.budget[FAULTS.index(fault)]

    def spend(self, fault: str) -> State:
        at = FAULTS.index(fault)
        return self._replace(budget=(*self.budget[:at], self.budget[at] - 1, *self.budget[at + 1 :]))

    def put(self, name: int, pod: Pod | None) -> State:
        pods = (*self.pods[:name], pod, *self.pods[name + 1 :])
        return self._replace(pods=pods, log=(*self.log, (name, pod)))

    def change(self, name: int, **what: Any) -> State:
        pod = self.pods[name]
        assert pod
        return self.put(name, pod._replace(version=pod.version + 1, **what))

    def writer(self, w: int, **what: Any) -> State:
        return self._replace(writers=(*self.writers[:w], self.writers[w]._replace(**what), *self.writers[w + 1 :]))

    def append(self, batch: Batch) -> State:
        return self._replace(ledger=(*self.ledger, batch))


class Step(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: State
