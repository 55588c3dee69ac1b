"""The book against its rules, worked out naively, over random lives of pods; and against stale readers of the same."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation, Decision, Epoch, Plan, PlanStatus
from berth.contracts.state import Pod, Reservation
from berth.testing.builders import pod
from berth.testing.feed import LedgerLog
from berth.transaction.book import FINISHED_PHASES, Book
from berth.transaction.claims import Claim, Name

PODS, NODES = 2, 2


class StateMessage(NamedTuple):
    """One message of STATE: a pod, or with None its tombstone."""

    name: Name
    pod: Pod | None
    version: int


class World:
    """The truth: pods that come and go, decisions by a solver that sees everything, binds by a writer."""

    def __init__(self) -> None:
        self.version = 1
        self.uids = 0
        self.pods: dict[Name, Pod] = {}
        self.state: list[StateMessage] = []
        self.ledger = LedgerLog()
        self.decisions: dict[Name, Decision] = {}
        self.plans: dict[str, PlanStatus] = {}
        self.ledger.append(subjects.EPOCH_KEY, encode(Epoch(epoch=1)))

    def write(self, name: Name, pod: Pod | None) -> None:
        self.version += 1
        if pod is None:
            del self.pods[name]
        else:
            self.pods[name] = pod
        self.state.append(StateMessage(name, pod, self.version))

    def build(self, name: Name, uid: str, node: str = "", attempt: int = 0, phase: str = "Pending") -> None:
        made = pod(name[1]).requests(cpu=1).set(uid=uid, node=node, attempt=attempt, phase=phase)
        self.write(name, made.build(self.version + 1))

    def is_settled(self, decision: Decision) -> bool:
        seen = self.pods.get((decision.namespace, decision.name))
        if self.plans.get(decision.plan) is PlanStatus.ABORTED:
            return True
        if seen is None or seen.uid != decision.uid or seen.phase in FINISHED_PHASES:
            return True
        return seen.attempt > decision.attempt

    def act(self, action: str, index: int, node: int) -> None:
        """One thing that may happen to a pod, if it can happen now."""
        name = ("default", f"p{index}")
        seen, held = self.pods.get(name), self.decisions.get(name)
        if action == "create" and seen is None:
            self.uids += 1
            self.build(name, f"u{self.uids}")
        elif seen is None:
            return
        elif action == "delete":
            self.write(name, None)
        elif action == "end":
            self.build(name, seen.uid, seen.node, seen.attempt, "Succeeded")
        elif action == "touch":
            self.build(name, seen.uid, seen.node, seen.attempt, seen.phase)
        elif action == "decide" and not seen.node and seen.phase == "Pending":
            if held is None or self.is_settled(held):
                self.decide(name, seen, f"n{node}")
        elif held is None or held.uid != seen.uid or self.is_settled(held) or seen.node:
            return
        elif action == "bind":
            self.build(name, seen.uid, held.node, seen.attempt, "Running")
        elif action == "withdraw":
            self.build(name, seen.uid, "", seen.attempt + 1)
        elif action == "abort":
            self.enter(held.plan, PlanStatus.ABORTED)

    def decide(self, name: Name, seen: Pod, node: str) -> None:
        plan = f"plan-{self.ledger.sequence}"
        decision = Decision(
            plan=plan,
            namespace=name[0],
            name=name[1],
            uid=seen.uid,
            attempt=seen.attempt,
            node=node,
            pod_version=seen.version,
            basis=self.version,
            allocation=Allocation(amounts={names.CPU: 1}),
        )
        self.decisions[name] = decision
        self.ledger.append(subjects.decision_key(1, *name), encode(decision))
        self.enter(plan, PlanStatus.COMMITTED)

    def enter(self, plan: str, status: PlanStatus) -> None:
        self.plans[plan] = status
        self.ledger.append(subjects.plan_key(1, plan), encode(Plan(id=plan, status=status)))

    def tidy(self, index: int) -> None:
        name = ("default", f"p{index}")
        held = self.decisions.get(name)
        if held is not None and self.is_settled(held):
            del self.decisions[name]
            self.ledger.append(subjects.decision_key(1, *name), None)


class Reader:
    """A follower with a book of its own, which also keeps what `on_change` told it."""

    def __init__(self) -> None:
        self.reported: dict[tuple[Name, str], Claim] = {}
        self.book = Book(on_change=self.on_change)
        self.seen: dict[Name, Pod] = {}
        tracker = self.book.complete["pods"]
        tracker.marked(1, True)
        tracker.end()

    def on_change(self, claim: Claim, added: bool) -> None:
        key = (claim.name, claim.uid)
        if added:
            assert key not in self.reported
            self.reported[key] = claim
        else:
            assert self.reported.pop(key).takes_as(claim)

    def state(self, message: StateMessage, *, gap: bool = False) -> None:
        tracker = self.book.complete["pods"]
        if gap:
            tracker.gap()
        tracker.seen(message.version)
        self.book.see_pod(message.name, message.pod)
        if message.pod is None:
            self.seen.pop(message.name, None)
        else:
            self.seen[message.name] = message.pod

    def ledger(self, log: LedgerLog) -> None:
        for message in log.messages:
            if message[3] > self.book.ledger.sequence:
                self.book.read_ledger(*message)

    def naive(self) -> set[tuple[Name, str, str]]:
        """Who holds what, straight from the rules."""
        holders = {
            (name, seen.uid, seen.node)
            for name, seen in self.seen.items()
            if seen.node and seen.phase not in FINISHED_PHASES
        }
        through = self.book.complete["pods"].version
        for name, (_, decision) in self.book.ledger.decisions.items():
            seen = self.seen.get(name)
            mine = seen if seen is not None and seen.uid == decision.uid else None
            aborted = self.book.ledger.plan_status(decision.plan) is PlanStatus.ABORTED
            gone = mine.phase in FINISHED_PHASES if mine else through >= decision.pod_version
            raised = mine is not None and mine.attempt > decision.attempt
            if not (aborted or gone or raised) and not (mine and mine.node):
                holders.add((name, decision.uid, decision.node))
        return holders

    def held(self) -> set[tuple[Name, str, str]]:
        return {(claim.name, claim.uid, claim.node) for claim in self.book.claims()}

    def check(self) -> None:
        self.book.settle_waiting()
        assert self.held() == self.naive()
        assert {(key, claim.node) for key, claim in self.reported.items()} == {
            ((name, uid), node) for name, uid, node in self.held()
        }
        for index in range(NODES):
            node = f"n{index}"
            on_node = {(claim.name, claim.uid, claim.node) for claim in self.book.claims_on(node)}
            assert on_node == {each for each in self.held() if each[2] == node}


COMMON = ["create", "decide", "touch"] * 3
RARE = ["bind", "bind", "delete", "delete", "end", "withdraw", "abort", "tidy"]
ACTIONS = st.lists(
    st.tuples(st.sampled_from(COMMON + RARE), st.integers(0, PODS - 1), st.integers(0, NODES - 1)),
    min_size=4,
    max_size=40,
)


def play(actions: list[tuple[str, int, int]]) -> World:
    world = World()
    for action, index, node in actions:
        if action == "tidy":
            world.tidy(index)
        else:
            world.act(action, index, node)
    return world


@settings(max_examples=300, deadline=None)
@given(ACTIONS, st.randoms(use_true_random=False))
def test_claims_are_those_of_the_rules_however_the_buckets_interleave(actions, random) -> None:
    world = play(actions)
    reader = Reader()
    state, ledger = list(world.state), list(world.ledger.messages)
    while state or ledger:
        if state and (not ledger or random.random() < 0.5):
            gap = random.random() < 0.2
            reader.state(state.pop(0), gap=gap)
            if gap and random.random() < 0.5:
                reader.book.complete["pods"].end()
        else:
            reader.book.read_ledger(*ledger.pop(0))
        reader.check()


@settings(max_examples=600, deadline=None)
@given(ACTIONS, st.data())
def test_a_stale_view_of_the_pods_only_makes_capacity_smaller(actions, data) -> None:
    world = play(actions)
    fresh, stale = Reader(), Reader()
    for message in world.state:
        fresh.state(message)
    read = data.draw(st.integers(0, len(world.state)))
    for message in world.state[:read]:
        stale.state(message)
    # Then it skips what is superseded, and stands somewhere in the middle of the rest.
    rest = [
        message
        for index, message in enumerate(world.state[read:], read)
        if all(later.name != message.name for later in world.state[index + 1 :])
    ]
    for position, message in enumerate(rest[: data.draw(st.integers(0, len(rest)))]):
        stale.state(message, gap=position == 0)
    fresh.ledger(world.ledger)
    stale.ledger(world.ledger)
    for reader in (fresh, stale):
        reader.check()
    assert fresh.held() <= stale.held()


@settings(max_examples=150, deadline=None)
@given(ACTIONS, st.data())
def test_starting_over_ends_in_the_same_claims(actions, data) -> None:
    world = play(actions)
    once, again = Reader(), Reader()
    for reader in (once, again):
        reader.ledger(world.ledger)
        for message in world.state:
            reader.state(message)
    if data.draw(st.booleans()):
        before = again.held()
        again.seen.clear()
        again.book.reset_state()
        again.check()
        decided = {(name, held.decision.uid) for name, held in again.book.ledger.decisions.items()}
        assert {each for each in before if (each[0], each[1]) in decided} <= again.held()
        again.book.complete["pods"].marked(1, False)
        for message in world.state:
            again.state(message)
        again.book.complete["pods"].marked(world.version, True)
        again.book.complete["pods"].end()
    else:
        again.book.reset_ledger()
        again.check()
        again.ledger(world.ledger)
    for reader in (once, again):
        reader.check()
    assert once.held() == again.held()


# --- single rules -------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    made = World()
    made.act("create", 0, 0)
    made.act("decide", 0, 1)
    return made


def reader_of(world: World) -> Reader:
    reader = Reader()
    for message in world.state:
        reader.state(message)
    reader.ledger(world.ledger)
    return reader


NAME = ("default", "p0")


def test_a_decision_for_a_pod_not_yet_seen_holds(world: World) -> None:
    reader = Reader()
    reader.ledger(world.ledger)
    assert reader.held() == {(NAME, "u1", "n1")}
    assert reader.book.open_decision(NAME) is not None


def test_a_bind_does_not_change_who_holds_the_capacity(world: World) -> None:
    reader = reader_of(world)
    before = dict(reader.reported)
    world.act("bind", 0, 0)
    reader.state(world.state[-1])
    assert reader.reported == before
    (claim,) = reader.book.claims_of(NAME)
    assert claim.is_bound
    assert reader.book.open_decision(NAME) is not None  # bound is not settled (R3)
    assert reader.book.is_bound(world.decisions[NAME])


def test_a_pod_that_is_being_deleted_still_holds(world: World) -> None:
    world.act("bind", 0, 0)
    world.build(NAME, "u1", "n1", phase="Running")
    deleting = pod("p0").requests(cpu=1).set(uid="u1", node="n1", phase="Running", deleting=True)
    world.write(NAME, deleting.build(world.version + 1))
    assert reader_of(world).held() == {(NAME, "u1", "n1")}


def test_a_successor_and_the_decision_for_its_predecessor_both_count(world: World) -> None:
    reader = Reader()
    successor = pod("p0").requests(cpu=1).set(uid="u9", node="n2", phase="Running").build(0)
    reader.state(StateMessage(NAME, successor, 0))  # an old version: nothing says that u1 is gone
    reader.ledger(world.ledger)
    assert reader.held() == {(NAME, "u1", "n1"), (NAME, "u9", "n2")}
    reader.check()


def test_completeness_that_comes_later_settles_what_waited(world: World) -> None:
    reader = Reader()
    reader.ledger(world.ledger)
    assert reader.book.settle_waiting() == set()
    reader.book.complete["pods"].marked(world.version, True)
    assert reader.book.settle_waiting() == {NAME}
    assert reader.held() == set()
    assert reader.book.open_decision(NAME) is None


def test_reservations_are_judged_by_their_own_completeness() -> None:
    world = World()
    decision = Decision(
        plan="p", namespace="", name="r", uid="ur", attempt=0, node="n1", pod_version=5, basis=5, kind="reservation"
    )
    world.ledger.append(subjects.decision_key(1, "", "r"), encode(decision))
    reader = Reader()
    reader.book.complete["pods"].marked(99, True)
    reader.ledger(world.ledger)
    assert reader.held() == {(("", "r"), "ur", "n1")}
    reader.book.see_reservation(("", "r"), Reservation(name="r", uid="ur", version=6, node="n1", phase="Available"))
    assert reader.held() == {(("", "r"), "ur", "n1")}
    reader.book.see_reservation(("", "r"), Reservation(name="r", uid="ur", version=7, node="n1", phase="Failed"))
    assert reader.held() == set()


def test_a_writer_remembers_what_the_ledger_lost_until_it_is_settled_or_the_epoch_changes(world: World) -> None:
    book = Book(remember=True)
    for message in world.ledger.messages:
        book.read_ledger(*message)
    # The key's second message settles the order: decisions count as committed once their plan entry was read.
    book.refresh(NAME)
    book.reset_ledger()
    assert [claim.uid for claim in book.claims()] == ["u1"]
    book.complete["pods"].marked(world.version, True)
    book.complete["pods"].end()
    book.see_pod(NAME, world.pods[NAME])
    assert [claim.uid for claim in book.claims()] == ["u1"]
    book.read_ledger(subjects.EPOCH_KEY, encode(Epoch(epoch=2)), False, 1)
    assert list(book.claims()) == []


def test_a_holder_whose_message_was_skipped_is_not_gone(world: World) -> None:
    """The holder's first message is superseded and never read; a later one of another pod proves nothing."""
    world.act("create", 1, 0)
    world.act("touch", 0, 0)
    _, other, _ = world.state
    stale = Reader()
    stale.state(other, gap=True)
    stale.ledger(world.ledger)
    assert other.version > world.decisions[NAME].pod_version
    assert stale.held() == {(NAME, "u1", "n1")}


def test_a_writer_remembers_over_the_same_epoch_read_again_from_a_new_bucket(world: World) -> None:
    book = Book(remember=True)
    for message in world.ledger.messages:
        book.read_ledger(*message)
    book.refresh(NAME)
    epoch = book.ledger.epoch
    book.reset_ledger()
    book.read_ledger(subjects.EPOCH_KEY, encode(epoch), False, 1)
    assert [claim.uid for claim in book.claims()] == ["u1"]
