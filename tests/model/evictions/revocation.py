"""Revocations: a quota group uses more than its runtime, and gives back although nobody waits (`monitorAllQuotas`).

Two pods of the group run, and it has a pod more than its runtime. A solver names who leaves; cluster-writer marks,
looks and deletes. A pod becomes protected, or is deleted by its user, or LEDGER is lost; requests are on their way for
as long as they like. Whoever leaves, no more may leave than the group had too much. That two solvers do not name
different pods is R1's, at the group's key: it is given here.

The solver names nobody anew within `delayEvictTime` of when a revocation ended, and takes one back after minutes: both
are taken to be longer than its view is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from tests.model.evictions.rules import Rules

RUNTIME: Final = 1
SOLVER: Final = 0
WRITER: Final = 1
PLANS: Final = 2
ON_THEIR_WAY: Final = 2
"""So many requests at most."""
FAULTS: Final = ("protections", "deletions", "losses")
QUIET: Final = frozenset({"user protects", "user deletes", "LEDGER is lost"})
"""What a fair run leaves out."""
FAIR_STEPS: Final = 100


class Pod(NamedTuple):
    """One of the group. `mark`: the plan, 0: none."""

    version: int = 0
    mark: int = 0
    is_leaving: bool = False
    is_protected: bool = False


class Plan(NamedTuple):
    """A revocation under the group's key."""

    id: int
    victim: int


class Ledger(NamedTuple):
    """The group's key, by how often it was written."""

    writes: int = 0
    epoch: int = 0
    plan: Plan | None = None


class Request(NamedTuple):
    """On its way: a mark (its plan) or, with 0, a deletion."""

    pod: int
    mark: int
    version: int


Pods: TypeAlias = tuple[Pod, Pod]
START: Final = (Pod(), Pod())


class Moment(NamedTuple):
    """What is so, and what solver and cluster-writer have read of it."""

    pods: Pods = START
    ledger: Ledger = Ledger()
    seen: tuple[Pods, Pods] = (START, START)
    read: tuple[Ledger, Ledger] = (Ledger(), Ledger())
    network: frozenset[Request] = frozenset()
    plans: int = 0
    spare: int = PLANS
    """How many there may be beside."""
    deletions: int = 0
    protections: int = 0
    losses: int = 0
    needs: Pods = START
    """What a view must have reached in this epoch (R12)."""
    bad: str = ""


