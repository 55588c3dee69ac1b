"""Who may be made to leave for the sake of quota (I35): what the observer makes of plans that say so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.story import Story

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Allocation, Decision, Victim
from berth.contracts.quota import QuotaGroup
from berth.rules.preemption import BY_QUOTA
from berth.transaction.revocations import KIND, name_of_group

LAW = "I35"


def group(story: Story, name: str, *, runtime: int, promised: int = 0, revision: int = 5, **fields: Any) -> None:
    """QUOTA lets a group use so many milli-cores, and promises it some."""
    said = QuotaGroup(
        tree="",
        name=name,
        revision=revision,
        limits=["cpu"],
        max={"cpu": 64_000},
        runtime={"cpu": runtime},
        effective_min={"cpu": promised},
        **fields,
    )
    story.observer.quota(subjects.quota_key("", name), encode(said), False)


@pytest.fixture
def story() -> Story:
    """Three pods of two cores each run for `red`; `blue` waits with one, or with a gang."""
    made = Story()
    made.node("n1", cpu="64")
    for name in ("red", "blue"):
        made.quota(name, "64")
    for name, priority in (("r0", 9), ("r1", 5), ("r2", 0), ("b0", 3), ("b1", 3)):
        made.pod(name, cpu="2", terms={"priority": priority})
    for name in ("r0", "r1", "r2"):
        made.place(name, quota="/red")
        made.bind(name)
    made.wait(60.0)
    return made


def victims(story: Story, *names_: str) -> list[Victim]:
    metas = [story.objects["pods"][name]["metadata"] for name in names_]
    return [
        Victim(namespace="default", name=m["name"], uid=m["uid"], version=int(m["resourceVersion"]), node="n1")
        for m in metas
    ]


def reclaim(
    story: Story, *leaving: str, waits: tuple[str, ...] = ("b0",), quota: str = "/blue", stamps: str = "blue red"
) -> None:
    accounts = [subjects.quota_account("", each) for each in stamps.split()]
    fields = {
        "quota": quota,
        "nominates": True,
        "victims": victims(story, *leaving),
        "eviction_reason": BY_QUOTA,
        "accounts": [subjects.node_account("n1"), *accounts],
    }
    made = [story.decision(name, **fields) for name in waits]
    story.commit(*made, revisions=dict.fromkeys(accounts, 5))


def revoke(story: Story, name: str, *leaving: str) -> None:
    namespace, key = name_of_group("", name)
    account = subjects.quota_account("", name)
    decision = Decision(
        plan="",
        kind=KIND,
        namespace=namespace,
        name=key,
        uid=key,
        attempt=0,
        node="",
        pod_version=0,
        basis=story.version,
        allocation=Allocation(),
        accounts=[account],
        nominates=True,
        victims=victims(story, *leaving),
        eviction_reason=BY_QUOTA,
    )
    story.commit(decision, revisions={account: 5})


def found(story: Story) -> list[str]:
    return [each.promise for each in story.observer.violations]


def test_what_is_lent_may_be_taken_back_as_far_as_it_is_too_much(story: Story) -> None:
    group(story, "red", runtime=3000)
    group(story, "blue", runtime=4000, promised=4000)
    reclaim(story, "r1", "r2", waits=("b0", "b1"))
    assert found(story) == []
    assert story.observer.verdicts.judgements[LAW] > 0


@pytest.mark.parametrize(
    ("runtime", "leaving", "broken"),
    [(6000, ["r2"], [LAW]), (5000, ["r2"], []), (5000, ["r1", "r2"], [LAW]), (3000, ["r1", "r2"], [])],
)
def test_nobody_leaves_a_group_within_its_runtime(
    story: Story, runtime: int, leaving: list[str], broken: list[str]
) -> None:
    group(story, "red", runtime=runtime)
    group(story, "blue", runtime=4000, promised=4000)
    reclaim(story, *leaving, waits=("b0", "b1"))
    assert found(story) == broken


def test_members_of_a_gang_leave_together(story: Story) -> None:
    for name in ("r1", "r2"):
        story.change("pods", name, {"metadata": {"annotations": {names.ANNOTATION_GANG_NAME: "g"}}})
    group(story, "red", runtime=5000)
    group(story, "blue", runtime=4000, promised=4000)
    reclaim(story, "r1", "r2")
    assert found(story) == []


def test_nobody_leaves_for_more_than_was_promised(story: Story) -> None:
    """All members of a gang count, and who is placed already."""
    group(story, "red", runtime=1000)
    group(story, "blue", runtime=4000, promised=3000)
    reclaim(story, "r2")
    assert found(story) == []
    reclaim(story, "r1", "r2", waits=("b0", "b1"))
    assert set(found(story)) == {LAW}


def test_inside_a_group_only_lower_priorities_leave(story: Story) -> None:
    group(story, "red", runtime=6000)
    reclaim(story, "r2", quota="/red", stamps="red")
    assert found(story) == []
    reclaim(story, "r1", quota="/red", stamps="red")
    assert found(story) == [LAW]


def test_the_groups_that_give_are_stamped(story: Story) -> None:
    group(story, "red", runtime=3000)
    group(story, "blue", runtime=4000, promised=4000)
    reclaim(story, "r2", stamps="blue")
    assert found(story) == [LAW]


def test_by_the_timer_a_group_gives_of_its_own_while_it_is_over(story: Story) -> None:
    group(story, "red", runtime=5000)
    group(story, "blue", runtime=0)
    revoke(story, "red", "r2")
    assert found(story) == []
    revoke(story, "blue", "r2")
    assert found(story) == [LAW]
