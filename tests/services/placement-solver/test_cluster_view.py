"""Messages in, units out: who waits, with whom, and when a gang may be tried."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision, Epoch, Plan, PlanStatus
from berth.contracts.quota import QuotaRules
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.core.constraints import node_name
from berth.placement_solver.core.shards import owner
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.testing.builders import gpu_slots, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n1", cpu=10_000)
    return made


def unit_ids(run: Any) -> list[str]:
    units, _ = run.cluster.batch(100)
    return [unit.id for unit in units]


def held_back(run: Any) -> list[str]:
    _, held = run.cluster.batch(100)
    return [reason.message for _, reason in held]


# --- who waits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "builder",
    [
        pod("p").template(scheduler="default-scheduler"),
        pod("p").on("n1"),
        pod("p").set(phase="Succeeded"),
        pod("p").set(phase="Failed"),
        pod("p").set(deleting=True),
        pod("p").template(gates=["example.org/wait"]),
    ],
)
def test_pods_that_do_not_wait(run: Any, builder: Any) -> None:
    run.pod(builder)
    assert unit_ids(run) == []


def test_a_pod_waits_from_its_last_gate_on(run: Any) -> None:
    run.pod(pod("p").template(gates=["example.org/wait"]))
    run.pod(pod("p"))
    assert unit_ids(run) == ["uid-default-p"]


def test_a_decided_pod_does_not_wait_until_its_attempt_is_raised(run: Any) -> None:
    run.pod(pod("p"))
    run.round()
    assert unit_ids(run) == []
    run.pod(pod("p"))  # seen again, still unbound
    assert unit_ids(run) == []
    run.pod(pod("p").set(attempt=1))
    assert unit_ids(run) == ["uid-default-p"]


def test_a_successor_waits_only_once_its_predecessor_is_known_to_be_gone(run: Any) -> None:
    run.pod(pod("p"))
    run.round()
    run.delete_pod("p")
    run.pod(pod("p").set(uid="second"))
    assert unit_ids(run) == ["second"]


def test_the_same_without_proof(run: Any) -> None:
    run.pod(pod("p"))
    run.round()
    run.cluster.book.complete["pods"].reset()
    run.pod(pod("p").set(uid="second"))
    assert unit_ids(run) == []
    run.complete()
    assert unit_ids(run) == ["second"]


def test_a_new_epoch_makes_undecided_what_was_decided(run: Any) -> None:
    run.pod(pod("p"))
    run.round()
    run.epoch(2)
    assert unit_ids(run) == ["uid-default-p"]


def test_a_ledger_that_starts_over_makes_waiting_what_it_held(run: Any) -> None:
    run.pod(pod("p"))
    run.round()
    run.cluster.reset_ledger()
    assert unit_ids(run) == ["uid-default-p"]
    run.cluster.read_ledger(subjects.EPOCH_KEY, encode(Epoch(epoch=1)), False, 1)
    for message in run.ledger.messages[1:]:
        run.cluster.read_ledger(*message)
    assert unit_ids(run) == []


def test_state_that_starts_over_shows_nothing_and_gives_nothing_away(run: Any) -> None:
    run.devices("n1", gpu_slots(1))
    run.pod(pod("p").gpus(1))
    run.round()
    before = run.cluster.nodes.free[0, 0]
    run.cluster.reset_state()
    assert len(run.cluster.queue) == 0
    assert not run.cluster.nodes.alive.any()
    run.node("n1", cpu=10_000)
    run.complete()
    assert run.cluster.nodes.free[0, 0] == before
    run.pod(pod("q").gpus(1))
    assert run.nodes_of(run.round()) == {"q": "n1"}  # p is known to be gone: the new view does not show it


def test_a_decision_on_an_unread_pod_holds_its_capacity_after_a_reset(run: Any) -> None:
    run.devices("n1", gpu_slots(1))
    run.pod(pod("p").gpus(1))
    run.round()
    run.cluster.reset_state()
    run.node("n1", cpu=10_000)
    run.pod(pod("q").gpus(1))
    assert run.nodes_of(run.round()) == {}


def test_a_malformed_message_is_broken_and_changes_nothing(run: Any) -> None:
    for key in ("pod.default.p", "node.n1", "podgroup.default.g", "reservation.r"):
        with pytest.raises(InvalidMessage):
            run.cluster.read_state(key, b"{", deleted=False, gap=False, trace=None)
    with pytest.raises((InvalidMessage, ValueError)):
        run.cluster.read_state("pod.only-one-part", b"{}", deleted=False, gap=False, trace=None)
    run.pod(pod("p"))
    assert run.nodes_of(run.round()) == {"p": "n1"}


# --- gangs --------------------------------------------------------------------------------------------------------


def members(count: int, minimum: int, gang: str = "g", **settings: str) -> list[Any]:
    return [pod(f"{gang}-{index}").requests(cpu=1000).gang(gang, minimum, **settings) for index in range(count)]


def test_a_gang_waits_for_its_members_and_then_is_one_unit(run: Any) -> None:
    run.pods(members(2, 3))
    assert held_back(run) == ["gang default/g has 2 of 3 members"] * 2
    run.pod(pod("g-2").requests(cpu=1000).gang("g", 3))
    units, held = run.cluster.batch(100)
    assert [(unit.id, len(unit.candidates), unit.needed) for unit in units] == [("default/g", 3, {"default/g": 3})]
    assert held == []


def test_a_strict_gang_is_placed_whole_or_not_at_all(run: Any) -> None:
    run.pods(members(11, 11))
    solution = run.round()
    assert solution.placements == ()
    assert len(solution.refusals) == 11
    assert "capacity for 10 of 11 members" in solution.refusals[0].reasons[0].message
    assert run.cluster.nodes.free[0, 0] == 10_000


def test_beyond_its_minimum_a_gang_takes_what_fits(run: Any) -> None:
    run.pods(members(12, 4))
    solution = run.round()
    assert len(solution.placements) == 10
    assert {placement.gang.size for placement in solution.placements} == {10}


def test_members_by_pod_group_wait_for_the_object(run: Any) -> None:
    run.pods(pod(f"m-{index}").gang("g") for index in range(2))
    assert held_back(run) == ["gang default/g has no PodGroup yet"] * 2
    run.cluster.queue.hold(run.cluster.queue.waiting["default", "m-0"], (), 0.0)
    run.pod_group("g", 2)
    units, _ = run.cluster.batch(100)
    assert [len(unit.candidates) for unit in units] == [2]


def test_a_gang_that_is_decided_is_about_to_begin_and_then_lets_members_in_one_by_one(run: Any) -> None:
    builders = members(2, 2)
    run.pods(builders)
    run.round()
    run.pod(pod("g-9").requests(cpu=1000).gang("g", 2))
    assert held_back(run) == ["gang default/g is about to begin"]
    run.bind(builders[0])
    assert unit_ids(run) == ["uid-default-g-9"]


def test_only_waiting_needs_a_whole_gang_each_time(run: Any) -> None:
    builders = members(2, 2, match_policy="only-waiting")
    run.pods(builders)
    run.round()
    for builder in builders:
        run.bind(builder)
    late = pod("g-9").requests(cpu=1000).gang("g", 2, match_policy="only-waiting")
    run.pod(late)
    solution = run.round()
    assert solution.placements == ()


def test_waiting_and_running_counts_those_that_run(run: Any) -> None:
    builders = members(2, 2, match_policy="waiting-and-running")
    run.pods(builders)
    run.round()
    for builder in builders:
        run.bind(builder)
    run.pod(pod("g-9").requests(cpu=1000).gang("g", 2, match_policy="waiting-and-running"))
    assert run.nodes_of(run.round()) == {"g-9": "n1"}


def test_gangs_of_a_group_begin_together(run: Any) -> None:
    both = '["default/a","default/b"]'
    run.pods(members(2, 2, "a", groups=both))
    assert (
        held_back(run)
        == ["metadata.annotations[gang.scheduling.koordinator.sh/groups]: gang default/b of the group is not there"] * 2
    )
    run.pods(members(9, 9, "b", groups=both))
    solution = run.round()  # 11 cores are needed, 10 are there
    assert solution.placements == ()
    run.node("n2", cpu=1000)
    run.cluster.now = 100.0
    assert len(run.round().placements) == 11


def test_a_gang_missing_from_its_own_list_is_placed_alone(run: Any) -> None:
    run.pods(members(1, 1, "b"))
    run.pods(members(2, 2, "a", groups='["default/b"]'))
    assert len(run.round().placements) == 3
    assert len(run.cluster.queue) == 0


def test_an_unusable_minimum_is_said(run: Any) -> None:
    run.pod(pod("p").annotation(names.ANNOTATION_GANG_NAME, "g").annotation(names.ANNOTATION_GANG_MIN, "many"))
    (message,) = held_back(run)
    assert names.ANNOTATION_GANG_MIN in message


def test_a_gang_whose_members_are_gone_is_forgotten(run: Any) -> None:
    run.pods(members(1, 2))
    run.delete_pod("g-0")
    assert run.cluster.gangs.gangs == {}


# --- decisions that may go ----------------------------------------------------------------------------------------


def write(run: Any, key: str, value: bytes | None) -> None:
    run.ledger.append(key, value)
    run.deliver()


def abort(run: Any) -> None:
    write(run, subjects.plan_key(1, "plan-1"), encode(Plan(id="plan-1", status=PlanStatus.ABORTED, decisions=1)))


def decide_ahead(run: Any) -> None:
    """Another solver, whose view is ahead of ours, decides for the pod that we saw first."""
    ahead = run.version + 2
    decision = Decision(
        plan="plan-9",
        namespace="default",
        name="p",
        uid="uid-default-p",
        attempt=0,
        node="n1",
        pod_version=ahead,
        basis=0,
    )
    write(run, subjects.decision_key(1, "default", "p"), encode(decision))


def read_ledger_again(run: Any) -> None:
    run.cluster.reset_ledger()
    for message in run.ledger.messages:
        run.cluster.read_ledger(*message)


STEPS = {
    "seen": lambda run: run.pod(pod("p")),
    "another seen": lambda run: run.pod(pod("another")),
    "ended": lambda run: run.pod(pod("p").set(phase="Failed")),
    "tried again": lambda run: run.pod(pod("p").set(attempt=1)),
    "replaced": lambda run: run.pod(pod("p").set(uid="second")),
    "gone": lambda run: run.delete_pod("p"),
    "decided": lambda run: run.round(),
    "decided ahead": decide_ahead,
    "aborted": abort,
    "deleted": lambda run: write(run, subjects.decision_key(1, "default", "p"), None),
    "new epoch": lambda run: run.epoch(run.cluster.book.ledger.epoch.epoch + 1),
    "STATE anew": lambda run: run.cluster.reset_state(),
    "LEDGER anew": read_ledger_again,
    "complete": lambda run: run.complete(),
}


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=8))
@example(steps=["gone", "decided ahead", "another seen", "another seen"])
@example(steps=["decided ahead", "STATE anew", "complete", "another seen"])
def test_every_settled_decision_is_loose_and_none_that_its_pod_holds(solving: Any, steps: list[str]) -> None:
    run = solving()
    run.node("n1")
    run.pod(pod("p"))
    run.round()
    book = run.cluster.book
    for step in steps:
        STEPS[step](run)
        settled, unseen = set(), set()
        for name, held in book.ledger.decisions.items():
            seen = book.seen(name)
            if book.is_settled(held.decision):
                settled.add(name)
            if seen is None or seen.uid != held.decision.uid:
                unseen.add(name)
        assert settled <= run.cluster.loose <= settled | unseen


# --- several solvers ----------------------------------------------------------------------------------------------


def test_each_solver_takes_its_own_part_and_gangs_are_not_torn(run: Any) -> None:
    run.pods(pod(f"p{index}") for index in range(20))
    run.pods(members(4, 4))
    run.cluster.resharded(("s1", "s2"))
    mine = set(unit_ids(run))
    expected = {f"uid-default-p{index}" for index in range(20)} | {"default/g"}
    assert mine == {unit for unit in expected if owner(unit, ("s1", "s2")) == "s1"}
    assert 0 < len(mine) < len(expected)
    run.cluster.resharded(("s1",))
    assert set(unit_ids(run)) >= expected - mine


# --- reservations as objects ---------------------------------------------------------------------------------------


def reservation(name: str = "r", **fields: Any) -> Reservation:
    return Reservation(
        name=name, uid=f"uid-{name}", version=0, template=PodTemplate(requests={names.CPU: 4000}), **fields
    )


def test_a_reservation_is_placed_like_a_pod_and_holds_its_capacity(run: Any) -> None:
    run.reservation(reservation())
    assert run.nodes_of(run.round()) == {"r": "n1"}
    assert run.cluster.nodes.free[0, 0] == 6000
    run.pod(pod("p").requests(cpu=7000))
    assert run.nodes_of(run.round()) == {}


def test_a_reservation_for_one_node_goes_there_or_is_told_why(run: Any) -> None:
    run.node("n2", cpu=3000)
    run.reservation(reservation("there", required_node="n1"))
    run.reservation(reservation("full", required_node="n2"))
    run.reservation(reservation("nowhere", required_node="n3"))
    solution = run.round()
    assert run.nodes_of(solution) == {"there": "n1"}
    told = {refusal.candidate.name[1]: {each.message for each in refusal.reasons} for refusal in solution.refusals}
    assert told == {"full": {"Insufficient cpu", node_name.REASON}, "nowhere": {"node n3 does not exist"}}


@pytest.mark.parametrize("quota_first", [True, False])
def test_pods_bound_by_others_are_charged_to_the_group_that_their_label_names(run: Any, quota_first: bool) -> None:
    limits = {"limits": ["cpu"], "max": {"cpu": 8000}, "runtime": {"cpu": 8000}}
    bound = pod("theirs").template(scheduler="default-scheduler").requests(cpu=5000).quota("team").on("n1")
    if quota_first:
        run.quota("team", **limits)
    run.pod(bound)
    if not quota_first:
        run.quota("team", **limits)
    run.cluster.payers.settle(run.cluster.book)
    assert run.cluster.quotas.used(("", "team")) == {"cpu": 5000}
    run.delete_pod("theirs")
    assert run.cluster.quotas.used(("", "team")).get("cpu", 0) == 0


def bound_under(run: Any, quota: str, **fields: Any) -> None:
    template = pod("p").annotation(names.ANNOTATION_QUOTA, quota).template(**fields)
    run.pod(template.requests(cpu=5000).quota("label").on("n1"))


def used(run: Any, name: str, tree: str = "") -> int:
    run.cluster.payers.settle(run.cluster.book)
    return int(run.cluster.quotas.used((tree, name)).get("cpu", 0))


def test_who_paid_at_the_bind_pays_while_the_group_exists_and_after_a_move_too(run: Any) -> None:
    limits = {"limits": ["cpu"], "max": {"cpu": 8000}, "runtime": {"cpu": 8000}}
    run.quota("above", **limits)
    run.quota("label", **limits)
    run.quota("team", ancestors=["above"], **limits)
    bound_under(run, "/team")
    assert (used(run, "team"), used(run, "above"), used(run, "label")) == (5000, 5000, 0)
    run.quota("team", **limits)
    assert (used(run, "team"), used(run, "above")) == (5000, 0), "it has moved, and takes its pods along"
    run.quota("team", tree="pool", **limits)
    run.cluster.quotas.see("", "team", None)
    assert (used(run, "team", "pool"), used(run, "team")) == (5000, 0), "into another tree as well"
    run.cluster.quotas.see("pool", "team", None)
    assert (used(run, "team", "pool"), used(run, "label")) == (0, 5000), "it is gone: the label says who pays"
    run.delete_pod("p")
    assert used(run, "label") == 0


def test_switches_of_quota_manager_change_what_is_charged_and_never_what_nodes_have(run: Any) -> None:
    limits = {"limits": ["cpu"], "max": {"cpu": 8000}, "runtime": {"cpu": 8000}}
    run.node("n1", cpu=8000)
    run.quota("team", **limits)
    run.quota(DEFAULT_GROUP)
    bound_under(run, "/team", overhead={"cpu": 1000})
    free = run.cluster.nodes.free.copy()
    assert used(run, "team") == 5000
    run.quota(DEFAULT_GROUP, rules=QuotaRules(ignores_overhead=True))
    assert used(run, "team") == 4000
    assert (run.cluster.nodes.free == free).all()
