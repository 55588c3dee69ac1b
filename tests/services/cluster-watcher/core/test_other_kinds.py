"""Every kind but pods and Reservations: tables of what goes in and what comes out."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.worlds.watcher.kinds import KIND, META, fields, read

from berth.cluster_watcher.core.packing import MESSAGE_BYTES_MAX, pack
from berth.cluster_watcher.kinds import Kind
from berth.contracts import names, state
from berth.contracts.base import Problem
from berth.contracts.codec import decode


@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        ("pod", "pod.ns.a_b"),
        ("node", "node.a_b"),
        ("namespace", "namespace.a_b"),
        ("priorityclass", "priorityclass.a_b"),
        ("configmap", "configmap.ns.a_b"),
        ("poddisruptionbudget", "poddisruptionbudget.ns.a_b"),
        ("service", "service.ns.a_b"),
        ("replicationcontroller", "replicationcontroller.ns.a_b"),
        ("replicaset", "replicaset.ns.a_b"),
        ("statefulset", "statefulset.ns.a_b"),
        ("podgroup", "podgroup.ns.a_b"),
        ("elasticquota", "elasticquota.ns.a_b"),
        ("elasticquotaprofile", "elasticquotaprofile.ns.a_b"),
        ("device", "device.a_b"),
        ("reservation", "reservation.a_b"),
        ("noderesourcetopology", "noderesourcetopology.a_b"),
        ("nodemetric", "nodemetric.a_b"),
        ("nodeslo", "nodeslo.a_b"),
        ("persistentvolumeclaim", "persistentvolumeclaim.ns.a_b"),
        ("persistentvolume", "persistentvolume.a_b"),
        ("storageclass", "storageclass.a_b"),
        ("csinode", "csinode.a_b"),
        ("csidriver", "csidriver.a_b"),
        ("csistoragecapacity", "csistoragecapacity.ns.a_b"),
        ("volumeattachment", "volumeattachment.a_b"),
    ],
)
def test_keys(prefix: str, key: str) -> None:
    kind = KIND[prefix]
    assert kind.key("ns", "a.b") == key
    assert kind.key_of_listed("ns/a.b" if kind.resource.namespaced else "a.b") == key
    assert len(kind.key("n" * 100_000, "m" * 100_000)) < 1000


@pytest.mark.parametrize("kind", KIND.values(), ids=lambda kind: kind.prefix)
def test_an_empty_object_of_every_kind(kind: Kind) -> None:
    item = msgspec.json.decode(json.dumps({"metadata": META}).encode(), type=kind.item)
    value, cut = pack(kind.convert(item, 7))
    assert value is not None
    assert not cut
    back: Any = decode(value, kind.message)
    assert (back.name, back.version) == ("a.b", 7)


@pytest.mark.parametrize("kind", KIND.values(), ids=lambda kind: kind.prefix)
def test_an_unreadable_object_of_every_kind(kind: Kind) -> None:
    problem = Problem(field="metadata.labels", message="no")
    message: Any = kind.unreadable("ns/a" if kind.resource.namespaced else "a", "u", 9, problem)
    if message is None:
        assert "problems" not in kind.message.__struct_fields__
    else:
        assert (message.name, message.uid, message.version, message.problems) == ("a", "u", 9, [problem])


def test_node() -> None:
    node = read(
        "node",
        {
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "7900m", "memory": "30Gi", "pods": "110", "x": "-1"},
                "capacity": {"cpu": "8", "y": "nan"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        labels={"zone": "a"},
        annotations={"node.koordinator.sh/reservation": "{}", "csi.volume/x": "y"},
    )
    assert node.allocatable == {"cpu": 7900, "memory": 30 << 30, "pods": 110}
    assert node.capacity == {"cpu": 8000}
    assert fields(node) == ["status.allocatable[x]", "status.capacity[y]"]
    assert (node.unschedulable, node.ready, node.taints[0].key) == (True, True, "k")
    assert (node.labels, node.annotations) == ({"zone": "a"}, {"node.koordinator.sh/reservation": "{}"})
    assert not read("node", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}).ready


def test_images_of_a_node() -> None:
    def images(*listed: Any) -> dict[str, int]:
        found: dict[str, int] = read("node", {"status": {"images": list(listed)}}).images
        return found

    assert images({"names": ["r/a@sha256:1", "r/a:1"], "sizeBytes": 9}, {"names": ["r/b:1"], "sizeBytes": -1}) == {
        "r/a@sha256:1": 9,
        "r/a:1": 9,
        "r/b:1": 0,
    }
    assert images({"names": None, "sizeBytes": 1 << 70}, {"names": ["", "x" * 1025]}) == {}
    assert images({"names": ["a"], "sizeBytes": 1 << 70}) == {"a": 2**63 - 1}
    many = images(*({"names": [f"{i}/{j}" for j in range(9)], "sizeBytes": 1} for i in range(99)))
    assert list(many) == [f"{i}/{j}" for i in range(50) for j in range(5)]


def test_small_kinds() -> None:
    namespace = read("namespace", {}, labels={"l": "1"}, annotations={"quota.scheduling.koordinator.sh/name": "q"})
    assert (namespace.labels, len(namespace.annotations)) == ({"l": "1"}, 1)
    priority = read("priorityclass", {"value": -5, "globalDefault": True, "preemptionPolicy": "Never"})
    assert (priority.value, priority.global_default, priority.preemption_policy) == (-5, True, "Never")
    assert read("configmap", {"data": {"a": "b"}}).data == {"a": "b"}
    assert read("priorityclass", {"value": 1 << 70}).value == 2**31 - 1
    budget = read(
        "poddisruptionbudget",
        {
            "spec": {"minAvailable": "50%", "maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"disruptionsAllowed": -3, "disruptedPods": {"b": "2024-01-01T00:00:00Z", "a": None}},
        },
    )
    assert budget.disrupted == ["a", "b"]
    assert (budget.min_available, budget.max_unavailable, budget.disruptions_allowed) == ("50%", 1, 0)
    assert budget.selector.match_labels == {"a": "b"}
    topology = read("noderesourcetopology", {"zones": [{"name": "node-0"}], "topologyPolicies": ["None"]})
    assert (topology.zones, topology.policies) == ([{"name": "node-0"}], ["None"])
    assert read("nodemetric", {"status": {"updateTime": "x"}}).status == {"updateTime": "x"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"metricCollectPolicy": {"reportIntervalSeconds": 30}}, 30),
        ({"metricCollectPolicy": {"reportIntervalSeconds": "30"}}, 0),
        ({"metricCollectPolicy": {"reportIntervalSeconds": -1}}, 0),
        ({"metricCollectPolicy": {"reportIntervalSeconds": True}}, 0),
        ({"metricCollectPolicy": []}, 0),
        ({}, 0),
    ],
)
def test_how_often_a_node_reports(spec: dict[str, Any], expected: int) -> None:
    assert read("nodemetric", {"spec": spec}).report_interval_s == expected


@pytest.mark.parametrize("prefix", ["service", "replicationcontroller"])
def test_kinds_that_select_by_labels(prefix: str) -> None:
    assert read(prefix, {"spec": {"selector": {"app": "a"}, "type": "ClusterIP"}}).selector == {"app": "a"}
    assert read(prefix, {"spec": {"selector": None}}).selector == {}
    assert read(prefix, {"spec": {"selector": {f"l{number}": "" for number in range(257)}}}).selector == {}


@pytest.mark.parametrize("prefix", ["replicaset", "statefulset"])
def test_kinds_that_select_by_a_selector(prefix: str) -> None:
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}
    found = read(prefix, {"spec": {"selector": selector, "replicas": 3}}).selector
    assert msgspec.to_builtins(found) == selector
    assert read(prefix, {"spec": {}}).selector is None
    many = [{"key": "x", "operator": "In", "values": [str(number) for number in range(4097)]}]
    assert read(prefix, {"spec": {"selector": {"matchExpressions": many}}}).selector is None


@pytest.mark.parametrize(
    ("text", "revision"),
    [("17", 17), ("", 0), ("x", 0), ("-1", 0), ("1" * 16, 0), ("\u0661", 0), ("1" * 15, 111_111_111_111_111)],
)
def test_a_node_slo_says_which_request_it_was_written_for(text: str, revision: int) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u-n"}
    slo = read("nodeslo", {"spec": {"x": 1}}, annotations={names.ANNOTATION_REVISION: text}, ownerReferences=[owner])
    assert (slo.revision, slo.owner_uid) == (revision, "u-n")
    assert (read("nodeslo", {}).revision, read("nodeslo", {}).owner_uid) == (0, "")


def test_pod_group() -> None:
    group = read(
        "podgroup",
        {
            "spec": {"minMember": 4, "scheduleTimeoutSeconds": 30},
            "status": {"phase": "Scheduling", "occupiedBy": "x", "scheduled": 2, "running": 1, "failed": 1},
        },
    )
    assert (group.min_member, group.schedule_timeout_s, group.phase, group.occupied_by) == (4, 30, "Scheduling", "x")
    assert (group.scheduled, group.running, group.succeeded, group.failed, group.problems) == (2, 1, 0, 1, [])
    broken = read("podgroup", {"spec": {"minMember": -1, "scheduleTimeoutSeconds": -1}, "status": {"running": 1 << 40}})
    assert fields(broken) == ["spec.scheduleTimeoutSeconds", "spec.minMember", "status.running"]
    assert (broken.min_member, broken.schedule_timeout_s, broken.running) == (0, None, 0)


def test_elastic_quota() -> None:
    quota = read(
        "elasticquota",
        {"spec": {"min": {"cpu": "1"}, "max": {"cpu": "2", "memory": "-1"}}, "status": {"used": {"cpu": "500m"}}},
        labels={names.LABEL_QUOTA_PARENT: "root"},
    )
    assert (quota.min, quota.used) == ({"cpu": 1000}, {"cpu": 500})
    assert fields(quota) == ["spec.max[memory]"]
    assert quota.max == {"cpu": 2000, "memory": 0}, "a limit that cannot be read must not become no limit"


def test_elastic_quota_profile() -> None:
    profile = read(
        "elasticquotaprofile",
        {
            "spec": {
                "quotaName": "root",
                "quotaLabels": {"a": "b"},
                "resourceRatio": "1.5",
                "nodeSelector": {"matchLabels": {"pool": "x"}},
            }
        },
        labels={names.LABEL_QUOTA_TREE: "t"},
        annotations={names.ANNOTATION_QUOTA_RESOURCE_KEYS: '["cpu"]', "other": "x"},
    )
    assert (profile.quota_name, profile.quota_labels, profile.ratio) == ("root", {"a": "b"}, "1.5")
    assert profile.selector.match_labels == {"pool": "x"}
    assert profile.labels == {names.LABEL_QUOTA_TREE: "t"}
    assert profile.annotations == {names.ANNOTATION_QUOTA_RESOURCE_KEYS: '["cpu"]'}
    assert read("elasticquotaprofile", {}).selector is None


def test_device() -> None:
    device = read(
        "device",
        {
            "spec": {
                "devices": [
                    {"type": "gpu", "id": "GPU-1", "minor": 0, "health": True, "resources": {names.GPU_MEMORY: "80Gi"}},
                    {"type": "gpu", "minor": -1},
                    {
                        "type": "rdma",
                        "minor": 1,
                        "topology": {"socketID": 1, "nodeID": -7, "pcieID": "3", "busID": "b"},
                    },
                    {"type": "gpu", "minor": 2, "resources": {names.GPU_CORE: "lots"}},
                ]
            }
        },
    )
    assert [each.position for each in device.devices] == [0, 2, 3]
    assert device.devices[0].amounts == {names.GPU_MEMORY: 80 << 30}
    assert (device.devices[0].uuid, device.devices[0].healthy) == ("GPU-1", True)
    assert device.devices[1].topology == state.DeviceTopology(socket=1, numa_node=-1, pcie="3", bus="b")
    assert fields(device) == ["spec.devices[1].minor", f"spec.devices[3].resources[{names.GPU_CORE}]"]
    assert fields(read("device", {"spec": {"devices": [{"minor": i} for i in range(1025)]}})) == ["spec.devices"]


def test_virtual_functions() -> None:
    groups: list[Any] = [
        {"labels": {"type": "general"}, "vfs": [{"minor": -1, "busID": "0000:09:00.2"}, {"minor": 3, "busID": "b"}]},
        {"labels": {"type": 7}, "vfs": [{"busID": "c"}]},
        {"vfs": [{"busID": ""}, {"busID": 7}, {"minor": "x", "busID": "d"}, "e", {"busID": "f"}]},
        {"vfs": {"busID": "g"}},
        {},
    ]
    device = read("device", {"spec": {"devices": [{"type": "rdma", "vfGroups": groups}]}})
    assert [(each.bus, each.minor, each.labels) for each in device.devices[0].functions] == [
        ("0000:09:00.2", -1, {"type": "general"}),
        ("b", 3, {"type": "general"}),
        ("f", -1, {}),
    ]
    where = "spec.devices[0].vfGroups"
    assert fields(device) == [
        f"{where}[1].labels",
        f"{where}[2].vfs[0].busID",
        f"{where}[2].vfs[1].busID",
        f"{where}[2].vfs[2].minor",
        f"{where}[2].vfs[3].busID",
        f"{where}[3].vfs",
    ]
    many = [{"vfs": [{"busID": str(number)} for number in range(1025)]}]
    device = read("device", {"spec": {"devices": [{"type": "rdma", "vfGroups": many}]}})
    assert (device.devices[0].functions, fields(device)) == ([], [where])


def test_what_json_cannot_carry() -> None:
    assert pack(state.Namespace(name="a", version=1, labels={"x": "\ud800"})).value is None
    device = state.Device(name="a", uid="u", version=1, labels={"x": "\ud800"})
    value, cut = pack(device)
    assert value is not None
    assert cut[0] == ("", "the object holds what JSON cannot carry; only what identifies it and what it holds is kept")
    assert decode(value, state.Device).labels == {}


def test_what_is_too_large_and_has_no_place_for_problems_is_refused() -> None:
    huge = state.ConfigMap(namespace="n", name="a", version=1, data={"x": "y" * MESSAGE_BYTES_MAX})
    value, cut = pack(huge)
    assert value is None
    assert "too large" in cut[0][1]
    fits = state.ConfigMap(namespace="n", name="a", version=1, data={"x": "y" * 100_000})
    assert pack(fits).value is not None


def test_a_node_that_does_not_fit_takes_nothing() -> None:
    node = state.Node(
        name="a", uid="u", version=1, allocatable={"cpu": 1}, labels={f"l{i}": "x" * 1000 for i in range(1000)}
    )
    value, _ = pack(node)
    assert value is not None
    assert decode(value, state.Node).allocatable == {}


@given(
    st.dictionaries(
        st.text(max_size=10), st.text(max_size=10) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    )
)
def test_amounts_of_a_node_are_never_negative(amounts: dict[str, Any]) -> None:
    try:
        node = read("node", {"status": {"allocatable": amounts}})
    except msgspec.ValidationError:
        return  # reported by the reflector, see `unreadable`
    assert all(0 <= amount < 1 << 63 for amount in node.allocatable.values())
    assert len(node.allocatable) + len(node.problems) >= min(1, len(amounts))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"resources": {"cpu": "4", "memory": "1Gi", names.NVIDIA_GPU: "1"}}, (12_000, 7 << 30, 8)),
        ({"reservedCPUs": "0-1", "resources": {"cpu": "9"}, "applyPolicy": "Default"}, (14_000, 8 << 30, 8)),
        ({"reservedCPUs": "0-1", "applyPolicy": "ReservedCPUsOnly"}, (16_000, 8 << 30, 8)),
        ({"resources": {"cpu": "99"}}, (0, 8 << 30, 8)),
        ({"resources": {"cpu": "-1"}}, (16_000, 8 << 30, 8)),
        ({"reservedCPUs": "x"}, (16_000, 8 << 30, 8)),
    ],
)
def test_what_a_node_keeps_for_itself_is_not_offered(content: dict[str, Any], expected: tuple[int, ...]) -> None:
    status = {"allocatable": {"cpu": "16", "memory": "8Gi", names.NVIDIA_GPU: "8"}}
    node = read("node", {"status": status}, annotations={names.ANNOTATION_NODE_RESERVATION: json.dumps(content)})
    assert tuple(node.allocatable[name] for name in (names.CPU, names.MEMORY, names.NVIDIA_GPU)) == expected
    is_bad = content in ({"reservedCPUs": "x"}, {"resources": {"cpu": "-1"}})
    assert [names.ANNOTATION_NODE_RESERVATION in field for field in fields(node)] == [True] * is_bad
