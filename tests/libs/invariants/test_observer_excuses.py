"""What the observer holds against nobody: what could not be known yet, and gangs that lost a member."""

from __future__ import annotations

import pytest
from tests.libs.invariants.stage import gang, stage, stranger
from tests.libs.invariants.story import Story

from berth.contracts import names
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP


def test_a_limit_lowered_a_moment_ago_is_nobodys_fault() -> None:
    story = stage()
    story.node("n1", cpu="0")
    story.quota("blue", "0", parent="company")
    story.place("a", quota="/blue")
    assert story.broken == []
    story.wait(11)
    story.place("b", quota="/blue")
    assert story.broken == ["I1b", "I2"]


def test_a_strangers_bind_counts_once_everybody_can_know() -> None:
    story = stage()
    story.change("pods", "b", {"spec": {"schedulerName": "default-scheduler"}})
    for name in ("b", "c"):
        story.pod(name, uid=f"uid-foreign-{name}")
        story.objects["pods"][name]["spec"]["schedulerName"] = "default-scheduler"
        note = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
        change = {
            "metadata": {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: note}},
            "spec": {"nodeName": "n1", "schedulerName": "default-scheduler"},
        }
        story.change("pods", name, change)
    story.place("a", minors={0: 100})
    assert story.broken == []
    story.wait(11)
    story.pod("d")
    story.place("d", minors={0: 10})
    assert story.broken == ["I1"]


def test_a_gang_that_lost_a_member_may_stay_half() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.bind("g2")
    story.delete("pods", "g2")
    story.wait(100)
    assert story.broken == []


def test_a_gang_has_its_time_to_recover_after_the_last_fault() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.bind("g1")
    story.wait(10)
    story.observer.trouble(20)
    story.wait(10)
    story.observer.trouble(15)  # five seconds longer
    story.wait(34)
    assert story.broken == []
    story.wait(2)
    assert story.broken == ["I3"]


def test_a_gang_whose_member_leaves_while_it_is_bound() -> None:
    story = stage()
    gang(story, 2)
    story.gang("g1", "g2")
    story.delete("pods", "g2")
    story.bind("g1")
    story.wait(5)
    assert story.broken == []


def test_a_gang_that_has_begun_may_lose_a_member_before_its_first_bind_lands() -> None:
    story = stage()
    gang(story, 2)
    story.lease(story.gang("g1", "g2"))
    story.delete("pods", "g2")
    story.wait(11)
    story.bind("g1")
    story.wait(100)
    assert story.broken == []


def test_what_a_pod_names_counts_once_its_solver_has_read_it() -> None:
    story = stage()
    story.wait(11)
    decision = story.decision("a", quota=f"/{DEFAULT_GROUP}")
    story.change("pods", "a", {"metadata": {"labels": {names.LABEL_QUOTA_NAME: "blue"}}})
    story.commit(decision)
    assert story.broken == []
    story.withdraw("a")
    story.place("a", quota=f"/{DEFAULT_GROUP}")
    assert story.broken == ["I2"]


@pytest.mark.parametrize("label", [DEFAULT_GROUP, ROOT_GROUP, "of-nobody"])
def test_the_default_group_pays_for_who_names_it_or_none_that_is_there(label: str) -> None:
    story = stage()
    story.quota(DEFAULT_GROUP, "99")
    story.quota(ROOT_GROUP, "99")
    story.wait(11)
    story.pod("p", **{names.LABEL_QUOTA_NAME: label})
    story.place("p", quota=f"/{DEFAULT_GROUP}")
    assert story.broken == []


def test_a_bind_takes_nothing_from_a_reservation_though_a_stranger_came_after_its_decision() -> None:
    story = Story()
    story.node("n1", cpu="8")
    story.reservation(cpu="4")
    story.pod("a", cpu="4")
    story.place("a")
    stranger(story, "1")
    story.wait(11)
    story.bind("a")
    assert story.broken == []
    story.pod("b", cpu="1")
    story.place("b")
    assert story.broken == ["I10b"]


def test_a_stranger_that_came_a_moment_ago_leaves_a_reservation_what_it_had() -> None:
    story = Story()
    story.node("n1", cpu="8")
    story.reservation(cpu="4")
    stranger(story, "1")
    story.pod("a", cpu="4")
    story.place("a")
    assert story.broken == []
