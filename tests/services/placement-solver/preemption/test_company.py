"""What a nominated pod is to those who come to its node: affinity, spread and reservations."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench
from tests.services.worlds.solver.preempting import is_nominated, low, noted, sized

from berth.contracts import names
from berth.contracts.kube import LabelSelector, ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Reservation
from berth.rules.eviction_notes import Nominated, nomination_note
from berth.testing.builders import PodBuilder


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
