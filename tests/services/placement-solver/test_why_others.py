"""What people are told of gangs, quotas, nodes and Reservations."""

from __future__ import annotations

import pytest

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import LabelSelector, ReservationOwner, Taint
from berth.contracts.question import WhyAnswer, WhyQuestion
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.why import answer
from berth.testing.builders import pod


@pytest.fixture
def run(solving):
    run = solving()
    run.node("n0", cpu=4000)
    return run


def ask(run, kind: str, name: str, namespace: str = "") -> WhyAnswer:
    return answer(run.cluster, WhyQuestion(kind=kind, namespace=namespace, name=name))


@pytest.mark.parametrize("kind", ["gang", "quota", "node", "pod"])
def test_what_is_not_there_is_unknown(run, kind: str) -> None:
    assert ask(run, kind, "nothing").outcome == "unknown"


def test_a_gang_from_its_first_member_to_its_bind(run) -> None:
    run.pod_group("g", 2)
    members = [pod(f"m{index}").requests(cpu=1000).gang("g") for index in range(2)]
    run.pod(members[0])
    waiting = ask(run, "gang", "g", "default")
    assert (waiting.outcome, waiting.pods) == ("waiting", {"default/m0": "waiting"})
    assert "has 1 of 2 members" in waiting.reasons[0].message
    run.pod(members[1])
    run.round()
    assert ask(run, "gang", "g", "default").outcome == "decided"
    for member in members:
        run.bind(member)
    bound = ask(run, "gang", "g", "default")
    assert (bound.outcome, bound.facts["bound"], bound.reasons) == ("bound", "2", [])


def test_a_gang_that_finds_no_place_says_why(run) -> None:
    run.pod_group("g", 2)
    run.pods(pod(f"m{index}").requests(cpu=3000).gang("g") for index in range(2))
    run.round()
    refused = ask(run, "gang", "g", "default")
    assert refused.outcome == "refused"
    assert refused.reasons


def test_a_quota_with_its_use_and_who_waits_for_it(run) -> None:
    run.quota("ml", limits=["cpu"], max={"cpu": 2000}, runtime={"cpu": 1500}, min={"cpu": 1000}, request={"cpu": 2000})
    first = pod("first").requests(cpu=1000).quota("ml")
    run.pods([first, pod("second").requests(cpu=1000).quota("ml")])
    run.round()
    told = ask(run, "quota", "ml")
    assert told.outcome == "known"
    assert told.facts["cpu"] == "1 used of runtime 1500m, min 1, max 2, asked for 2"
    assert list(told.pods) in (["default/first"], ["default/second"])
    assert "exceeds its runtime" in next(iter(told.pods.values()))


def test_a_node_with_its_holders(run) -> None:
    builder = pod("p").requests(cpu=1000)
    run.pod(builder)
    run.round()
    run.bind(builder)
    told = ask(run, "node", "n0")
    assert (told.outcome, told.facts["ready"], told.facts["cpu"]) == ("known", "yes", "3 free of 4")
    assert told.pods == {"default/p": "bound, cpu 1"}
    assert names.GPU_CORE not in told.facts


def reserve(run, name: str = "r", cpu: int = 3000, **fields) -> Reservation:
    amounts, owners = {"cpu": cpu}, [ReservationOwner(label_selector=LabelSelector(match_labels={"own": name}))]
    seen = Reservation(
        name=name,
        uid=f"uid-{name}",
        version=1,
        template=PodTemplate(requests=amounts, priority=100),
        phase="Available",
        node="n0",
        allocatable=amounts,
        owners=owners,
        annotations=fields.pop("annotations", {}),
    )
    about = {"name": name, "uid": f"uid-{name}", "revision": 1, "phase": "Available", "node": "n0", "usable": True}
    given = {"amounts": amounts, "owners": owners, "allocate_once": False, "priority": 100, **fields}
    run.reservation(seen, ReservedCapacity(**{**about, **given}))
    return seen


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"taints": [Taint(key="k", effect="NoSchedule")]}, "taint: has one"),
        ({"unschedulable": True}, "unschedulable: takes no new users"),
        ({"allocate_policy": "Restricted"}, "remainder (Restricted): Insufficient cpu"),
        ({"cpu": 1000, "allocate_policy": "Aligned"}, "node: Insufficient cpu by node"),
        ({"usable": False, "phase": "Succeeded", "allocate_once": True}, "state: Succeeded, has its user"),
    ],
)
def test_a_pod_that_waits_is_told_at_which_step_each_reservation_fails(run, fields, said: str) -> None:
    reserve(run, **fields)
    reserve(run, "anothers", 500)
    run.pod(pod("p").requests(cpu=5000).label("own", "r"))
    run.round()
    told = ask(run, "pod", "p", "default")
    assert told.outcome == "refused"
    assert list(told.facts) == ["reservation/r"]
    assert told.facts["reservation/r"].startswith(said)


