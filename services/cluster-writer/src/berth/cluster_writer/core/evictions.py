"""What is to be done about a nomination: the writer's part of docs/evictions.md, as a function of its book.

In this order: the beneficiary carries its nomination (E3), every victim carries the mark (E4), then all of them are
deleted, after a look that the caller takes. Whoever cannot have what it was nominated to lets the plan go (E7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from berth.cluster_writer.core.basis import is_late
from berth.contracts.ledger import Decision, PlanStatus
from berth.contracts.state import Pod, Reservation
from berth.rules.eviction_notes import ANYBODY, Mark, noted_nomination, plans_let_go
from berth.rules.preemption import BY_SCHEDULER, PATIENCE_S, leaves_by_itself, never_leaves
from berth.rules.reservation_displaces import why_spared
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.revocations import is_revocation


class Stage(Enum):
    """What follows for the nominations of one plan."""

    OVER = "over"
    """No beneficiary waits under it any more."""
    WAIT = "wait"
    """For the view, for victims that are leaving, or for marks of another plan to be taken back."""
    NOTE = "note"
    """Patch `beneficiaries` with their nomination."""
    MARK = "mark"
    """Patch `victims` with the mark, in this order; who is not marked keeps the rest from it."""
    EVICT = "evict"
    """Look, then delete `victims`, all of which carry the mark."""
    GIVE_UP = "give-up"
    """Let the plan go: patch `beneficiaries`."""


class EvictionStep(NamedTuple):
    """A stage, whom it is about as the view shows them, and why.

    `is_doubtful`: a late view would say the same. `refused` are the uids of victims that may not be chosen again soon;
    `ANYBODY` among them: nobody may.
    """

    stage: Stage
    beneficiaries: tuple[Decision, ...] = ()
    victims: tuple[Pod, ...] = ()
    reason: str = ""
    is_doubtful: bool = False
    refused: tuple[str, ...] = ()


WAIT: Final = EvictionStep(Stage.WAIT)
UNUSED: Final = f"nobody is in its way any more, and it was not placed for {PATIENCE_S:.0f} s"


class LetGo(NamedTuple):
    """A beneficiary, and the plan that it has to let go; `victim` is the uid of one that never ends."""

    seen: Pod | Reservation
    plan: str
    reason: str
    victim: str = ""


class Outlook(NamedTuple):
    """What has to be known of a plan beside its book.

    `is_read`: nodes, Devices and PodGroups were read to their ends, so that what is not shown is not there.
    `why_unfit(beneficiary, object)`: why it may not go to its node any more, victims or not; `why_stays(victim)`: why
    that pod is nobody's victim. `refusals` are the reasons for which the API server refused a request, by uid of the
    victim or beneficiary, or under `ANYBODY`. `free_for_s`: for how many seconds nobody has been in its way any more.
    `wait_s`: how many seconds the nomination of a gang may stand, `goes_on(members)`: whether these are enough for it.
    """

    is_read: bool
    why_unfit: Callable[[Decision, Pod | Reservation], str]
    why_stays: Callable[[Pod], str]
    refusals: Mapping[str, str] = {}
    free_for_s: float = 0.0
    wait_s: float | None = None
    goes_on: Callable[[Sequence[Decision]], bool] = lambda current: False


def next_step(members: Sequence[Decision], book: Book, outlook: Outlook, now_s: float) -> EvictionStep:
    """What follows for a plan, given its nominations in LEDGER. `now_s` is unix time."""
    plan = members[0].plan
    if book.ledger.plan_status(plan) is not PlanStatus.COMMITTED:
        return EvictionStep(Stage.OVER)
    if any(is_late(book, each) for each in members):
        return WAIT
    current = tuple(each for each in members if is_current(book, each))
    if not current:
        is_over = all(book.is_settled(each) or book.is_bound(each) for each in members)
        return EvictionStep(Stage.OVER) if is_over else WAIT
    first = members[0]
    through = book.complete["pods"].version
    if any(through < victim.version for victim in first.victims):
        return WAIT
    size = first.gang.size if first.gang is not None else 1
    victims = _victims(first, book)
    is_whole = len(current) == len(members) == size
    # Before the first deletion one member that is lost ends it all; afterwards the others go on if they are enough.
    if not is_whole and not (_has_begun(first, victims, book) and outlook.goes_on(current)):
        return EvictionStep(Stage.GIVE_UP, current, reason=f"{len(current)} of {size} members are there")
    stands_s = now_s - first.decided_ms / 1_000 if first.decided_ms else 0.0
    if outlook.wait_s is not None and stands_s > outlook.wait_s:
        reason = f"the waiting time of its gang, {outlook.wait_s:.0f} s, is over"
        return EvictionStep(Stage.GIVE_UP, current, reason=reason)
    waits = tuple(victim for victim in victims if not victim.deleting)
    stuck = {victim.uid: why for victim in victims if (why := never_leaves(victim, now_s))}
    if stuck:
        return EvictionStep(Stage.GIVE_UP, current, reason=next(iter(stuck.values())), refused=tuple(stuck))
    if outlook.free_for_s >= PATIENCE_S:
        return EvictionStep(Stage.GIVE_UP, current, reason=UNUSED)
    step = _refused(current, waits, outlook.refusals)
    if step is not None:
        return step
    if not outlook.is_read:
        return WAIT
    return _why_not(current, waits, book, outlook) or _proceed(current, waits, book)


def _has_begun(decision: Decision, victims: Sequence[Pod], book: Book) -> bool:
    """Whether one of its victims is leaving under its mark."""
    return any(
        victim.deleting
        and (mark := book.marks.of((victim.namespace, victim.name))) is not None
        and mark.plan == decision.plan
        for victim in victims
    )


def _refused(current: tuple[Decision, ...], waits: tuple[Pod, ...], refusals: Mapping[str, str]) -> EvictionStep | None:
    """What the API server has refused."""
    found = {uid: refusals[uid] for uid in (ANYBODY, *(victim.uid for victim in waits)) if uid in refusals}
    own = next((refusals[each.uid] for each in current if each.uid in refusals), "")
    if not found and not own:
        return None
    return EvictionStep(Stage.GIVE_UP, current, reason=next(iter(found.values()), own), refused=tuple(found))


def _why_not(
    current: tuple[Decision, ...], waits: tuple[Pod, ...], book: Book, outlook: Outlook
) -> EvictionStep | None:
    """What speaks against it by now: nobody is to leave for a place that is of no use, nor who has to stay."""
    stays = {victim.uid: why for victim in waits if (why := outlook.why_stays(victim))}
    if stays:
        return EvictionStep(Stage.GIVE_UP, current, reason=next(iter(stays.values())), refused=tuple(stays))
    for each in current:
        seen = book.seen((each.namespace, each.name))
        if seen is None:
            continue
        why = outlook.why_unfit(each, seen)
        if why:
            return EvictionStep(Stage.GIVE_UP, current, reason=why, is_doubtful=True)
        is_by_priority = reason_of(each) == BY_SCHEDULER
        if is_by_priority and any(victim.template.priority >= seen.template.priority for victim in waits):
            return EvictionStep(Stage.GIVE_UP, current, reason="a victim is not of lower priority any more")
        spared = next((v for v in waits if isinstance(seen, Reservation) and why_spared(seen, v)), None)
        if isinstance(seen, Reservation) and spared is not None:
            why = f"{spared.namespace}/{spared.name} {why_spared(seen, spared)}"
            return EvictionStep(Stage.GIVE_UP, current, reason=why)
    return None


def _proceed(current: tuple[Decision, ...], waits: tuple[Pod, ...], book: Book) -> EvictionStep:
    first = current[0]
    if not waits or any(_has_other_victims(each, book) for each in current):
        return WAIT
    bare = tuple(each for each in current if not is_noted(book, each))
    if bare:
        return EvictionStep(Stage.NOTE, bare)
    mark = mark_of(first)
    unmarked: list[Pod] = []
    for victim in sorted(waits, key=lambda each: each.uid):
        its = book.marks.of((victim.namespace, victim.name))
        if its is None or (its != mark and its.plan == mark.plan):
            # Of a gang the first member that waits stands in the mark: that may be another one by now.
            unmarked.append(victim)
        elif its != mark:
            # Every plan marks in this order, so that of two that share victims one has all of them.
            return EvictionStep(Stage.MARK, (first,), tuple(unmarked)) if unmarked else WAIT
    if unmarked:
        return EvictionStep(Stage.MARK, (first,), tuple(unmarked))
    return EvictionStep(Stage.EVICT, (first,), waits)


def _has_other_victims(decision: Decision, book: Book) -> bool:
    """Pods are marked for it by another plan, which it has not let go: they leave, or are spared, first (E5, E6)."""
    seen = book.seen((decision.namespace, decision.name))
    let_go = plans_let_go(_annotations(seen)) if seen is not None else ()
    for name, mark in book.marks.leaving_for(decision.uid):
        pod = book.pods.get(name)
        is_there = pod is not None and pod.phase not in FINISHED_PHASES and not leaves_by_itself(pod)
        if is_there and mark.plan != decision.plan and mark.plan not in let_go:
            return True
    return False


def _annotations(seen: Pod | Reservation) -> Mapping[str, str]:
    return seen.template.annotations if isinstance(seen, Pod) else seen.annotations


def mark_of(decision: Decision) -> Mark:
    """The mark of a nomination's victims."""
    return Mark(decision.plan, f"{decision.namespace}/{decision.name}", decision.uid, reason_of(decision))


