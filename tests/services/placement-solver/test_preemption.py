"""Preemption in the rounds: who is nominated, whom that keeps away, and when the pod gets what it was nominated to."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench
from tests.services.worlds.solver.nominating import nominate

from berth.contracts import names, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.command import RefusePod
from berth.contracts.event import PlacementNominated
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import AccountStamp, Decision
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod, PodDisruptionBudget, Reservation, Synced
from berth.placement_solver import metrics
from berth.placement_solver.core.queue import FLUSH_S
from berth.placement_solver.event_publisher import REPEAT_FIRST_S
from berth.placement_solver.settings import Settings
from berth.rules.eviction_notes import (
    REFUSED_FOR_S,
    Mark,
    Nominated,
    let_go_note,
    mark_note,
    nomination_note,
    refusal_note,
)
from berth.rules.preemption import PATIENCE_S
from berth.rules.times import text_of
from berth.runtime.settings import load_settings
from berth.testing.builders import PodBuilder, gpu_grant, gpu_slots, pod
from berth.testing.feed import FOLLOWED


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=4000)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def sized(name: str, cpu: int, priority: int, **fields: Any) -> PodBuilder:
    return pod(name).requests(cpu=cpu * 1000).template(priority=priority).set(**fields)


def low(**fields: Any) -> PodBuilder:
    return sized("low", 4, 0, **fields).on("n0")


def held(run: Any, name: str) -> Decision:
    found: Decision = run.cluster.book.ledger.decisions["default", name].decision
    return found


def is_nominated(run: Any, name: str) -> bool:
    entry = run.cluster.book.ledger.decisions.get(("default", name))
    return entry is not None and entry.decision.nominates


def refused(bench: SolverBench) -> list[RefusePod]:
    return [decode(payload, RefusePod) for subject, payload in bench.commands.messages if ".cmd.refuse." in subject]


def free_cpu(run: Any, node: str = "n0") -> int:
    nodes = run.cluster.nodes
    return int(nodes.free[nodes.column(names.CPU), nodes.rows[node]])


def noted(builder: PodBuilder, run: Any) -> PodBuilder:
    """As cluster-writer patches a beneficiary (E3)."""
    decision = held(run, builder.build(0).name)
    for key, value in nomination_note(Nominated(decision.plan, decision.node)).items():
        builder.annotation(key, value)
    return builder.set(nominated=decision.node)


def marked(builder: PodBuilder, run: Any, name: str) -> PodBuilder:
    decision = held(run, name)
    for key, value in mark_note(Mark(decision.plan, f"default/{name}", decision.uid)).items():
        builder.annotation(key, value)
    return builder


async def test_a_higher_pod_is_nominated_and_placed_when_its_victims_have_left(run: Any, bench: SolverBench) -> None:
    victim = run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    decision = held(run, "high")
    assert decision.nominates
    assert decision.node == "n0"
    assert [(each.name, each.uid, each.version) for each in decision.victims] == [("low", victim.uid, victim.version)]
    assert subjects.node_account("n0") in decision.accounts
    (told,) = [decode(data, PlacementNominated) for subject, data in bench.events.messages if ".nominated." in subject]
    assert (told.name, told.node, [each.name for each in told.victims]) == ("high", "n0", ["low"])
    assert "high" not in bench.commands.refusals()
    assert not [subject for subject, _ in bench.events.messages if ".unschedulable." in subject]

    run.pod(noted(sized("high", 4, 9), run))
    run.pod(marked(low(), run, "high"))
    await bench.until_idle()
    assert is_nominated(run, "high")
    run.pod(marked(low(deleting=True), run, "high"))
    await bench.until_idle()
    assert is_nominated(run, "high"), "nothing is free yet"
    run.delete_pod("low")
    bench.clock.time += 20
    await bench.until_idle()
    assert not is_nominated(run, "high")
    assert bench.placed() == {"high": "n0"}
    assert free_cpu(run) == 0
    assert not run.cluster.capacity.nominated


def test_it_is_on_unless_it_is_switched_off() -> None:
    assert Settings().preemption
    assert not load_settings(Settings, {"BERTH_PREEMPTION": "false"}).preemption


async def test_without_the_setting_nobody_leaves(run: Any) -> None:
    bench = SolverBench(run)
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert bench.placed() == {}
    assert "preemption" not in bench.commands.refusals()["high"]


async def test_a_refusal_says_why_nobody_leaves(run: Any, bench: SolverBench) -> None:
    run.pod(low())
    run.pod(sized("equal", 4, 0))
    await bench.until_idle()
    assert bench.placed() == {}
    assert bench.commands.refusals()["equal"].startswith(
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )


async def test_a_pod_that_may_not_preempt_waits(run: Any, bench: SolverBench) -> None:
    run.pod(low())
    run.pod(sized("high", 4, 9).template(priority=9, preemption_policy="Never"))
    await bench.until_idle()
    assert bench.placed() == {}
    assert "preemption: not eligible due to preemptionPolicy=Never." in bench.commands.refusals()["high"]


FOREIGN_GANGS = {
    "annotations": lambda made: made.gang("g", 2),
    "a PodGroup that says nothing": lambda made: made.gang("grouped"),
    "a label alone": lambda made: made.gang("unknown"),
    "the older label": lambda made: made.label(names.LABEL_POD_GROUP_OLD_NAME, "unknown"),
}


@pytest.mark.parametrize("says", FOREIGN_GANGS)
async def test_members_of_strict_gangs_of_another_scheduler_stay(run: Any, bench: SolverBench, says: str) -> None:
    run.pod_group("grouped", 2)
    run.pod(FOREIGN_GANGS[says](low().template(scheduler="other")))
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert bench.placed() == {}
    assert "1 No preemption victims found for incoming pod" in bench.commands.refusals()["high"]


LOOSE_GANGS = {
    "annotations": lambda made: made.gang("g", 2, mode="NonStrict"),
    "a PodGroup": lambda made: made.gang("loose"),
}


@pytest.mark.parametrize("says", LOOSE_GANGS)
async def test_members_of_other_gangs_of_another_scheduler_leave(run: Any, bench: SolverBench, says: str) -> None:
    run.pod_group("loose", 2, annotations={names.ANNOTATION_GANG_MODE: "NonStrict"})
    run.pod(LOOSE_GANGS[says](low().template(scheduler="other")))
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["low"]


async def test_who_a_budget_protects_stays_if_another_node_will_do(run: Any, bench: SolverBench) -> None:
    run.node("n1", cpu=4000)
    run.pod(low().label("app", "db"))
    run.pod(sized("other", 4, 5).on("n1"))
    budget = PodDisruptionBudget(
        namespace="default", name="b", version=1, selector=LabelSelector(match_labels={"app": "db"})
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["other"]


async def test_a_budget_is_no_veto_where_nobody_else_can_leave(run: Any, bench: SolverBench) -> None:
    run.pod(low().label("app", "db"))
    budget = PodDisruptionBudget(
        namespace="default", name="b", version=1, selector=LabelSelector(match_labels={"app": "db"})
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["low"]


def shop_budget(run: Any, allowed: int) -> None:
    """A budget of those labelled app=db."""
    run.version += 1
    selector = LabelSelector(match_labels={"app": "db"})
    budget = PodDisruptionBudget(
        namespace="default", name="b.c", version=run.version, selector=selector, disruptions_allowed=allowed
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b.c"), budget)


def protected_and_plain(run: Any) -> None:
    """Two pods of one budget on nodes of their own, each dearer than the one before, and a still dearer one."""
    for name in ("n1", "n2"):
        run.node(name, cpu=4000)
    for at in (0, 1):
        run.pod(sized(f"db-{at}", 4, at).label("app", "db").on(f"n{at}"))
    run.pod(sized("plain", 4, 5).on("n2"))


@pytest.mark.parametrize(("allowed", "chosen"), [(1, ["db", "plain"]), (2, ["db", "db"])])
async def test_two_of_one_round_do_not_spend_one_disruption(
    run: Any, bench: SolverBench, allowed: int, chosen: list[str]
) -> None:
    protected_and_plain(run)
    shop_budget(run, allowed)
    run.pods([sized("first", 4, 9), sized("second", 4, 9)])
    await bench.until_idle()
    victims = [each.name.split("-")[0] for name in ("first", "second") for each in held(run, name).victims]
    assert sorted(victims) == chosen


async def test_two_solvers_do_not_spend_one_disruption(run: Any, bench: SolverBench) -> None:
    """They share no node, but the account of the budget."""
    protected_and_plain(run)
    shop_budget(run, 1)
    run.pods([sized("rival", 4, 9).template(gates=["wait"]), sized("high", 4, 9)])

    def another() -> None:
        decision = nominate(run, "rival", "n1", 4, [run.cluster.book.pods["default", "db-1"]])
        account = subjects.account_key(1, subjects.budget_account("default", "b.c"))
        run.ledger.append(account, encode(AccountStamp(plan=decision.plan)))
        run.deliver()

    bench.ledger.before_commit.append(another)
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["plain"]
    assert subjects.budget_account("default", "b.c") not in held(run, "high").accounts


async def test_a_nomination_stamps_the_budgets_of_its_victims_until_they_are_gone(run: Any, bench: SolverBench) -> None:
    run.pod(low().label("app", "db"))
    shop_budget(run, 1)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    account = subjects.budget_account("default", "b.c")
    assert account in held(run, "high").accounts
    assert account in run.cluster.book.ledger.stamps
    await bench.rounds.tidy()
    assert account in run.cluster.book.ledger.stamps
    run.delete(subjects.namespaced_key("poddisruptionbudget", "default", "b.c"))
    await bench.rounds.tidy()
    assert account not in run.cluster.book.ledger.stamps


async def test_a_budget_that_is_gone_protects_nobody(run: Any, bench: SolverBench) -> None:
    run.node("n1", cpu=4000)
    run.pod(low().label("app", "db"))
    run.pod(sized("other", 4, 5).on("n1"))
    key = subjects.namespaced_key("poddisruptionbudget", "default", "b")
    selector = LabelSelector(match_labels={"app": "db"})
    run.state(key, PodDisruptionBudget(namespace="default", name="b", version=1, selector=selector))
    run.delete(key)
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["low"]


@pytest.mark.parametrize("late", ["nodes", "devices", "poddisruptionbudgets", "podgroups"])
async def test_nobody_is_chosen_before_all_that_speaks_for_others_is_read(
    run: Any, bench: SolverBench, late: str
) -> None:
    """A budget, node or PodGroup that is read later would have said otherwise."""
    run.cluster.reset_state()
    for kind in FOLLOWED:
        if kind != late:
            run.state(subjects.synced_key(kind), Synced(kind=kind, version=run.version, complete=True))
    run.cluster.end_of_state()
    for name in ("n0", "n1"):
        run.node(name, cpu=4000)
    run.pods([low().label("app", "db"), sized("other", 4, 5).on("n1"), sized("high", 4, 9)])
    await bench.until_idle()
    assert bench.placed() == {}
    assert f"preemption: {late} have not been read to their end" in bench.commands.refusals()["high"]

    selector = LabelSelector(match_labels={"app": "db"})
    budget = PodDisruptionBudget(namespace="default", name="b", version=run.version, selector=selector)
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.state(subjects.synced_key(late), Synced(kind=late, version=run.version, complete=True))
    run.cluster.end_of_state()
    bench.clock.time += 20
    await bench.until_idle()
    assert [each.name for each in held(run, "high").victims] == ["other"]


async def test_devices_of_the_victims_are_what_the_pod_is_nominated_to(run: Any, bench: SolverBench) -> None:
    run.devices("n0", gpu_slots(2))
    run.pods(
        [
            pod("one").gpus(1).template(priority=3).on("n0", [gpu_grant(0)]),
            pod("two").gpus(1).template(priority=2).on("n0", [gpu_grant(1)]),
        ]
    )
    run.pod(pod("high").gpus(1).template(priority=9))
    await bench.until_idle()
    decision = held(run, "high")
    assert [each.name for each in decision.victims] == ["two"]
    assert [each.minor for each in decision.allocation.devices] == [1]
    run.delete_pod("two")
    bench.clock.time += 20
    await bench.until_idle()
    assert not is_nominated(run, "high")
    assert [each.minor for each in held(run, "high").allocation.devices] == [1]


async def test_equal_and_lower_pods_do_not_take_what_was_freed(run: Any, bench: SolverBench) -> None:
    """E2. The beneficiary is held back by a gate of its own, so that the others are tried first."""
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    run.pod(noted(sized("high", 4, 9), run).template(gates=["wait"]))
    run.delete_pod("low")
    run.pods([sized("equal", 4, 9), sized("lower", 1, 3)])
    bench.clock.time += 20
    await bench.until_idle()
    assert is_nominated(run, "high")
    assert set(bench.placed()) == {"high"}


async def test_a_higher_pod_takes_it_by_displacing_the_nomination(run: Any, bench: SolverBench) -> None:
    """E2: both in one batch; the victims are its own from then on."""
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    run.pod(noted(sized("high", 4, 9), run).template(gates=["wait"]))
    run.pod(sized("top", 4, 20))
    await bench.until_idle()
    assert bench.placed() == {"top": "n0"}, "high has given way in the same batch"
    assert is_nominated(run, "top")
    assert [each.name for each in held(run, "top").victims] == ["low"]
    run.delete_pod("low")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"top": "n0"}
    assert not is_nominated(run, "top")


async def test_a_higher_pod_takes_at_once_what_others_have_left_already(run: Any, bench: SolverBench) -> None:
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    run.pod(noted(sized("high", 4, 9), run).template(gates=["wait"]))
    run.delete_pod("low")
    run.pod(sized("top", 4, 20))
    await bench.until_idle()
    assert bench.placed() == {"top": "n0"}
    assert not is_nominated(run, "top")


async def test_a_nomination_that_state_alone_shows_holds_against_equals_and_not_against_higher_pods(
    run: Any, bench: SolverBench
) -> None:
    """E3, after a loss of LEDGER."""
    waits = sized("high", 4, 9).set(nominated="n0").template(gates=["wait"], priority=9)
    for key, value in nomination_note(Nominated("p", "n0")).items():
        waits.annotation(key, value)
    run.pod(waits)
    run.pod(sized("equal", 4, 9))
    await bench.until_idle()
    assert bench.placed() == {}
    run.pod(sized("top", 4, 20))
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"top": "n0"}


async def test_what_state_alone_shows_and_the_pod_could_not_have_holds_nothing(run: Any, bench: SolverBench) -> None:
    run.pod(sized("top", 2, 20).on("n0"))
    waits = sized("high", 4, 9).set(nominated="n0")
    for key, value in nomination_note(Nominated("p", "n0")).items():
        waits.annotation(key, value)
    run.pod(waits)
    run.pod(sized("small", 2, 0))
    await bench.until_idle()
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"small": "n0"}


async def test_what_state_alone_shows_and_the_pod_could_not_have_is_let_go_for_other_solvers_too(
    run: Any, bench: SolverBench
) -> None:
    """They keep what they read in STATE: only the solver of the pod knows that it could not have it."""
    run.pod(sized("top", 2, 20).on("n0"))
    waits = sized("high", 4, 9).set(nominated="n0")
    run.pod(waits)
    await bench.until_idle()
    for key, value in nomination_note(Nominated("p", "n0")).items():
        waits.annotation(key, value)
    run.pod(waits.set(unschedulable=bench.commands.refusals()["high"]))
    bench.commands.messages.clear()
    bench.clock.time += FLUSH_S
    await bench.until_idle()
    assert [each.lets_go for each in refused(bench)] == ["p"], "the refusal itself is shown already"
    bench.commands.messages.clear()
    bench.clock.time += REPEAT_FIRST_S
    await bench.until_idle()
    await bench.rounds.tidy()
    assert [each.lets_go for each in refused(bench)] == ["p"], "that was lost"
    run.pod(waits.set(nominated=""))
    bench.commands.messages.clear()
    for _ in range(4):
        bench.clock.time += FLUSH_S
        await bench.until_idle()
        await bench.rounds.tidy()
    assert refused(bench) == []


async def test_a_victim_that_does_not_end_frees_its_beneficiary_for_another_node(run: Any, bench: SolverBench) -> None:
    """E7, as cluster-writer lets go: the attempt is raised, the plan listed."""
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    plan = held(run, "high").plan
    run.pod(marked(low(deleting=True), run, "high"))
    await bench.until_idle()
    run.node("n1", cpu=4000)
    run.pod(sized("other", 4, 0).on("n1"))
    bench.clock.time += 20
    await bench.until_idle()
    assert held(run, "high").plan == plan, "one set of victims (E6)"
    waits = sized("high", 4, 9, attempt=1)
    for key, value in let_go_note({}, plan).items():
        waits.annotation(key, value)
    run.pod(waits)
    await bench.until_idle()
    decision = held(run, "high")
    assert (decision.nominates, decision.attempt) == (True, 1)
    assert decision.plan != plan


async def test_a_beneficiary_that_is_deleted_gives_back_what_it_was_nominated_to(run: Any, bench: SolverBench) -> None:
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    run.delete_pod("high")
    run.complete()
    assert not run.cluster.capacity.nominated
    run.delete_pod("low")
    run.pod(sized("later", 4, 0))
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed()["later"] == "n0"


async def test_it_goes_elsewhere_once_its_victims_leave(run: Any, bench: SolverBench) -> None:
    """E1: not before, since others are being deleted for it."""
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    run.node("n1", cpu=4000)
    bench.clock.time += 20
    await bench.until_idle()
    assert is_nominated(run, "high")
    run.pod(low(deleting=True))
    await bench.until_idle()
    assert bench.placed() == {"high": "n1"}
    assert free_cpu(run) == 0, "low is still there"


async def test_two_high_pods_get_victims_of_their_own(run: Any, bench: SolverBench) -> None:
    run.pods([sized("a", 2, 0).on("n0"), sized("b", 2, 0).on("n0")])
    run.pods([sized("first", 2, 9), sized("second", 2, 9), sized("third", 2, 9)])
    await bench.until_idle()
    chosen = [each.name for name in ("first", "second") for each in held(run, name).victims]
    assert sorted(set(chosen)) == ["a", "b"]
    assert "third" not in bench.placed()


async def test_a_nomination_that_another_solver_was_faster_with_is_made_anew(run: Any, bench: SolverBench) -> None:
    run.pods([low(), sized("rival", 4, 9)])
    victim: Pod = run.cluster.book.pods["default", "low"]
    run.pod(sized("high", 4, 9))

    def another() -> None:
        decision = nominate(run, "rival", "n0", 4, [victim])
        run.ledger.append(
            subjects.account_key(1, subjects.node_account("n0")), encode(AccountStamp(plan=decision.plan))
        )
        run.deliver()

    bench.ledger.before_commit.append(another)
    await bench.until_idle()
    assert [name for name in ("rival", "high") if is_nominated(run, name)] == ["rival"]
    assert bench.placed() == {"rival": "n0"}


async def test_a_nomination_uses_up_the_quota_for_those_refused_beside_it(run: Any, bench: SolverBench) -> None:
    run.node("n1", cpu=4000)
    run.quota("team", max={names.CPU: 6000})
    for number in range(2):
        run.pod(sized(f"low-{number}", 4, 0).on(f"n{number}"))
        run.pod(sized(f"high-{number}", 4, 9).quota("team"))
    rejected = metrics.REJECTED_PLANS._value.get()
    await bench.until_idle()
    assert [is_nominated(run, f"high-{number}") for number in range(2)] == [True, False]
    assert metrics.REJECTED_PLANS._value.get() == rejected, "the solver itself knows it"


async def test_a_victim_that_ends_by_itself_once_it_is_marked_has_left(run: Any, bench: SolverBench) -> None:
    run.pod(low())
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    run.pod(noted(sized("high", 4, 9), run))
    run.pod(marked(low(), run, "high").set(phase="Succeeded"))
    await bench.until_idle()
    assert not held(run, "high").nominates
    assert held(run, "high").node == "n0"


# --- what a nominated pod is to those who come to its node -----------------------------------------------------------


async def nominated_with(run: Any, bench: SolverBench, waits: PodBuilder) -> None:
    """`high` is nominated to n0 with 3 of 4 cores, which `low` has left by now; its gate holds it back."""
    run.pod(low())
    run.pod(waits)
    await bench.until_idle()
    assert is_nominated(run, "high")
    run.pod(noted(waits, run).template(gates=["wait"]))
    run.delete_pod("low")
    bench.clock.time += 20


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "zone"])
@pytest.mark.parametrize("has_terms", [False, True])
async def test_its_anti_affinity_keeps_equals_away_from_its_node(
    run: Any, bench: SolverBench, key: str, has_terms: bool
) -> None:
    for name in ("n0", "n1"):
        run.node(name, cpu=4000, labels={"kubernetes.io/hostname": name, "zone": "a"})
    run.pod(sized("full", 4, 30).on("n1"))
    await nominated_with(run, bench, sized("high", 3, 9).apart(key, {"app": "x"}))
    comes = sized("comes", 1, 9).label("app", "x")
    run.pod(comes.apart("zone", {"app": "other"}) if has_terms else comes)
    run.pod(sized("plain", 1, 9))
    await bench.until_idle()
    assert "comes" not in bench.placed()
    assert bench.placed()["plain"] == "n0"
    # As in kube-scheduler, only its own node is judged with it there.
    run.delete_pod("full")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed()["comes"] == "n1"


async def test_its_anti_affinity_keeps_no_higher_pod_away(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000, labels={"kubernetes.io/hostname": "n0"})
    await nominated_with(run, bench, sized("high", 3, 9).apart("kubernetes.io/hostname", {"app": "x"}))
    run.pod(sized("comes", 1, 10).label("app", "x"))
    await bench.until_idle()
    assert bench.placed()["comes"] == "n0"


async def test_who_wants_to_be_apart_from_it_does_not_come_to_its_node(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000, labels={"kubernetes.io/hostname": "n0"})
    await nominated_with(run, bench, sized("high", 3, 9).label("app", "x"))
    run.pod(sized("comes", 1, 9).apart("kubernetes.io/hostname", {"app": "x"}))
    await bench.until_idle()
    assert "comes" not in bench.placed()


async def test_it_is_no_company_before_it_is_there(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000, labels={"zone": "a"})
    await nominated_with(run, bench, sized("high", 3, 9).label("app", "x"))
    run.pod(sized("comes", 1, 9).near("zone", {"app": "x"}))
    await bench.until_idle()
    assert "comes" not in bench.placed()


async def test_it_is_counted_on_its_node_by_whoever_is_spread(run: Any, bench: SolverBench) -> None:
    for name, zone in (("n0", "a"), ("n1", "b")):
        run.node(name, cpu=4000, labels={"zone": zone})
    run.pod(sized("full", 4, 30).on("n1"))
    await nominated_with(run, bench, sized("high", 3, 9).label("app", "x"))
    run.pod(sized("comes", 1, 9).label("app", "x").spread("zone", {"app": "x"}))
    await bench.until_idle()
    assert "comes" not in bench.placed()


async def test_a_nomination_that_state_alone_shows_keeps_away_as_well(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000, labels={"zone": "a"})
    waits = sized("high", 3, 9).apart("zone", {"app": "x"}).set(nominated="n0").template(gates=["wait"])
    for key, value in nomination_note(Nominated("p", "n0")).items():
        waits.annotation(key, value)
    run.pod(waits)
    run.pod(sized("comes", 1, 9).label("app", "x"))
    await bench.until_idle()
    assert bench.placed() == {}


async def test_it_keeps_users_of_a_reservation_away_as_well(run: Any, bench: SolverBench) -> None:
    run.node("n0", cpu=4000, labels={"zone": "a"})
    amounts, owners = {names.CPU: 1000}, [ReservationOwner(label_selector=LabelSelector(match_labels={"app": "x"}))]
    about: dict[str, Any] = {"name": "hold", "uid": "hold-uid", "node": "n0", "phase": "Available", "owners": owners}
    run.reservation(
        Reservation(version=1, allocatable=amounts, **about),
        ReservedCapacity(revision=1, usable=True, amounts=amounts, **about),
    )
    waits = sized("high", 3, 9).apart("zone", {"app": "x"}).set(nominated="n0").template(gates=["wait"])
    for key, value in nomination_note(Nominated("p", "n0")).items():
        waits.annotation(key, value)
    run.pod(waits)
    run.pod(sized("comes", 1, 9).label("app", "x"))
    await bench.until_idle()
    assert bench.placed() == {}
    run.delete_pod("high")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"comes": "n0"}


async def test_whom_the_api_server_did_not_let_go_is_not_chosen_again_for_a_while(run: Any, bench: SolverBench) -> None:
    victim = run.pod(low())
    for key, value in refusal_note({}, [victim.uid], bench.clock.now()).items():
        run.pod(sized("high", 4, 9).annotation(key, value))
    await bench.until_idle()
    assert not is_nominated(run, "high")
    bench.clock.time += max(REFUSED_FOR_S, FLUSH_S) + 1
    await bench.until_idle()
    assert is_nominated(run, "high")


async def test_who_should_have_left_long_before_is_not_chosen_again(run: Any, bench: SolverBench) -> None:
    ends_at_s = bench.clock.now() - PATIENCE_S
    run.pod(low(deleting=True, deletes_at=text_of(ends_at_s)))
    run.pod(sized("high", 4, 9))
    await bench.until_idle()
    assert not is_nominated(run, "high")
    run.node("n1", cpu=4000)
    run.pod(sized("other", 4, 1).on("n1"))
    bench.clock.time += FLUSH_S + 1
    await bench.until_idle()
    assert is_nominated(run, "high")
    assert [each.name for each in held(run, "high").victims] == ["other"]
