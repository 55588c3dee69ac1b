"""Pods: from JSON as an API server sends it to what STATE says."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cluster_watcher.core.packing import MESSAGE_BYTES_MAX, TEXT_LENGTH_MAX, pack
from berth.contracts import names, state
from berth.contracts.codec import decode
from berth.contracts.kube import Affinity
from berth.contracts.state import BatchContainer, DeviceContainer, HostPort, VolumeUse
from berth.rules.pod_reading import PodItem
from berth.rules.reading.findings import NAME_LENGTH_MAX, PROBLEMS_MAX
from berth.rules.reading.pods import pod_of

DECODER = msgspec.json.Decoder(PodItem)
LABELS = "labelSelector.matchExpressions"


def pod(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c"}]} if spec is None else spec
    meta = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"} | metadata
    return {"metadata": meta, "spec": spec} | ({} if status is None else {"status": status})


def read(item: Any) -> state.Pod:
    return pod_of(DECODER.decode(json.dumps(item).encode()), 7)


def container(name: str = "c", requests: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests or {}}} | more


def fields(message: Any) -> list[str]:
    return [problem.field for problem in message.problems]


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


def test_a_container_status_that_does_not_fit_costs_only_itself() -> None:
    seen = read(
        pod(
            {"nodeName": "n1", "containers": [container("c", {"cpu": "2"})]},
            {"phase": "Running", "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": []}}]},
        )
    )
    assert (seen.phase, seen.template.requests) == ("Running", {"cpu": 2000})
    assert fields(seen) == ["status.containerStatuses[0].allocatedResources[cpu]"]


def test_what_a_reader_gets_is_what_was_packed() -> None:
    seen = read(pod({"containers": [container(requests={"cpu": "1"})], "affinity": {"nodeAffinity": {}}}))
    packed = pack(seen)
    assert packed.value is not None
    assert not packed.cut
    assert decode(packed.value, state.Pod) == seen


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


def test_volumes_of_a_pod_that_limits_their_disks() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "a-data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "inline", "csi": {"driver": "d"}},
        {"name": "none", "emptyDir": {}},
        {"name": 7, "csi": {"driver": "d"}},
        {"name": "odd", "persistentVolumeClaim": "x"},
    ]
    spec = {"containers": [{"name": "c"}], "volumes": volumes}
    assert read(pod(spec)).limited_volumes == {}
    limited = read(pod(spec, annotations={names.ANNOTATION_BLKIO_QOS: "{}"})).limited_volumes
    assert limited == {"data": "a-data", "scratch": "a-scratch", "inline": ""}


def test_volumes_that_may_tie_it_to_nodes() -> None:
    seen = read(
        pod(
            {
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
                    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                    {"name": "b", "gcePersistentDisk": {"pdName": "disk-1", "readOnly": True}},
                    {"name": "c", "awsElasticBlockStore": {"volumeID": "vol-1"}},
                    {"name": "d", "iscsi": {"iqn": "iqn.2001-04.com:x", "targetPortal": "1.2.3.4", "lun": 0}},
                    {"name": "e", "rbd": {"monitors": ["m1", "m2"], "image": "img"}},
                    {"name": "f", "emptyDir": {}},
                ]
            }
        )
    )
    assert (fields(seen), seen.template.constraints) == ([], [])
    assert seen.template.volumes == [
        VolumeUse(source="persistentVolumeClaim", claim="data", read_only=True),
        VolumeUse(source="ephemeral", claim="scratch"),
        VolumeUse(source="gcePersistentDisk", disk=["disk-1"], read_only=True),
        VolumeUse(source="awsElasticBlockStore", disk=["vol-1"]),
        VolumeUse(source="iscsi", disk=["iqn.2001-04.com:x"]),
        VolumeUse(source="rbd", disk=["rbd", "img", "m1", "m2"]),
    ]


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"persistentVolumeClaim": {}}, "persistentVolumeClaim.claimName"),
        ({"persistentVolumeClaim": {"claimName": 7}}, "persistentVolumeClaim.claimName"),
        ({"persistentVolumeClaim": {"claimName": "c" * 254}}, "persistentVolumeClaim.claimName"),
        ({"persistentVolumeClaim": "c"}, "persistentVolumeClaim"),
        ({"ephemeral": {}}, "name"),
        ({"gcePersistentDisk": {}}, "gcePersistentDisk.pdName"),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": "no"}}, "gcePersistentDisk.readOnly"),
        ({"awsElasticBlockStore": {"volumeID": "v" * 1025}}, "awsElasticBlockStore.volumeID"),
        ({"iscsi": {}}, "iscsi.iqn"),
        ({"rbd": {"image": "i"}}, "rbd.monitors"),
        ({"rbd": {"image": "i", "monitors": ["m"] * 65}}, "rbd.monitors"),
        ({"rbd": {"image": "i", "monitors": ["m", ""]}}, "rbd.monitors[1]"),
        ({"rbd": {"image": "i", "monitors": ["m"], "pool": ""}}, "rbd.pool"),
    ],
)
def test_a_volume_that_does_not_say_which_it_is(source: dict[str, Any], field: str) -> None:
    seen = read(pod({"volumes": [source, {"name": "ok", "persistentVolumeClaim": {"claimName": "c"}}]}))
    assert fields(seen) == [f"spec.volumes[0].{field}"]
    assert [use.claim for use in seen.template.volumes] == ["c"]


TERM = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "namespaces": ["other"],
    "namespaceSelector": {},
    "matchLabelKeys": ["hash"],
    "mismatchLabelKeys": ["tenant"],
}
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


def test_affinity_to_other_pods_is_carried() -> None:
    affinity = {
        "podAffinity": {REQUIRED: [TERM, {"topologyKey": "kubernetes.io/hostname"}]},
        "podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": TERM}]},
    }
    seen = read(pod({"affinity": affinity}))
    assert (fields(seen), seen.template.constraints) == ([], [])
    assert json.loads(msgspec.json.encode(seen.template.affinity)) == affinity


@pytest.mark.parametrize(
    "affinity", [{"podAffinity": {}}, {"podAntiAffinity": {REQUIRED: [], PREFERRED: None}}, {"podAffinity": {"x": 1}}]
)
def test_affinity_without_terms_is_none(affinity: dict[str, Any]) -> None:
    seen = read(pod({"affinity": affinity}))
    assert (fields(seen), seen.template.affinity) == ([], Affinity())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"topologyKey": ""}, "topologyKey"),
        ({"topologyKey": "no key"}, "topologyKey"),
        ({"topologyKey": None}, "topologyKey"),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, LABELS + "[0].operator"),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, LABELS + "[0].values"),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
            LABELS + "[0].operator",
        ),
        ({"labelSelector": {"matchLabels": {f"k{i}": "v" for i in range(300)}}}, "labelSelector"),
        ({"namespaceSelector": {"matchLabels": {"a b": "v"}}}, "namespaceSelector.matchLabels"),
        ({"namespaces": ["n"] * 1025}, "namespaces"),
        ({"namespaces": [""]}, "namespaces"),
        ({"matchLabelKeys": ["a b"]}, "matchLabelKeys"),
        ({"mismatchLabelKeys": ["a"] * 65}, "mismatchLabelKeys"),
    ],
)
def test_a_term_that_cannot_be_honoured_is_named(change: dict[str, Any], field: str) -> None:
    seen = read(
        pod(
            {
                "affinity": {
                    "podAffinity": {REQUIRED: [TERM, TERM | change]},
                    "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM | change}]},
                }
            }
        )
    )
    assert fields(seen) == [
        f"spec.affinity.podAffinity.{REQUIRED}[1].{field}",
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.{field}",
    ]
    affinity = seen.template.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    assert len(affinity.pod_affinity.required_during_scheduling_ignored_during_execution or ()) == 1
    assert affinity.pod_anti_affinity is None


@pytest.mark.parametrize("weight", [0, 101, -1, None])
def test_a_weight_out_of_bounds(weight: int | None) -> None:
    term = {"podAffinityTerm": TERM} | ({} if weight is None else {"weight": weight})
    seen = read(pod({"affinity": {"podAffinity": {PREFERRED: [term]}}}))
    assert fields(seen) == [f"spec.affinity.podAffinity.{PREFERRED}[0].weight"]


def test_too_many_terms_are_left_out() -> None:
    seen = read(pod({"affinity": {"podAffinity": {REQUIRED: [TERM] * 257}}}))
    assert (fields(seen), seen.template.affinity) == ([f"spec.affinity.podAffinity.{REQUIRED}"], Affinity())


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "minDomains": 3,
    "nodeAffinityPolicy": "Ignore",
    "nodeTaintsPolicy": "Honor",
    "matchLabelKeys": ["hash"],
}


def test_topology_spread_is_carried() -> None:
    soft = {"maxSkew": 5, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    seen = read(pod({"topologySpreadConstraints": [SPREAD, soft]}))
    assert (fields(seen), seen.template.constraints) == ([], [])
    assert json.loads(msgspec.json.encode(seen.template.topology_spread)) == [SPREAD, soft]
    assert read(pod({"topologySpreadConstraints": []})).template.topology_spread == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"maxSkew": 0}, "maxSkew"),
        ({"maxSkew": -1}, "maxSkew"),
        ({"maxSkew": 1 << 40}, "maxSkew"),
        ({"topologyKey": ""}, "topologyKey"),
        ({"topologyKey": "a b"}, "topologyKey"),
        ({"whenUnsatisfiable": "Perhaps", "minDomains": None}, "whenUnsatisfiable"),
        ({"whenUnsatisfiable": None, "minDomains": None}, "whenUnsatisfiable"),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, "minDomains"),
        ({"minDomains": 0}, "minDomains"),
        ({"nodeAffinityPolicy": "Never"}, "nodeAffinityPolicy"),
        ({"nodeTaintsPolicy": "Never"}, "nodeTaintsPolicy"),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, LABELS + "[0].operator"),
        ({"matchLabelKeys": [""]}, "matchLabelKeys"),
    ],
)
def test_a_spread_that_cannot_be_honoured_is_named(change: dict[str, Any], field: str) -> None:
    seen = read(pod({"topologySpreadConstraints": [SPREAD | change, SPREAD]}))
    assert fields(seen) == [f"spec.topologySpreadConstraints[0].{field}"]
    assert len(seen.template.topology_spread) == 1


def test_too_many_spread_constraints_are_left_out() -> None:
    seen = read(pod({"topologySpreadConstraints": [SPREAD] * 65}))
    assert (fields(seen), seen.template.topology_spread) == (["spec.topologySpreadConstraints"], [])


def test_too_many_volumes_are_left_out() -> None:
    seen = read(pod({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}] * 1025}))
    assert (fields(seen), seen.template.volumes, seen.template.constraints) == (["spec.volumes"], [], [])


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


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "", " 1", "99999999999", "١", "9" * 5000])
def test_an_attempt_that_is_not_an_integer(text: str) -> None:
    seen = read(pod(annotations={names.ANNOTATION_ATTEMPT: text}))
    assert seen.attempt == 0
    assert fields(seen) == [f"metadata.annotations[{names.ANNOTATION_ATTEMPT}]"]
    assert len(seen.problems[0].message) <= 300


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


def test_huge_texts_are_cut_off_and_named() -> None:
    huge = "x" * (1 << 20)
    seen = read(
        pod(
            {"containers": [container(requests={"cpu": "1"})], "nodeSelector": {"zone": huge}},
            labels={"l": huge},
            annotations={"scheduling.berth.sh/a": huge, "elsewhere/b": huge},
        )
    )
    value, cut = pack(seen)
    assert value is not None
    assert len(value) <= MESSAGE_BYTES_MAX
    assert {field for field, _ in cut} == {
        "metadata.labels[l]",
        "metadata.annotations[scheduling.berth.sh/a]",
        "spec.nodeSelector[zone]",
    }
    back = decode(value, state.Pod)
    assert back.template.requests == {"cpu": 1000}
    assert len(back.template.labels["l"]) == TEXT_LENGTH_MAX
    assert set(fields(back)) == {field for field, _ in cut}


def test_a_huge_name_becomes_a_short_one_that_stays_distinct() -> None:
    one, two = (read(pod(name="n" * (1 << 20) + end)) for end in "ab")
    assert max(len(one.name), len(two.name)) <= NAME_LENGTH_MAX
    assert one.name != two.name
    assert fields(one) == ["metadata.name"]


def test_what_cannot_be_made_to_fit_keeps_its_node_and_its_amounts() -> None:
    tolerations = [{"key": f"k{i}", "value": "v" * 1000} for i in range(2000)]
    seen = read(pod({"nodeName": "n1", "containers": [container(requests={"cpu": "1"})], "tolerations": tolerations}))
    value, cut = pack(seen)
    assert value is not None
    assert cut
    back = decode(value, state.Pod)
    assert (back.node, back.template.requests, back.template.tolerations) == ("n1", {"cpu": 1000}, [])
    assert fields(back) == [""]


def test_many_problems_are_limited() -> None:
    seen = read(pod({"tolerations": [1] * 1000, "nodeName": "n1"}))
    assert len(seen.problems) == PROBLEMS_MAX
    assert seen.node == "n1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
QUANTITY = st.text(alphabet="0123456789.-+eEkKMGTPimun", max_size=12) | st.integers() | JSON
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", ""]) | st.text(), QUANTITY, max_size=4)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["c", "d"]) | JSON,
        "image": st.text(max_size=5) | JSON,
        "resources": st.fixed_dictionaries({}, optional={"requests": RESOURCES | JSON, "claims": JSON}) | JSON,
        "ports": st.lists(st.fixed_dictionaries({"hostPort": st.integers() | JSON}), max_size=2) | JSON,
        "restartPolicy": st.just("Always") | JSON,
    },
)
KEYS = [
    "nodeName schedulerName priority priorityClassName preemptionPolicy nodeSelector affinity tolerations hostNetwork",
    "topologySpreadConstraints volumes resourceClaims schedulingGates",
]
SELECTOR = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2) | JSON,
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {}, optional={"key": st.just("a") | JSON, "operator": st.sampled_from(["In", "Exists"]) | JSON}
            )
            | JSON,
            max_size=2,
        ),
    },
)
TERM_OF = st.fixed_dictionaries(
    {},
    optional={
        "topologyKey": st.just("zone") | JSON,
        "labelSelector": SELECTOR | JSON,
        "namespaceSelector": SELECTOR | JSON,
        "namespaces": st.lists(st.text(max_size=5), max_size=2) | JSON,
        "matchLabelKeys": JSON,
        "maxSkew": st.integers(-2, 3) | JSON,
        "minDomains": st.integers(-2, 3) | JSON,
        "whenUnsatisfiable": st.just("DoNotSchedule") | JSON,
    },
)
PREFERRED_OF = st.fixed_dictionaries({"podAffinityTerm": TERM_OF | JSON}, optional={"weight": st.integers() | JSON})
PODS_OF = st.fixed_dictionaries(
    {}, optional={REQUIRED: st.lists(TERM_OF | JSON, max_size=2), PREFERRED: st.lists(PREFERRED_OF | JSON, max_size=2)}
)
SOURCES = "persistentVolumeClaim ephemeral gcePersistentDisk awsElasticBlockStore iscsi rbd flexVolume csi"
DISK = st.dictionaries(
    st.sampled_from(["claimName", "pdName", "volumeID", "iqn", "image", "pool", "monitors", "readOnly"]),
    st.text(max_size=5) | st.lists(st.text(max_size=5), max_size=2) | JSON,
    max_size=4,
)
STRUCTURED = {
    "affinity": st.fixed_dictionaries({}, optional={"podAffinity": PODS_OF | JSON, "podAntiAffinity": PODS_OF | JSON}),
    "topologySpreadConstraints": st.lists(TERM_OF | JSON, max_size=3),
    "volumes": st.lists(
        st.dictionaries(st.sampled_from(SOURCES.split()) | st.just("name"), DISK | JSON, max_size=3) | JSON, max_size=3
    ),
}
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(CONTAINER | JSON, max_size=3) | JSON,
        "initContainers": st.lists(CONTAINER, max_size=2) | JSON,
        "overhead": RESOURCES | JSON,
        "resources": st.fixed_dictionaries({}, optional={"requests": RESOURCES}) | JSON,
    }
    | {key: STRUCTURED.get(key, JSON) | JSON for line in KEYS for key in line.split()},
)
ATTEMPT = st.dictionaries(st.just(names.ANNOTATION_ATTEMPT) | st.text(), st.text(max_size=12), max_size=3)


@settings(deadline=None, max_examples=120)
@given(SPEC | JSON, JSON, ATTEMPT)
def test_no_pod_breaks_the_watcher(spec: Any, status: Any, annotations: dict[str, str]) -> None:
    seen = read({"metadata": {"name": "a", "annotations": annotations}, "spec": spec, "status": status})
    assert all(0 <= amount < 1 << 63 for amount in seen.template.requests.values())
    assert seen.attempt >= 0
    assert all(0 < port.port <= 65535 or seen.problems for port in seen.template.host_ports)
    value, _ = pack(seen)
    assert value is not None
    assert decode(value, state.Pod).name == "a"


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
