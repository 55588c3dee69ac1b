"""What hooks charge beyond a pod's request counts as what its quota group holds, and is bound as it was decided."""

from __future__ import annotations

from tests.libs.invariants.story import Story

from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.quota import PodCharge, QuotaGroup

SEAT = "licences.example.com/seat"
KEY = subjects.charge_key("a" * 32)


def begun(*pods: str) -> Story:
    story = Story()
    story.node("n1", cpu="64")
    for name in pods:
        story.pod(name, cpu="2")
    story.wait(60.0)
    limits = {"limits": ["cpu", SEAT], "max": {"cpu": 8000, SEAT: 2}, "runtime": {"cpu": 8000, SEAT: 2}}
    group = QuotaGroup(tree="", name="blue", revision=5, **limits)
    story.observer.quota(subjects.quota_key("", "blue"), encode(group), False)
    return story


def decide(story: Story, name: str, seats: int) -> None:
    account = subjects.quota_account("", "blue")
    accounts = [subjects.node_account("n1"), account]
    story.commit(
        story.decision(name, quota="/blue", accounts=accounts, surcharge={SEAT: seats}), revisions={account: 5}
    )


def found(story: Story) -> list[str]:
    return [each.promise for each in story.observer.violations]


def test_a_group_is_charged_no_more_than_its_max() -> None:
    story = begun("p", "q")
    decide(story, "p", 1)
    decide(story, "q", 1)
    assert found(story) == []
    story = begun("p", "q")
    decide(story, "p", 1)
    decide(story, "q", 2)
    assert found(story) == ["I31"]


def test_what_hooks_say_has_to_be_readable() -> None:
    story = begun()
    story.observer.quota(KEY, encode(PodCharge(id="a" * 32, group="blue", surcharge={SEAT: 1})), False)
    story.observer.quota(KEY, b"", True)
    assert found(story) == []
    story.observer.quota(KEY, b"{", False)
    assert found(story) == ["I0"]
