"""The optimiser: what it wins on a contended batch, and what happens when its child is late, broken or gone."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.batches import packed
from tests.services.worlds.solver.improved import improved

from berth.contracts import names
from berth.contracts.kube import Taint
from berth.placement_solver.core.bounds.problem import Bound, BoundProblem
from berth.placement_solver.core.joint import model
from berth.placement_solver.core.joint.contention import is_contended, worth
from berth.placement_solver.core.joint.expand import CROWDED_OUT, joint_solution, wanted_of
from berth.placement_solver.core.joint.problem import JointProblem, build_problem
from berth.placement_solver.core.plan import Solution
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.optimiser import Optimiser
from berth.testing.builders import GI, gpu_slots, node_topology, pod

READY = """
import struct, sys
def say(data):
    sys.stdout.buffer.write(struct.pack("!I", len(data)) + data)
    sys.stdout.buffer.flush()
say(bytes.fromhex("83a6636f756e7473c0a5776f727468cb0000000000000000a3676170cbbff0000000000000"))
def hear():
    return sys.stdin.buffer.read(struct.unpack("!I", sys.stdin.buffer.read(4))[0])
"""


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", READY + code)


def problem(time_limit_s: float = 5.0, **fields) -> JointProblem:
    """Two nodes of one core, a gang of two and a single pod, one core each."""
    known = {
        "counts": [2, 1],
        "level": [0, 0],
        "placed": [0],
        "needs": [[1], [1]],
        "free": [[1, 1]],
        "cards": [0, 0],
        "share": [0, 0],
        "percent": [],
        "most": [[1, 1], [1, 1]],
        "cost": [[0.0, 0.0], [0.0, 0.0]],
        "gang": [0, -1],
        "minimum": [2],
        "group": [0],
        "limits": [],
        "charges": [],
        "time_limit_s": time_limit_s,
    }
    return JointProblem(**(known | fields))


async def ready(optimiser: Optimiser) -> None:
    optimiser.warm_up()
    async with asyncio.timeout(60):
        while not optimiser.is_ready:
            await asyncio.sleep(0.01)


@pytest.fixture
async def optimisers():
    made = []

    async def make(code: str | None = None) -> Optimiser:
        made.append(Optimiser() if code is None else Optimiser(child(code)))
        await ready(made[-1])
        return made[-1]

    yield make
    for optimiser in made:
        await optimiser.stop()


async def test_a_real_child_answers_and_goes_on_answering(optimisers):
    optimiser = await optimisers()
    for _ in range(2):
        answer = await optimiser.solve(problem())
        assert answer is not None
        assert sum(map(sum, answer.counts)) == 2
        assert answer.gap >= 0
    bound = await optimiser.solve(one_of_two())
    assert bound is not None
    assert bound.bound == Bound([1], "linear")


def one_of_two() -> BoundProblem:
    """Two pods, and a node for one of them."""
    return BoundProblem(
        counts=[2],
        level=[0],
        placed=[1],
        needs=[[1]],
        cards=[0],
        share=[0],
        alone=[False],
        spared=[False],
        suits=[0],
        masks=[b"\x80"],
        nodes=1,
        free=[(1).to_bytes(8, "little")],
        kept=[],
        percent=b"",
        kept_percent=b"",
        uncounted=[],
        gang=[-1],
        minimum=[],
        group=[],
        limits=[],
        charges=[],
    )


async def test_questions_wait_for_each_other(optimisers):
    say = "hear(); time.sleep(0.1); say(bytes.fromhex('81a6636f756e7473919101')); "
    optimiser = await optimisers(f"import time; {say}{say.replace('9101', '9102')}")
    answers = await asyncio.gather(optimiser.solve(problem()), optimiser.solve(problem()))
    assert [each and each.counts for each in answers] == [[[1]], [[2]]]


async def test_a_child_that_is_killed_costs_an_answer_and_is_replaced(optimisers):
    optimiser = await optimisers("hear(); import time; time.sleep(60)")
    task = asyncio.create_task(optimiser.solve(problem()))
    await asyncio.sleep(0.1)
    optimiser._child.kill()
    assert await asyncio.wait_for(task, 10) is None
    assert not optimiser.is_ready
    assert await optimiser.solve(problem()) is None, "it starts in the background; nobody waits for it"
    await ready(optimiser)


async def test_a_child_that_is_late_is_killed(optimisers, monkeypatch):
    monkeypatch.setattr("berth.placement_solver.optimiser.GRACE_S", 0.1)
    optimiser = await optimisers("hear(); import time; time.sleep(60)")
    late = optimiser._child
    started = time.monotonic()
    assert await optimiser.solve(problem(time_limit_s=0.1)) is None
    assert time.monotonic() - started < 10
    assert late.returncode is not None


@pytest.mark.parametrize(
    "code",
    [
        "hear(); say(b'nonsense')",
        "hear(); sys.stdout.buffer.write(struct.pack('!I', 1 << 31)); sys.stdout.buffer.flush(); hear()",
        "hear(); say(bytes.fromhex('81a6636f756e7473a3666f6f'))",
        "hear(); sys.exit(3)",
    ],
    ids=["no message", "too long", "another shape", "gone"],
)
async def test_nonsense_is_no_answer(optimisers, code):
    optimiser = await optimisers(code)
    assert await optimiser.solve(problem()) is None


async def test_one_that_does_not_start_is_no_answer():
    for command in (("/nowhere/python",), (sys.executable, "-c", "pass")):
        optimiser = Optimiser(command)
        optimiser.warm_up()
        await asyncio.wait([optimiser._starting])
        assert not optimiser.is_ready
        assert await optimiser.solve(problem()) is None
        await optimiser.stop()


async def test_an_answer_to_a_question_that_was_given_up_is_not_taken_for_the_next(optimisers):
    optimiser = await optimisers("hear(); import time; time.sleep(60)")
    task = asyncio.create_task(optimiser.solve(problem()))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(10):
        await optimiser._child.wait()
    assert not optimiser.is_ready


# --- the model ---


def test_a_gang_is_placed_whole_or_not_at_all():
    found = model.solve(problem(level=[1, 0], placed=[0, 0], most=[[1, 1], [1, 0]]))
    assert found.counts == [[0, 0], [1, 0]], "the single pod has the higher priority, so none of the gang"
    found = model.solve(problem())
    assert found.counts == [[1, 1], [0, 0]]


def test_gangs_of_a_group_begin_together():
    two = {"counts": [1, 1], "gang": [0, 1], "minimum": [1, 1], "group": [0, 0]}
    assert model.solve(problem(**two)).counts in ([[1, 0], [0, 1]], [[0, 1], [1, 0]])
    assert model.solve(problem(**two, most=[[1, 1], [0, 0]])) is None


def test_a_plan_that_is_as_good_as_any_has_no_better_one():
    assert model.solve(problem(placed=[2])) is None
    assert model.solve(problem(placed=[1])).counts == [[1, 1], [0, 0]]


def test_the_cheapest_of_equal_plans_is_taken():
    for dear in (0, 1):
        cost = [[0.0, 0.0], [float(dear == 0), float(dear == 1)]]
        counts = model.solve(problem(most=[[0, 0], [1, 1]], cost=cost)).counts
        assert counts == [[0, 0], [int(dear == 1), int(dear == 0)]]


def test_cards_and_quotas_bound_it():
    whole = problem(cards=[1, 1], share=[100, 100], percent=[[100, 40], [60, 0]], gang=[-1, -1], minimum=[], group=[])
    assert sum(map(sum, model.solve(whole).counts)) == 1
    limited = problem(limits=[1000], charges=[[600, 500]], gang=[-1, -1], minimum=[], group=[])
    assert sum(map(sum, model.solve(limited).counts)) == 1


def test_shares_are_counted_by_card():
    """Two cards have room for two shares of 60 percent, whatever the sum says; and one of them for a share of 40."""
    found = model.solve(
        problem(
            counts=[3, 3],
            needs=[[0], [0]],
            free=[[0, 0]],
            cards=[1, 1],
            share=[60, 40],
            percent=[[100, 0], [70, 0]],
            most=[[3, 0], [3, 0]],
            gang=[-1, -1],
            minimum=[],
            group=[],
        )
    )
    assert sum(map(sum, found.counts)) == 3


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans()), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
)
def test_whatever_it_finds_holds(items, nodes):
    """Capacity of every node, all or nothing of every gang; a gang's minimum is all of it."""
    counts = [count for count, _, _ in items]
    gangs = [index for index, (_, _, is_gang) in enumerate(items) if is_gang]
    found = model.solve(
        problem(
            counts=counts,
            level=[0] * len(items),
            needs=[[size] for _, size, _ in items],
            free=[list(nodes)],
            cards=[0] * len(items),
            share=[0] * len(items),
            most=[[count] * len(nodes) for count in counts],
            cost=[[0.0] * len(nodes) for _ in counts],
            gang=[gangs.index(index) if is_gang else -1 for index, (_, _, is_gang) in enumerate(items)],
            minimum=[counts[index] for index in gangs],
            group=list(range(len(gangs))),
        )
    )
    if found is None:
        return
    for column, capacity in enumerate(nodes):
        assert sum(row[column] * size for row, (_, size, _) in zip(found.counts, items, strict=True)) <= capacity
    for row, (count, _, is_gang) in zip(found.counts, items, strict=True):
        assert sum(row) in ({0, count} if is_gang else range(count + 1))


