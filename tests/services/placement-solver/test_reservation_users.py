"""Users of a Reservation who leave for another owner of it, of higher priority."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.ledger import Decision
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.rules.preemption import BY_SCHEDULER
from berth.testing.builders import PodBuilder, pod


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=10_000)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=True)


def reserve(run: Any, cores: int, policy: str) -> None:
    amounts, owners = (
        {names.CPU: cores * 1000},
        [ReservationOwner(label_selector=LabelSelector(match_labels={"o": "r"}))],
    )
    about = {"name": "r", "uid": "uid-r", "phase": "Available", "node": "n0", "owners": owners}
    template = PodTemplate(requests=amounts, priority=1_000)
    run.reservation(
        Reservation(version=1, template=template, allocatable=amounts, **about),
        ReservedCapacity(
            revision=1,
            usable=True,
            amounts=amounts,
            allocate_once=False,
            allocate_policy=policy,
            priority=1_000,
            **about,
        ),
    )


def sized(name: str, cores: int, priority: int, *, owns: bool = True) -> PodBuilder:
    made = pod(name).requests(cpu=cores * 1000).template(priority=priority)
    if not owns:
        return made
    return made.label("o", "r").annotation(names.ANNOTATION_RESERVATION_AFFINITY, json.dumps({"name": "r"}))


async def there(run: Any, bench: SolverBench, *builders: PodBuilder) -> None:
    for builder in builders:
        run.pod(builder)
        await bench.until_idle()
        run.bind(builder)


def nomination(run: Any, name: str) -> Decision | None:
    entry = run.cluster.book.ledger.decisions.get(("default", name))
    return entry.decision if entry is not None and entry.decision.nominates else None


async def test_a_lower_user_leaves_and_the_owner_takes_its_part(run: Any, bench: SolverBench) -> None:
    reserve(run, 6, "Restricted")
    await there(run, bench, sized("low", 4, 0), sized("mid", 2, 50))
    run.pod(sized("high", 4, 100))
    await bench.until_idle()
    decision = nomination(run, "high")
    assert decision is not None
    assert (decision.reservation, decision.eviction_reason) == ("r", BY_SCHEDULER)
    assert [victim.name for victim in decision.victims] == ["low"]
    run.delete_pod("low")
    bench.clock.time += 20
    await bench.until_idle()
    assert bench.placed()["high"] == "n0"
    assert run.cluster.capacity.reserved["uid-r"].amounts == {names.CPU: 0}


async def test_others_of_the_node_do_not_help_where_the_reservation_is_restricted(run: Any, bench: SolverBench) -> None:
    reserve(run, 6, "Restricted")
    await there(run, bench, sized("same", 6, 100), sized("outside", 4, 0, owns=False))
    run.pod(sized("high", 4, 100))
    await bench.until_idle()
    assert nomination(run, "high") is None


async def test_where_users_take_from_the_node_as_well_both_leave(run: Any, bench: SolverBench) -> None:
    reserve(run, 6, "Aligned")
    await there(run, bench, sized("inside", 2, 0), sized("same", 4, 100), sized("outside", 2, 0, owns=False))
    await there(run, bench, sized("stays", 2, 100, owns=False))
    run.pod(sized("high", 4, 100))
    await bench.until_idle()
    decision = nomination(run, "high")
    assert decision is not None
    assert sorted(victim.name for victim in decision.victims) == ["inside", "outside"]


@pytest.mark.parametrize("label", [names.LABEL_DISABLE_PREEMPTIBLE, ""])
async def test_who_is_protected_or_not_lower_stays(run: Any, bench: SolverBench, label: str) -> None:
    reserve(run, 6, "Restricted")
    user = sized("user", 6, 0).label(label, "true") if label else sized("user", 6, 100)
    await there(run, bench, user)
    run.pod(sized("high", 4, 100))
    await bench.until_idle()
    assert nomination(run, "high") is None


async def test_it_is_preemption(run: Any) -> None:
    bench = SolverBench(run, preempts=False)
    reserve(run, 6, "Restricted")
    await there(run, bench, sized("low", 6, 0))
    run.pod(sized("high", 4, 100))
    await bench.until_idle()
    assert nomination(run, "high") is None
