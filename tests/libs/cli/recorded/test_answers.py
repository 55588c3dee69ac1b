"""Plans that go by the optimiser's answer, and those that others make while it thinks, made again."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest
from tests.services.worlds.solver.recorded import RecordedRun
from tests.simulation.optimiser import ChanceOptimiser

from berth.cli.recorded.auditing import Verdict
from berth.contracts import buckets
from berth.contracts.codec import decode
from berth.contracts.ledger import Plan
from berth.contracts.round import Answer as Told
from berth.contracts.round import Round
from berth.placement_solver import consulting
from berth.placement_solver.core.joint.leaving import LeavingProblem
from berth.placement_solver.optimiser import Answer
from berth.placement_solver.origins import answers
from berth.placement_solver.origins.answers import advice_in, answer_of, kept_in, kept_of, nodes_in
from berth.testing.builders import gpu_slots, pod


class Scripted:
    """A `JointSolver` that answers when it is let, by a function of the problem."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.trouble = ""
        self.open = asyncio.Event()
        self.asked = 0

    def warm_up(self) -> None:
        pass

    async def solve(self, problem: Any) -> Answer | None:
        self.asked += 1
        await self.open.wait()
        return self.answer(problem)

    async def stop(self) -> None:
        pass


def rounds_of(run: RecordedRun) -> list[Round]:
    """What every plan says it was made from."""
    values = [value for key, value, deleted, _ in run.ledger.messages if ".plan." in key and not deleted]
    return [plan.round for plan in (decode(value, Plan) for value in values) if plan.round is not None]


def others(found: list[Verdict]) -> list[Verdict]:
    return [each for each in found if each.outcome != "same"]


def gang_first(problem: Any) -> Answer:
    """All of the gang on the only node, and nothing else."""
    return Answer([[count if gang >= 0 else 0] for count, gang in zip(problem.counts, problem.gang, strict=True)])


def contended(run: RecordedRun) -> None:
    """Two single pods take what a gang of four needs whole."""
    run.node("n0", cpu=4000)
    run.devices("n0", gpu_slots(4))
    run.pods(pod(name).share(60).requests(cpu=100) for name in ("a", "b"))
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))


async def asked(run: RecordedRun, optimiser: Scripted) -> None:
    await run.bench.rounds.round()
    await asyncio.sleep(0)
    assert optimiser.asked == 1


async def answered(run: RecordedRun, optimiser: Scripted) -> None:
    optimiser.open.set()
    for _ in range(3):
        await asyncio.sleep(0)
    await run.bench.until_idle()


async def test_a_plan_of_the_optimiser_comes_out_the_same() -> None:
    optimiser = Scripted(gang_first)
    run = RecordedRun(optimiser)
    contended(run)
    await asked(run, optimiser)
    await answered(run, optimiser)
    assert sorted(run.bench.placed()) == ["g0", "g1", "g2", "g3"]
    assert [each.answer for each in rounds_of(run)] == [
        Told(places={"n0": ["default/g0", "default/g1", "default/g2", "default/g3"]})
    ]
    assert [each.outcome for each in run.audited()] == ["same"]


async def test_a_member_that_comes_while_it_thinks_was_not_tried() -> None:
    optimiser = Scripted(gang_first)
    run = RecordedRun(optimiser)
    contended(run)
    run.devices("n0", gpu_slots(5))
    run.pod(pod("c").share(60).requests(cpu=100))
    run.pods(pod(f"g{index}").share(60).requests(cpu=100).gang("g", 4) for index in range(4))
    await asked(run, optimiser)
    run.pod(pod("g9").share(60).requests(cpu=100).gang("g", 4))
    await answered(run, optimiser)
    first = next(each for each in rounds_of(run) if each.answer is not None)
    assert first.late == ["default/g9"]
    assert others(run.audited()) == []


async def test_what_others_get_while_it_thinks_comes_out_the_same() -> None:
    """What is kept for the batch keeps them off it; nothing is kept any more for one that has a node."""
    optimiser = Scripted(lambda _: None)
    run = RecordedRun(optimiser)
    contended(run)
    await asked(run, optimiser)
    run.node("n1", cpu=4000)
    run.devices("n1", gpu_slots(2))
    run.pod(pod("other").share(60).requests(cpu=100))
    await run.bench.rounds.round()
    run.pod(pod("b").share(60).requests(cpu=100).on("n0"))
    run.pod(pod("third").share(60).requests(cpu=100))
    await run.bench.rounds.round()
    told = rounds_of(run)
    assert [len(each.kept) for each in told] == [2, 1]
    assert told[0].told is not None
    assert told[0].told.kept
    assert told[1].told is None, "it is told once"
    await answered(run, optimiser)
    assert not rounds_of(run)[-1].kept
    found = run.audited()
    assert len(found) >= 3
    assert others(found) == []