class RevocationStep(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: Moment


class Revocation:
    """The transition system: `kept` (E1), `marked`, `look` and `version` (E4), `unmarked` (E5), `one_set` (E6) and
    `let_go` (E7), as docs/evictions.md reads them for a group."""

    def __init__(self, rules: Rules, fault: str) -> None:
        """`fault`: what goes wrong once, one of `FAULTS`."""
        self._rules = rules
        self._start = Moment()._replace(**{fault: 1})  # type: ignore[arg-type]

    def initial(self) -> Moment:
        """It uses a pod more than its runtime."""
        return self._start

    def canonical(self, now: Moment) -> Moment:
        """Nothing is alike."""
        return now

    def broken(self, now: Moment) -> str:
        """What an eviction has broken."""
        return now.bad

    def stuck(self, now: Moment) -> str:
        """A mark or a revocation stays, or the group stays above its runtime though it can give."""
        now = now._replace(spare=PLANS)
        for _ in range(FAIR_STEPS):
            now = next((step.after for step in self.steps(now) if step.what not in QUIET), now)
            if now.bad:
                return now.bad
        if any(each.mark and not each.is_leaving for each in now.pods):
            return "a mark is never taken back"
        if now.ledger.plan is not None and not _is_settled(now.ledger.plan, now.pods):
            return "a revocation never ends"
        return "the group never gives back" if _used(now.pods) > RUNTIME else ""

    def steps(self, now: Moment) -> Iterator[RevocationStep]:
        """Everything that may happen next; what leads to rest comes first."""
        for reader in range(len(now.seen)):
            if now.seen[reader] != now.pods:
                yield RevocationStep("STATE is read", (reader,), now._replace(seen=_set(now.seen, reader, now.pods)))
            if now.read[reader] != now.ledger:
                yield RevocationStep("LEDGER is read", (reader,), now._replace(read=_set(now.read, reader, now.ledger)))
        for request in sorted(now.network):
            yield self._land(now._replace(network=now.network - {request}), request)
        yield from self._writer(now)
        yield from self._solver(now)
        for name, pod in enumerate(now.pods):
            if pod.is_leaving and pod.mark:
                yield RevocationStep("a pod is gone", (name,), _changed(now, name, mark=0))
            if now.protections and not pod.is_protected and not pod.is_leaving:
                after = _changed(now, name, is_protected=True)._replace(protections=now.protections - 1)
                yield RevocationStep("user protects", (name,), after)
            if now.deletions and not pod.is_leaving:
                after = _changed(now, name, is_leaving=True)._replace(deletions=now.deletions - 1)
                yield RevocationStep("user deletes", (name,), after)
        if now.losses:
            empty = Ledger(now.ledger.writes + 1, now.ledger.epoch + 1)
            lost = now._replace(ledger=empty, losses=now.losses - 1, needs=now.pods)
            yield RevocationStep("LEDGER is lost", (), lost._replace(read=_set(now.read, WRITER, empty)))

    def _solver(self, now: Moment) -> Iterator[RevocationStep]:
        rules, seen, read = self._rules, now.seen[SOLVER], now.read[SOLVER]
        if read.writes != now.ledger.writes or (read.epoch and not _is_as_new(seen, now.needs)):
            return
        ledger = now.ledger._replace(writes=now.ledger.writes + 1)
        plan = read.plan
        stands = plan is not None and not _is_settled(plan, seen)
        if stands and rules.let_go and seen == now.pods:
            is_idle = _used(seen) <= RUNTIME
            what = "taken back, it is within its runtime" if is_idle else "taken back after minutes"
            yield RevocationStep(what, (), now._replace(ledger=ledger._replace(plan=None)))
        if (stands and rules.kept) or _used(seen) <= RUNTIME or not now.spare:
            return
        if rules.one_set and any(each.mark and not each.is_leaving for each in seen):
            return
        for name, pod in enumerate(seen):
            if not pod.is_leaving and not pod.is_protected and not pod.mark:
                made = now.plans + 1
                after = now._replace(ledger=ledger._replace(plan=Plan(made, name)), plans=made, spare=now.spare - 1)
                yield RevocationStep("the group is to give", (name,), after)

    def _writer(self, now: Moment) -> Iterator[RevocationStep]:
        """What it does by what it has read."""
        rules, seen, plan = self._rules, now.seen[WRITER], now.read[WRITER].plan
        for name, pod in enumerate(seen):
            is_stale = pod.mark and (plan is None or plan != Plan(pod.mark, name) or pod.is_protected)
            if is_stale and rules.unmarked and not pod.is_leaving and pod == now.pods[name]:
                yield RevocationStep("writer spares", (name,), _changed(now, name, mark=0))
        if plan is None or seen[plan.victim].is_leaving or seen[plan.victim].is_protected:
            return
        if rules.one_set and any(each.mark and name != plan.victim for name, each in enumerate(seen)):
            return
        victim = seen[plan.victim]
        is_marked = victim.mark == plan.id or not rules.marked
        if is_marked and (not rules.look or now.ledger.plan == plan):
            bad = "" if now.ledger.plan == plan else "somebody is evicted for a revocation that is over"
            request = Request(plan.victim, 0, victim.version)
            if self._may_send(now, request):
                sent = now._replace(network=now.network | {request}, bad=bad)
                yield RevocationStep("writer sends deletion", (plan.victim,), sent)
        elif not is_marked and self._may_send(now, request := Request(plan.victim, plan.id, victim.version)):
            yield RevocationStep("writer marks", (plan.victim,), now._replace(network=now.network | {request}))

    def _may_send(self, now: Moment, request: Request) -> bool:
        return request not in now.network and len(now.network) < ON_THEIR_WAY

    def _land(self, now: Moment, request: Request) -> RevocationStep:
        name, mark, version = request
        pod = now.pods[name]
        is_guarded = bool(mark) or self._rules.version
        if pod.is_leaving or (is_guarded and pod.version != version):
            return RevocationStep("a request is refused", (name, mark), now)
        if mark:
            return RevocationStep("a mark lands", (name,), _changed(now, name, mark=mark))
        after = _changed(now, name, is_leaving=True)
        by_users = self._start.deletions - now.deletions
        by_rule = sum(each.is_leaving for each in after.pods) - by_users
        bad = "more leave than the group had too much" if by_rule > len(START) - RUNTIME else ""
        if self._rules.marked and not pod.mark:
            bad = "somebody is evicted who was spared"
        return RevocationStep("a deletion lands", (name,), after._replace(bad=bad))


def _used(pods: Pods) -> int:
    return sum(not each.is_leaving for each in pods)


def _is_settled(plan: Plan, pods: Pods) -> bool:
    return pods[plan.victim].is_leaving


def _is_as_new(seen: Pods, needs: Pods) -> bool:
    return all(one.version >= two.version for one, two in zip(seen, needs, strict=True))


def _changed(now: Moment, name: int, **what: int) -> Moment:
    pod = now.pods[name]._replace(version=now.pods[name].version + 1, **what)  # type: ignore[arg-type]
    return now._replace(pods=_set(now.pods, name, pod))


def _set(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:at], value, *values[at + 1 :])
