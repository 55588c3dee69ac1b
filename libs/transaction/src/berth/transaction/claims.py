"""Claims: who holds which capacity on which node, read from a bound object or from a decision.

A claim is what a holder takes, in one shape whatever it was read from, so that capacity is one sum. Amounts keep the
names of the request, device amounts included; `grants` says which devices, and whatever else is given one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from berth.contracts import names
from berth.contracts.grants import granted
from berth.contracts.ledger import Decision, Grant, Loan, Step
from berth.contracts.state import Amounts, Pod, Reservation
from berth.rules.eviction_notes import Nominated
from berth.rules.ports import write_port
from berth.rules.quota_payer import charged
from berth.rules.records import registry
from berth.rules.records.borrowed import within_holding
from berth.rules.records.evidence import by_number, held_by_pod, held_by_reservation, within
from berth.rules.reservation_inner import inner_part_of

Name = tuple[str, str]
"""Namespace and name; a Reservation has the empty namespace."""


def _nobody_accepts(uid: str) -> bool:
    return False


class Claim(NamedTuple):
    """What one holder takes.

    `quota` is `tree/group` or empty, `reservation` the uid of the reservation that the holder draws on, `plan` the plan
    it was placed under (empty: no decision says that Berth has placed it). `unreadable` names what it holds and nobody
    knows which it is (`berth.rules.records.evidence.blocked`), so that nothing of that kind can be given out safely on
    that node: it has no record that can be read, or kubelet has picked it. `by_kubelet`: it holds cards that kubelet
    has picked, and `grants` says which.
    `is_bound` distinguishes an object from a decision. `before` are the steps of a decision: what they promise of
    volumes is promised to nobody else. `inner` is what of a reservation its users never get, `loans` what the holder
    borrows of reservations that it is no user of. `uncharged` is what of the amounts the quota group does not pay for,
    `surcharge` what it pays beyond them, as was decided; `paid` the group that paid at the bind, by decision or
    annotation.
    """

    name: Name
    uid: str
    node: str
    amounts: Amounts
    grants: tuple[Grant, ...] = ()
    ports: tuple[str, ...] = ()
    quota: str = ""
    non_preemptible: bool = False
    reservation: str = ""
    plan: str = ""
    attempt: int = 0
    is_reservation: bool = False
    is_bound: bool = False
    unreadable: tuple[str, ...] = ()
    by_kubelet: bool = False
    before: tuple[Step, ...] = ()
    inner: Amounts = {}
    uncharged: Amounts = {}
    paid: str = ""
    loans: tuple[Loan, ...] = ()
    surcharge: Amounts = {}

    def takes_as(self, other: Claim) -> bool:
        """The same holder takes the same capacity: only the source differs (a decision, or the bound object).

        A bound object does not repeat the steps of its decision; two decisions with other steps take other volumes.
        """
        same_steps = self.before == other.before or self.is_bound != other.is_bound
        return bool(same_steps and _taken(self) == _taken(other))

    @property
    def charged(self) -> Mapping[str, int]:
        """What the quota group pays for."""
        return charged(self.amounts, self.uncharged, self.surcharge)

    @property
    def is_ours(self) -> bool:
        """Placed under a plan of Berth."""
        return bool(self.plan)


TAKES: Final = (
    "name",
    "uid",
    "node",
    "amounts",
    "grants",
    "ports",
    "quota",
    "non_preemptible",
    "reservation",
    "is_reservation",
    "unreadable",
    "by_kubelet",
    "inner",
    "uncharged",
    "loans",
    "surcharge",
)
"""The fields of a claim that capacity depends on."""
SOURCE: Final = ("plan", "attempt", "is_bound", "paid")
"""The fields that say where a claim comes from. Each field is one or the other, but for `before`, which only decisions
have."""
NOTHING_LENT: Final = Counter[str]()
_taken: Final = attrgetter(*TAKES)


def of_decision(decision: Decision) -> Claim:
    """The claim that a decision makes."""
    grants = granted(decision.allocation)
    is_reservation = decision.kind == "reservation"
    return Claim(
        name=(decision.namespace, decision.name),
        uid=decision.uid,
        node=decision.node,
        amounts=decision.allocation.amounts,
        grants=grants,
        ports=tuple(decision.host_ports),
        quota=decision.quota,
        paid=decision.quota,
        non_preemptible=decision.non_preemptible,
        reservation=decision.reservation_uid,
        plan=decision.plan,
        attempt=decision.attempt,
        is_reservation=is_reservation,
        unreadable=() if is_reservation else by_number(decision.allocation.amounts, grants),
        before=tuple(decision.before),
        loans=tuple(decision.loans),
        surcharge=decision.surcharge,
    )


def of_pod(
    pod: Pod,
    decision: Decision | None = None,
    accepts: Callable[[str], bool] = _nobody_accepts,
    picked: tuple[Grant, ...] | None = None,
    lends: Callable[[str], bool] = _nobody_accepts,
) -> Claim:
    """The claim of a bound pod, by what counts as evidence of it (`berth.rules.records`).

    `decision` is the one that stands for this pod on its node: grants, quota, reservation and plan are taken from it,
    since annotations may be anybody's. Without one, records count within the request, a reservation if it `accepts` the
    pod (asked by uid), a loan if the reservation `lends` to it, and the plan for nothing. `picked` are the cards that
    kubelet says it has given to the pod.
    """
    template = pod.template
    held = held_by_pod(template, None if decision is None else granted(decision.allocation), picked)
    if decision is not None:
        reservation, loans = decision.reservation_uid, tuple(decision.loans)
    else:
        reservation = registry.RESERVATION.read(template.annotations)
        reservation = reservation if reservation and accepts(reservation) else ""
        loans = () if reservation else registry.BORROWED.read(template.annotations)
        noted = [loan for loan in loans if lends(loan.reservation_uid)]
        loans = within_holding(noted, template.requests, held.grants) if noted else ()
    if decision is not None:
        paid, surcharge = decision.quota, decision.surcharge
    else:
        paid = registry.QUOTA.read(template.annotations)
        surcharge = registry.QUOTA.read_surcharge(template.annotations)
    return Claim(
        name=(pod.namespace, pod.name),
        uid=pod.uid,
        node=pod.node,
        amounts=template.requests,
        grants=held.grants,
        ports=tuple(map(write_port, template.host_ports)),
        quota=paid,
        paid=paid,
        non_preemptible=template.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false",
        reservation=reservation,
        plan="" if decision is None else decision.plan,
        attempt=pod.attempt,
        is_bound=True,
        loans=loans,
        surcharge=surcharge,
        unreadable=held.unreadable,
        by_kubelet=held.by_kubelet,
    )


def of_note(seen: Pod | Reservation, note: Nominated) -> Claim:
    """What an object takes where its own note says that it is nominated: what it asks for, and no more."""
    template = seen.template
    return Claim(
        name=name_of(seen),
        uid=seen.uid,
        node=note.node,
        amounts=template.requests,
        grants=within(tuple(note.grants), template),
        ports=tuple(map(write_port, template.host_ports)),
        non_preemptible=template.labels.get(names.LABEL_QUOTA_PREEMPTIBLE) == "false",
        plan=note.plan,
        attempt=seen.attempt,
        is_reservation=isinstance(seen, Reservation),
    )


def name_of(seen: Pod | Reservation) -> Name:
    """Under which name decisions on an object lie."""
    return (seen.namespace, seen.name) if isinstance(seen, Pod) else ("", seen.name)


def of_reservation(reservation: Reservation, decision: Decision | None = None) -> Claim:
    """The claim of a Reservation that has its node.

    `decision` is the one that stands for it there. What that grows it to is its own until the object shows the plan:
    both the larger, since one of the two may be read late.
    """
    amounts = reservation.allocatable or reservation.template.requests
    if decision is not None and decision.grows and decision.plan != reservation.plan:
        more = decision.allocation.amounts
        amounts = {name: max(amounts.get(name, 0), more.get(name, 0)) for name in amounts.keys() | more.keys()}
    held = held_by_reservation(reservation.annotations, reservation.template)
    return Claim(
        name=("", reservation.name),
        uid=reservation.uid,
        node=reservation.node,
        amounts=amounts,
        grants=held.grants,
        plan=reservation.plan,
        attempt=reservation.attempt,
        is_reservation=True,
        is_bound=True,
        unreadable=held.unreadable,
        inner=inner_part_of(reservation.annotations)[0],
    )


def drawn_from(claims: Iterable[Claim], uid: str) -> Iterator[Claim]:
    """What is taken out of a reservation: its users whole, and of who borrows of it that part."""
    for claim in claims:
        if claim.reservation == uid:
            yield claim
        for loan in claim.loans:
            if loan.reservation_uid == uid:
                yield claim._replace(amounts=loan.amounts, grants=tuple(loan.grants))


def freed_by(claim: Claim, reservation: str = "") -> Claim:
    """What becomes free for others when this holder leaves: what it has borrowed falls back to who has lent it, but for
    that of the `reservation` with this uid."""
    loans = [loan for loan in claim.loans if loan.reservation_uid != reservation]
    if not loans:
        return claim
    amounts = dict(claim.amounts)
    lent: dict[tuple[str, str], Counter[str]] = {}
    for loan in loans:
        for name, amount in loan.amounts.items():
            amounts[name] = max(0, amounts.get(name, 0) - amount)
        for grant in loan.grants:
            lent.setdefault((grant.kind, grant.id), Counter()).update(grant.amounts)
    grants = tuple(
        replace(
            grant,
            amounts={
                name: max(0, amount - lent.get((grant.kind, grant.id), NOTHING_LENT)[name])
                for name, amount in grant.amounts.items()
            },
        )
        for grant in claim.grants
    )
    return claim._replace(amounts=amounts, grants=tuple(each for each in grants if any(each.amounts.values())))
