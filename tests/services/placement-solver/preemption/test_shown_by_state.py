"""A nomination that STATE alone shows, which LEDGER does not hold any more."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.solver.bench import SolverBench
from tests.services.worlds.solver.preempting import refused, sized

from berth.placement_solver.core.queue import FLUSH_S
from berth.placement_solver.event_publisher import REPEAT_FIRST_S
from berth.rules.eviction_notes import Nominated, nomination_note


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
