"""Placeholders hand their places over: their user is nominated, they leave, and it is decided once they are gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.ledger import Decision
from berth.placement_solver import metrics
from berth.rules.preemption import BY_HAND_OVER
from berth.testing.builders import PodBuilder, pod

OWNERS = json.dumps([{"labelSelector": {"matchLabels": {"app": "own"}}}])


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=8000)
    return made


@pytest.fixture
def bench(run: Any) -> SolverBench:
    return SolverBench(run, preempts=False)


def placeholder(name: str = "o", cores: int = 6, **fields: Any) -> PodBuilder:
    made = pod(name).requests(cpu=cores * 1000).label(names.LABEL_OPERATING_MODE, "Reservation")
    made.annotation(names.ANNOTATION_RESERVATION_OWNERS, OWNERS)
    return made.set(**{"node": "n0", "phase": "Running", "ready": True, **fields})


def user(name: str = "u", cores: int = 5) -> PodBuilder:
    return pod(name).requests(cpu=cores * 1000).label("app", "own")


def nomination(run: Any, name: str = "u") -> Decision | None:
    entry = run.cluster.book.ledger.decisions.get(("default", name))
    return entry.decision if entry is not None and entry.decision.nominates else None


async def test_it_is_placed_like_a_pod_and_hands_over_when_its_user_needs_its_place(
    run: Any, bench: SolverBench
) -> None:
    rejected = metrics.REJECTED_PLANS._value.get()
    run.pod(placeholder(node="", phase="Pending", ready=False))
    await bench.until_idle()
    run.bind(placeholder())
    run.pod(user("small", 2))
    await bench.until_idle()
    assert nomination(run, "small") is None  # there is a place beside it
    run.pod(user())
    await bench.until_idle()
    found = nomination(run)
    assert found is not None
    assert (found.node, found.eviction_reason, [each.name for each in found.victims]) == ("n0", BY_HAND_OVER, ["o"])
    run.delete_pod("o")
    bench.clock.time += 20
    await bench.until_idle()
    decided = run.cluster.book.ledger.decisions["default", "u"].decision
    assert (decided.node, decided.nominates) == ("n0", False)
    assert metrics.REJECTED_PLANS._value.get() == rejected


async def test_the_one_that_is_meant_is_tried_among_many_that_are_alike(run: Any, bench: SolverBench) -> None:
    run.pod(pod("full").requests(cpu=2000).on("n0"))
    owners = json.dumps([{"object": {"kind": "Pod", "namespace": "default", "name": "u4"}}])
    builder = placeholder(ready=False).annotation(names.ANNOTATION_RESERVATION_OWNERS, owners)
    run.pod(builder)
    run.pods(user(f"u{number}") for number in range(6))
    await bench.until_idle()
    run.pod(builder.set(ready=True))
    bench.clock.time += 20
    await bench.until_idle()
    assert nomination(run, "u4") is not None


async def test_a_pod_that_must_use_a_reservation_is_served_as_well(run: Any, bench: SolverBench) -> None:
    rejected = metrics.REJECTED_PLANS._value.get()
    run.pod(placeholder(cores=3))
    affinity = json.dumps({"name": "o"})
    run.pod(user(cores=2).annotation(names.ANNOTATION_RESERVATION_AFFINITY, affinity))
    await bench.until_idle()
    assert nomination(run) is not None
    run.delete_pod("o")
    bench.clock.time += 20
    await bench.until_idle()
    assert not run.cluster.book.ledger.decisions["default", "u"].decision.nominates
    assert metrics.REJECTED_PLANS._value.get() == rejected


@pytest.mark.parametrize(
    ("held", "wants"),
    [
        (placeholder(ready=False), user()),
        (placeholder(deleting=True), user()),
        (placeholder(), user().label("app", "other")),
        (placeholder(), user(cores=9)),
        (placeholder().annotation(names.ANNOTATION_RESERVATION_OWNERS, "{"), user()),
        (placeholder().label(names.LABEL_DISABLE_PREEMPTIBLE, "true"), user()),
        (placeholder(), user().label(names.LABEL_OPERATING_MODE, "Reservation")),
        (placeholder().label(names.LABEL_OPERATING_MODE, "Runnable"), user()),
    ],
    ids=["not ready", "leaving", "no owner", "too large", "unreadable", "protected", "a placeholder", "no placeholder"],
)
async def test_whom_nobody_hands_over_to(run: Any, bench: SolverBench, held: PodBuilder, wants: PodBuilder) -> None:
    run.pod(held)
    run.pod(wants)
    await bench.until_idle()
    assert nomination(run) is None


async def test_one_placeholder_serves_one(run: Any, bench: SolverBench) -> None:
    run.pod(placeholder())
    run.pod(user("u"))
    run.pod(user("v"))
    await bench.until_idle()
    assert sum(nomination(run, name) is not None for name in ("u", "v")) == 1


async def test_it_is_looked_at_again_once_it_is_ready(run: Any, bench: SolverBench) -> None:
    run.pod(placeholder(ready=False))
    run.pod(user())
    await bench.until_idle()
    assert nomination(run) is None
    run.pod(placeholder())
    bench.clock.time += 20
    await bench.until_idle()
    assert nomination(run) is not None
