"""What is to be done about a decision: verdicts, gangs, waves and answers as tables."""

from __future__ import annotations

import pytest
from tests.services.worlds.writer.objects import device_of

from berth.cluster_writer.core.answers import Next, after_bind, after_withdrawal
from berth.cluster_writer.core.gangs import Start, check_plan
from berth.cluster_writer.core.judge import Verdict, judge
from berth.cluster_writer.core.waves import loss, plans_to_forget, to_begin, to_record
from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation, Decision, DeviceGrant, Epoch, GangDomain, GangRef, Plan, PlanStatus
from berth.contracts.state import Node, Pod, PodTemplate, Reservation
from berth.kube.answer import Answer
from berth.rules.network_topology.domain import lies_in
from berth.transaction.book import Book

NODE = Node(name="n", uid="n", version=1, allocatable={"cpu": 4})
CARDS = {"n": device_of("n", 1)}
GPU = Allocation(devices=[DeviceGrant(kind="gpu", minor=0, amounts={names.GPU_CORE: 60})])


class Views:
    """A book that is fed by hand; complete through `version`."""

    def __init__(self, version=100):
        self.book = Book(remember=True)
        self.sequence = 0
        self.ledger(subjects.EPOCH_KEY, Epoch(epoch=1))
        self.complete("pods", version)

    def complete(self, kind, version):
        self.book.complete[kind].marked(version, True)
        self.book.complete[kind].end()

    def ledger(self, key, message, deleted=False):
        self.sequence += 1
        self.book.read_ledger(key, b"" if deleted else encode(message), deleted, self.sequence)

    def plan(self, plan="p", status=PlanStatus.COMMITTED):
        self.ledger(subjects.plan_key(1, plan), Plan(id=plan, status=status))

    def decision(self, name="a", cpu=1, **more):
        known = {"plan": "p", "namespace": "ns", "name": name, "uid": name, "attempt": 0, "node": "n"}
        known |= {"pod_version": 10, "basis": 50, "allocation": Allocation(amounts={"cpu": cpu})}
        made = Decision(**(known | more))
        self.ledger(subjects.decision_key(1, made.namespace, name), made)
        return made

    def pod(self, name="a", **more):
        pod = Pod(**({"namespace": "ns", "name": name, "uid": name, "version": 10} | more))
        self.book.see_pod(("ns", name), pod)

    def judge(self, decision, nodes=None, **more):
        return judge(decision, self.book, {"n": NODE} if nodes is None else nodes, **more).verdict


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        ({}, Verdict.BIND),
        ({"node": "n"}, Verdict.NOTHING),
        ({"node": "other"}, Verdict.NOTHING),
        ({"attempt": 1}, Verdict.NOTHING),
        ({"phase": "Failed"}, Verdict.NOTHING),
        ({"uid": "successor"}, Verdict.NOTHING),
        ({"deleting": True}, Verdict.WAIT),
        ({"template": PodTemplate(gates=["g"])}, Verdict.WAIT),
        (None, Verdict.NOTHING),
    ],
)
def test_by_its_pod(pod, verdict):
    views = Views()
    decision = views.decision()
    views.plan()
    if pod is not None:
        views.pod(**pod)
    assert views.judge(decision) is verdict


@pytest.mark.parametrize("status", [None, PlanStatus.OPEN, PlanStatus.ABORTED])
def test_only_a_committed_plan_is_acted_on(status):
    views = Views()
    decision = views.decision()
    if status:
        views.plan(status=status)
    views.pod()
    assert views.judge(decision) is Verdict.NOTHING


def test_a_view_older_than_the_solvers_waits():
    views = Views(version=49)
    decision = views.decision()
    views.plan()
    views.pod()
    assert views.judge(decision) is Verdict.WAIT
    views.book.complete["pods"].seen(50)
    assert views.judge(decision) is Verdict.BIND


def test_a_view_older_than_the_solvers_in_the_other_kind_waits():
    views = Views()
    decision = views.decision(other_basis=60)
    views.plan()
    views.pod()
    assert views.judge(decision) is Verdict.WAIT, "Reservations are not read"
    views.complete("reservations", 59)
    assert views.judge(decision) is Verdict.WAIT
    views.complete("reservations", 60)
    assert views.judge(decision) is Verdict.BIND


