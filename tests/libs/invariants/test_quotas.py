"""Quota groups and their ancestors stay within max, what cannot be preempted within min: I2, I2b."""

from __future__ import annotations

from typing import Any

from tests.libs.invariants.worlds import broken, check_of, pod, quota

from berth.contracts import names
from berth.invariants import World, check


def of_quota(name: str, group: str, cpu: str, *, non_preemptible: bool = False) -> dict[str, Any]:
    labels = {names.LABEL_QUOTA_NAME: group} | ({names.LABEL_QUOTA_PREEMPTIBLE: "false"} if non_preemptible else {})
    return pod(name, "n1", {"cpu": cpu}, labels=labels)


TREE = [
    quota("company", {"cpu": "10"}),
    quota("blue", {"cpu": "8"}, {"cpu": "2"}, parent="company"),
    quota("red", {"cpu": "8"}, parent="company"),
]


def test_quotas_used_up_are_fine() -> None:
    pods = [of_quota("a", "blue", "8"), of_quota("b", "red", "2")]
    assert check_of(pods=pods, quotas=TREE) == []


def test_a_group_above_its_max() -> None:
    assert check_of(pods=[of_quota("a", "blue", "8001m")], quotas=TREE) == ["I2"]


def test_an_ancestor_above_its_max() -> None:
    report = check(World.of(pods=[of_quota("a", "blue", "6"), of_quota("b", "red", "5")], quotas=TREE))
    assert broken(report) == ["I2"]
    assert report.broken[0].evidence == ("quota company: 11000 of 10000 cpu",)


def test_what_was_charged_counts_rather_than_the_label() -> None:
    moved = pod(
        "a", "n1", {"cpu": "9"}, notes={names.ANNOTATION_QUOTA: "/company"}, labels={names.LABEL_QUOTA_NAME: "blue"}
    )
    assert check_of(pods=[moved], quotas=TREE) == []


def test_non_preemptible_pods_stay_within_the_min() -> None:
    assert check_of(pods=[of_quota("a", "blue", "2", non_preemptible=True)], quotas=TREE) == []
    assert check_of(pods=[of_quota("a", "blue", "3", non_preemptible=True)], quotas=TREE) == ["I2b"]


def test_a_circle_of_groups_ends() -> None:
    circle = [quota("a", {"cpu": "1"}, parent="b"), quota("b", {"cpu": "1"}, parent="a")]
    assert check_of(pods=[of_quota("p", "a", "2")], quotas=circle) == ["I2"]