async def test_an_advice_comes_out_the_same() -> None:
    def second(problem: Any) -> Answer | None:
        """The two dearest leave."""
        if not isinstance(problem, LeavingProblem):
            return None
        nodes = len(problem.free)
        units = sorted(range(len(problem.price)), key=lambda at: problem.price[at])[:2]
        taken = {problem.pod_node[problem.pod_unit.index(unit)] for unit in units}
        return Answer([[int(at in taken) for at in range(nodes)]], units=units)

    optimiser = Scripted(second)
    run = RecordedRun(optimiser)
    for at in range(4):
        run.node(f"n{at}", cpu=4000)
        run.pod(pod(f"low-{at}").requests(cpu=4000).template(priority=1 + at).on(f"n{at}"))
    for at in range(2):
        run.pod(pod(f"job-{at}").requests(cpu=4000).template(priority=9).gang("job", 2))
    await asked(run, optimiser)
    await answered(run, optimiser)
    (said,) = rounds_of(run)
    assert said.kind == "preemption"
    assert said.answer is not None
    assert len(said.answer.leave) == 2
    assert [each.outcome for each in run.audited()] == ["same"]


class Steps:
    """Time that goes by with what happens."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def come(run: RecordedRun, rng: random.Random, name: str) -> list[str]:
    """Single pods, and a gang for which they leave too little."""
    size = rng.randint(4, 7)
    single = [f"a-{name}-{at}" for at in range(rng.randint(5, 9))]
    gang = [f"{name}-g{at}" for at in range(size)]
    for each in single:
        run.pod(pod(each).requests(cpu=rng.choice((100, 900))).share(60))
    for each in gang:
        run.pod(pod(each).requests(cpu=100).share(60).gang(name, size - rng.randrange(2)))
    return single + gang


@pytest.mark.parametrize("seed", range(2))
async def test_hundreds_of_decisions_beside_an_optimiser_come_out_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(consulting, "worth", lambda _: next(numbers))  # whatever the optimiser says is taken
    rng = random.Random(seed)
    run = RecordedRun(ChanceOptimiser(Steps(), random.Random(seed)))
    run.bench.rounds._consulting.pricing = None  # or the optimiser is asked for prices most of the time
    for at in range(3):
        run.node(f"n{at}", cpu=8000)
        run.devices(f"n{at}", gpu_slots(4))
    here: list[str] = []
    for turn in range(20):
        here += come(run, rng, f"p{turn}")
        await run.bench.rounds.round()
        run.pod(pod(f"late-{turn}").requests(cpu=100).share(30))
        here.append(f"late-{turn}")
        for each in (buckets.STATE, buckets.LEDGER):
            run.relay.end(each)
        for _ in range(4):
            await run.bench.until_idle()
            await asyncio.sleep(0)
        while len(here) > 8:
            run.delete_pod(here.pop(rng.randrange(len(here))))
        run.bench.clock.time += 0.5
        run.relay.now_s = run.bench.clock.time
    found, told = run.audited(), rounds_of(run)
    assert others(found) == []
    assert any(each.answer is not None and each.kind == "batch" for each in told)
    assert any(each.kept for each in told)


async def test_more_than_a_plan_tells_is_not_replayable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_BYTES_MAX", 10)
    optimiser = Scripted(gang_first)
    run = RecordedRun(optimiser)
    contended(run)
    await asked(run, optimiser)
    await answered(run, optimiser)
    (said,) = rounds_of(run)
    assert said.answer is None
    (verdict,) = run.audited()
    assert verdict.outcome == "not replayable"
    assert "larger than a plan can tell" in verdict.about[0]


def test_words_and_back() -> None:
    nodes = {("ns", "a"): "n1", ("ns", "b"): "n2", ("", "r"): "n1"}
    told = answer_of(nodes, {"u2", "u1"})
    assert nodes_in(told) == nodes
    assert advice_in(told).victims == {"u1", "u2"}
    assert kept_in("") == []
    assert kept_in(kept_of([]).text) == []
    with pytest.raises(ValueError, match="packed"):
        kept_in("?")
