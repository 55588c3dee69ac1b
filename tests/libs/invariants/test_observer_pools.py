"""The pods of a tree of quotas are placed in its pool of nodes, by what their solver must have known (I32)."""

import pytest
from tests.libs.invariants.story import Story

from berth.contracts import names


def world(selector, tree="t"):
    story = Story()
    story.node("n1")
    story.change("nodes", "n1", {"metadata": {"labels": {"pool": "a"}}})
    labels = {names.LABEL_QUOTA_TREE: tree} if tree else {}
    body = {"metadata": {"labels": labels}, "spec": {"quotaName": "root", "nodeSelector": selector}}
    story.put("elasticquotaprofiles", "p", body, "ns")
    for name in "pq":
        story.pod(name)
    story.wait(60.0)
    return story


def found(story):
    return [violation.promise for violation in story.observer.violations if violation.promise == "I32"]


OF_A = {"matchLabels": {"pool": "a"}}
OF_B = {"matchLabels": {"pool": "b"}}


def test_a_pod_in_the_pool_is_right():
    story = world(OF_A)
    story.place("p", quota="t/team")
    assert found(story) == []
    assert story.observer.verdicts.judgements["I32"] == 1


@pytest.mark.parametrize(
    "selector",
    [
        OF_B,
        {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]},
        {"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "pool", "operator": "Near", "values": ["a"]}]},
    ],
)
def test_a_pod_outside_is_not(selector):
    story = world(selector)
    story.place("p", quota="t/team")
    assert found(story) == ["I32"]


def test_a_tree_that_was_made_for_the_profile_counts_as_well():
    story = world(OF_B, tree="")
    story.place("p", quota="17661029769335466936/team")
    assert found(story) == []
    story.place("q", quota="5367319587633080321/team")
    assert found(story) == ["I32"]


@pytest.mark.parametrize("selector", [{}, None])
def test_a_profile_without_a_selector_keeps_nobody_off(selector):
    story = world(selector)
    story.place("p", quota="t/team")
    assert found(story) == []


def test_what_changed_a_moment_ago_is_held_against_nobody():
    story = world(OF_A)
    story.change("nodes", "n1", {"metadata": {"labels": {"pool": "b"}}})
    story.wait(1.0)
    story.place("p", quota="t/team")
    assert found(story) == []
    story.wait(60.0)
    story.place("q", quota="t/team")
    assert found(story) == ["I32"]


def test_who_is_paid_by_another_tree_goes_anywhere():
    story = world(OF_B)
    story.place("p", quota="/team")
    story.place("q", quota="u/team")
    assert found(story) == []