def test_a_reservation_waits_for_pods_as_well():
    views = Views(version=59)
    views.complete("reservations", 100)
    decision = views.decision(namespace="", kind="reservation", other_basis=60)
    views.plan()
    views.book.see_reservation(("", "a"), Reservation(name="a", uid="a", version=10))
    assert views.judge(decision) is Verdict.WAIT
    views.complete("pods", 60)
    assert views.judge(decision) is Verdict.BIND


def test_a_kind_that_is_not_installed_any_more_is_not_waited_for():
    views = Views()
    decision = views.decision(other_basis=60)
    views.plan()
    views.pod()
    views.complete("reservations", 0)
    assert views.judge(decision) is Verdict.BIND


def test_an_absent_pod_is_gone_only_in_a_view_that_must_show_it():
    views = Views(version=50)
    decision = views.decision(pod_version=60)
    views.plan()
    assert views.judge(decision) is Verdict.WAIT


def test_nodes():
    views = Views()
    decision = views.decision()
    views.plan()
    views.pod()
    assert views.judge(decision, {}) is Verdict.WITHDRAW
    assert judge(decision, views.book, {}).is_doubtful
    assert views.judge(decision, {}, nodes_known=False) is Verdict.WAIT
    leaving = Node(name="n", uid="n", version=1, allocatable={"cpu": 4}, deleting=True)
    assert views.judge(decision, {"n": leaving}) is Verdict.WITHDRAW


def test_a_clash_with_a_decision_that_the_ledger_has_lost():
    views = Views()
    views.decision("lost", allocation=GPU)
    views.plan()
    views.pod("lost")
    views.ledger(subjects.decision_key(1, "ns", "lost"), None, deleted=True)
    decision = views.decision("a", plan="q", allocation=GPU)
    views.plan("q")
    views.pod("a")
    found = judge(decision, views.book, {"n": NODE}, devices=CARDS)
    assert (found.verdict, found.is_doubtful) == (Verdict.LOSS, True)
    views.book.see_pod(("ns", "lost"), None)
    assert views.judge(decision, devices=CARDS) is Verdict.BIND, "its holder is gone"


def test_a_node_that_offers_less_than_was_decided_is_no_loss():
    views = Views()
    decision = views.decision()
    views.plan()
    views.pod()
    less = Node(name="n", uid="n", version=2, allocatable={"cpu": 0})
    found = judge(decision, views.book, {"n": less})
    assert (found.verdict, found.is_doubtful) == (Verdict.WITHDRAW, True)


def gang(views, members=3, size=3, strict=True, **more):
    for index in range(members):
        views.decision(f"m{index}", gang=GangRef(name="g", size=size, strict=strict), **more)
        views.pod(f"m{index}")
    views.plan()


def test_a_whole_gang_begins():
    views = Views()
    gang(views)
    assert check_plan("p", views.book).start is Start.GO


def test_a_gang_waits_while_a_member_is_let_go_for_an_older_plan():
    views = Views()
    gang(views)
    uid = next(iter(views.book.ledger.decisions.values())).decision.uid
    assert check_plan("p", views.book, letting_go={uid}).start is Start.WAIT
    assert check_plan("p", views.book, letting_go={"another"}).start is Start.GO


def test_a_gang_that_misses_a_member_is_withdrawn_unless_it_has_begun():
    views = Views()
    gang(views, members=2)
    found = check_plan("p", views.book)
    assert (found.start, found.rest) == (Start.WITHDRAW, False)
    assert [each.name for each in found.withdraw] == ["m0", "m1"]
    views.pod("m0", node="n", plan="p")
    assert check_plan("p", views.book).start is Start.GO
    views.pod("m0", node="n", plan="another")
    assert check_plan("p", views.book).start is Start.WITHDRAW


