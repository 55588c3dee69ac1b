"""The custom resource definitions of the contract are well-formed and accept what users of the protocol write."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest

FOLDER = files("berth.contracts") / "crds"
CRDS: dict[str, dict[str, Any]] = {
    entry.name.removesuffix(".json"): json.loads(entry.read_text())
    for entry in FOLDER.iterdir()
    if entry.name.endswith(".json")
}
NAMED = sorted(CRDS.items())

# kind -> (scope, status subresource, short names, columns)
EXPECTED = {
    "podgroups.scheduling.sigs.k8s.io": ("Namespaced", False, [], []),
    "elasticquotas.scheduling.sigs.k8s.io": ("Namespaced", False, [], []),
    "elasticquotaprofiles.quota.koordinator.sh": ("Namespaced", False, ["eqp"], []),
    "reservations.scheduling.koordinator.sh": ("Cluster", True, [], ["Phase", "Age", "Node", "TTL", "Expires"]),
    "devices.scheduling.koordinator.sh": ("Cluster", False, [], []),
    "podmigrationjobs.scheduling.koordinator.sh": (
        "Cluster",
        True,
        ["pmj"],
        ["Phase", "Status", "Age", "Node", "Reservation", "PodNamespace", "Pod", "NewPod", "TTL"],
    ),
    "clusternetworktopologies.scheduling.koordinator.sh": ("Cluster", True, [], []),
    "scheduleexplanations.scheduling.koordinator.sh": ("Namespaced", True, ["sched-exp"], []),
    "recommendations.analysis.koordinator.sh": (
        "Namespaced",
        True,
        ["recom"],
        ["Age", "Type", "Kind", "Name", "LastUpdateTime"],
    ),
    "clustercolocationprofiles.config.koordinator.sh": ("Cluster", True, [], []),
    "nodemetrics.slo.koordinator.sh": ("Cluster", True, [], []),
    "nodeslos.slo.koordinator.sh": ("Cluster", True, [], []),
    "noderesourcetopologies.topology.node.k8s.io": ("Cluster", False, ["node-res-topo"], []),
}
ALLOWED_WORDS = {
    *("type", "format", "description", "properties", "additionalProperties", "items", "required", "enum", "default"),
    *("nullable", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "minProperties", "anyOf"),
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type"),
}


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from walk(schema[word], f"{path}.{word}")


def schemas(crd: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(v["name"], v["schema"]["openAPIV3Schema"]) for v in crd["spec"]["versions"]]


def test_every_kind_of_the_protocol_is_there() -> None:
    assert set(CRDS) == set(EXPECTED)


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_names_are_consistent(name: str, crd: dict[str, Any]) -> None:
    spec, names = crd["spec"], crd["spec"]["names"]
    assert crd["apiVersion"] == "apiextensions.k8s.io/v1"
    assert crd["kind"] == "CustomResourceDefinition"
    assert crd["metadata"]["name"] == name == f"{names['plural']}.{spec['group']}"
    assert names["singular"] == names["kind"].lower()
    assert names["listKind"] == names["kind"] + "List"
    assert [v["storage"] for v in spec["versions"]].count(True) == 1
    assert all(v["served"] for v in spec["versions"])
    if spec["group"].endswith(".k8s.io"):
        assert crd["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("https://")


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_scope_subresource_short_names_and_columns(name: str, crd: dict[str, Any]) -> None:
    scope, status, short, columns = EXPECTED[name]
    for version in crd["spec"]["versions"]:
        assert ("status" in version.get("subresources", {})) is status
        assert [c["name"] for c in version.get("additionalPrinterColumns", [])] == columns
    assert crd["spec"]["scope"] == scope
    assert crd["spec"]["names"].get("shortNames", []) == short


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_schemas_are_structural(name: str, crd: dict[str, Any]) -> None:
    for version, root in schemas(crd):
        assert root["type"] == "object"
        for path, node in walk(root):
            where = f"{name} {version} {path}"
            assert set(node) <= ALLOWED_WORDS, where
            int_or_string = node.get("x-kubernetes-int-or-string")
            assert ("type" in node) != bool(int_or_string), where
            if "anyOf" in node:
                assert int_or_string, where
                assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], where
            assert not ("properties" in node and "additionalProperties" in node), where
            assert set(node.get("required", [])) <= set(node.get("properties", {})), where
            assert ("items" in node) == (node.get("type") == "array"), where
            if "default" in node:
                jsonschema_rs.validator_for(node).validate(node["default"])
            if path.startswith(".metadata"):
                assert node == {"type": "object"}, where


@pytest.mark.parametrize(("name", "crd"), NAMED, ids=[name for name, _ in NAMED])
def test_columns_point_at_fields(name: str, crd: dict[str, Any]) -> None:
    for version in crd["spec"]["versions"]:
        for column in version.get("additionalPrinterColumns", []):
            node = version["schema"]["openAPIV3Schema"]
            steps = column["jsonPath"].removeprefix(".").split(".")
            if steps[0] == "metadata":
                continue
            for step in steps:
                node = node["properties"][step]
            assert node["type"] == "string", column
            if column["type"] == "date":
                assert node.get("format") == "date-time", column


def json_schema(node: dict[str, Any]) -> dict[str, Any]:
    """The same constraints in plain JSON Schema: `nullable` is OpenAPI's word."""
    plain = {k: v for k, v in node.items() if not k.startswith("x-") and k not in ("nullable", "default", "format")}
    for word in ("items", "additionalProperties"):
        if word in plain:
            plain[word] = json_schema(plain[word])
    if "properties" in plain:
        plain["properties"] = {k: json_schema(v) for k, v in plain["properties"].items()}
    if node.get("nullable"):
        plain["type"] = [plain["type"], "null"]
    return plain


