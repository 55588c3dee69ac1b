"""Pods as they should be: what STATE says of containers, amounts, status and times."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.watcher.pod_items import container, fields, pod, read

from berth.cluster_watcher.core.packing import pack
from berth.contracts import names, state
from berth.contracts.codec import decode
from berth.contracts.state import BatchContainer, DeviceContainer, HostPort


def test_an_ordinary_pod() -> None:
    seen = read(
        pod(
            {
                "schedulerName": "berth-scheduler",
                "priority": 9000,
                "priorityClassName": "high",
                "preemptionPolicy": "Never",
                "nodeName": "n1",
                "nodeSelector": {"zone": "a"},
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "schedulingGates": [{"name": "wait"}],
                "containers": [
                    container("c", {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"}),
                    container("d", {"cpu": 1}, ports=[{"hostPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 9}]),
                ],
                "initContainers": [container("i", {"cpu": "4"})],
                "overhead": {"cpu": "100m"},
            },
            {"phase": "Pending"},
            labels={"app": "web"},
            annotations={"other/x": "no", names.ANNOTATION_ATTEMPT: "3", names.ANNOTATION_PLAN: "p1"},
            creationTimestamp="2024-01-01T00:00:00Z",
            deletionTimestamp="2024-01-02T00:00:00Z",
            ownerReferences=[{"kind": "Job", "name": "j", "uid": "ju", "controller": True}],
        )
    )
    assert seen.problems == []
    assert (seen.namespace, seen.name, seen.uid, seen.version) == ("ns", "a", "u", 7)
    assert (seen.node, seen.phase, seen.created, seen.deleting) == ("n1", "Pending", "2024-01-01T00:00:00Z", True)
    assert (seen.attempt, seen.plan) == (3, "p1")
    assert seen.owners[0].controller
    template = seen.template
    assert template.requests == {"cpu": 4100, "memory": 1 << 30, "nvidia.com/gpu": 2}
    assert (template.scheduler, template.priority, template.priority_class) == ("berth-scheduler", 9000, "high")
    assert (template.preemption_policy, template.node_selector) == ("Never", {"zone": "a"})
    assert template.tolerations[0].operator == "Exists"
    assert template.gates == ["wait"]
    assert template.host_ports == [HostPort(port=80, host_ip="10.0.0.1")]
    assert template.labels == {"app": "web"}
    assert template.annotations == {names.ANNOTATION_ATTEMPT: "3", names.ANNOTATION_PLAN: "p1"}
    assert template.constraints == []


@pytest.mark.parametrize(("node", "counted"), [("n1", 4000), ("", 2000)])
def test_a_bound_pod_that_is_being_resized_counts_with_what_it_still_has(node: str, counted: int) -> None:
    granted = {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "4"}}}
    seen = read(
        pod(
            {"nodeName": node, "containers": [container("c", {"cpu": "2"})]},
            {"phase": "Running", "containerStatuses": [granted]},
        )
    )
    assert seen.problems == []
    assert seen.template.requests == {"cpu": counted}


def test_what_a_reader_gets_is_what_was_packed() -> None:
    seen = read(pod({"containers": [container(requests={"cpu": "1"})], "affinity": {"nodeAffinity": {}}}))
    packed = pack(seen)
    assert packed.value is not None
    assert not packed.cut
    assert decode(packed.value, state.Pod) == seen


def test_images_in_order_and_as_often_as_they_are_used() -> None:
    spec = {
        "containers": [container("a", image="r/a:1"), container("b", image="r/b"), container("c", image="r/a:1")],
        "initContainers": [container("i", image="r/i"), container("j", image="x" * 1025), container("k")],
    }
    assert read(pod(spec)).template.images == ["r/a:1", "r/b", "r/a:1", "r/i", "", ""]
    assert read(pod()).template.images == []


def test_what_containers_ask_of_devices() -> None:
    card = {"cpu": "1", "nvidia.com/gpu": "1"}
    spec = {
        "containers": [
            container("a", requests=card),
            container("b", requests={"cpu": "1", "koordinator.sh/rdma": "0"}),
        ],
        "initContainers": [
            container("i"),
            container("s", requests={"koordinator.sh/gpu-core": "50"}, restartPolicy="Always"),
        ],
    }
    seen = read(pod(spec)).template
    assert seen.device_containers == [
        DeviceContainer(name="a", requests={"nvidia.com/gpu": 1}),
        DeviceContainer(name="b"),
        DeviceContainer(name="i", init=True),
        DeviceContainer(name="s", requests={"koordinator.sh/gpu-core": 50}),
    ]
    for containers in (
        [container("a", requests=card)],
        [container("a", requests={"cpu": "1"}), container("b", requests={"koordinator.sh/fpga": "0"})],
        [container("a", requests=card), container("a")],
        [container("a", requests=card), container("")],
        [container("a", requests=card), container("b" * 64)],
        [container("a", requests=card), *(container(f"c{at}") for at in range(1024))],
        [container("a", requests={"nvidia.com/gpu": "many"}), container("b", requests={"koordinator.sh/rdma": []})],
    ):
        assert read(pod({"containers": containers})).template.device_containers == []


def test_containers_that_ask_for_batch_resources() -> None:
    batch = {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Mi"}
    spec = {
        "containers": [container("a", requests={"cpu": "1"}), {**container("b", requests=batch)}],
        "initContainers": [container("i", requests=batch)],
    }
    amounts = {"kubernetes.io/batch-cpu": 1000, "kubernetes.io/batch-memory": 1 << 20}
    assert read(pod(spec)).template.batch_containers == [BatchContainer(name="b", requests=amounts)]
    odd = {"containers": [container("a", requests={"kubernetes.io/batch-cpu": "x"})]}
    assert read(pod(odd)).template.batch_containers == []


def test_what_counts_in_scores() -> None:
    assert read(pod()).template.scored == {"cpu": 100, "memory": 200 << 20}
    assert read(pod({"containers": [container(requests={"cpu": "0", "memory": "1Gi"})]})).template.scored == {}
    assert read(pod({"containers": [container(requests={"cpu": "2"})]})).template.scored == {"memory": 200 << 20}


def test_status_and_times() -> None:
    status = {
        "startTime": "2024-01-01T00:00:05Z",
        "nominatedNodeName": "n2",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    }
    seen = read(pod(status=status, deletionTimestamp="2024-01-02T00:00:30Z"))
    assert (seen.started, seen.deletes_at, seen.deleting) == ("2024-01-01T00:00:05Z", "2024-01-02T00:00:30Z", True)
    assert (seen.disruption, seen.nominated, seen.problems) == ("PreemptionByScheduler", "n2", [])
    none = read(pod(status={"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "X"}]}))
    assert (none.started, none.deletes_at, none.disruption, none.nominated) == ("", "", "", "")
    bad = read(pod(status={"startTime": "soon", "nominatedNodeName": "n" * 300}, deletionTimestamp="later"))
    assert (bad.started, bad.deletes_at, bad.deleting, len(bad.nominated)) == ("", "", True, 217)
    assert fields(bad) == ["status.startTime", "metadata.deletionTimestamp", "status.nominatedNodeName"]


def test_since_when_it_is_bound_and_initialised() -> None:
    def conditions(status: str, *times: Any) -> dict[str, Any]:
        kinds = ("PodScheduled", "Initialized")
        return {
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": time}
                for kind, time in zip(kinds, times, strict=True)
            ]
        }

    bound = {"nodeName": "n", "containers": [container()]}
    seen = read(pod(bound, conditions("True", "2024-01-01T00:00:01Z", "2024-01-01T00:00:09Z")))
    assert (seen.scheduled, seen.initialized) == ("2024-01-01T00:00:01Z", "2024-01-01T00:00:09Z")
    not_yet = read(pod(bound, conditions("False", "2024-01-01T00:00:01Z", "2024-01-01T00:00:09Z")))
    assert (not_yet.scheduled, not_yet.initialized, not_yet.problems) == ("", "", [])
    bad = read(pod(bound, conditions("True", "now", None)))
    assert (bad.scheduled, bad.initialized) == ("", "")
    assert fields(bad) == ["status.conditions[0].lastTransitionTime"]


def limited(limits: Any, requests: Any = None, **more: Any) -> dict[str, Any]:
    return container(resources={"limits": limits, "requests": requests or {}}, **more)


def test_limits_follow_the_rule_of_requests() -> None:
    spec = {
        "containers": [limited({"cpu": "2", "memory": "1Gi"}), limited({"cpu": "1"})],
        "initContainers": [limited({"memory": "3Gi"})],
        "overhead": {"cpu": "500m", "example.com/x": "1"},
    }
    assert read(pod(spec)).template.limits == {"cpu": 3500, "memory": 3 << 30}
    assert read(pod()).template.limits == {}
    bad = read(pod({"containers": [limited({"cpu": "much", "memory": "1Gi"})], "overhead": {"cpu": "x"}}))
    assert bad.template.limits == {"memory": 1 << 30}
    assert fields(bad) == ["spec.overhead[cpu]", "spec.containers[0].resources.limits[cpu]"]


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container()], "BestEffort"),
        ([container(requests={"cpu": "1"})], "Burstable"),
        ([limited({"cpu": "1", "memory": "1Gi"})], "Guaranteed"),
        ([limited({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m"})], "Burstable"),
        ([limited({"cpu": "one"})], "BestEffort"),
    ],
)
def test_the_qos_class_follows_from_containers_where_the_api_server_does_not_say(
    containers: list[Any], expected: str
) -> None:
    assert read(pod({"containers": containers})).template.kube_qos == expected
    assert read(pod({"containers": containers}, {"qosClass": "Gold"})).template.kube_qos == expected
    assert read(pod({"containers": containers}, {"qosClass": "Guaranteed"})).template.kube_qos == "Guaranteed"


def test_a_mirror_pod_is_known_by_its_annotation_whatever_that_says() -> None:
    assert read(pod(annotations={names.ANNOTATION_MIRROR: "4a1f"})).mirror
    assert read(pod(annotations={names.ANNOTATION_MIRROR: ""})).mirror
    assert not read(pod(annotations={"kubernetes.io/config.source": "api"})).mirror
    assert not read(pod()).mirror


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no capacity"}],
            "no capacity",
        ),
        ([{"type": "PodScheduled", "status": "True", "reason": "Unschedulable", "message": "no capacity"}], ""),
        ([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}], ""),
        ([{"type": "Ready", "status": "False", "reason": "Unschedulable", "message": "no"}], ""),
        (None, ""),
    ],
)
def test_why_it_was_refused(conditions: Any, message: str) -> None:
    assert read(pod(status={"conditions": conditions})).unschedulable == message
