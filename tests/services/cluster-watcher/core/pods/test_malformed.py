"""What cannot be read or carried is named by its field, and costs only itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.watcher.pod_items import container, fields, pod, read

from berth.contracts import names
from berth.rules.reading.findings import PROBLEMS_MAX


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [container(requests={"cpu": "-1"})]}, "spec.containers[0].resources.requests[cpu]"),
        ({"containers": [container(requests={"cpu": "NaN"})]}, "spec.containers[0].resources.requests[cpu]"),
        ({"containers": [container(requests={"memory": "1e999"})]}, "spec.containers[0].resources.requests[memory]"),
        ({"containers": [container(requests={"cpu": []})]}, "spec.containers[0].resources.requests[cpu]"),
        ({"containers": [container(requests=[1])]}, "spec.containers[0].resources.requests"),
        ({"containers": [container(), container("c")]}, "spec.containers[1].name"),
        ({"containers": [container()], "initContainers": [container("c")]}, "spec.initContainers[0].name"),
        ({"containers": [container(ports=[{"hostPort": -1}])]}, "spec.containers[0].ports[0].hostPort"),
        ({"containers": [container(ports=[{"hostPort": 70000}])]}, "spec.containers[0].ports[0].hostPort"),
        ({"overhead": {"cpu": "-5"}}, "spec.overhead[cpu]"),
        ({"nodeSelector": {"a": 5}}, "spec.nodeSelector[a]"),
        ({"nodeSelector": "x"}, "spec.nodeSelector"),
        ({"tolerations": [{"key": 7}]}, "spec.tolerations[0].key"),
        ({"affinity": {"nodeAffinity": 1}}, "spec.affinity.nodeAffinity"),
        ({"priority": "high"}, "spec.priority"),
        ({"priority": 1 << 70}, "spec.priority"),
        ({"containers": 5}, "spec.containers"),
        ("nothing", "spec"),
        ([], "spec"),
    ],
)
def test_malformed_specifications_name_the_field(spec: Any, field: str) -> None:
    seen = read(pod(spec))
    assert fields(seen) == [field]
    assert all(amount >= 0 for amount in seen.template.requests.values())
    assert seen.name == "a"


def test_a_field_that_does_not_fit_costs_only_itself() -> None:
    """A bound pod keeps its node and what it holds, whatever else is wrong with it."""
    seen = read(
        pod(
            {
                "nodeName": "n1",
                "priority": {},
                "containers": [container(requests={"cpu": "2"}), {"name": 5, "resources": {"requests": {"cpu": "1"}}}],
                "tolerations": [{"key": "k"}, {"key": 1}, 7],
                "volumes": None,
            },
            {"phase": "Running", "conditions": "none"},
        )
    )
    assert (seen.node, seen.phase) == ("n1", "Running")
    assert seen.template.requests == {"cpu": 3000}
    assert len(seen.template.tolerations) == 2
    assert fields(seen) == [
        "spec.priority",
        "spec.containers[1].name",
        "spec.tolerations[1].key",
        "spec.tolerations[2]",
        "status.conditions",
    ]


def test_a_container_status_that_does_not_fit_costs_only_itself() -> None:
    seen = read(
        pod(
            {"nodeName": "n1", "containers": [container("c", {"cpu": "2"})]},
            {"phase": "Running", "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": []}}]},
        )
    )
    assert (seen.phase, seen.template.requests) == ("Running", {"cpu": 2000})
    assert fields(seen) == ["status.containerStatuses[0].allocatedResources[cpu]"]


@pytest.mark.parametrize(
    ("spec", "constraints"),
    [
        ({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "x"}}]}, []),
        (
            {
                "volumes": [
                    {"name": v, v: {}} for v in ("secret", "projected", "downwardAPI", "hostPath", "image", "nfs")
                ]
            },
            [],
        ),
        ({"volumes": [{"name": "v"}]}, []),
        ({"volumes": [{"name": "v", "ephemeral": {}}, {"name": "w", "csi": {"driver": "d"}}]}, []),
        ({"volumes": [{"name": "v", "notYetInvented": {}}]}, ["spec.volumes[0].notYetInvented"]),
        (
            {"volumes": [{"name": "e", "emptyDir": {}}, {"name": "v", "azureDisk": {"diskURI": "d"}}]},
            ["spec.volumes[1].azureDisk"],
        ),
        ({"volumes": [{"name": "v", "notYetInvented": None}]}, []),
        ({"resourceClaims": [{"name": "r"}]}, ["spec.resourceClaims"]),
        (
            {"containers": [container(), container("d", resources={"claims": [{"name": "r"}]})]},
            ["spec.containers[1].resources.claims"],
        ),
        (
            {"initContainers": [container("i", resources={"claims": [{"name": "r"}]})]},
            ["spec.initContainers[0].resources.claims"],
        ),
    ],
)
def test_constraints_that_state_does_not_carry(spec: dict[str, Any], constraints: list[str]) -> None:
    seen = read(pod(spec))
    assert seen.template.constraints == constraints
    assert seen.problems == []


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "", " 1", "99999999999", "١", "9" * 5000])
def test_an_attempt_that_is_not_an_integer(text: str) -> None:
    seen = read(pod(annotations={names.ANNOTATION_ATTEMPT: text}))
    assert seen.attempt == 0
    assert fields(seen) == [f"metadata.annotations[{names.ANNOTATION_ATTEMPT}]"]
    assert len(seen.problems[0].message) <= 300


@pytest.mark.parametrize(
    ("owners", "told"),
    [
        ('[{"labelSelector":{"matchLabels":{"app":"db"}}}]', []),
        (None, [""]),
        ("[]", [""]),
        ("{", [""]),
        ('[{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}]', ["[0].labelSelector"]),
    ],
    ids=range(5),
)
def test_a_placeholder_that_is_nobodys_is_told_by_field(owners: str | None, told: list[str]) -> None:
    field = f"metadata.annotations[{names.ANNOTATION_RESERVATION_OWNERS}]"
    notes = {} if owners is None else {names.ANNOTATION_RESERVATION_OWNERS: owners}
    meta: dict[str, Any] = {"labels": {names.LABEL_OPERATING_MODE: "Reservation"}, "annotations": notes}
    runs = {"containers": [{"name": "c"}], "nodeName": "n"}
    found = fields(read(pod(runs, **meta)))
    assert len(found) == len(told)
    assert all(each.startswith(field + more) for each, more in zip(found, told, strict=True))
    assert fields(read(pod(**meta))) == [], "until it runs it is a pod like any other"
    assert fields(read(pod(runs, annotations=notes))) == []


def test_many_problems_are_limited() -> None:
    seen = read(pod({"tolerations": [1] * 1000, "nodeName": "n1"}))
    assert len(seen.problems) == PROBLEMS_MAX
    assert seen.node == "n1"