# --- what it is for ---


def contended(solving):
    """A pod of one node's size comes first and, by greed, takes the only node on which two members fit together."""
    run = solving()
    run.node("big", cpu=4000)
    run.node("small", cpu=1000)
    run.pod(pod("first").requests(cpu=1000))
    run.pods(pod(f"m{index}").requests(cpu=2000).gang("g", 2) for index in range(2))
    return run


def joint(run, counted, meanwhile=lambda: None):
    """The plan of a result that places so many of each item on each node, and what it does by node; items by first
    member. `meanwhile` happens while the optimiser thinks."""
    cluster = run.cluster
    units, _ = cluster.batch(100)
    units.sort(key=lambda unit: bool(unit.needed))
    trial = Trial(cluster.capacity)
    greedy = cluster.solver.solve(units, trial, "greedy")
    trial.undo()
    written = build_problem(
        units, greedy, cluster.nodes, cluster.solver.costs, cluster.solver.picker, cluster.quotas, 5.0
    )
    assert written is not None
    layout = written[1]
    counts = [[counted.get(each[0].name[1], {}).get(name, 0) for name in layout.nodes] for each in layout.items]
    meanwhile()
    found = joint_solution(wanted_of(counts, layout), units, greedy, cluster.solver, trial, "better")
    assert run.verifier.check([placement.claim for placement in found.placements]) == []
    return found, {p.candidate.name[1]: p.claim.node for p in found.placements}


