"""Nominations: they stand until their pod is bound, gone or past the attempt; a late view lets more of them stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.grants import device
from berth.contracts.ledger import Allocation, Decision, Epoch, Plan, PlanStatus, Victim
from berth.contracts.state import Pod, PodTemplate, Reservation
from berth.rules.eviction_notes import Mark, Nominated, let_go_note, mark_note, nomination_note
from berth.testing.builders import pod
from berth.testing.feed import LedgerLog
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.nominations import UNKNOWN_PRIORITY, Nomination

WAITS = ("default", "waits")
VICTIM = ("default", "victim")


class World:
    """A pod that waits and comes again under its name, a victim likewise, decisions and nominations for the first."""

    def __init__(self) -> None:
        self.version = 1
        self.uids = 0
        self.pods: dict[tuple[str, str], Pod] = {}
        self.state: list[tuple[tuple[str, str], Pod | None, int]] = []
        self.log = LedgerLog()
        self.log.append(subjects.EPOCH_KEY, encode(Epoch(epoch=1)))
        self.claims: list[Decision] = []
        self.aborted: set[str] = set()

    def write(self, name: tuple[str, str], **fields: Any) -> None:
        seen = self.pods.get(name)
        self.version += 1
        if seen is None:
            self.uids += 1
            priority = 10 if name == WAITS else 1
            made = pod(name[1]).requests(cpu=1).template(priority=priority).set(uid=f"u{self.uids}")
            self.pods[name] = made.set(**fields).build(self.version)
        else:
            old = {each: getattr(seen, each) for each in ("uid", "node", "phase", "attempt", "deleting", "nominated")}
            template = PodTemplate(
                requests=seen.template.requests,
                priority=seen.template.priority,
                annotations=fields.pop("annotations", seen.template.annotations),
            )
            self.pods[name] = Pod(
                namespace=name[0],
                name=name[1],
                version=self.version,
                template=template,
                **{**old, **fields},
            )
        self.state.append((name, self.pods[name], self.version))

    def delete(self, name: tuple[str, str]) -> None:
        self.version += 1
        self.pods.pop(name)
        self.state.append((name, None, self.version))

    def decide(self, node: str, *, nominates: bool) -> None:
        seen, victim = self.pods[WAITS], self.pods.get(VICTIM)
        victims = [
            Victim(namespace=each.namespace, name=each.name, uid=each.uid, version=each.version, node=node)
            for each in [victim]
            if each is not None
        ]
        decision = Decision(
            plan=f"plan-{len(self.claims)}",
            namespace=WAITS[0],
            name=WAITS[1],
            uid=seen.uid,
            attempt=seen.attempt,
            node=node,
            pod_version=seen.version,
            basis=self.version,
            allocation=Allocation(amounts={names.CPU: 1}),
            nominates=nominates,
            victims=victims if nominates else [],
        )
        self.claims.append(decision)
        self.log.append(subjects.decision_key(1, *WAITS), encode(decision))
        plan = Plan(id=decision.plan, status=PlanStatus.COMMITTED)
        self.log.append(subjects.plan_key(1, plan.id), encode(plan))

    def act(self, action: str) -> None:
        """One thing that may happen, if it can happen now."""
        seen, victim = self.pods.get(WAITS), self.pods.get(VICTIM)
        if action == "create" and seen is None:
            self.write(WAITS)
        elif action == "victim" and victim is None:
            self.write(VICTIM, node="n0", phase="Running")
        elif action == "victim leaves" and victim is not None:
            self.write(VICTIM, deleting=True)
        elif action == "victim left" and victim is not None:
            self.delete(VICTIM)
        elif seen is None:
            return
        elif action == "delete":
            self.delete(WAITS)
        elif action == "end":
            self.write(WAITS, phase="Failed")
        elif action in ("decide", "nominate") and not seen.node and seen.phase not in FINISHED_PHASES:
            self.decide("n1" if action == "decide" else "n0", nominates=action == "nominate")
        elif action == "note" and self.claims:
            note = nomination_note(Nominated(self.claims[-1].plan, "n0"))
            self.write(WAITS, annotations=note, nominated="n0")
        elif action == "bind" and not seen.node and seen.phase not in FINISHED_PHASES:
            self.write(WAITS, node="n0", phase="Running")
        elif action == "withdraw":
            self.write(WAITS, attempt=seen.attempt + 1, annotations={}, nominated="")
        elif action == "fence":
            self.write(WAITS, attempt=seen.attempt + 1)
        elif action == "abort" and self.claims:
            plan = self.claims[-1].plan
            self.aborted.add(plan)
            self.log.append(subjects.plan_key(1, plan), encode(Plan(id=plan, status=PlanStatus.ABORTED)))


def read(world: World, upto: int | None = None, *, late: bool = False) -> Book:
    """A book that has read so many messages of STATE, and the whole ledger; `late`: its view has a gap at the end."""
    book = Book()
    tracker = book.complete["pods"]
    tracker.marked(1, True)
    tracker.end()
    for name, seen, version in world.state[:upto]:
        tracker.seen(version)
        book.see_pod(name, seen)
    if late:
        tracker.gap()
    for message in world.log.messages:
        book.read_ledger(*message)
    return book


ACTIONS = st.lists(
    st.sampled_from(
        [
            *("create", "victim", "nominate", "nominate", "note", "decide", "bind"),
            *("withdraw", "fence", "delete", "end", "victim leaves", "victim left", "abort"),
        ]
    ),
    min_size=3,
    max_size=25,
)


def expected(world: World, shown: int) -> str:
    """Where the pod is nominated to, straight from the rules: `ledger`, `note`, or nowhere."""
    now: dict[tuple[str, str], Pod | None] = {}
    through = 1
    for name, pod_, version in world.state[:shown]:
        now[name] = pod_
        through = version
    seen = now.get(WAITS)
    last = world.claims[-1] if world.claims else None
    if last is not None:
        is_mine = seen is not None and seen.uid == last.uid
        past = is_mine and (seen.attempt > last.attempt or seen.phase in FINISHED_PHASES)  # type: ignore[union-attr]
        gone = not is_mine and through >= last.pod_version
        bound = is_mine and last.nominates and seen.node  # type: ignore[union-attr]
        if not (past or gone or bound or last.plan in world.aborted):
            if last.nominates:
                return "ledger"
            if is_mine:
                return ""
    if seen is None or seen.node or seen.phase in FINISHED_PHASES or seen.deleting or not seen.nominated:
        return ""
    return "note"


def shown_as(nomination: Nomination | None) -> str:
    if nomination is None:
        return ""
    return "note" if nomination.decision is None else "ledger"


@settings(max_examples=400, deadline=None)
@given(ACTIONS, st.data())
def test_nominations_are_those_of_the_rules(actions: list[str], data: Any) -> None:
    world = World()
    for action in actions:
        world.act(action)
    upto = data.draw(st.integers(0, len(world.state)))
    book = read(world, upto)
    assert shown_as(book.nominations.of(WAITS)) == expected(world, upto)
    assert list(book.nominations) == [each for node in ("n0", "n1") for each in book.nominations.on(node)]


@settings(max_examples=400, deadline=None)
@given(ACTIONS, st.data())
def test_a_late_view_lets_more_nominations_and_victims_stand(actions: list[str], data: Any) -> None:
    world = World()
    for action in actions:
        world.act(action)
    fresh, stale = read(world), read(world, data.draw(st.integers(0, len(world.state))), late=True)
    now, then = fresh.nominations.of(WAITS), stale.nominations.of(WAITS)
    if now is None or now.decision is None:
        return
    assert then is not None
    assert then.decision == now.decision
    left = {victim.uid for victim in now.victims} - {victim.uid for victim in fresh.remaining_victims(now)}
    assert {victim.uid for victim in now.victims} - {victim.uid for victim in stale.remaining_victims(then)} <= left


@settings(max_examples=200, deadline=None)
@given(ACTIONS)
def test_what_was_reported_is_what_stands_and_no_claim_comes_of_it(actions: list[str]) -> None:
    reported: list[Nomination] = []

    def on_nomination(nomination: Nomination, added: bool) -> None:
        if added:
            reported.append(nomination)
        else:
            reported.remove(nomination)

    world = World()
    book = Book(on_nomination=on_nomination)
    tracker = book.complete["pods"]
    tracker.marked(1, True)
    tracker.end()
    pods, messages = 0, 0
    for action in actions:
        world.act(action)
        for name, seen, version in world.state[pods:]:
            tracker.seen(version)
            book.see_pod(name, seen)
        for message in world.log.messages[messages:]:
            book.read_ledger(*message)
        pods, messages = len(world.state), len(world.log.messages)
        assert reported == list(book.nominations)
        for claim in book.claims_of(WAITS):
            assert claim.is_bound or claim.node == "n1", "a decision goes to n1, nominations to n0"


# --- single rules -----------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    made = World()
    for action in ("create", "victim", "nominate"):
        made.act(action)
    return made


def test_the_pod_is_not_free_to_be_decided(world: World) -> None:
    book = read(world)
    open_decision = book.open_decision(WAITS)
    assert open_decision is not None
    assert open_decision.nominates
    nomination = book.nominations.of(WAITS)
    assert nomination is not None
    assert (nomination.claim.node, nomination.priority) == ("n0", 10)
    assert book.claims_of(WAITS) == ()


def test_it_is_settled_once_its_pod_is_bound(world: World) -> None:
    world.act("bind")
    book = read(world)
    assert book.is_settled(world.claims[-1])
    assert book.nominations.of(WAITS) is None
    assert [claim.is_bound for claim in book.claims_of(WAITS)] == [True]


def test_a_beneficiary_that_is_not_shown_is_below_nobody(world: World) -> None:
    nomination = read(world, 0).nominations.of(WAITS)
    assert nomination is not None
    assert nomination.priority == UNKNOWN_PRIORITY


def test_victims_stay_then_leave_then_have_left(world: World) -> None:
    def victims() -> tuple[int, int]:
        book = read(world)
        nomination = book.nominations.of(WAITS)
        assert nomination is not None
        return len(book.staying_victims(nomination)), len(book.remaining_victims(nomination))

    assert victims() == (1, 1)
    world.act("victim leaves")
    assert victims() == (0, 1)
    world.act("victim left")
    assert victims() == (0, 0)
    world.act("victim")
    assert victims() == (0, 0), "its successor is nobody's victim"


def test_a_victim_that_a_late_view_does_not_show_has_not_left(world: World) -> None:
    book = read(world, 1, late=True)
    nomination = book.nominations.of(WAITS)
    assert nomination is not None
    assert len(book.staying_victims(nomination)) == 1


def test_a_victim_that_has_ended_has_left(world: World) -> None:
    world.write(VICTIM, phase="Succeeded")
    book = read(world)
    nomination = book.nominations.of(WAITS)
    assert nomination is not None
    assert book.remaining_victims(nomination) == []


def noted(**fields: Any) -> Pod:
    note = nomination_note(Nominated("p1", "n0", [device("gpu", 3, {names.GPU_CORE: 100})]))
    made = pod("waits").requests(cpu=2).gpus(1).port(80).set(nominated="n0", uid="u1")
    for key, value in note.items():
        made.annotation(key, value)
    return made.set(**fields).build(5)


def test_state_alone_shows_a_nomination() -> None:
    book = Book(payer=lambda pod, paid: ("/ml", {}))
    book.see_pod(WAITS, noted())
    nomination = book.nominations.of(WAITS)
    assert nomination is not None
    assert nomination.decision is None
    claim = nomination.claim
    assert (claim.node, claim.quota, claim.plan, claim.amounts[names.CPU]) == ("n0", "/ml", "p1", 2)
    assert claim.ports == ("0.0.0.0/TCP/80",)
    assert [grant.minor for grant in claim.grants] == [3]


def test_a_note_counts_only_with_the_status_that_users_do_not_write() -> None:
    book = Book()
    book.see_pod(WAITS, noted(nominated=""))
    assert book.nominations.of(WAITS) is None
    book.see_pod(WAITS, noted(nominated="n1"))
    assert book.nominations.of(WAITS) is None


@pytest.mark.parametrize("fields", [{"node": "n2"}, {"deleting": True}, {"phase": "Failed"}])
def test_a_note_holds_nothing_for_a_pod_that_waits_no_longer(fields: dict[str, Any]) -> None:
    book = Book()
    book.see_pod(WAITS, noted(**fields))
    assert book.nominations.of(WAITS) is None


def test_a_plan_that_was_let_go_holds_nothing() -> None:
    seen = noted()
    notes = {**seen.template.annotations, **let_go_note({}, "p1")}
    given_up = pod("waits").set(nominated="n0", uid="u1")
    for key, value in notes.items():
        given_up.annotation(key, value)
    book = Book()
    book.see_pod(WAITS, given_up.build(6))
    assert book.nominations.of(WAITS) is None


def test_a_note_asks_for_no_more_than_its_pod() -> None:
    grants = [device("gpu", minor, {names.GPU_CORE: 100}) for minor in range(4)]
    made = pod("waits").gpus(1).set(nominated="n0")
    for key, value in nomination_note(Nominated("p1", "n0", grants)).items():
        made.annotation(key, value)
    book = Book()
    book.see_pod(WAITS, made.build(1))
    nomination = book.nominations.of(WAITS)
    assert nomination is not None
    assert len(nomination.claim.grants) == 1


def test_a_reservation_carries_its_nomination_too() -> None:
    note = nomination_note(Nominated("p1", "n0"))
    book = Book()
    book.see_reservation(("", "hold"), Reservation(name="hold", uid="r", version=1, annotations=note))
    nomination = book.nominations.of(("", "hold"))
    assert nomination is not None
    assert nomination.claim.is_reservation


def test_what_left_the_ledger_is_no_loss_that_a_writer_remembers(world: World) -> None:
    book = Book(remember=True)
    for message in world.log.messages:
        book.read_ledger(*message)
    book.reset_ledger()
    assert book.nominations.of(WAITS) is None
    assert book.claims_of(WAITS) == ()


# --- marks ------------------------------------------------------------------------------------------------------------


def marked(name: str, uid: str, node: str = "n0") -> Pod:
    made = pod(name).set(uid=f"u-{name}", node=node)
    for key, value in mark_note(Mark("p1", "default/waits", uid)).items():
        made.annotation(key, value)
    return made.build(1)


def test_marks_are_found_by_pod_and_by_beneficiary() -> None:
    book = Book()
    for name in ("a", "b"):
        book.see_pod(("default", name), marked(name, "u1"))
    book.see_pod(("default", "c"), marked("c", "u2"))
    assert [name for name, _ in book.marks.leaving_for("u1")] == [("default", "a"), ("default", "b")]
    book.see_pod(("default", "a"), pod("a").set(uid="u-a", node="n0").build(2))
    book.see_pod(("default", "b"), None)
    assert list(book.marks.leaving_for("u1")) == []
    assert list(book.marks) == [("default", "c")]
    book.reset_state()
    assert list(book.marks) == []


def test_a_pod_that_is_not_bound_leaves_for_nobody() -> None:
    book = Book()
    book.see_pod(("default", "a"), marked("a", "u1", node=""))
    assert book.marks.of(("default", "a")) is None
