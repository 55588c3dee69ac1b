"""Questions what would happen: what they say, what they must not touch, and those that cannot be answered."""

from __future__ import annotations

import hashlib
import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names
from berth.contracts.codec import encode
from berth.contracts.kube import OwnerReference
from berth.contracts.quota import QuotaGroup
from berth.contracts.state import PodGroup
from berth.contracts.what_if import SupposedPods, WhatIfAnswer, WhatIfQuestion
from berth.placement_solver.what_if.asking import WhatIf, fitting, supposing
from berth.placement_solver.what_if.running import Limits
from berth.runtime.snapshot import wait_for_snapshot
from berth.testing.builders import PodBuilder, gpu_slots, pod

LIMITS = Limits(100, 1000, True)


def ask(run: Any, question: WhatIfQuestion, *, is_over: bool = False) -> WhatIfAnswer:
    """On this view itself: it is used up."""
    return supposing(
        run.cluster,
        run.verifier,
        question,
        random=random.Random(7),
        limits=LIMITS,
        now_s=1000.0,
        is_over=lambda: is_over,
    )


def of(*builders: PodBuilder, **fields: Any) -> WhatIfQuestion:
    return WhatIfQuestion(pods=[SupposedPods(pod=each.build(0)) for each in builders], **fields)


def answering(run: Any) -> WhatIf:
    bench = SolverBench(run)
    return WhatIf(run.cluster, run.verifier, bench.rounds.readiness, bench.clock, random.Random(7), LIMITS)