@pytest.mark.parametrize(
    "change",
    [
        {"attempt": 1},
        {"node": "n"},
        {"uid": "successor"},
        {"deleting": True},
        {"phase": "Failed"},
        {"phase": "Succeeded"},
    ],
)
def test_a_gang_with_a_member_that_is_not_current_is_withdrawn(change):
    views = Views()
    gang(views)
    views.pod("m1", **change)
    found = check_plan("p", views.book)
    assert found.start is Start.WITHDRAW
    assert [each.name for each in found.withdraw] == ["m0", "m2"]


def lying(block, **more):
    domain = GangDomain(layer="block", path=["s1", "b1"], label_keys=[["spine"], ["block"]], is_lowest=True)
    return {
        "gang": GangRef(name="g", size=1, domain=domain, **more),
        "nodes": {
            "n": Node(name="n", uid="n", version=1, allocatable={"cpu": 4}, labels={"spine": "s1", "block": block})
        },
    }


@pytest.mark.parametrize(("block", "start"), [("b1", Start.GO), ("b2", Start.WITHDRAW), ("", Start.WITHDRAW)])
def test_a_gang_begins_only_in_its_domain(block, start):
    views, world = Views(), lying(block)
    views.decision("m0", gang=world["gang"])
    views.pod("m0")
    views.plan()
    found = check_plan("p", views.book, (), world["nodes"])
    assert found.start is start
    assert ("is not in block s1/b1 any more" in found.reason) == (start is Start.WITHDRAW)


@pytest.mark.parametrize(("block", "verdict"), [("b1", Verdict.BIND), ("b2", Verdict.WITHDRAW)])
def test_a_member_is_bound_only_in_the_domain_of_its_gang(block, verdict):
    views, world = Views(), lying(block, strict=False)
    decision = views.decision("m0", gang=world["gang"])
    views.plan()
    views.pod("m0")
    assert views.judge(decision, world["nodes"]) is verdict


def test_a_node_without_a_block_is_one_by_itself():
    domain = GangDomain(layer="block", path=["s1", "n"], label_keys=[["spine"], ["block"]], is_lowest=True)
    assert lies_in(domain, "n", {"spine": "s1"})
    assert not lies_in(domain, "m", {"spine": "s1"})
    of_node = GangDomain(layer="NodeTopologyLayer", path=["s1", "n"], label_keys=[["spine"]], is_lowest=True)
    assert lies_in(of_node, "n", {"spine": "s1"})
    assert not lies_in(of_node, "m", {"spine": "s1"})


def test_what_else_is_in_the_plan_of_a_broken_gang_begins():
    views = Views()
    views.decision("m0", gang=GangRef(name="g", size=2))
    views.pod("m0")
    for index in range(2):
        views.decision(f"w{index}", gang=GangRef(name="whole", size=2))
        views.pod(f"w{index}")
    views.plan()
    found = check_plan("p", views.book)
    assert (found.start, found.rest) == (Start.WITHDRAW, True)
    assert [each.name for each in found.broken] == ["m0"]


def test_a_gang_waits_for_the_view_and_a_loose_one_for_nobody():
    late = Views(version=40)
    gang(late)
    assert check_plan("p", late.book).start is Start.WAIT
    loose = Views(version=40)
    gang(loose, members=2, strict=False)
    assert check_plan("p", loose.book).start is Start.GO


def test_a_gang_does_not_begin_before_each_member_could_be_judged():
    views = Views()
    gang(views, other_basis=60)
    assert check_plan("p", views.book).start is Start.WAIT
    views.complete("reservations", 60)
    assert check_plan("p", views.book).start is Start.GO


def test_a_gang_waits_for_a_member_that_the_view_is_still_to_show():
    """Its solver may have seen it in a message that is newer than what its view was complete through."""
    views = Views()
    gang(views, members=2, size=3)
    views.decision("m2", gang=GangRef(name="g", size=3, strict=True), pod_version=1000, attempt=1)
    assert check_plan("p", views.book).start is Start.WAIT
    views.pod("m2", attempt=0)
    assert check_plan("p", views.book).start is Start.WAIT
    views.pod("m2", attempt=1)
    assert check_plan("p", views.book).start is Start.GO


