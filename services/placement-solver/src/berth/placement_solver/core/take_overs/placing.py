"""Where a Reservation that takes over pods goes, and whom it takes over there.

On a node the first pod in order that fits into the Reservation, and beside which it fits, is taken; where it may be
several, one after the other until the node is enough. Of all nodes the one with the fewest pods wins, then the one
where they fill most of it. Where there is enough without anybody, nobody has to be taken, unless the Reservation
demands it. Every minor and CPU of a pod that is taken, of what the Reservation holds as well, is among its own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Sized
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Final, NamedTuple, Protocol, TypeAlias

from berth.contracts.base import Problem, Reason
from berth.contracts.ledger import Grant, Step
from berth.contracts.state import Pod, Reservation
from berth.placement_solver.core.capacity import grants_left
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.plan import Candidate, Placement
from berth.placement_solver.core.reasons import invalid
from berth.placement_solver.core.seams import Hypothesis, Mask, Target
from berth.placement_solver.core.take_overs.running_pods import RunningPods
from berth.rules.reservation_score import reservation_score
from berth.rules.reservation_take_over import (
    LET_GO,
    LET_GO_MAX,
    NONE_FITS,
    NONE_MATCHES,
    TAKE_OVER,
    TakeOver,
    holds_too,
    in_order,
    take_over_of,
    why_not_taken,
)
from berth.rules.scheduler_config import ReservationArgs
from berth.transaction.book import Book
from berth.transaction.claims import Claim, Name

CODE: Final = "preallocation"
ROWS_MAX: Final = 256
"""So many nodes with pods that may be taken are looked at."""
Key: TypeAlias = tuple[int, int, str]
"""How many are taken over, how badly they fill the Reservation, and the node."""


class Trying(Protocol):
    """What is asked of the solver for one candidate."""

    def free(self) -> Placement | tuple[Reason, ...]:
        """A place where there is enough, charged; or why there is none."""

    def under(self, asked: Target, chosen: Target) -> Placement | None:
        """The placement on a node that takes the candidate under a hypothesis, with what is granted to it under
        another; nothing is charged."""

    def charge(self, placement: Placement) -> None:
        """Charge a placement to the plan."""

    def amend(self, placement: Placement) -> None:
        """The placement that was charged last, with other steps before it."""

    @property
    def charged(self) -> Sequence[Claim]:
        """What the plan has charged so far."""

    @property
    def within(self) -> Mask | None:
        """The only rows that come into question; None: all do."""


class _Holder(NamedTuple):
    pod: Pod
    claim: Claim


class _Choice(NamedTuple):
    """Some of a node whom it may take over together; a lower key is better."""

    key: Key
    taken: tuple[_Holder, ...]


class _OnNode(NamedTuple):
    """The choices on a node, in order, which of them comes next, and from each on the lowest key."""

    row: int
    choices: Sequence[_Choice]
    bounds: Sequence[Key]
    at: int = 0


class TakeOvers:
    """Reservations that take over pods of a view."""

    def __init__(self, nodes: Nodes, book: Book) -> None:
        self.running = RunningPods(book.pods)
        self._nodes = nodes
        self._book = book
        self._sorted: Sequence[str] = ()
        self._sorted_for = (-1, -1)

    def place(self, candidate: Candidate, reservation: Reservation, trying: Trying) -> Placement | tuple[Reason, ...]:
        """Place it, charged to the plan; or why it cannot be placed."""
        args = candidate.cls.rules.profile.args_of("Reservation", ReservationArgs).pre_allocation_config
        take_over = take_over_of(reservation, args)
        if isinstance(take_over, Problem):
            return (invalid(take_over),)
        free: Placement | tuple[Reason, ...] | None = None
        if args.prefer_no_pre_allocated_pods and not take_over.is_required:
            free = trying.free()
            if isinstance(free, Placement):
                return self.letting_go(free, reservation, trying)
        label = args.cluster_label_key if take_over.priority_key else ""
        by_row = self._holders(reservation, take_over, trying, label)
        best = self._best(by_row, reservation, take_over, trying)
        if best is not None:
            trying.charge(best)
            return best
        reason = Reason(code=CODE, message=NONE_FITS if by_row else NONE_MATCHES)
        if take_over.is_required:
            return (reason,)
        free = trying.free() if free is None else free
        return self.letting_go(free, reservation, trying) if isinstance(free, Placement) else (*free, reason)

    def _holders(
        self, reservation: Reservation, take_over: TakeOver, trying: Trying, label: str
    ) -> dict[int, list[_Holder]]:
        """Those that it may take over, by row, on the first nodes by name."""
        taken = {step.pod_uid for claim in trying.charged for step in claim.before if step.action == TAKE_OVER}
        leaving = {victim.uid for each in self._book.nominations for victim in each.victims}
        found: dict[int, list[_Holder]] = {}
        for name in self._maybe_taken(reservation, label, found):
            pod = self._book.pods.get(name)
            row = self._nodes.rows.get(pod.node) if pod is not None else None
            if pod is None or row is None or pod.uid in taken or pod.uid in leaving:
                continue
            if trying.within is not None and not trying.within[row]:
                continue
            node = self._nodes.states[row]
            if node is None or not self._nodes.alive[row] or self._book.marks.of(name) is not None:
                continue
            claim = next((each for each in self._book.claims_of(name) if each.uid == pod.uid and each.is_bound), None)
            if claim is None or not _is_by_itself(claim) or why_not_taken(take_over, pod, node.labels):
                continue
            found.setdefault(row, []).append(_Holder(pod, claim))
        return {row: found[row] for row in sorted(found, key=self._nodes.names.__getitem__)[:ROWS_MAX]}

    def _maybe_taken(self, reservation: Reservation, label: str, found: Sized) -> Iterator[Name]:
        """Pods to be asked about. Where owners name nothing that pods are indexed by, node by node, until on so many
        some are `found`."""
        names = self.running.labelled(label) if label else self.running.of_owners(reservation.owners)
        if names is not None:
            yield from names
            return
        for node in self._by_name():
            if len(found) >= ROWS_MAX:
                return
            yield from [claim.name for claim in self._book.claims_on(node) if claim.is_bound and claim.name[0]]

    def _by_name(self) -> Sequence[str]:
        key = (self._nodes.renamed, len(self._nodes))
        if self._sorted_for != key:
            self._sorted, self._sorted_for = sorted(self._nodes.names), key
        return self._sorted

    def _best(
        self, by_row: Mapping[int, list[_Holder]], reservation: Reservation, take_over: TakeOver, trying: Trying
    ) -> Placement | None:
        """On each node it would take over the first, in order, with whom it fits; of the nodes that is best where those
        are the fewest, then where they fill it best. Who would be better is tried first."""
        tries = []
        for row, holders in by_row.items():
            choices = list(_choices(self._nodes.names[row], holders, take_over))
            if choices:
                bounds = list(accumulate((each.key for each in reversed(choices)), min))[::-1]
                tries.append((bounds[0], _OnNode(row, choices, bounds)))
        heapify(tries)
        best: tuple[Key, Placement] | None = None
        while tries and (best is None or tries[0][0] < best[0]):
            node = heappop(tries)[1]
            choice = node.choices[node.at]
            placement = self._under(node.row, choice.taken, reservation, trying)
            if placement is not None:
                best = min(filter(None, (best, (choice.key, placement))), key=lambda each: each[0])
            elif node.at + 1 < len(node.choices):
                heappush(tries, (node.bounds[node.at + 1], node._replace(at=node.at + 1)))
        return best[1] if best is not None else None

    def _under(self, row: int, taken: Sequence[_Holder], reservation: Reservation, trying: Trying) -> Placement | None:
        claims = tuple(each.claim for each in taken)
        granted = tuple(grant for claim in claims for grant in claim.grants)
        asked = Target(row, Hypothesis(gone=claims))
        chosen = asked
        if granted:
            # What they hold is the Reservation's first of all.
            held = tuple(each._replace(name=("", reservation.name), uid=reservation.uid) for each in claims)
            chosen = Target(row, Hypothesis(gone=held), reservation.uid, granted)
        placement = trying.under(asked, chosen)
        if placement is None or not covers(placement.claim.grants, granted):
            return None
        steps = [_step(TAKE_OVER, each.pod) for each in taken]
        before = (*self._let_go(self._nodes.names[row], reservation, {each.pod.uid for each in taken}), *steps)
        return placement._replace(claim=placement.claim._replace(before=before))

    def is_noted(self, reservation: Reservation) -> bool:
        """Whether pods note a Reservation, which is on no node: by a decision that was withdrawn, or forged."""
        return any(True for _ in self._book.noting(reservation.uid))

    def letting_go(self, placement: Placement, reservation: Reservation, trying: Trying) -> Placement:
        """A place that takes over nobody, once nobody there notes the Reservation any more."""
        steps = tuple(self._let_go(placement.claim.node, reservation, frozenset()))
        if not steps:
            return placement
        changed = placement._replace(claim=placement.claim._replace(before=steps))
        trying.amend(changed)
        return changed

    def _let_go(self, node: str, reservation: Reservation, but: Container[str]) -> list[Step]:
        """Pods that note the Reservation, by a decision that was withdrawn, and are not taken over now. Anybody may
        write such a note: those of the node come first."""
        seen = (self._book.pods.get(name) for name in self._book.noting(reservation.uid))
        noting = [pod for pod in seen if pod is not None and pod.uid not in but]
        noting.sort(key=lambda pod: (pod.node != node, pod.uid))
        return [_step(LET_GO, pod) for pod in noting[:LET_GO_MAX]]


def covers(mine: Iterable[Grant], theirs: Iterable[Grant]) -> bool:
    """Whether what others were granted is among this, as far as it is of kinds that this has some of."""
    mine = tuple(mine)
    kinds = {grant.kind for grant in mine}
    needed: dict[tuple[str, str], dict[str, int]] = {}
    for grant in theirs:
        if grant.kind in kinds:
            sums = needed.setdefault((grant.kind, grant.id), {})
            for name, amount in grant.amounts.items():
                sums[name] = sums.get(name, 0) + amount
    whole = tuple(Grant(kind=kind, id=which, amounts=amounts) for (kind, which), amounts in needed.items())
    return not grants_left(whole, [mine])


def _choices(node: str, holders: Sequence[_Holder], take_over: TakeOver) -> Iterator[_Choice]:
    """Each by itself, or, where it may take over several, each with those before."""
    of = {each.pod.uid: each for each in holders}
    fill = {uid: reservation_score(each.claim.amounts, take_over.held, {}) for uid, each in of.items()}
    taken: tuple[_Holder, ...] = ()
    for pod in in_order(take_over, (each.pod for each in holders)):
        others = taken if take_over.most > 1 else ()
        if holds_too(take_over, of[pod.uid].claim.amounts, [each.claim.amounts for each in others]):
            taken = (*others, of[pod.uid])
            yield _Choice((len(taken), -sum(fill[each.pod.uid] for each in taken), node), taken)


def _is_by_itself(claim: Claim) -> bool:
    """It draws on no reservation and borrows of none, and it is known what it holds."""
    return not claim.reservation and not claim.loans and not claim.unreadable and not claim.by_kubelet


def _step(action: str, pod: Pod) -> Step:
    return Step(action=action, namespace=pod.namespace, pod=pod.name, pod_uid=pod.uid)