def told(solution):
    return {refusal.candidate.name[1]: [reason.code for reason in refusal.reasons] for refusal in solution.refusals}


def test_capacity_that_a_result_leaves_is_given_to_whoever_fits(solving):
    run = contended(solving)
    run.pod(pod("second").requests(cpu=1000))
    # The gang alone: a result may be cut short by its budget of time.
    found, placed = joint(run, {"m0": {"big": 2}})
    assert placed == {"m0": "big", "m1": "big", "first": "small"}
    assert [(each.candidate.name[1], each.reasons) for each in found.refusals] == [("second", (CROWDED_OUT,))]


def test_a_node_that_takes_the_row_of_one_that_is_gone_is_given_nothing_that_was_meant_for_that(solving):
    run = contended(solving)

    def meanwhile():
        run.delete("node.big")
        run.node("another", cpu=1000, taints=[Taint(key="slow", effect="PreferNoSchedule")])

    rows = dict(run.cluster.nodes.rows)
    _, placed = joint(run, {"first": {"big": 1}}, meanwhile)
    assert run.cluster.nodes.rows == {"another": rows["big"], "small": rows["small"]}
    assert placed == {"first": "small"}, "placed for itself, by least cost, and not where the result says"


def test_members_that_a_gang_begins_without_are_placed_beside_it(solving):
    run = contended(solving)
    for name in ("ga", "gb"):
        run.node(name, cpu=500)
        run.devices(name, gpu_slots(2))
    run.pods(pod(f"s{index}").requests(cpu=100).share(60).gang("s", 2) for index in range(3))
    # The shares of three fit two cards as a sum only.
    found, placed = joint(run, {"m0": {"big": 2}, "s0": {"ga": 3}})
    assert {name: node for name, node in placed.items() if name[0] == "s"} == {"s0": "ga", "s1": "ga", "s2": "gb"}
    assert {p.gang.size for p in found.placements if p.candidate.name[1][0] == "s"} == {3}
    order = [p.gang.name for p in found.placements if p.gang]
    assert order == sorted(order, key=order.index), "placements of one gang stand together"


def test_a_member_left_out_of_a_gang_that_begins_hears_what_itself_lacks(solving):
    run = solving()
    run.node("big", cpu=4000)
    run.node("small", cpu=1000)
    run.pod(pod("first").requests(cpu=1000))
    run.pods(pod(f"m{index}").requests(cpu=2000).gang("g", 2) for index in range(3))
    found, placed = joint(run, {"m0": {"big": 2}})
    assert placed == {"m0": "big", "m1": "big", "first": "small"}
    [refusal] = found.refusals
    assert refusal.candidate.name[1] == "m2"
    assert refusal.gang == "default/g"
    assert [reason.message for reason in refusal.reasons] == ["Insufficient cpu"]


