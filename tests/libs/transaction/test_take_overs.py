"""Pods that a Reservation takes over are its users from its decision on, and by themselves again when that is over."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.kube import ReservationOwner
from berth.contracts.ledger import Allocation, Decision, Epoch, Plan, PlanStatus, Step
from berth.contracts.state import Reservation
from berth.testing.builders import pod
from berth.transaction.book import Book
from berth.transaction.claims import Claim

POD, R = ("default", "p"), ("", "r")
WAITING = Reservation(name="r", uid="uid-r", version=4, owners=[ReservationOwner()])
NOTE = '{"name":"r","uid":"uid-r"}'


class Told:
    """A book that is told the ledger in order, and what it told of changes."""

    def __init__(self) -> None:
        self.sequence = 0
        self.changes: list[tuple[Claim, bool]] = []
        self.book = Book(on_change=lambda claim, added: self.changes.append((claim, added)))
        self.write(subjects.EPOCH_KEY, Epoch(epoch=1))

    def write(self, key: str, message: Any) -> None:
        self.sequence += 1
        self.book.read_ledger(key, encode(message), False, self.sequence)

    def decide(self, name: str, epoch: int = 1, namespace: str = "default", **fields: Any) -> None:
        decision = Decision(
            plan=f"plan-{name}", namespace=namespace, name=name, uid=f"uid-{name}", attempt=0, node="n0",
            pod_version=1, basis=1, allocation=Allocation(amounts={names.CPU: 4000}), **fields,
        )  # fmt: skip
        self.write(subjects.decision_key(epoch, namespace, name), decision)
        plan = Plan(id=f"plan-{name}", status=PlanStatus.COMMITTED, decisions=1)
        self.write(subjects.plan_key(epoch, plan.id), plan)

    def takes_over(self) -> None:
        step = Step(action="take-over", namespace="default", pod="p", pod_uid="uid-p")
        self.decide("r", namespace="", kind="reservation", before=[step])

    @property
    def drawn(self) -> str:
        (claim,) = self.book.claims_of(POD)
        return claim.reservation


def running(**fields: Any) -> Any:
    return pod("p").requests(cpu=3000).set(uid="uid-p", node="n0", phase="Running", **fields)


def test_a_pod_with_a_decision_of_its_own_is_a_user_while_the_decision_on_the_reservation_stands() -> None:
    told = Told()
    told.decide("p")
    told.book.see_pod(POD, running().build(3))
    told.book.see_reservation(R, WAITING)
    assert told.drawn == ""
    told.takes_over()
    assert told.drawn == "uid-r"
    told.book.see_reservation(R, replace(WAITING, version=5, attempt=1))  # withdrawn
    assert told.drawn == ""
    held = 0
    for claim, added in told.changes:
        held += (1 if added else -1) * claim.amounts[names.CPU]
    assert held == 3000


def test_the_note_alone_counts_once_the_reservation_is_there() -> None:
    told = Told()
    told.book.see_reservation(R, WAITING)
    told.book.see_pod(POD, running().annotation(names.ANNOTATION_RESERVATION_ALLOCATED, NOTE).build(3))
    assert told.drawn == ""  # left over of a decision that was withdrawn
    told.book.see_reservation(R, replace(WAITING, version=5, node="n0", phase="Available"))
    assert told.drawn == "uid-r"
    told.book.see_reservation(R, replace(WAITING, version=6, node="n1", phase="Available"))
    assert told.drawn == ""


def test_a_new_epoch_goes_by_notes() -> None:
    told = Told()
    told.book.see_reservation(R, WAITING)
    told.decide("p")
    told.book.see_pod(POD, running().build(3))
    told.takes_over()
    told.book.see_pod(POD, running().annotation(names.ANNOTATION_RESERVATION_ALLOCATED, NOTE).build(5))
    told.book.see_reservation(R, replace(WAITING, version=6, node="n0", phase="Available"))
    assert told.drawn == "uid-r"
    told.write(subjects.EPOCH_KEY, Epoch(epoch=2))
    assert told.drawn == "uid-r"
    told.book.reset_ledger()
    assert told.drawn == "uid-r"
    told.book.see_reservation(R, None)
    assert told.drawn == ""