def reason_of(decision: Decision) -> str:
    """Why the victims of a nomination leave; without a word, by priority."""
    return decision.eviction_reason or BY_SCHEDULER


def is_current(book: Book, decision: Decision) -> bool:
    """Its beneficiary waits, and this attempt is its own; of a revocation: it has still to be carried out."""
    if is_revocation(decision):
        return not book.is_settled(decision)
    seen = book.seen((decision.namespace, decision.name))
    return (
        seen is not None
        and (seen.uid, seen.attempt) == (decision.uid, decision.attempt)
        and not seen.node
        and not seen.deleting
        and seen.phase not in FINISHED_PHASES
    )


def is_noted(book: Book, decision: Decision) -> bool:
    """Its beneficiary carries it (E3), a pod in its status as well."""
    seen = book.seen((decision.namespace, decision.name))
    if seen is None:
        return False
    note = noted_nomination(_annotations(seen))
    is_in_status = not isinstance(seen, Pod) or seen.nominated == decision.node
    return note is not None and (note.plan, note.node) == (decision.plan, decision.node) and is_in_status


def to_spare(book: Book) -> Iterator[tuple[Pod, Mark, str]]:
    """Marked pods that stay, with the reason: no nomination that stands in LEDGER names them (E5)."""
    listed: set[tuple[str, str]] = set()
    for nomination in book.nominations:
        decision = nomination.decision
        if decision is not None and not book.is_bound(decision):
            listed.update((decision.plan, victim.uid) for victim in decision.victims)
    for name, mark in sorted(book.marks.items()):
        pod = book.pods.get(name)
        if pod is not None and not pod.deleting and (mark.plan, pod.uid) not in listed:
            yield pod, mark, f"{mark.beneficiary} is not nominated by plan {mark.plan} any more"


