"""Whether a nominated place still takes its pod once the victims have left."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.writer.decisions import make_decision

from berth.cluster_writer.core.capacity import held_beside, shortage
from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.grants import device
from berth.contracts.ledger import Decision, Epoch, GangRef, Plan, PlanStatus, Victim
from berth.contracts.state import Device, DeviceInfo, Node, Pod
from berth.testing.builders import PodBuilder, pod
from berth.transaction.book import Book
from berth.transaction.claims import Claim

NODE = Node(name="n", uid="n-1", version=1, allocatable={"cpu": 4000, "pods": 4})


def sized(name: str, cpu: int, priority: int = 0) -> PodBuilder:
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority)


class Bench:
    """A book of pods on one node and of nominations to it."""

    def __init__(self) -> None:
        self.book = Book()
        self.sequence = 0
        self._write(subjects.EPOCH_KEY, Epoch(epoch=1))

    def _write(self, key: str, message: Any) -> None:
        self.sequence += 1
        self.book.read_ledger(key, encode(message), False, self.sequence)

    def pod(self, made: PodBuilder) -> Pod:
        seen = made.build(self.sequence + 1)
        self.book.see_pod((seen.namespace, seen.name), seen)
        return seen

    def nominate(self, waits: Pod, *victims: Pod, plan: str = "p", **more: Any) -> Decision:
        left = [Victim(namespace="default", name=v.name, uid=v.uid, version=v.version, node="n") for v in victims]
        decision = make_decision(waits, plan, "n", nominates=True, victims=left, **more)
        self._write(subjects.decision_key(1, "default", waits.name), decision)
        self._write(subjects.plan_key(1, plan), Plan(id=plan, status=PlanStatus.COMMITTED))
        return decision

    def why(self, decision: Decision, node: Node = NODE) -> str:
        seen = self.book.seen((decision.namespace, decision.name))
        assert seen is not None
        return shortage(decision, held_beside(decision, seen.template.priority, self.book), node, None)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_victims_hold_becomes_free(bench: Bench) -> None:
    low = bench.pod(sized("low", 4).on("n"))
    assert bench.why(bench.nominate(bench.pod(sized("waits", 4, 9)), low)) == ""


def test_what_others_hold_does_not(bench: Bench) -> None:
    low = bench.pod(sized("low", 3).on("n"))
    decision = bench.nominate(bench.pod(sized("waits", 3, 9)), low)
    assert bench.why(decision) == ""
    bench.pod(sized("another", 1).on("n"))
    assert bench.why(decision) == ""
    bench.pod(sized("late", 1).on("n"))
    assert bench.why(decision) == "node n: Insufficient cpu"


def test_a_node_that_offers_less_is_no_place_any_more(bench: Bench) -> None:
    decision = bench.nominate(bench.pod(sized("waits", 4, 9)), bench.pod(sized("low", 4).on("n")))
    smaller = Node(name="n", uid="n-1", version=2, allocatable={"cpu": 3000, "pods": 4})
    assert bench.why(decision, smaller) == "node n: Insufficient cpu"


def test_pods_are_counted(bench: Bench) -> None:
    decision = bench.nominate(bench.pod(sized("waits", 1, 9)), bench.pod(sized("low", 1).on("n")))
    for number in range(3):
        bench.pod(pod(f"small-{number}").requests({}).on("n"))
    assert bench.why(decision) == ""
    bench.pod(pod("small-3").requests({}).on("n"))
    assert bench.why(decision) == "node n: Too many pods"


def test_two_nominations_with_victims_of_their_own_fit_beside_each_other(bench: Bench) -> None:
    one, two = (bench.pod(sized(name, 2).on("n")) for name in ("one", "two"))
    first = bench.nominate(bench.pod(sized("a", 2, 9)), one)
    second = bench.nominate(bench.pod(sized("b", 2, 9)), two, plan="q")
    assert bench.why(first) == ""
    assert bench.why(second) == ""


def test_what_equals_are_nominated_to_is_held_and_what_lower_ones_are_is_not(bench: Bench) -> None:
    low = bench.pod(sized("low", 2).on("n"))
    decision = bench.nominate(bench.pod(sized("waits", 2, 9)), low)
    bench.nominate(bench.pod(sized("lower", 4, 8)), plan="q")
    assert bench.why(decision) == ""
    bench.nominate(bench.pod(sized("equal", 4, 9)), plan="r")
    assert bench.why(decision) == "node n: Insufficient cpu"


def test_members_of_one_plan_hold_beside_each_other(bench: Bench) -> None:
    low = bench.pod(sized("low", 4).on("n"))
    gang = GangRef(name="g", size=2)
    first = bench.nominate(bench.pod(sized("a", 3, 9)), low, gang=gang)
    assert bench.why(first) == ""
    bench.nominate(bench.pod(sized("b", 3, 8)), low, gang=gang)
    assert bench.why(first) == "node n: Insufficient cpu"


def test_a_resource_that_the_node_does_not_name_is_left_to_others(bench: Bench) -> None:
    waits = bench.pod(pod("waits").requests({"cpu": 1000, "example.com/license": 1}).template(priority=9))
    assert bench.why(bench.nominate(waits)) == ""


def test_a_profile_that_does_not_ask_for_amounts_is_not_asked_for_them(bench: Bench) -> None:
    decision = bench.nominate(bench.pod(sized("waits", 8, 9)), unasked=["NodeResourcesFit"])
    assert bench.why(decision) == ""


def claim(holder: str, /, **fields: Any) -> Claim:
    return Claim(**{"name": ("default", holder), "uid": f"{holder}-1", "node": "n", "amounts": {}, **fields})


def nomination(made: PodBuilder, **more: Any) -> Decision:
    return make_decision(made.build(1), "p", "n", nominates=True, **more)


def test_what_is_left_of_a_reservation_is_kept_for_its_users() -> None:
    hold = claim("hold", name=("", "hold"), uid="r", amounts={"cpu": 3000}, is_reservation=True, is_bound=True)
    user = claim("user", amounts={"cpu": 2000}, reservation="r", is_bound=True)
    assert shortage(nomination(sized("waits", 1)), [hold, user], NODE, None) == ""
    assert shortage(nomination(sized("waits", 2)), [hold, user], NODE, None) == (
        "node n: Insufficient cpu beside reservations"
    )
    drawing = nomination(sized("waits", 1), reservation_uid="r")
    assert shortage(drawing, [hold, user], NODE, None) == ""


def test_a_node_that_is_over_committed_already_may_stay_so() -> None:
    hold = claim("hold", name=("", "hold"), uid="r", amounts={"cpu": 3000}, is_reservation=True, is_bound=True)
    other = claim("other", amounts={"cpu": 2000}, is_bound=True)
    assert shortage(nomination(sized("waits", 1), reservation_uid="r"), [hold, other], NODE, None) == ""


def test_a_device_that_somebody_else_holds_is_taken() -> None:
    offered = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}
    offering = Device(name="n", uid="d", version=1, devices=[DeviceInfo(kind="gpu", minor=0, amounts=offered)])
    decision = nomination(sized("waits", 1), minors=[0])
    assert shortage(decision, [], NODE, offering) == ""
    half = device("gpu", 0, {names.GPU_CORE: 50})
    taken = claim("other", grants=(half,), is_bound=True)
    assert shortage(decision, [taken], NODE, offering) == f"node n: Insufficient {names.GPU_CORE} on gpu minor 0"
    elsewhere = claim("other", grants=(device("gpu", 1, half.amounts),), is_bound=True)
    assert shortage(decision, [elsewhere], NODE, offering) == ""
    unreadable = claim("other", unreadable=("devices",), is_bound=True)
    assert shortage(decision, [unreadable], NODE, offering) == "node n: a pod holds devices, and nobody knows which"


@pytest.mark.parametrize("offered", [{names.GPU_CORE: 500, names.GPU_MEMORY_RATIO: 500}, None], ids=["more", "unseen"])
def test_no_device_has_more_than_all_of_it(offered: dict[str, int] | None) -> None:
    entries = [DeviceInfo(kind="gpu", minor=0, amounts=offered)] if offered else []
    offering = Device(name="n", uid="d", version=1, devices=entries)
    decision = nomination(sized("waits", 1), minors=[0])
    taken = claim("other", grants=(device("gpu", 0, {names.GPU_MEMORY_RATIO: 1}),), is_bound=True)
    for seen in (offering, offering if offered else None):
        assert shortage(decision, [], NODE, seen) == ""
        assert (
            shortage(decision, [taken], NODE, seen) == f"node n: Insufficient {names.GPU_MEMORY_RATIO} on gpu minor 0"
        )


def test_what_a_device_does_not_report_is_left_to_others() -> None:
    offering = Device(name="n", uid="d", version=1, devices=[DeviceInfo(kind="gpu", minor=0, amounts={"x": 1})])
    taken = claim("other", grants=(device("gpu", 0, {names.GPU_CORE: 100}),), is_bound=True)
    assert shortage(nomination(sized("waits", 1), minors=[0]), [taken], NODE, offering) == ""


def test_a_host_port_that_somebody_else_has_is_taken() -> None:
    decision = nomination(sized("waits", 1), host_ports=["0.0.0.0/TCP/80"])
    assert shortage(decision, [claim("other", ports=("0.0.0.0/UDP/80",))], NODE, None) == ""
    assert shortage(decision, [claim("other", ports=("10.0.0.1/TCP/80",))], NODE, None) == (
        "node n: host port TCP 80 is taken"
    )