def pruned(node: dict[str, Any], value: Any, top: bool = False) -> Any:
    """What an API server would store: fields that no schema names are dropped."""
    if isinstance(value, list):
        return [pruned(node.get("items", {}), item) for item in value]
    if not isinstance(value, dict) or node.get("x-kubernetes-int-or-string"):
        return value
    if "additionalProperties" in node:
        return {k: pruned(node["additionalProperties"], v) for k, v in value.items()}
    keep_unknown = node.get("x-kubernetes-preserve-unknown-fields", False)
    kept = {}
    for key, child in value.items():
        if top and key in ("metadata", "apiVersion", "kind"):
            kept[key] = child
        elif key in node.get("properties", {}):
            kept[key] = pruned(node["properties"][key], child)
        elif keep_unknown:
            kept[key] = child
    return kept


POD_TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "schedulerName": "koord-scheduler",
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "4", "memory": "8Gi"}}}],
        "tolerations": [{"operator": "Exists"}],
    },
}
USAGE = {"resources": {"cpu": "3200m", "memory": 8589934592}}
SAMPLES: dict[str, list[dict[str, Any]]] = {
    "podgroups.scheduling.sigs.k8s.io": [
        {
            "spec": {"minMember": 4, "scheduleTimeoutSeconds": 60, "minResources": {"cpu": 4, "memory": "1Gi"}},
            "status": {"phase": "Scheduling", "occupiedBy": "ns/job", "scheduled": 2, "scheduleStartTime": None},
        },
        {"spec": {}},
    ],
    "elasticquotas.scheduling.sigs.k8s.io": [
        {
            "spec": {"min": {"cpu": "10", "nvidia.com/gpu": 0}, "max": {"cpu": 4611686018427387, "memory": "1.5Gi"}},
            "status": {"used": {"cpu": "500m"}},
        }
    ],
    "elasticquotaprofiles.quota.koordinator.sh": [
        {
            "spec": {
                "quotaName": "pool",
                "quotaLabels": {"a": "b"},
                "resourceRatio": "0.9",
                "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]},
            }
        },
        {"spec": {"quotaName": "pool", "nodeSelector": {}}},
    ],
    "reservations.scheduling.koordinator.sh": [
        {
            "spec": {
                "template": POD_TEMPLATE,
                "owners": [
                    {"object": {"namespace": "default", "name": "pod-1"}},
                    {"controller": {"kind": "ReplicaSet", "name": "web", "namespace": "default"}},
                    {"labelSelector": {"matchLabels": {"app": "web"}}},
                ],
                "ttl": "1h0m0s",
                "allocateOnce": False,
                "allocatePolicy": "Restricted",
                "taints": [{"key": "k", "effect": "NoSchedule"}],
                "preAllocationPolicy": {"mode": "Cluster", "enableMultiple": True},
            },
            "status": {
                "phase": "Available",
                "nodeName": "n1",
                "allocatable": {"cpu": "4"},
                "currentOwners": [{"namespace": "default", "name": "pod-1", "uid": "u"}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "lastProbeTime": None}],
            },
        }
    ],
    "devices.scheduling.koordinator.sh": [
        {
            "spec": {
                "devices": [
                    {
                        "type": "gpu",
                        "id": "GPU-1",
                        "minor": 0,
                        "moduleID": 0,
                        "health": True,
                        "labels": {},
                        "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi"},
                        "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:0b", "busID": "0000:0b:00.0"},
                        "conditions": [
                            {
                                "type": "Healthy",
                                "status": "True",
                                "reason": "DeviceHealthy",
                                "message": "device is healthy",
                                "lastTransitionTime": "2025-01-01T00:00:00Z",
                            }
                        ],
                    },
                    {
                        "type": "rdma",
                        "minor": 0,
                        "health": True,
                        "resources": {"koordinator.sh/rdma": 100},
                        "vfGroups": [{"labels": {"type": "general"}, "vfs": [{"minor": -1, "busID": "0000:09:00.2"}]}],
                    },
                ]
            },
            "status": {
                "allocations": [
                    {"type": "gpu", "entries": [{"name": "p", "namespace": "d", "uuid": "u", "minors": [0]}]}
                ]
            },
        }
    ],
    "podmigrationjobs.scheduling.koordinator.sh": [
        {
            "spec": {
                "paused": False,
                "ttl": "5m0s",
                "mode": "ReservationFirst",
                "podRef": {"namespace": "ns", "name": "p", "uid": "u"},
                "reservationOptions": {
                    "reservationRef": {"name": "r"},
                    "template": {"spec": {"template": POD_TEMPLATE}},
                    "preemptionOptions": {},
                },
                "deleteOptions": {"gracePeriodSeconds": 30},
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Eviction", "status": "False", "lastTransitionTime": None}],
            },
        }
    ],
    "clusternetworktopologies.scheduling.koordinator.sh": [
        {
            "spec": {
                "networkTopologySpec": [
                    {"topologyLayer": "SpineLayer", "labelKey": ["network.topology.nvidia.com/spine"]},
                    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "SpineLayer"},
                ]
            },
            "status": {
                "detailStatus": [
                    {
                        "topologyInfo": {"topologyLayer": "SpineLayer", "topologyName": "s1"},
                        "parentTopologyInfo": {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""},
                        "childTopologyLayer": "NodeTopologyLayer",
                        "nodeNum": 2,
                    }
                ]
            },
        }
    ],
    "scheduleexplanations.scheduling.koordinator.sh": [
        {
            "spec": {"questionObjectKey": "ns/p", "ttl": "24h"},
            "status": {
                "schedulable": False,
                "detailedExplanation": [
                    {"topologyDomain": "s1", "scheduleExplanation": {"nodeFailedDetails": [{"failedNodes": ["n1"]}]}}
                ],
            },
        }
    ],
    "recommendations.analysis.koordinator.sh": [
        {
            "spec": {
                "target": {"type": "workload", "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}}
            },
            "status": {"podStatus": {"containerStatuses": [{"containerName": "c", "resources": {"cpu": "1"}}]}},
        }
    ],
    "clustercolocationprofiles.config.koordinator.sh": [
        {
            "spec": {
                "namespaceSelector": {"matchLabels": {"koordinator.sh/enable-colocation": "true"}},
                "selector": {"matchLabels": {"koordinator.sh/enable-colocation": "true"}},
                "probability": probability,
                "qosClass": "BE",
                "priorityClassName": "koord-batch",
                "koordinatorPriority": 1000,
                "schedulerName": "koord-scheduler",
                "labels": {"koordinator.sh/mutated": "true"},
                "labelKeysMapping": {"team": "cost-center"},
                "labelSuffixes": {"cost-center": "-batch"},
                "patch": {"spec": {"terminationGracePeriodSeconds": 30}},
            }
        }
        for probability in (50, "50%")
    ],
    "nodemetrics.slo.koordinator.sh": [
        {
            "spec": {
                "metricCollectPolicy": {
                    "aggregateDurationSeconds": 300,
                    "reportIntervalSeconds": 60,
                    "nodeAggregatePolicy": {"durations": ["5m", "10m"]},
                    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
                }
            },
            "status": {
                "updateTime": "2025-01-01T00:00:00Z",
                "nodeMetric": {
                    "nodeUsage": {**USAGE, "devices": [{"type": "gpu", "minor": 0, "id": "G", "health": True}]},
                    "aggregatedNodeUsages": [{"duration": "5m0s", "usage": {"avg": USAGE, "p99": USAGE}}],
                    "numaUsages": [{"numaNodeID": 0, "nodeUsage": {}, "systemUsage": {}}],
                },
                "podsMetric": [{"namespace": "d", "name": "p", "podUsage": USAGE, "extensions": {"a": [1]}}],
                "hostApplicationMetric": [{"name": "nginx", "usage": {}, "priority": "koord-prod", "qos": "LS"}],
                "prodReclaimableMetric": {"resource": USAGE},
            },
        }
    ],
    "nodeslos.slo.koordinator.sh": [
        {
            "spec": {
                "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": 65, "later": 1},
                "resourceQOSStrategy": {
                    "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "tc"},
                    "beClass": {
                        "cpuQOS": {"enable": True, "groupIdentity": -1},
                        "blkioQOS": {
                            "enable": True,
                            "blocks": [{"type": "device", "name": "/dev/sda", "ioCfg": {"ioWeightPercent": 60}}],
                        },
                        "networkQOS": {"enable": True, "ingressRequest": "50M", "egressLimit": 100},
                        "memoryQOS": {"enable": True, "wmarkMinAdj": -25, "pageCacheLimitSize": 0},
                    },
                },
                "cpuBurstStrategy": {"policy": "auto", "cpuBurstPercent": 1000, "cfsQuotaBurstPeriodSeconds": -1},
                "systemStrategy": {"totalNetworkBandwidth": "0", "schedFeatures": {"ID_ABSOLUTE_EXPEL": True}},
                "extensions": {"anything": {"goes": [1, "x"]}},
                "hostApplications": [
                    {"name": "nginx", "cgroupPath": {"base": "CgroupRoot", "parentDir": "a/", "relativePath": "b/"}}
                ],
            }
        }
    ],
    "noderesourcetopologies.topology.node.k8s.io": [
        {"topologyPolicies": ["None"], "zones": []},
        {
            "topologyPolicies": ["SingleNUMANodePodLevel"],
            "zones": [
                {
                    "name": "node-0",
                    "type": "Node",
                    "costs": [{"name": "node-1", "value": 21}],
                    "resources": [{"name": "cpu", "capacity": "52", "allocatable": 52, "available": "52"}],
                }
            ],
        },
    ],
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_objects_of_users_are_accepted_and_stored_unchanged(name: str) -> None:
    for sample in SAMPLES[name]:
        document = {"apiVersion": "g/v", "kind": "K", "metadata": {"name": "x", "labels": {"a": "b"}}, **sample}
        for _, schema in schemas(CRDS[name]):
            jsonschema_rs.validator_for(json_schema(schema)).validate(document)
            assert pruned(schema, document, top=True) == document


