"""Gang settings of pods and PodGroups."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts import names
from berth.rules.gang_annotations import GROUP_MAX
from berth.rules.gang_config import GangConfig, GangDefaults, gang_of_pod, gang_of_pod_group
from berth.testing.vectors import cases


def config_of(given: dict[str, Any]) -> GangConfig | None:
    defaults = GangDefaults(given["defaultTimeoutSeconds"], given["defaultMatchPolicy"])
    if given["kind"] == "Pod":
        return gang_of_pod(given["namespace"], given["labels"], given["annotations"], defaults)
    return gang_of_pod_group(
        given["namespace"],
        given["name"],
        min_member=given["minMember"],
        schedule_timeout_s=given.get("scheduleTimeoutSeconds"),
        annotations=given["annotations"],
        defaults=defaults,
    )


@pytest.mark.parametrize("case", cases("gang/gang_config"))
def test_vector(case: dict[str, Any]) -> None:
    config, expect = config_of(case["given"]), case["expect"]
    if expect["gang"] is None:
        assert config is None
        return
    assert config is not None
    assert config.id == expect["gang"]
    assert (config.min_member is not None) is expect["initialized"]
    if expect["initialized"]:
        assert (config.min_member, config.total, config.mode, config.match_policy) == (
            expect["minRequired"],
            expect["total"],
            expect["mode"],
            expect["matchPolicy"],
        )
        assert config.wait_s == expect["waitSeconds"]
        assert list(config.group) == expect["group"]
        assert config.group_id == expect["groupId"]


def pod(annotations: dict[str, str], labels: dict[str, str] | None = None) -> GangConfig:
    config = gang_of_pod(
        "ns", labels or {}, {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "2", **annotations}
    )
    assert config is not None
    return config


def fields(config: GangConfig) -> list[str]:
    return [problem.field for problem in config.problems]


def test_good_settings_have_no_problem() -> None:
    config = pod({names.ANNOTATION_GANG_WAIT: "1m", names.ANNOTATION_GANG_GROUPS: '["ns/h", "ns/g"]'})
    assert config.problems == ()
    assert config.group_id == "ns/g,ns/h"
    assert config.source == "annotations"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (names.ANNOTATION_GANG_MIN, "-1"),
        (names.ANNOTATION_GANG_MIN, "99999999999"),
        (names.ANNOTATION_GANG_TOTAL, "1"),
        (names.ANNOTATION_GANG_TOTAL, "many"),
        (names.ANNOTATION_GANG_MODE, "strict"),
        (names.ANNOTATION_GANG_MATCH_POLICY, "sometimes"),
        (names.ANNOTATION_POD_GROUP_MATCH_POLICY, "sometimes"),
        (names.ANNOTATION_GANG_WAIT, "30"),
        (names.ANNOTATION_GANG_WAIT, "-5s"),
        (names.ANNOTATION_GANG_GROUPS, "a,b"),
        (names.ANNOTATION_GANG_GROUPS, '["ns/other"]'),
        (names.ANNOTATION_GANG_GROUPS, '["ns/g", "ns/g"]'),
        (names.ANNOTATION_GANG_GROUPS, json.dumps([f"ns/{n}" for n in range(GROUP_MAX + 1)])),
        (names.ANNOTATION_GANG_NAME, "a,b"),
        (names.ANNOTATION_GANG_NAME, "x" * 300),
    ],
)
def test_a_setting_without_effect_is_reported_by_its_field(name: str, text: str) -> None:
    assert fields(pod({name: text})) == [f"metadata.annotations[{name}]"]


def test_a_member_of_a_pod_group_takes_its_settings_from_there() -> None:
    config = gang_of_pod("ns", {names.LABEL_POD_GROUP: "g"}, {})
    assert config is not None
    assert (config.source, config.min_member, config.problems) == ("pod-group", None, ())


def test_the_old_name_label_is_the_annotation_way() -> None:
    config = gang_of_pod("ns", {names.LABEL_POD_GROUP_OLD_NAME: "old", names.LABEL_POD_GROUP_OLD_MIN: "3"}, {})
    assert config is not None
    assert (config.name, config.source, config.min_member) == ("old", "annotations", 3)


def test_pod_group_with_a_negative_minimum() -> None:
    config = gang_of_pod_group("ns", "g", min_member=-1, schedule_timeout_s=-3, annotations={})
    assert config.min_member is None
    assert config.wait_s == 600
    assert fields(config) == ["spec.minMember", "spec.scheduleTimeoutSeconds"]


@given(st.dictionaries(st.sampled_from([getattr(names, n) for n in dir(names) if "GANG_" in n]), st.text(max_size=40)))
def test_any_annotations_give_usable_settings(annotations: dict[str, str]) -> None:
    config = pod(annotations, {names.LABEL_POD_GROUP_OLD_NAME: "g"})
    assert config.wait_s > 0
    assert config.min_member is None or 0 <= config.min_member <= config.total
    assert config.group
    assert list(config.group) == sorted(config.group)
