"""Who may not be evicted, whatever the plan says."""

from __future__ import annotations

import pytest

from berth.cluster_writer.core.victims import why_stays
from berth.contracts import names
from berth.contracts.state import PodGroup
from berth.testing.builders import pod


def group(**annotations: str) -> PodGroup:
    return PodGroup(namespace="default", name="g", uid="u", version=1, min_member=2, annotations=annotations)


NON_STRICT = {names.ANNOTATION_GANG_MODE: "NonStrict"}


def test_a_single_pod_may_leave() -> None:
    assert why_stays(pod("p").build(1), {}) == ""
    assert why_stays(pod("p").build(1), {("default", "g"): group()}) == ""


def test_a_protected_one_stays() -> None:
    assert why_stays(pod("p").set(mirror=True).build(1), {}) == "default/p is protected: mirror pod"


@pytest.mark.parametrize("by_label", [True, False])
def test_a_member_of_a_strict_gang_stays(by_label: bool) -> None:
    made = pod("p").label(names.LABEL_POD_GROUP, "g") if by_label else pod("p").gang("g", 2)
    assert why_stays(made.build(1), {}) == "default/p belongs to the strict gang default/g"
    assert why_stays(made.build(1), {("default", "g"): group()}) == "default/p belongs to the strict gang default/g"


def test_the_pod_group_speaks_for_its_members() -> None:
    strict = pod("p").label(names.LABEL_POD_GROUP, "g")
    loose = strict.annotation(names.ANNOTATION_GANG_MODE, "NonStrict")
    assert why_stays(strict.build(1), {("default", "g"): group(**NON_STRICT)}) == ""
    assert why_stays(loose.build(1), {("default", "g"): group()}) != ""


def test_without_one_they_speak_for_themselves() -> None:
    loose = pod("p").label(names.LABEL_POD_GROUP, "g").annotation(names.ANNOTATION_GANG_MODE, "NonStrict")
    assert why_stays(loose.build(1), {}) == ""
    assert why_stays(loose.build(1), {("elsewhere", "g"): group()}) == ""
