"""Offer and grant together are never more than a node lends, however late messages are; in the end both have theirs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_THIRD_PARTY_ALLOCATIONS, BATCH_CPU, BATCH_MEMORY
from berth.contracts.slo import NodeOffer, Offer
from berth.contracts.state import Node
from berth.resources.amounts import parse_amounts
from berth.yarn_operator.core.dividing import DOUBT_S, Dividing
from berth.yarn_operator.core.listing import Listing
from berth.yarn_operator.core.notes import NAME, Noted, read_note
from berth.yarn_operator.core.pods import NodeManager
from berth.yarn_operator.core.rounds import OnNode, Round, plan_round
from berth.yarn_operator.core.step import RUNNING, Manager
from berth.yarn_operator.core.units import MIB, NONE, Share, amounts_of, larger, smaller

ID = "node-1:8041"
MANAGER = NodeManager(ID, "main")


class World:
    """A node, slo-manager, cluster-writer, kubelet's pods and YARN, each of which sees the others late."""

    def __init__(self, seed: int, *, cores: int = 20, mib: int = 4000, percent: int = 50) -> None:
        self.draw = random.Random(seed)
        self.origin = {BATCH_CPU: cores * 1000, BATCH_MEMORY: mib * MIB}
        self.note = ""
        self.offered = dict(self.origin)
        self.parties = 0
        self.shown_note, self.shown_offer = self.note, (self.parties, dict(self.offered))
        self.held: dict[str, int] = {BATCH_CPU: 0, BATCH_MEMORY: 0}
        self.granted = self.used = self.applied = NONE
        self.commands: list[tuple[str, str]] = []
        self.late_grants: list[tuple[float, Share]] = []
        self.has_pod = self.is_listed = True
        self.now = 0.0
        self.percent, self.turns = percent, 0
        self.take_over()

    def take_over(self) -> None:
        """Another replica, which knows of nothing that is on its way."""
        self.turns += 1
        self.dividing = Dividing(percent=self.percent, writer=f"replica-{self.turns}")

    def noted(self, text: str) -> Noted:
        read = read_note({ANNOTATION_THIRD_PARTY_ALLOCATIONS: text} if text else {})
        assert not isinstance(read, Problem)
        return read

    @property
    def taken(self) -> dict[str, int]:
        return amounts_of(self.noted(self.note).charged)

    def check(self) -> None:
        """What YARN may hand out and what Kubernetes may is never more than there is."""
        amounts = amounts_of(larger(self.granted, self.used))
        for name, whole in self.origin.items():
            assert self.offered[name] + amounts[name] <= whole, (name, self.offered, self.granted, self.used)

    def slo_manager(self) -> None:
        self.offered = {name: whole - min(whole, self.taken.get(name, 0)) for name, whole in self.origin.items()}
        self.parties = self.noted(self.note).revision

    def cluster_writer(self, *, again: bool = False) -> None:
        if not self.commands:
            return
        at = self.draw.randrange(len(self.commands))
        before, text = self.commands[at] if again else self.commands.pop(at)
        if before == self.note:
            self.note = text

    def views(self) -> None:
        if self.draw.random() < 0.5:
            self.shown_note = self.note
        if self.draw.random() < 0.5:
            self.shown_offer = self.parties, dict(self.offered)

    def kubernetes(self) -> None:
        """Pods come, by what is offered, and go."""
        for name, unit in ((BATCH_CPU, 1000), (BATCH_MEMORY, MIB)):
            if self.draw.random() < 0.5:
                free = self.offered[name] - self.held[name]
                self.held[name] += unit * self.draw.randint(0, max(0, free // unit))
            elif self.draw.random() < 0.5:
                self.held[name] = unit * self.draw.randint(0, self.held[name] // unit)

    def yarn(self) -> None:
        """Containers come, by what is granted, and go."""
        most = larger(self.used, self.granted)
        self.used = Share(*(self.draw.randint(0, each) for each in most)) if self.draw.random() < 0.5 else self.used

    def late(self) -> None:
        """A grant whose answer was lost is carried out after all."""
        until, share = self.late_grants.pop() if self.late_grants else (0.0, NONE)
        if self.now < until:
            self.granted = share

    def round(self, *, loses: bool) -> Round:
        revision, offered = self.shown_offer
        offer = NodeOffer(
            node="node-1",
            uid="u",
            origin=dict(self.origin),
            offers={name: Offer(amount=amount) for name, amount in offered.items()},
            parties={NAME: revision} if revision else {},
        )
        annotations = {ANNOTATION_THIRD_PARTY_ALLOCATIONS: self.shown_note} if self.shown_note else {}
        node = Node(name="node-1", uid="u", version=1, annotations=annotations)
        listing = Listing({ID: Manager(RUNNING, self.granted, self.used)} if self.is_listed else {})
        on_node = OnNode(node, self.noted(self.shown_note), offer, MANAGER, self.has_pod, dict(self.held))
        found = plan_round([on_node], listing, self.dividing, self.now)
        for charge in found.charges:
            self.commands.append((charge.before, charge.text))
        for grant in found.grants:
            if loses and self.draw.random() < 0.3:
                self.late_grants.append((self.now + DOUBT_S, grant.share))
                continue
            self.granted = grant.share
            self.dividing.answered("node-1")
        return found

    def settle(self) -> None:
        """Nothing is late any more."""
        self.now += 2 * DOUBT_S
        self.late_grants.clear()
        for _ in range(12):
            self.now += 20.0
            self.round(loses=False)
            while self.commands:
                self.cluster_writer()
            self.slo_manager()
            self.used = smaller(self.used, self.granted)
            self.shown_note, self.shown_offer = self.note, (self.parties, dict(self.offered))
            self.check()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0, 30, 50, 100]))
