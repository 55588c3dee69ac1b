"""Words for refusals: made after the round, once for all who are alike, and the same as ever."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.question import WhyQuestion
from berth.placement_solver.core import explain
from berth.placement_solver.explaining import TOLD_MAX
from berth.placement_solver.why import answer
from berth.testing.builders import pod


@pytest.fixture
def bench(solving: type[Any]) -> SolverBench:
    run = solving()
    run.node("n0", cpu=4000)
    return SolverBench(run)


def count_words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    nowhere = explain.nowhere

    def counted(candidate: Any, *others: Any) -> Any:
        made.append(candidate.name[1])
        return nowhere(candidate, *others)

    monkeypatch.setattr(explain, "nowhere", counted)
    return made


async def test_a_round_makes_no_words_and_those_who_are_alike_share_theirs(
    bench: SolverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_words(monkeypatch)
    bench.run.pods(pod(f"p{number}").requests(cpu=9000) for number in range(TOLD_MAX + 20))
    while await bench.rounds.round():
        pass
    assert made == []
    assert not bench.commands.messages
    looks = 1
    while await bench.rounds.explain():
        looks += 1
    assert looks == 2
    assert len(made) == 1, "nothing has changed between the looks"
    assert len(bench.commands.refusals()) == TOLD_MAX + 20
    assert all("1 Insufficient cpu" in text for text in bench.commands.refusals().values())


async def test_who_is_asked_about_is_told_first(bench: SolverBench) -> None:
    bench.run.pods(pod(f"p{number}").requests(cpu=9000 + number) for number in range(5))
    while await bench.rounds.round():
        pass
    before = answer(bench.run.cluster, WhyQuestion(namespace="default", name="p3"))
    assert before.reasons == [explain.BEING_TOLD]
    await bench.rounds.explaining.tell_of(("default", "p3"))
    assert list(bench.commands.refusals()) == ["p3"]
    (reason,) = answer(bench.run.cluster, WhyQuestion(namespace="default", name="p3")).reasons
    assert reason.message == "Insufficient cpu"


async def test_what_a_node_takes_by_now_is_tried_again_and_told_nothing(bench: SolverBench) -> None:
    bench.run.pod(pod("p").requests(cpu=9000))
    await bench.rounds.round()
    bench.run.node("n1", cpu=9000)
    assert not await bench.rounds.explain()
    assert not bench.commands.messages
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed() == {"p": "n1"}


async def test_until_it_is_told_whatever_may_help_wakes_it(bench: SolverBench) -> None:
    """Nobody knows yet which constraints keep it waiting."""
    bench.run.pod(pod("p").requests(cpu=9000))
    await bench.rounds.round()
    bench.run.node("n1", cpu=9000)
    bench.clock.time += 20
    while await bench.rounds.round():
        pass
    assert bench.placed() == {"p": "n1"}


async def test_a_gang_is_told_as_a_whole(bench: SolverBench) -> None:
    bench.run.pods(pod(f"g{number}").requests(cpu=3000).gang("g", 3) for number in range(3))
    await bench.until_idle()
    told = bench.commands.refusals()
    assert len(told) == 3
    assert all("capacity for 1 of 3 members" in text and "Insufficient cpu" in text for text in told.values())


async def test_a_gang_is_told_anew_when_the_network_that_it_asks_for_is_known(bench: SolverBench) -> None:
    asked = '{"gatherStrategy": [{"layer": "Rack", "strategy": "MustGather"}]}'
    members = (pod(f"g{number}").requests(cpu=1000).gang("g", 2) for number in range(2))
    bench.run.pods(each.annotation(names.ANNOTATION_GANG_TOPOLOGY, asked) for each in members)
    await bench.until_idle()
    assert all("no cluster network topology" in text for text in bench.commands.refusals().values())
    bench.run.network("Spine")
    bench.clock.time += 20
    await bench.until_idle()
    told = bench.commands.refusals()
    assert len(told) == 2
    assert all("gatherStrategy[0].layer" in text for text in told.values())


async def test_who_leaves_a_node_that_is_too_small_wakes_nobody(bench: SolverBench) -> None:
    bench.run.pods([pod("small").requests(cpu=1000).on("n0"), pod("other").requests(cpu=3000).on("n0")])
    bench.run.pods([pod("huge").requests(cpu=9000), pod("fitting").requests(cpu=3000)])
    await bench.until_idle()
    before = {name[1]: each.tries for name, each in bench.run.cluster.queue.waiting.items()}
    bench.run.delete_pod("small")
    bench.clock.time += 20
    await bench.until_idle()
    after = {name[1]: each.tries for name, each in bench.run.cluster.queue.waiting.items()}
    assert (after["huge"], after["fitting"]) == (before["huge"], before["fitting"] + 1)


async def test_who_would_give_way_by_the_rules_is_named_where_nobody_is_made_to(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    bench = SolverBench(run, preempts=False)
    run.complete()
    run.pods([pod("low").requests(cpu=4000).on("n0"), pod("p").requests(cpu=4000).template(priority=100)])
    await bench.until_idle()
    explanation = answer(run.cluster, WhyQuestion(namespace="default", name="p")).explanation
    assert explanation is not None
    assert [(each.kinds, each.pods) for each in explanation.repairs] == [
        (["evict"], ["default/low"]),
        (["free"], ["default/low"]),
        (["add"], []),
    ]


async def test_since_when_and_behind_whom_it_waits(bench: SolverBench) -> None:
    bench.rounds.tell_time()
    bench.run.pods(pod(name).requests(cpu=9000) for name in ("first", "second"))
    await bench.until_idle()
    found = [answer(bench.run.cluster, WhyQuestion(namespace="default", name=name)) for name in ("first", "second")]
    assert [each.before for each in found] == [0, 1]
    assert all(each.waiting_since_ms for each in found)
