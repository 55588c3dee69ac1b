"""Use of quota groups against the runtime of the revision that a plan stamps (I31); the switches of quota-manager."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.story import Story

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation
from berth.contracts.quota import QuotaGroup, QuotaRules
from berth.rules.quota_of_pod import DEFAULT_GROUP


def group(story: Story, name: str, revision: int, *, cpu: int, most: int = 8000, **fields: Any) -> None:
    """QUOTA lets a group use so much CPU."""
    said = QuotaGroup(
        **{"tree": "", "name": name, "revision": revision, "limits": ["cpu"], "max": {"cpu": most}}
        | {"runtime": {"cpu": cpu}, **fields}
    )
    story.observer.quota(subjects.quota_key(said.tree, name), encode(said), False)


def place(story: Story, name: str, revision: int, *above: str, quota: str = "/blue") -> None:
    """A plan charges a group and those above it, and stamps this revision."""
    tree, _, own = quota.rpartition("/")
    accounts = [subjects.quota_account(tree, each) for each in (own, *above)]
    made = story.decision(name, quota=quota, accounts=[subjects.node_account("n1"), *accounts])
    story.commit(made, revisions=dict.fromkeys(accounts, revision))


def found(story: Story) -> list[str]:
    return [each.promise for each in story.observer.violations]


@pytest.fixture
def story() -> Story:
    made = Story()
    made.node("n1", cpu="64")
    for name in "pqrs":
        made.pod(name, cpu="2")
    made.wait(60.0)
    return made


def test_a_group_may_use_its_runtime_and_no_more(story: Story) -> None:
    group(story, "blue", 5, cpu=4000)
    place(story, "p", 5)
    place(story, "q", 5)
    assert found(story) == []
    assert story.observer.verdicts.judgements["I31"] == 2
    place(story, "r", 5)
    assert found(story) == ["I31"]


def test_what_counts_is_the_revision_that_is_stamped(story: Story) -> None:
    """Who has not read yet that the runtime has sunk may use what was said before, and names that revision."""
    group(story, "blue", 5, cpu=6000)
    group(story, "blue", 6, cpu=2000)
    for name in "pqr":
        place(story, name, 5)
    assert found(story) == []
    place(story, "s", 6)
    assert found(story) == ["I31"]


def test_groups_above_are_bound_by_their_max_unless_their_runtime_binds(story: Story) -> None:
    group(story, "top", 5, cpu=2000, most=4000)
    group(story, "blue", 5, cpu=8000, ancestors=["top"])
    place(story, "p", 5, "top")
    place(story, "q", 5, "top")
    assert found(story) == []
    place(story, "r", 5, "top")
    assert found(story) == ["I31"]
    strict = Story()
    strict.node("n1", cpu="64")
    rules = QuotaRules(checks_parents=True)
    group(strict, "top", 5, cpu=2000, most=4000, rules=rules)
    group(strict, "blue", 5, cpu=8000, ancestors=["top"], rules=rules)
    for name in "pq":
        strict.pod(name, cpu="2")
        place(strict, name, 5, "top")
    assert found(strict) == ["I31"]


def test_a_group_that_moves_takes_its_pods_along(story: Story) -> None:
    group(story, "top", 5, cpu=2000, most=4000)
    group(story, "blue", 5, cpu=8000)
    group(story, "red", 5, cpu=8000, ancestors=["top"])
    place(story, "p", 5)
    place(story, "q", 5)
    group(story, "blue", 7, cpu=8000, ancestors=["top"], moved=7)
    place(story, "r", 5, "top", quota="/red")
    assert found(story) == []  # whose solver had not read of the move
    story.wait(60.0)
    place(story, "s", 7, "top", quota="/red")
    assert found(story) == ["I31"]


def test_of_a_round_with_a_move_not_all_may_be_read(story: Story) -> None:
    """The stamp says the move's revision, and what else that round says of the group is still to come."""
    group(story, "blue", 5, cpu=4000)
    group(story, "red", 7, cpu=1, moved=7)
    group(story, "blue", 7, cpu=2000)
    place(story, "p", 7)
    place(story, "q", 7)
    assert found(story) == []
    story.wait(60.0)
    place(story, "r", 7)
    assert found(story) == ["I31"]


@pytest.mark.parametrize("ignores", [False, True])
def test_what_is_charged_follows_the_switches(ignores: bool) -> None:
    """The overhead of a pod, and a pod that is terminating, count as QUOTA says."""
    story = Story()
    story.node("n1", cpu="64")
    story.quota("blue", "2")
    rules = QuotaRules(ignores_overhead=ignores, ignores_terminating=ignores)
    group(story, DEFAULT_GROUP, 5, cpu=8000, rules=rules)
    story.pod("p", cpu="1", terms={"overhead": {"cpu": "500m"}})
    story.pod("q", cpu="1", terms={"overhead": {"cpu": "500m"}})
    story.pod("r", cpu="1")
    story.wait(60.0)
    for name in "pq":
        story.place(name, quota="/blue", allocation=Allocation(amounts={"cpu": 1500}))
    assert found(story) == ([] if ignores else ["I2"])
    story.bind("p")
    story.change("pods", "p", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    story.place("r", quota="/blue")
    assert found(story) == ([] if ignores else ["I2"])
    report = story.observer.finish(quiet=False)
    assert ("I2" in {each.name for each in report.broken}) is not ignores