def test_offer_and_grant_are_never_more_than_there_is(seed: int, percent: int) -> None:
    world = World(seed, percent=percent)
    acts = [world.slo_manager, world.cluster_writer, world.views, world.kubernetes, world.yarn, world.late]
    for _ in range(120):
        world.now += world.draw.choice([0.5, 1.0, 12.0])
        if world.draw.random() < 0.1:
            world.cluster_writer(again=True)
        if world.draw.random() < 0.03:
            world.take_over()
        world.draw.choice(acts)()
        world.check()
        world.round(loses=True)
        world.check()
    world.settle()
    free = Share(
        (world.origin[BATCH_CPU] - world.held[BATCH_CPU]) // 1000,
        (world.origin[BATCH_MEMORY] - world.held[BATCH_MEMORY]) // MIB,
    )
    assert world.granted.within(free)
    assert world.noted(world.note).charged == world.granted
    if percent == 100:
        assert world.granted.vcores * 20 >= free.vcores * 18


def test_what_neither_uses_is_divided() -> None:
    world = World(1)
    world.settle()
    assert world.granted == Share(10, 2000)
    assert world.offered == {BATCH_CPU: 10_000, BATCH_MEMORY: 2000 * MIB}
    world.held = {BATCH_CPU: 10_000, BATCH_MEMORY: 2000 * MIB}
    world.used = Share(2, 400)
    world.settle()
    assert world.granted == Share(6, 1200)
    assert world.offered[BATCH_CPU] == 14_000


def test_a_charge_that_is_on_its_way_back_is_not_granted() -> None:
    """YARN gave back, and wants it again before the node shows that it did."""
    world = World(3)
    world.settle()
    world.held = {BATCH_CPU: 16_000, BATCH_MEMORY: 0}
    world.now += 60
    world.round(loses=False)  # shrinks
    world.round(loses=False)  # asks for the smaller charge
    assert world.commands
    shrunk = world.granted
    world.held = {BATCH_CPU: 0, BATCH_MEMORY: 0}
    world.round(loses=False)
    assert world.granted == shrunk
    world.cluster_writer()
    world.slo_manager()
    world.check()


def test_without_its_pod_a_node_manager_is_granted_nothing() -> None:
    world = World(4)
    world.settle()
    world.has_pod = False
    world.settle()
    assert world.granted == NONE
    assert world.noted(world.note).charged == NONE


def test_while_it_is_not_listed_all_stays_as_it_is() -> None:
    """A ResourceManager that has just become the active one lists nobody, until NodeManagers have come with all they
    have."""
    world = World(7)
    world.settle()
    world.is_listed = False
    world.held = {BATCH_CPU: 10_000, BATCH_MEMORY: 2000 * MIB}
    found = world.round(loses=False)
    assert (found.charges, found.grants) == ((), ())
    world.is_listed = True
    world.settle()
    assert world.granted == Share(5, 1000)


def test_nodes_that_are_gone_are_forgotten() -> None:
    """All but what may still be carried out: a node may come back by its name."""
    world = World(8)
    world.round(loses=False)
    world.cluster_writer()
    world.slo_manager()
    world.shown_note, world.shown_offer = world.note, (world.parties, dict(world.offered))
    world.dividing.granting("node-1", Share(10, 2000), world.now)
    world.dividing.keep({"node-1"}, world.now)
    assert world.round(loses=False).wants == {"node-1": Share(10, 2000)}
    dividing = world.dividing
    dividing.keep((), world.now)
    books = (dividing._wants, dividing._charges, dividing._doubts)
    assert [len(each) for each in books] == [0, 0, 1]
    dividing.keep((), world.now + 2 * DOUBT_S)
    assert not any(books)


def test_others_keep_theirs() -> None:
    world = World(5)
    world.note = (
        '{"allocations":[{"name":"other","priority":"koord-batch","resources":{"kubernetes.io/batch-cpu":"4000"}}]}'
    )
    world.shown_note = world.note
    world.round(loses=False)
    world.cluster_writer()
    noted = world.noted(world.note)
    assert noted.others == {BATCH_CPU: 4000}
    assert noted.charged == Share(8, 2000)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"allocations": 3}', "thirdPartyAllocations"),
        (
            '{"allocations": [{"name": "hadoop-yarn", "resources": {"kubernetes.io/batch-cpu": "-1"}}]}',
            "allocations[0]",
        ),
        ("NaN", "thirdPartyAllocations"),
        ("[" * 100_000, "thirdPartyAllocations"),
    ],
)
def test_a_note_that_cannot_be_read_is_named(text: str, field: str) -> None:
    read: Any = read_note({ANNOTATION_THIRD_PARTY_ALLOCATIONS: text})
    assert isinstance(read, Problem)
    assert field in read.field


def test_amounts_of_the_note_are_kubernetes_quantities() -> None:
    world = World(6)
    world.round(loses=False)
    ((_, text),) = world.commands
    noted = world.noted(text)
    amounts, problems = parse_amounts({name: str(amount) for name, amount in amounts_of(noted.charged).items()}, "r")
    assert not problems
    assert amounts == {BATCH_CPU: 10_000, BATCH_MEMORY: 2000 * MIB}
    assert noted.manager == MANAGER