def test_what_fits_is_placed_and_what_does_not_is_refused(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    answer = ask(run, of(pod("small").requests(cpu=1000), pod("large").requests(cpu=9000)))
    small, large = answer.pods
    assert (small.outcome, small.node, small.origin) == ("placed", "n0", "asked")
    assert large.outcome == "refused"
    assert "Insufficient cpu" in large.reasons[0].message
    assert answer.at["pods"] == 1
    assert not answer.is_cut_off


def test_copies_get_devices_of_their_own(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", extended={names.NVIDIA_GPU: 2})
    run.devices("n0", gpu_slots(2))
    answer = ask(run, WhatIfQuestion(pods=[SupposedPods(pod=pod("train").share(100).build(0), count=3)]))
    assert [each.name for each in answer.pods] == [f"default/train-{index}" for index in range(3)]
    assert [each.outcome for each in answer.pods] == ["placed", "placed", "refused"]
    assert {grant.id for each in answer.pods for grant in each.grants} == {"0", "1"}


def test_who_would_leave_and_for_whom(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=2000)
    run.pod(pod("old").requests(cpu=2000).on("n0"))
    answer = ask(run, of(pod("new").requests(cpu=2000).template(priority=10)))
    assert answer.pods[0].victims == ["default/old"]
    (victim,) = answer.victims
    assert (victim.name, victim.node, victim.beneficiaries) == ("default/old", "n0", ["default/new"])


def test_a_gang_of_a_pod_group_gathers_or_starts(solving: type[Any]) -> None:
    group = PodGroup(namespace="default", name="g", uid="", version=0, min_member=2)
    for count, outcome in ((1, "waiting"), (2, "placed")):
        run = solving()
        run.node("n0", cpu=4000)
        pods = [SupposedPods(pod=pod("m").gang("g").requests(cpu=1000).build(0), count=count)]
        answer = ask(run, WhatIfQuestion(pods=pods, gangs=[group]))
        assert {each.outcome for each in answer.pods} == {outcome}


def test_the_pods_of_a_node_that_is_gone_wait_anew(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.node("n1", cpu=2000)
    run.pods(
        [
            pod("app").requests(cpu=2000).on("n0"),
            pod("other").requests(cpu=2000).on("n0"),
            pod("agent").on("n0").set(owners=[OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)]),
        ]
    )
    answer = ask(run, WhatIfQuestion(without_nodes=["n0"]))
    assert {each.name: (each.origin, each.outcome, each.node) for each in answer.pods} == {
        "default/app": ("moved", "placed", "n1"),
        "default/other": ("moved", "refused", ""),
    }


def test_a_quota_that_is_changed_counts(solving: type[Any]) -> None:
    for limit, outcome in ((1000, "refused"), (2000, "placed")):
        run = solving()
        run.node("n0", cpu=8000)
        run.quota("team", limits=[names.CPU], max={names.CPU: 1000}, runtime={names.CPU: 1000})
        changed = QuotaGroup(
            tree="",
            name="team",
            revision=99,
            limits=[names.CPU],
            max={names.CPU: limit},
            runtime={names.CPU: limit},
        )
        answer = ask(run, of(pod("p").requests(cpu=2000).quota("team"), groups=[changed]))
        assert answer.pods[0].outcome == outcome


def test_who_waited_and_gets_a_place_is_told_of(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=1000)
    run.pod(pod("waits").requests(cpu=1000))
    answer = ask(run, of(pod("p").requests(cpu=9000)))
    assert [(each.name, each.origin) for each in answer.pods] == [("default/p", "asked"), ("default/waits", "waiting")]


def test_an_answer_whose_time_is_over_says_so(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=1000)
    answer = ask(run, of(pod("p").requests(cpu=500)), is_over=True)
    assert answer.is_cut_off
    assert answer.pods[0].outcome == "waiting"


def test_an_answer_that_is_too_large_keeps_what_there_is_a_place_for(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=1000)
    answer = ask(run, of(pod("p").requests(cpu=9000)))
    (told,) = answer.pods
    large = WhatIfAnswer(outcome="answered", pods=[told] * 20_000)
    assert len(fitting(large)) < 1 << 20


async def test_an_answer_comes_from_a_copy(solving: type[Any]) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    before = _digest(run)
    answer = await answering(run).answer(of(pod("p").requests(cpu=1000)))
    assert (answer.outcome, answer.pods[0].node) == ("answered", "n0")
    assert _digest(run) == before
    assert ("default", "p") not in run.cluster.book.pods


@pytest.mark.parametrize(
    ("question", "field"),
    [
        (WhatIfQuestion(), "pods"),
        (WhatIfQuestion(without_nodes=["nowhere"]), "without_nodes[0]"),
        (WhatIfQuestion(without_nodes=["n" * (1 << 19)]), "without_nodes[0]"),
        (WhatIfQuestion(without_nodes=["n0"] * 1000), "without_nodes"),
        (of(pod("p" * 300)), "pods[0].pod.name"),
        (of(pod("p", "")), "pods[0].pod.namespace"),
        (of(pod("there")), "pods[0].pod.name"),
        (of(pod("p"), pod("p")), "pods[1].pod.name"),
        (of(pod("p"), profile="nobody"), "profile"),
        (of(pod("p"), time_limit_s=float("inf")), "time_limit_s"),
        (of(pod("p"), time_limit_s=float("nan")), "time_limit_s"),
        (of(pod("p"), time_limit_s=-1.0), "time_limit_s"),
        (WhatIfQuestion(pods=[SupposedPods(pod=pod("p").build(0), count=0)]), "pods[0].count"),
        (WhatIfQuestion(pods=[SupposedPods(pod=pod("p").build(0), count=1 << 62)]), "pods"),
        (WhatIfQuestion(gangs=[PodGroup(namespace="d", name="", uid="", version=0)]), "gangs[0].name"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_refused_by_its_field(
    solving: type[Any], question: WhatIfQuestion, field: str
) -> None:
    run = solving()
    run.node("n0", cpu=4000)
    run.pod(pod("there").requests(cpu=1000))
    answer = await answering(run).answer(question)
    assert answer.outcome == "refused"
    assert field in [each.field for each in answer.problems]
    assert len(encode(answer)) < 10_000


async def test_views_that_are_not_complete_answer_nothing(solving: type[Any]) -> None:
    run = solving()
    run.version += 100
    run.epoch(3)
    assert (await answering(run).answer(of(pod("p")))).outcome == "unready"


@given(st.integers(0, 2**32))
@settings(max_examples=10)
def test_nobody_can_see_afterwards_that_somebody_asked(solving: type[Any], seed: int) -> None:
    """Columns, queue and book are the same to the last bit, whatever is asked."""
    draw = random.Random(seed)
    run = solving()
    for index in range(draw.randrange(1, 4)):
        run.node(f"n{index}", cpu=draw.randrange(1, 9) * 1000)
    run.pods(pod(f"old-{index}").requests(cpu=1000).on(f"n{index}") for index in range(len(run.cluster.nodes)))
    run.pod(pod("waits").requests(cpu=50_000))
    coming = [pod(f"p{index}").requests(cpu=draw.randrange(9000)).template(priority=index) for index in range(3)]
    question = of(*coming, without_nodes=["n0"] if draw.random() < 0.5 else [])
    before = _digest(run)
    wait_for_snapshot(lambda: encode(ask(run, question)), 10.0)
    assert _digest(run) == before


def _digest(run: Any) -> str:
    """Of all that rounds read."""
    cluster = run.cluster
    nodes = cluster.nodes
    parts = [
        {name: value.tobytes() for name, value in vars(nodes).items() if hasattr(value, "tobytes")},
        sorted(nodes.rows.items()),
        sorted((name, pod.version, pod.node) for name, pod in cluster.book.pods.items()),
        sorted((name, held.sequence) for name, held in cluster.book.ledger.decisions.items()),
        sorted((each.name, each.ready, each.tries, each.retry_at) for each in cluster.queue.waiting.values()),
        (cluster.moment, cluster.now, cluster.book.ledger.sequence, cluster.quotas.version, len(cluster.gangs.gangs)),
        sorted(claim.name for claim in cluster.book.claims()),
    ]
    return hashlib.sha256(pickle.dumps(parts)).hexdigest()