def test_a_pod_is_told_who_holds_the_loan(run) -> None:
    reserve(run, cpu=4000, allocate_policy="Restricted")
    run.pod(lodger := pod("lodger").requests(cpu=3000).label(names.LABEL_RESERVATION_IGNORED, "true"))
    run.round()
    run.bind(lodger)
    assert ask(run, "pod", "lodger", "default").facts == {"borrows of": "r: cpu 3"}
    run.pod(pod("p").requests(cpu=4000).label("own", "r"))
    run.round()
    told = ask(run, "pod", "p", "default")
    assert told.facts["reservation/r"].endswith("; lent to default/lodger")


def test_a_reservation_with_all_who_have_to_do_with_it(run) -> None:
    note = '{"schedule":"nightly","uid":"u","start":"2026-01-01T00:00:00Z","end":"2026-01-01T02:00:00Z"}'
    reserve(run, cpu=4000, allocate_policy="Restricted", annotations={names.ANNOTATION_WINDOW: note})
    run.pod(user := pod("user").requests(cpu=1000).label("own", "r"))
    run.pod(lodger := pod("lodger").requests(cpu=2000).label(names.LABEL_RESERVATION_IGNORED, "true"))
    run.round()
    run.bind(user)
    run.bind(lodger)
    run.pod(pod("late").requests(cpu=4000).label("own", "r"))
    run.round()
    told = ask(run, "pod", "r")
    assert told.pods == {"default/lodger": "borrows cpu 2", "default/user": "uses cpu 1", "default/late": "waits"}
    assert told.facts == {
        "state": "Available",
        "holds": "cpu 4",
        "in use": "cpu 1",
        "left": "cpu 1",
        "lent to": "1 borrower",
        "waiting": "1",
        "window": "2026-01-01T00:00:00Z to 2026-01-01T02:00:00Z, of schedule nightly",
        "costs": "cpu 8 hours",
    }
    listed = ask(run, "reservations", "")
    assert listed.pods == {"r": "Available on n0, cpu 1 of 4, 1 user, 1 borrower"}


def test_a_bound_pod_is_told_of_the_reservation_that_took_it_over(run) -> None:
    """Its own decision was made before and names none."""
    seen = reserve(run, cpu=2000)
    note = f'{{"name":"{seen.name}","uid":"{seen.uid}"}}'
    taken = pod("p").requests(cpu=1000).label("own", "r").annotation(names.ANNOTATION_RESERVATION_ALLOCATED, note)
    run.pod(taken.on("n0"))
    told = ask(run, "pod", "p", "default")
    assert (told.outcome, told.reservation) == ("bound", "r")


def test_what_is_wrong_with_a_reservation_is_told_with_it_and_in_the_list(run) -> None:
    """Also what only its manager says, such as that it does not grow."""
    problem = Problem(field="metadata.annotations[x]", message="is more than it holds")
    reserve(run, problems=[problem])
    assert ask(run, "pod", "r").problems == [problem]
    listed = ask(run, "reservations", "")
    assert listed.pods == {"r": "Available on n0, cpu 0 of 3, 0 users, metadata.annotations[x]: is more than it holds"}
    assert listed.message == "1 Reservation"


def test_a_pod_that_waits_is_told_who_will_pay(run) -> None:
    run.quota("team", max={"cpu": 1000}, runtime={"cpu": 0})
    run.pod(pod("p").label(names.LABEL_QUOTA_NAME, "team"))
    assert ask(run, "pod", "p", "default").quota == "/team"
