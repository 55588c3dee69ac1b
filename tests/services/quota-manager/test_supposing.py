"""What the groups would come to, beside what they then come to."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.services.worlds.quota.feed import Feed

from berth.contracts import names, state
from berth.contracts.quota import QuotaGroup
from berth.contracts.subjects import named_key
from berth.contracts.what_if import QuotasIfQuestion, SupposedPods, SupposedQuota
from berth.quota_manager.supposing import problems_of, supposing
from berth.runtime import Moment

AT = Moment(9.0, 9.0)


def world(seed: int) -> Feed:
    draw = random.Random(seed)
    feed = Feed()
    for index in range(3):
        feed.node(f"n{index}", cpu=draw.randrange(1, 10) * 1000)
    for name in "abc":
        feed.quota(name, cpu=draw.randrange(4, 20) * 1000, minimum=draw.randrange(4) * 1000)
    for index in range(draw.randrange(8)):
        feed.pod(f"p{index}", quota=draw.choice("abc"), cpu=draw.randrange(1, 5) * 1000, node=draw.choice(("", "n0")))
    feed.complete()
    settled(feed, 1000)
    return feed


def settled(feed: Feed, now_ms: int) -> dict[str, Any]:
    feed.reconciler.settle(now_ms / 1000)
    feed.reconciler.reconsider()
    written = feed.reconciler.writes(now_ms, feed.reconciler.published.keys)
    for key, message in written.items():
        feed.reconciler.published.wrote(key, message)
    return written


def waiting(quota: str, cpu: int) -> state.Pod:
    template = state.PodTemplate(requests={"cpu": cpu}, labels={names.LABEL_QUOTA_NAME: quota})
    return state.Pod(namespace="ns", name="new", uid="", version=0, template=template)


def figures(groups: list[QuotaGroup]) -> dict[str, QuotaGroup]:
    return {each.name: replace(each, revision=0) for each in groups}


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_it_says_what_they_then_come_to(seed: int) -> None:
    draw = random.Random(seed)
    question = QuotasIfQuestion(
        pods=[SupposedPods(pod=waiting(draw.choice("abc"), 2000), count=draw.randrange(1, 4))],
        without_nodes=["n1"] if draw.random() < 0.5 else [],
        quotas=[SupposedQuota(name="a", max={"cpu": 30_000}, min={"cpu": 2000})] if draw.random() < 0.5 else [],
    )
    answer = supposing(world(seed).reconciler, question, AT)
    lived = world(seed)
    for each in question.quotas:
        lived.quota(each.name, cpu=each.max["cpu"], minimum=each.min["cpu"])
    for node in question.without_nodes:
        lived.delete(named_key("node", node))
    for each in question.pods:
        for index in range(each.count):
            name = f"new-{index}"
            lived.pod(name, quota=each.pod.template.labels[names.LABEL_QUOTA_NAME], cpu=2000)
    then = [message for message in settled(lived, AT.ms).values() if message is not None]
    assert figures(answer.groups) == figures(then)


@pytest.mark.parametrize(
    ("question", "field"),
    [
        (QuotasIfQuestion(quotas=[SupposedQuota(name="nobody")]), "quotas[0].name"),
        (QuotasIfQuestion(quotas=[SupposedQuota(name="n" * (1 << 19))]), "quotas[0].name"),
        (QuotasIfQuestion(quotas=[SupposedQuota(name="a", max={"cpu": -1})]), "quotas[0].max[cpu]"),
        (QuotasIfQuestion(quotas=[SupposedQuota(name="a")] * 1000), "quotas"),
        (QuotasIfQuestion(pods=[SupposedPods(pod=waiting("a", 1), count=10_000)]), "pods"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_by_its_field(question: QuotasIfQuestion, field: str) -> None:
    found = problems_of(world(1).reconciler, question)
    assert [each.field for each in found] == [field]
    assert len(found[0].message) < 200