def test_waves_go_by_the_order_of_the_ledger():
    views = Views()
    for plan in ("c", "a", "b"):
        views.decision(f"of-{plan}", plan=plan)
        views.plan(plan)
    views.decision("of-open", plan="open")
    views.plan("open", PlanStatus.OPEN)
    ledger = views.book.ledger
    assert to_begin(ledger, {"a", "b", "c", "open", "unknown"}) == ["c", "a", "b"]
    assert to_begin(ledger, {"a"}) == ["a"]
    assert to_record(ledger, "c", ["a"]) == "a"
    assert to_record(ledger, "b", ["a"]) == "b"
    assert to_record(ledger, "", []) == ""


def test_what_a_lease_notices():
    views = Views()
    views.plan()
    views.plan("open", PlanStatus.OPEN)
    ledger = views.book.ledger
    assert not loss(ledger, 1, "")
    assert not loss(ledger, 1, "p")
    for epoch, plan in ((None, ""), (2, ""), (1, "lost"), (1, "open")):
        assert loss(ledger, epoch, plan)


def test_plans_are_forgotten_after_their_decisions_and_never_the_leases():
    views = Views()
    views.plan("old")
    views.decision("a", plan="held")
    views.plan("held")
    views.plan("named")
    views.plan("newer")
    ledger = views.book.ledger
    assert plans_to_forget(ledger, "named") == ["old"]
    assert plans_to_forget(ledger, "") == []
    assert plans_to_forget(ledger, "unknown") == []


@pytest.mark.parametrize(
    ("status", "following"),
    [
        (201, Next.DONE),
        (404, Next.LOOK),
        (409, Next.LOOK),
        *((status, Next.REPEAT) for status in (0, 401, 403, 429, 500, 502, 503, 504)),
        *((status, Next.WITHDRAW) for status in (400, 405, 413, 422)),
    ],
)
def test_answers_to_a_bind(status, following):
    assert after_bind(Answer(status)) is following


@pytest.mark.parametrize(
    ("status", "following"),
    [
        (200, Next.DONE),
        (404, Next.LOOK),
        (409, Next.LOOK),
        (422, Next.LOOK),
        *((status, Next.REPEAT) for status in (0, 400, 403, 429, 500)),
    ],
)
def test_answers_to_a_withdrawal(status, following):
    assert after_withdrawal(Answer(status)) is following


KEY = names.ANNOTATION_RESERVATION_RESIZE
MADE = {"name": "a", "uid": "a", "version": 10, "node": "n", "plan": "made", "phase": "Available"}
MADE |= {"allocatable": {"cpu": 1}, "annotations": {KEY: '{"resources":{"cpu":"3m"}}'}}


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, Verdict.BIND),
        ({"plan": "p"}, Verdict.NOTHING),
        ({"plan": "another"}, Verdict.NOTHING),
        ({"attempt": 1}, Verdict.NOTHING),
        ({"phase": "Succeeded"}, Verdict.NOTHING),
        ({"node": "other"}, Verdict.NOTHING),
        ({"allocatable": {"cpu": 3}}, Verdict.BIND),
        ({"annotations": {KEY: '{"resources":{"cpu":"2m"}}'}}, Verdict.WITHDRAW),
        ({"annotations": {KEY: "{"}}, Verdict.WITHDRAW),
    ],
    ids=range(9),
)
def test_a_reservation_grows_behind_the_plan_that_the_decision_follows(fields, verdict):
    views = Views()
    views.complete("reservations", 100)
    decision = views.decision(cpu=3, namespace="", kind="reservation", grows="made")
    views.plan()
    views.book.see_reservation(("", "a"), Reservation(**(MADE | fields)))
    assert views.judge(decision) is verdict


def test_a_reservation_does_not_grow_beyond_its_node():
    views = Views()
    views.complete("reservations", 100)
    decision = views.decision(cpu=3, namespace="", kind="reservation", grows="made")
    views.plan()
    views.book.see_reservation(("", "a"), Reservation(**MADE))
    views.pod("b", node="n", template=PodTemplate(requests={"cpu": 2}))
    assert views.judge(decision) is Verdict.WITHDRAW
