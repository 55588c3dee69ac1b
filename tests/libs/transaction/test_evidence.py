"""What counts as evidence of what a bound pod holds: its decision while that stands, else a note within its request."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.grants import allocation_of, granted
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.contracts.state import Pod, Reservation
from berth.testing.builders import gpu_grant, pod
from berth.transaction.book import Book


def note(*shares: tuple[int, int]) -> str:
    """A device note: percent by minor."""
    grants = [
        {"minor": minor, "resources": {names.GPU_CORE: str(percent), names.GPU_MEMORY_RATIO: str(percent)}}
        for minor, percent in shares
    ]
    return json.dumps({"gpu": grants})


def forged(wants, devices: str = "", reservation: str = "", plan: str = "", quota: str = "") -> Pod:
    notes = {names.ANNOTATION_DEVICE_ALLOCATED: devices, names.ANNOTATION_QUOTA: quota}
    if reservation:
        notes[names.ANNOTATION_RESERVATION_ALLOCATED] = json.dumps({"name": "r", "uid": reservation})
    for name, text in notes.items():
        wants = wants.annotation(name, text)
    return wants.set(plan=plan).on("n").build(5)


def book_with(*pods: Pod) -> Book:
    book = Book(remember=True)
    for each in pods:
        book.see_pod((each.namespace, each.name), each)
    return book


def decide(book: Book, of: Pod, **changes) -> Decision:
    decision = Decision(
        plan="p1",
        namespace=of.namespace,
        name=of.name,
        uid=of.uid,
        attempt=0,
        node="n",
        pod_version=1,
        basis=1,
        allocation=allocation_of(of.template.requests, [gpu_grant(0, 50)]),
        quota="/mine",
        **changes,
    )
    book.read_ledger(subjects.decision_key(0, of.namespace, of.name), encode(decision), False, 1)
    book.read_ledger(subjects.plan_key(0, "p1"), encode(Plan(id="p1", status=PlanStatus.COMMITTED)), False, 2)
    return decision


def reservation(*owners: ReservationOwner) -> Reservation:
    return Reservation(
        name="r", uid="uid-r", version=3, node="n", phase="Available", allocatable={"cpu": 4}, owners=list(owners)
    )


def the_claim(book: Book, of: Pod):
    (claim,) = book.claims_of((of.namespace, of.name))
    return claim


def test_a_decision_that_stands_outweighs_the_notes() -> None:
    liar = forged(pod("liar").share(50), note((1, 100), (2, 100)), "uid-r", plan="p9", quota="/rich")
    book = book_with(liar)
    decision = decide(book, liar)
    claim = the_claim(book, liar)
    assert (claim.grants, claim.quota, claim.reservation) == (granted(decision.allocation), "/mine", "")
    assert claim.plan == "p1"


def test_a_pod_that_asks_for_no_device_holds_none() -> None:
    for text in (note((0, 100)), "{broken"):
        claim = the_claim(book_with(liar := forged(pod("liar").requests(cpu=1), text)), liar)
        assert (claim.grants, claim.unreadable) == ((), ())


def test_a_note_counts_up_to_what_the_pod_asks_for() -> None:
    liar = forged(pod("liar").share(30), note((3, 100), (4, 100)))
    (grant,) = the_claim(book_with(liar), liar).grants
    assert (grant.minor, grant.amounts) == (3, {names.GPU_CORE: 30, names.GPU_MEMORY_RATIO: 30})


def test_a_note_is_no_proof_that_berth_has_placed_the_pod() -> None:
    assert not the_claim(book_with(liar := forged(pod("liar").share(50), note((0, 50)), plan="p9")), liar).is_ours


def test_a_reservation_is_used_by_its_owners_only() -> None:
    liar = forged(pod("liar").requests(cpu=1), reservation="uid-r")
    owner = forged(pod("owner").requests(cpu=1).label("app", "a"), reservation="uid-r")
    book = book_with(liar, owner)
    labelled = ReservationOwner(label_selector=LabelSelector(match_labels={"app": "a"}))
    book.see_reservation(("", "r"), reservation(labelled))
    assert (the_claim(book, liar).reservation, the_claim(book, owner).reservation) == ("", "uid-r")
    book.see_reservation(("", "r"), reservation(ReservationOwner()))
    assert the_claim(book, liar).reservation == "uid-r"
    book.see_reservation(("", "r"), None)
    assert the_claim(book, liar).reservation == ""


RESOURCES = st.dictionaries(
    st.sampled_from([names.GPU_CORE, names.GPU_MEMORY_RATIO, names.GPU_MEMORY, names.RDMA, "cpu", "x"]),
    st.one_of(st.integers(-5, 10**6), st.sampled_from(["1Gi", "50", "-1", "x", "1e30", "0.5"])),
    max_size=4,
)
NOTES = st.one_of(
    st.text(max_size=20),
    st.dictionaries(
        st.sampled_from(["gpu", "rdma", "fpga", "npu", "x"]),
        st.lists(st.fixed_dictionaries({"minor": st.integers(-1, 9), "resources": RESOURCES}), max_size=6),
        max_size=4,
    ).map(json.dumps),
)


@settings(max_examples=100)
@given(NOTES, st.sampled_from([0, 30, 100, 200]), st.booleans())
@example('{"npu": [{"minor": 0, "resources": {}}]}', 30, False)
def test_no_note_takes_more_of_cards_than_the_request(text: str, percent: int, decided: bool) -> None:
    wants = pod("any").requests(cpu=1)
    if percent:
        wants = wants.share(percent)
    liar = forged(wants, text, plan="p9")
    book = book_with(liar)
    if decided:
        decide(book, liar)
        assert the_claim(book, liar).grants == (gpu_grant(0, 50),)
        return
    claim = the_claim(book, liar)
    assert bool(claim.unreadable) == (percent > 0 and not claim.grants)
    assert len({(each.kind, each.minor) for each in claim.grants}) == len(claim.grants) <= max(1, percent // 100)
    assert all(each.kind == "gpu" for each in claim.grants)
    for name in (names.GPU_CORE, names.GPU_MEMORY_RATIO):
        assert sum(each.amounts.get(name, 0) for each in claim.grants) <= percent
    assert {name for each in claim.grants for name in each.amounts} <= {
        names.GPU_CORE,
        names.GPU_MEMORY_RATIO,
        names.GPU_MEMORY,
    }


def lender(node: str = "n", cpu: int = 8000) -> Reservation:
    return Reservation(name="r", uid="uid-r", version=1, node=node, phase="Available", allocatable={names.CPU: cpu})


def borrowing(text: str, *, asks: bool = True) -> Pod:
    wants = pod("b").requests(cpu=3000).annotation(names.ANNOTATION_BORROWED, text)
    return (wants.label(names.LABEL_RESERVATION_IGNORED, "true") if asks else wants).on("n").build(5)


def borrowed(*amounts: int, uid: str = "uid-r") -> str:
    return json.dumps([{"reservation": "r", "reservation_uid": uid, "amounts": {names.CPU: each}} for each in amounts])


def test_what_is_borrowed_is_known_without_a_decision_whatever_is_seen_first() -> None:
    book = book_with(borrowing(borrowed(2000)))
    (claim,) = book.claims_on("n")
    assert claim.loans == ()
    book.see_reservation(("", "r"), lender())
    (loan,) = book.claims_of(("default", "b"))[0].loans
    assert loan.amounts == {names.CPU: 2000}
    book.see_reservation(("", "r"), None)
    assert book.claims_of(("default", "b"))[0].loans == ()


def test_a_note_of_loans_counts_within_the_request_on_the_lenders_node_and_for_who_asks_to_borrow() -> None:
    def lent(seen: Pod, reservation: Reservation) -> list[int]:
        book = Book()
        book.see_reservation(("", "r"), reservation)
        book.see_pod((seen.namespace, seen.name), seen)
        return [loan.amounts[names.CPU] for loan in book.claims_of(("default", "b"))[0].loans]

    assert lent(borrowing(borrowed(2000, 2000, 2000)), lender()) == [2000, 1000]
    assert lent(borrowing(borrowed(9000)), lender()) == [3000]
    assert lent(borrowing(borrowed(-1)), lender()) == []
    assert lent(borrowing(borrowed(2000)), lender("elsewhere")) == []
    assert lent(borrowing(borrowed(2000), asks=False), lender()) == []
    assert lent(borrowing(borrowed(2000, uid="another")), lender()) == []
    for text in ("{", "[1]", "x" * 1_000_000):
        assert lent(borrowing(text), lender()) == []