def test_whose_quota_goes_to_a_gang_hears_of_the_quota(solving):
    run = solving()
    for number in range(4):
        run.node(f"n{number}", cpu=64000)
    run.quota("q", runtime={"cpu": 4000}, max={"cpu": 9000}, limits=["cpu"])
    run.pod(pod("a").requests(cpu=1000).quota("q"))
    run.pods(pod(f"m{index}").requests(cpu=2000).gang("g", 2).quota("q") for index in range(2))
    found, placed = joint(run, {"m0": {"n0": 2}})
    assert placed == {"m0": "n0", "m1": "n0"}
    assert told(found) == {"a": ["quota"]}


def test_it_beats_greed_on_a_contended_gang(solving):
    run = contended(solving)
    cluster = run.cluster
    units, _ = cluster.batch(100)
    units.sort(key=lambda unit: bool(unit.needed))
    trial = Trial(cluster.capacity)
    # Greed prefers the emptier node for the single pod.
    greedy = cluster.solver.solve(units, trial, "greedy")
    assert len(greedy.placements) == 1
    assert is_contended(units, greedy)
    trial.undo()
    written = build_problem(
        units, greedy, cluster.nodes, cluster.solver.costs, cluster.solver.picker, cluster.quotas, 5.0
    )
    assert written is not None
    question = msgspec.msgpack.decode(msgspec.msgpack.encode(written[0]), type=JointProblem)
    found = model.solve(question)
    placements = joint_solution(
        wanted_of(found.counts, written[1]), units, greedy, cluster.solver, trial, "better"
    ).placements
    assert worth(placements) > worth(greedy.placements)
    assert {p.candidate.name[1]: p.claim.node for p in placements} == {"first": "small", "m0": "big", "m1": "big"}
    assert run.verifier.check([placement.claim for placement in placements]) == []
    trial.undo()
    assert cluster.nodes.free[0, :2].tolist() == [4000, 1000]


def own(name, cpus):
    return pod(name).requests(cpu=1000 * cpus).label(names.LABEL_QOS, "LSR")


def solved(run):
    """What the model, as if nothing was placed without it, and the checks after it make of all that waits."""
    cluster = run.cluster
    units, _ = cluster.batch(100)
    units.sort(key=lambda unit: bool(unit.needed))
    trial = Trial(cluster.capacity)
    greedy = cluster.solver.solve(units, trial, "greedy")
    trial.undo()
    written = build_problem(
        units, Solution((), ()), cluster.nodes, cluster.solver.costs, cluster.solver.picker, cluster.quotas, 5.0
    )
    found = model.solve(written[0])
    assert found is not None
    placements = joint_solution(
        wanted_of(found.counts, written[1]), units, greedy, cluster.solver, trial, "better"
    ).placements
    assert run.verifier.check([placement.claim for placement in placements]) == []
    return written[0], {p.candidate.name[1]: p.claim.node for p in placements}


def test_cpus_of_their_own_are_counted(solving):
    run = solving()
    for name, cores in (("a", 2), ("b", 1)):
        run.node(name, cpu=64_000)
        run.topology(name, node_topology(cores=cores))
    run.pod(own("first", 2))
    run.pods(own(f"m{index}", 2).gang("g", 2) for index in range(2))
    question, placed = solved(run)
    assert question.free[-1] == [4, 2]
    assert question.most == [[1, 1], [2, 1]]
    assert placed == {"first": "b", "m0": "a", "m1": "a"}


def test_pods_on_single_numa_nodes_are_counted_by_numa_node(solving):
    run = solving()
    run.node("n", cpu=64_000)
    run.topology("n", node_topology(zones=2, cores=2, memory=5 * GI))
    wish = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
    run.pods(own(f"c{index}", 3).annotation(names.ANNOTATION_NUMA_SPEC, wish).gang("c", 2) for index in range(3))
    memory = (pod(f"x{index}").requests(memory=3 * GI) for index in range(2))
    run.pods(each.annotation(names.ANNOTATION_NUMA_SPEC, wish).gang("x", 2) for each in memory)
    question, placed = solved(run)
    assert question.most == [[2], [2]]
    assert sorted(placed) == ["c0", "c1", "x0", "x1"]


# --- how much it wins ---

CONTENDED = {False: (3, 25, 35), True: (2, 3, 5)}
"""Seeds of batches about which the optimiser is asked."""


@pytest.mark.parametrize("with_quotas", [False, True])
def test_it_is_never_worse_and_often_better(solving, with_quotas):
    """`tests/bench/bench_improver.py` draws hundreds."""
    batches = [packed(random.Random(seed), with_quotas=with_quotas) for seed in CONTENDED[with_quotas]]
    asked = [found for batch in batches if (found := improved(batch, solving, 30.0)) is not None]
    assert len(asked) == len(batches)
    assert not any(each.wrong for each in asked)
    assert sum(each.is_better for each in asked) >= 0.5 * len(asked)
