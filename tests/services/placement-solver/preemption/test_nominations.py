"""What a nomination holds and against whom, until its pod is placed or goes elsewhere."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.solver.bench import SolverBench
from tests.services.worlds.solver.nominating import nominate
from tests.services.worlds.solver.preempting import free_cpu, held, is_nominated, low, marked, noted, sized

from berth.contracts import names, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.event import PlacementNominated
from berth.contracts.ledger import AccountStamp
from berth.contracts.state import Pod
from berth.placement_solver import metrics
from berth.rules.eviction_notes import let_go_note


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
