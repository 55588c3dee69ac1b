"""Whatever is proposed in random worlds, the verifier agrees with it, and nobody leaves who is protected."""

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
from berth.contracts.state import Pod, PodDisruptionBudget
from berth.placement_solver import metrics
from berth.rules.preemption import why_protected
from berth.testing.builders import PodBuilder, pod

NODE_CORES = 4


class Held(NamedTuple):
    """A pod that is on a node already."""

    node: int
    cores: int
    priority: int
    kind: str


KINDS = ("plain", "not preemptible", "disabled", "mirror", "strict", "loose", "foreign strict", "foreign loose")
holders = st.lists(
    st.builds(Held, st.integers(0, 2), st.integers(1, 3), st.integers(0, 4), st.sampled_from(KINDS)), max_size=9
)
waiting = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6), st.booleans()), min_size=1, max_size=4)


def built(at: int, held: Held) -> PodBuilder:
    made = pod(f"held-{at}").requests(cpu=held.cores * 1000).template(priority=held.priority).label("app", "x")
    if held.kind == "not preemptible":
        made.label(names.LABEL_QUOTA_PREEMPTIBLE, "false")
    elif held.kind == "disabled":
        made.label(names.LABEL_DISABLE_PREEMPTIBLE, "true")
    elif held.kind == "mirror":
        made.set(mirror=True)
    elif held.kind != "plain":
        made.gang(f"g-{held.kind.replace(' ', '-')}", 1, mode="NonStrict" if "loose" in held.kind else "Strict")
        if "foreign" in held.kind:
            made.template(scheduler="other")
    return made.on(f"n{held.node}")


@pytest.mark.parametrize("allowed", [0, 1, 2])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(
    [Held(0, 1, 0, "not preemptible"), Held(1, 1, 1, "strict"), Held(2, 1, 0, "strict")], [(1, 0, True), (4, 2, False)]
)
@given(holders, waiting)
def test_the_verifier_agrees_with_every_proposal(
    solving: type[Any], allowed: int, there: list[Held], comes: list[tuple[int, int, bool]]
) -> None:
    run = solving()
    for at in range(3):
        run.node(f"n{at}", cpu=NODE_CORES * 1000, labels={"zone": "ab"[at % 2]})
    used = [0, 0, 0]
    for at, held in enumerate(there):
        if used[held.node] + held.cores <= NODE_CORES:
            used[held.node] += held.cores
            run.pod(built(at, held))
    selector = LabelSelector(match_labels={"app": "x"})
    run.version += 1
    budget = PodDisruptionBudget(
        namespace="default", name="b", version=run.version, selector=selector, disruptions_allowed=allowed
    )
    run.state(subjects.namespaced_key("poddisruptionbudget", "default", "b"), budget)
    for at, (cores, priority, is_apart) in enumerate(comes):
        made = pod(f"comes-{at}").requests(cpu=cores * 1000).template(priority=priority).label("app", "y")
        run.pod(made.apart("zone", {"app": "y"}) if is_apart else made)
    before = metrics.REJECTED_PLANS._value.get()
    asyncio.run(SolverBench(run, preempts=True).until_idle())
    assert metrics.REJECTED_PLANS._value.get() == before
    book = run.cluster.book
    for entry in book.ledger.decisions.values():
        decision: Decision = entry.decision
        waits: Pod = book.pods[decision.namespace, decision.name]
        for victim in decision.victims:
            seen: Pod = book.pods[victim.namespace, victim.name]
            assert seen.template.priority < waits.template.priority
            assert not why_protected(seen)
            if seen.template.scheduler == "other":
                assert seen.template.annotations.get(names.ANNOTATION_GANG_MODE, "NonStrict") == "NonStrict"
        assert len({victim.uid for victim in decision.victims}) == len(decision.victims)
    # Two may wait for the same victim, as long as both find capacity once it has left.
    for at in range(3):
        nominated = [e.decision for e in book.ledger.decisions.values() if e.decision.node == f"n{at}"]
        taken = sum(each.allocation.amounts[names.CPU] for each in nominated)
        gone = {victim.uid for each in nominated for victim in each.victims}
        stays = sum(
            each.template.requests[names.CPU]
            for each in book.pods.values()
            if each.node == f"n{at}" and each.uid not in gone
        )
        assert taken + stays <= NODE_CORES * 1000
