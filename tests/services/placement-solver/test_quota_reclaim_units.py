"""Quota reclaim for gangs, and by gangs: all members take their places, or nobody leaves; some leave only together.
Whatever is proposed in random worlds, the verifier agrees with it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names, subjects
from berth.contracts.kube import LabelSelector
from berth.contracts.ledger import Decision
from berth.contracts.state import PodDisruptionBudget
from berth.placement_solver import metrics
from berth.placement_solver.core.displacers.giving_units import GivingUnits
from berth.rules.preemption import BY_QUOTA
from berth.testing.builders import PodBuilder, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    for at in range(2):
        made.node(f"n{at}", cpu=4000)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def sized(name: str, group: str, cores: int, priority: int = 0) -> PodBuilder:
    made = pod(name).requests(cpu=cores * 1000).template(priority=priority)
    return made.label(names.LABEL_QUOTA_NAME, group)


def held(builder: PodBuilder, group: str, node: str) -> PodBuilder:
    return builder.annotation(names.ANNOTATION_QUOTA, f"/{group}").on(node)


def cpu(cores: int) -> dict[str, int]:
    return {names.CPU: cores * 1000}


def limits(run: Any, name: str, *, promised: int = 0, most: int = 100, runtime: int, **fields: Any) -> None:
    run.quota(name, min=cpu(promised), max=cpu(most), runtime=cpu(runtime), effective_min=cpu(promised), **fields)


def nominations(run: Any) -> dict[str, Decision]:
    held_ = run.cluster.book.ledger.decisions
    return {name[1]: entry.decision for name, entry in held_.items() if entry.decision.nominates}


def victims(run: Any, name: str) -> list[str]:
    found = nominations(run)[name]
    assert found.eviction_reason == BY_QUOTA
    return sorted(each.name for each in found.victims)


def wait_for(run: Any, group: str, members: int, cores: int = 2, minimum: int | None = None, priority: int = 0) -> None:
    for at in range(members):
        run.pod(sized(f"mine-{at}", group, cores, priority).gang("mine", minimum or members))


async def test_what_was_lent_comes_back_to_a_gang_within_its_min(run: Any, bench: SolverBench) -> None:
    """On all nodes at once, whatever the priorities."""
    limits(run, "owner", promised=4, runtime=4)
    limits(run, "borrower", promised=4, runtime=4)
    for at in range(8):
        run.pod(held(sized(f"lent-{at}", "borrower", 1, priority=9), "borrower", f"n{at % 2}"))
    wait_for(run, "owner", 2)
    await bench.until_idle()
    found = nominations(run)
    assert sorted(found) == ["mine-0", "mine-1"]
    assert len({each.plan for each in found.values()}) == 1
    assert all(each.gang is not None and each.gang.size == 2 for each in found.values())
    assert len(victims(run, "mine-0")) == 4
    accounts = {account for each in found.values() for account in each.accounts}
    assert {subjects.quota_account("", group) for group in ("owner", "borrower")} <= accounts
    for name in victims(run, "mine-0"):
        run.delete_pod(name)
    bench.clock.time += 20
    await bench.until_idle()
    assert sorted(bench.placed()) == ["mine-0", "mine-1"]


async def test_who_might_leave_is_worked_out_once_for_all_who_are_refused(
    run: Any, bench: SolverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(run, "owner", promised=4, runtime=4)
    limits(run, "borrower", promised=4, runtime=4)
    for at in range(2):
        run.pod(
            held(sized(f"lent-{at}", "borrower", 4), "borrower", f"n{at}").label(
                names.LABEL_DISABLE_PREEMPTIBLE, "true"
            )
        )
    for at in range(4):
        run.pod(sized(f"mine-{at}", "owner", 1))
    found: list[str] = []
    real = GivingUnits._all_of
    monkeypatch.setattr(GivingUnits, "_all_of", lambda self, groups: found.append("") or real(self, groups))
    await bench.rounds.round()
    assert len(bench.run.cluster.queue.waiting) == 4
    assert len(found) == 1


@pytest.mark.parametrize(("promised", "runtime"), [(3, 2), (4, 6)], ids=["above its min", "too little is lent"])
async def test_nobody_leaves_for_a_part_of_what_was_promised(
    run: Any, bench: SolverBench, promised: int, runtime: int
) -> None:
    limits(run, "owner", promised=promised, runtime=4)
    limits(run, "borrower", promised=2, runtime=runtime)
    for at in range(8):
        run.pod(held(sized(f"lent-{at}", "borrower", 1), "borrower", f"n{at % 2}"))
    wait_for(run, "owner", 2)
    await bench.until_idle()
    assert nominations(run) == {}


async def test_members_beyond_the_minimum_are_left_out_where_they_exceed_the_min(run: Any, bench: SolverBench) -> None:
    limits(run, "owner", promised=4, runtime=4)
    limits(run, "borrower", promised=4, runtime=4)
    for at in range(8):
        run.pod(held(sized(f"lent-{at}", "borrower", 1), "borrower", f"n{at % 2}"))
    wait_for(run, "owner", 3, minimum=2)
    await bench.until_idle()
    assert sorted(nominations(run)) == ["mine-0", "mine-1"]


async def test_the_limit_above_is_freed_by_who_lends_and_who_is_lower(run: Any, bench: SolverBench) -> None:
    """Only quota is short: those leave first that use more than their runtime, on whatever node."""
    run.node("n2", cpu=8000)
    limits(run, "top", runtime=8, most=8, is_parent=True)
    limits(run, "owner", promised=6, runtime=6, parent="top", ancestors=["top"])
    limits(run, "borrower", promised=2, runtime=2, parent="top", ancestors=["top"])
    for at in range(4):
        run.pod(held(sized(f"lent-{at}", "borrower", 1, priority=9 - at), "borrower", "n0"))
        run.pod(held(sized(f"own-{at}", "owner", 1, priority=at), "owner", "n1"))
    wait_for(run, "owner", 2, cores=1, priority=5)
    await bench.until_idle()
    assert victims(run, "mine-0") == ["lent-2", "lent-3"]
    assert {each.node for each in nominations(run).values()} == {"n2"}


async def test_within_its_own_group_lower_pods_leave_for_a_gang(run: Any, bench: SolverBench) -> None:
    run.node("n2", cpu=8000)
    limits(run, "team", runtime=4)
    for at in range(4):
        run.pod(held(sized(f"own-{at}", "team", 1, priority=at), "team", "n1"))
    wait_for(run, "team", 2, cores=1, priority=3)
    await bench.until_idle()
    assert victims(run, "mine-1") == ["own-0", "own-1"]


async def test_a_gang_that_can_spare_nobody_leaves_whole(run: Any, bench: SolverBench) -> None:
    """For a pod by itself as well; the group is above its runtime when its gang begins to leave."""
    limits(run, "owner", promised=2, runtime=2)
    limits(run, "borrower", promised=2, runtime=7)
    for at in range(2):
        run.pod(held(sized(f"old-{at}", "borrower", 4).gang("old", 2), "borrower", f"n{at}"))
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert victims(run, "mine") == ["old-0", "old-1"]
    assert subjects.gang_account("default/old") in nominations(run)["mine"].accounts


async def test_a_gang_spares_whom_it_can_spare(run: Any, bench: SolverBench) -> None:
    limits(run, "owner", promised=2, runtime=2)
    limits(run, "borrower", promised=2, runtime=6)
    for at in range(2):
        run.pod(held(sized(f"old-{at}", "borrower", 4, priority=at).gang("old", 1), "borrower", f"n{at}"))
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert victims(run, "mine") == ["old-0"]


async def test_a_gang_stays_of_which_one_member_has_to(run: Any, bench: SolverBench) -> None:
    """A member that its budget protects, and one of a group that uses no more than its runtime."""
    limits(run, "owner", promised=2, runtime=2)
    limits(run, "borrower", promised=2, runtime=6)
    limits(run, "other", promised=4, runtime=4)
    selector = LabelSelector(match_labels={"app": "kept"})
    budget = PodDisruptionBudget(namespace="default", name="b", version=1, selector=selector)
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    run.pod(held(sized("old-0", "borrower", 2).gang("old", 2).label("app", "kept"), "borrower", "n0"))
    run.pod(held(sized("old-1", "borrower", 4).gang("old", 2), "borrower", "n1"))
    run.pod(held(sized("new-0", "borrower", 1).gang("new", 2), "borrower", "n0"))
    run.pod(held(sized("new-1", "other", 1).gang("new", 2), "other", "n0"))
    run.pod(sized("mine", "owner", 1))
    await bench.until_idle()
    assert nominations(run) == {}


def two_payers(run: Any, promised: tuple[int, int]) -> None:
    """A gang of two, for whose members two groups pay, on nodes that a third has filled."""
    for name, cores in zip(("left", "right"), promised, strict=True):
        limits(run, name, promised=cores, runtime=4)
    limits(run, "borrower", runtime=2)
    for at in range(8):
        run.pod(held(sized(f"lent-{at}", "borrower", 1, priority=9), "borrower", f"n{at % 2}"))
    for name in ("left", "right"):
        run.pod(sized(f"mine-{name}", name, 2).gang("mine", 2))


async def test_what_was_lent_comes_back_to_a_gang_of_several_payers(run: Any, bench: SolverBench) -> None:
    two_payers(run, (2, 2))
    await bench.until_idle()
    found = nominations(run)
    assert {each.quota for each in found.values()} == {"/left", "/right"}
    assert len(victims(run, "mine-left")) == 4
    accounts = {account for each in found.values() for account in each.accounts}
    assert {subjects.quota_account("", group) for group in ("left", "right", "borrower")} <= accounts


@pytest.mark.parametrize("promised", [(1, 4), (4, 1)])
async def test_each_of_them_has_to_stay_within_its_min(run: Any, bench: SolverBench, promised: tuple[int, int]) -> None:
    two_payers(run, promised)
    await bench.until_idle()
    assert nominations(run) == {}


async def test_a_limit_above_several_payers_counts_for_all_of_them(run: Any, bench: SolverBench) -> None:
    run.node("n2", cpu=8000)
    limits(run, "top", runtime=8, most=8, is_parent=True)
    for name, cores in (("left", 4), ("right", 4), ("borrower", 0)):
        limits(run, name, promised=cores, runtime=cores, parent="top", ancestors=["top"])
    for at in range(6):
        run.pod(held(sized(f"lent-{at}", "borrower", 1, priority=9 - at), "borrower", f"n{at % 2}"))
    for name in ("left", "right"):
        run.pod(sized(f"mine-{name}", name, 3).gang("mine", 2))
    await bench.until_idle()
    assert victims(run, "mine-left") == ["lent-2", "lent-3", "lent-4", "lent-5"]


class Held(NamedTuple):
    node: int
    group: int
    cores: int
    priority: int
    gang: int


there = st.lists(
    st.builds(
        Held, st.integers(0, 1), st.integers(0, 2), st.integers(1, 2), st.integers(0, 3), st.sampled_from([0, 0, 1, 2])
    ),
    max_size=8,
)
shares = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=3)
waits = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 2), st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=2,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(there, shares, waits, st.integers(4, 12))
@example(
    [*[Held(0, 0, 1, 0, 0)] * 4, *[Held(0, 0, 2, 0, 1)] * 2, Held(0, 0, 1, 0, 1)],
    [(0, 0), (1, 0), (0, 0)],
    [(1, 1, 1, 0, False)],
    4,
)
def test_the_verifier_agrees_with_every_proposal(
    solving: type[Any],
    holding: list[Held],
    of: list[tuple[int, int]],
    comes: list[tuple[int, int, int, int, bool]],
    above: int,
) -> None:
    run = solving()
    bench = SolverBench(run, preempts=True)
    for node in ("n0", "n1"):
        run.node(node, cpu=5000)
    limits(run, "top", runtime=above, most=above, is_parent=True)
    for at, (promised, runtime) in enumerate(of):
        limits(run, f"g{at}", promised=promised, runtime=max(promised, runtime), parent="top", ancestors=["top"])
    for at, each in enumerate(holding):
        made = sized(f"held-{at}", f"g{each.group}", each.cores, each.priority)
        if each.gang:
            made.gang(f"old{each.gang}", 2)
        run.pod(held(made, f"g{each.group}", f"n{each.node}"))
    for at, (group, members, cores, priority, is_mixed) in enumerate(comes):
        for number in range(members):
            payer = f"g{(group + number * is_mixed) % 3}"
            run.pod(sized(f"waits-{at}-{number}", payer, cores, priority).gang(f"new{at}", members))
    before = metrics.REJECTED_PLANS._value.get()
    asyncio.run(bench.until_idle())
    assert metrics.REJECTED_PLANS._value.get() == before
    plans: dict[str, set[str]] = {}
    for name, decision in nominations(run).items():
        plans.setdefault(decision.plan, set()).add(name.rpartition("-")[0])
    assert all(len(gangs) == 1 for gangs in plans.values())