def to_let_go(book: Book, now_s: float) -> Iterator[LetGo]:
    """Beneficiaries of marked pods that never end, also where LEDGER has forgotten the nomination (E7)."""
    for name, mark in sorted(book.marks.items()):
        victim = book.pods.get(name)
        reason = never_leaves(victim, now_s) if victim is not None else ""
        if victim is None or not reason:
            continue
        namespace, _, waiting = mark.beneficiary.rpartition("/")
        seen = book.seen((namespace, waiting))
        if seen is None or seen.uid != mark.uid or seen.node or seen.phase in FINISHED_PHASES:
            continue
        decision = book.open_decision((namespace, waiting))
        is_decided = decision is not None and not decision.nominates and decision.attempt == seen.attempt
        if not is_decided and mark.plan not in plans_let_go(_annotations(seen)):
            yield LetGo(seen, mark.plan, reason, victim.uid)


def in_flight(book: Book) -> dict[str, int]:
    """How many marked pods are leaving, by node."""
    found: dict[str, int] = {}
    for name in book.marks:
        pod = book.pods.get(name)
        if pod is not None and pod.deleting and not leaves_by_itself(pod):
            found[pod.node] = found.get(pod.node, 0) + 1
    return found


def is_free(members: Sequence[Decision], book: Book) -> bool:
    """Whether nobody is in the way of a plan any more: neither its own victims nor those of others nominated there."""
    if any(_victims(each, book) for each in members):
        return False
    return not are_others_leaving({each.node for each in members}, {each.plan for each in members}, book)


def are_others_leaving(nodes: Collection[str], plans: Collection[str], book: Book) -> bool:
    """Whether others than these plans have nominated to one of the nodes, and victims of theirs have not left."""
    others = (each.decision for node in nodes for each in book.nominations.on(node))
    return any(_victims(each, book) for each in others if each is not None and each.plan not in plans)


def _victims(decision: Decision, book: Book) -> tuple[Pod, ...]:
    """Those that have not ended, as the view shows them."""
    found: list[Pod] = []
    for victim in decision.victims:
        seen = book.pods.get((victim.namespace, victim.name))
        if seen is not None and seen.uid == victim.uid and seen.phase not in FINISHED_PHASES:
            found.append(seen)
    return tuple(found)


def members_of(plan: str, book: Book) -> list[Decision]:
    """The nominations that LEDGER holds of a plan, by name."""
    held = (book.ledger.decisions[name].decision for name in sorted(book.ledger.members.get(plan, ())))
    return [decision for decision in held if decision.nominates]
