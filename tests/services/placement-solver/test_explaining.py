"""Words for refusals: made after the round, once for all who are alike, and the same as ever."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

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
    assert len(made) == looks == 2
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