@pytest.mark.parametrize(
    ("name", "document", "field"),
    [
        ("podgroups.scheduling.sigs.k8s.io", {"spec": {"minMember": "4"}}, "minMember"),
        ("elasticquotas.scheduling.sigs.k8s.io", {"spec": {"max": {"cpu": "lots"}}}, "cpu"),
        ("elasticquotas.scheduling.sigs.k8s.io", {"spec": {"max": {"cpu": 1.5}}}, "cpu"),
        ("reservations.scheduling.koordinator.sh", {"spec": {"template": {}}}, "spec"),
        ("reservations.scheduling.koordinator.sh", {"spec": {"template": {}, "owners": []}}, "owners"),
        ("reservations.scheduling.koordinator.sh", {"spec": {"template": {}, "owners": [{}]}}, "owners"),
        ("podmigrationjobs.scheduling.koordinator.sh", {"spec": {}}, "spec"),
        ("clustercolocationprofiles.config.koordinator.sh", {"spec": {"qosClass": "XX"}}, "qosClass"),
        ("nodeslos.slo.koordinator.sh", {"spec": {"cpuBurstStrategy": {"cpuBurstPercent": 10001}}}, "cpuBurstPercent"),
    ],
)
def test_malformed_objects_are_refused(name: str, document: dict[str, Any], field: str) -> None:
    schema = json_schema(schemas(CRDS[name])[0][1])
    with pytest.raises(jsonschema_rs.ValidationError) as refused:
        jsonschema_rs.validator_for(schema).validate(document)
    assert field in [str(step) for step in refused.value.instance_path]
