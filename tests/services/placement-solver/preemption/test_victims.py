"""Who leaves for whom, and who does not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench
from tests.services.worlds.solver.preempting import held, is_nominated, low, sized

from berth.contracts import names, subjects
from berth.contracts.kube import LabelSelector
from berth.contracts.state import PodDisruptionBudget, Synced
from berth.placement_solver.core.queue import FLUSH_S
from berth.placement_solver.settings import Settings
from berth.rules.eviction_notes import REFUSED_FOR_S, refusal_note
from berth.rules.preemption import PATIENCE_S
from berth.rules.times import text_of
from berth.runtime.settings import load_settings
from berth.testing.builders import gpu_grant, gpu_slots, pod
from berth.testing.feed import FOLLOWED


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


async def test_two_high_pods_get_victims_of_their_own(run: Any, bench: SolverBench) -> None:
    run.pods([sized("a", 2, 0).on("n0"), sized("b", 2, 0).on("n0")])
    run.pods([sized("first", 2, 9), sized("second", 2, 9), sized("third", 2, 9)])
    await bench.until_idle()
    chosen = [each.name for name in ("first", "second") for each in held(run, name).victims]
    assert sorted(set(chosen)) == ["a", "b"]
    assert "third" not in bench.placed()


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
