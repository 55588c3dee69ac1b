"""The kinds of storage: tables of what goes in and what comes out."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.services.worlds.watcher.kinds import fields, read

from berth.cluster_watcher.core.packing import MESSAGE_BYTES_MAX, pack
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.kube import NodeSelector
from berth.contracts.state import CSINodeDriver, TopologyTerm
from berth.rules.node_affinity import compile_terms

SELECTOR = {"matchLabels": {"tier": "ssd"}}
BROKEN = {"matchExpressions": [{"key": "a", "operator": "Near"}]}


def test_a_claim() -> None:
    claim = read(
        "persistentvolumeclaim",
        {
            "spec": {
                "accessModes": ["ReadWriteOncePod"],
                "volumeMode": "Block",
                "resources": {"requests": {"storage": "10Gi"}},
                "selector": SELECTOR,
                "storageClassName": "fast",
                "volumeName": "pv",
            },
            "status": {"phase": "Bound"},
        },
        annotations={"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"},
        ownerReferences=[{"kind": "X", "uid": "no"}, {"kind": "Pod", "uid": "p", "controller": True}],
        deletionTimestamp="2024-01-01T00:00:00Z",
    )
    assert fields(claim) == []
    assert (claim.namespace, claim.name, claim.uid, claim.version) == ("ns", "a.b", "u", 7)
    assert (claim.storage_class, claim.volume, claim.is_bound, claim.phase) == ("fast", "pv", True, "Bound")
    assert (claim.access_modes, claim.volume_mode, claim.requested) == (["ReadWriteOncePod"], "Block", 10 << 30)
    assert claim.selector.match_labels == {"tier": "ssd"}
    assert (claim.selected_node, claim.owner_uid, claim.deleting) == ("n1", "p", True)


@pytest.mark.parametrize(
    ("field", "annotation", "storage_class"),
    [(None, None, None), ("", None, ""), ("new", None, "new"), ("new", "old", "old"), (None, "", "")],
)
def test_the_class_that_a_claim_names(field: str | None, annotation: str | None, storage_class: str | None) -> None:
    spec = {} if field is None else {"storageClassName": field}
    annotations = {} if annotation is None else {"volume.beta.kubernetes.io/storage-class": annotation}
    assert read("persistentvolumeclaim", {"spec": spec}, annotations=annotations).storage_class == storage_class


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resources": {"requests": {"storage": "much"}}}, "spec.resources.requests[storage]"),
        ({"resources": {"requests": {"storage": "-1"}}}, "spec.resources.requests[storage]"),
        ({"selector": BROKEN}, "spec.selector.matchExpressions[0].operator"),
        ({"accessModes": ["ReadWriteOnce"] * 17}, "spec.accessModes"),
    ],
)
def test_what_is_wrong_with_a_claim_is_named(spec: dict[str, Any], field: str) -> None:
    claim = read("persistentvolumeclaim", {"spec": spec})
    assert (fields(claim), claim.requested, claim.access_modes) == ([field], 0, [])
    assert (claim.selector is None) == ("selector" not in spec), "without it every volume would do"


def test_a_volume() -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    volume = read(
        "persistentvolume",
        {
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
                "claimRef": {"namespace": "ns", "name": "c", "uid": "cu"},
                "nodeAffinity": {"required": terms},
                "csi": {"driver": "d", "volumeHandle": "h"},
            },
            "status": {"phase": "Bound"},
        },
        labels={"zone": "a"},
    )
    assert fields(volume) == []
    assert (volume.name, volume.capacity, volume.access_modes) == ("a.b", 10 << 30, ["ReadOnlyMany"])
    assert (volume.storage_class, volume.volume_mode, volume.phase) == ("fast", "Filesystem", "Bound")
    assert (volume.claim, volume.claim_uid, volume.labels) == ("ns/c", "cu", {"zone": "a"})
    assert (volume.driver, volume.handle, volume.deleting) == ("d", "h", False)
    assert json.loads(msgspec.json.encode(volume.node_affinity)) == terms


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1"}}, "ebs.csi.aws.com", "vol-1"),
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io", "d"),
        ({"azureDisk": {"diskName": "n", "diskURI": "/subscriptions/x"}}, "disk.csi.azure.com", "/subscriptions/x"),
        ({"azureFile": {"shareName": "s"}}, "file.csi.azure.com", "s"),
        ({"cinder": {"volumeID": "v"}}, "cinder.csi.openstack.org", "v"),
        ({"portworxVolume": {"volumeID": "v"}}, "pxd.portworx.com", "v"),
        ({"vsphereVolume": {"volumePath": "[ds] v"}}, "csi.vsphere.vmware.com", "[ds] v"),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, "rbd.csi.ceph.com", "rbd/i"),
        ({"nfs": {"server": "s", "path": "/"}}, "", ""),
        ({"local": {"path": "/"}}, "", ""),
    ],
)
def test_a_source_goes_by_the_name_of_its_driver(source: dict[str, Any], driver: str, handle: str) -> None:
    volume = read("persistentvolume", {"spec": source})
    assert (volume.driver, volume.handle, fields(volume)) == (driver, handle, [])


def test_a_volume_whose_affinity_cannot_be_evaluated_is_reached_from_nowhere() -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}
    spec = {"nodeAffinity": {"required": terms}, "capacity": {"storage": "much"}}
    volume = read("persistentvolume", {"spec": spec})
    assert volume.node_affinity == NodeSelector()
    assert not compile_terms(volume.node_affinity.node_selector_terms, "x").matches({"zone": "a"}, "n")
    assert volume.capacity == 0
    assert fields(volume) == [
        "spec.capacity[storage]",
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator",
    ]
    assert read("persistentvolume", {"spec": {"nodeAffinity": {}}}).node_affinity is None


def test_a_volume_that_does_not_fit_is_reached_from_nowhere() -> None:
    huge = {f"l{i}": "x" * 1000 for i in range(1000)}
    volume = state.PersistentVolume(name="a", uid="u", version=1, labels=huge, capacity=5, claim="ns/c", driver="d")
    value, _ = pack(volume)
    assert value is not None
    assert len(value) <= MESSAGE_BYTES_MAX
    back = decode(value, state.PersistentVolume)
    assert (back.claim, back.driver, back.capacity, back.node_affinity) == ("ns/c", "d", 0, NodeSelector())
    assert fields(back) == [""]


def test_a_class() -> None:
    expressions = [{"key": "zone", "values": ["a", "b"]}, {"key": "region", "values": ["r"]}]
    item = {
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": expressions}],
    }
    found = read("storageclass", item)
    assert (found.provisioner, found.binding_mode) == ("ebs.csi.aws.com", "WaitForFirstConsumer")
    assert found.allowed == [TopologyTerm(values={"zone": ["a", "b"], "region": ["r"]})]
    assert read("storageclass", {}).allowed == []


@pytest.mark.parametrize(
    ("term", "values"),
    [
        ({}, {"": []}),
        ({"matchLabelExpressions": []}, {"": []}),
        ({"matchLabelExpressions": [{"key": "zone"}]}, {"zone": []}),
        (
            {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}, {"key": "zone", "values": ["b"]}]},
            {"zone": ["b"]},
        ),
        ({"matchLabelExpressions": [{"key": f"k{i}", "values": ["a"]} for i in range(65)]}, {"": []}),
    ],
)
def test_a_topology_that_allows_less(term: dict[str, Any], values: dict[str, list[str]]) -> None:
    assert read("storageclass", {"allowedTopologies": [term]}).allowed == [TopologyTerm(values=values)]


def test_a_class_within_bounds() -> None:
    term = {"matchLabelExpressions": [{"key": "zone", "values": ["a"] * 5000}]}
    allowed = read("storageclass", {"allowedTopologies": [term] * 300}).allowed
    assert (len(allowed), len(allowed[0].values["zone"])) == (256, 1024)


def test_csi_on_a_node() -> None:
    drivers = [
        {"name": "d", "nodeID": "i-1", "topologyKeys": ["zone"], "allocatable": {"count": 25}},
        {"name": "e", "nodeID": "i-1", "topologyKeys": None},
        {"name": "f", "allocatable": {"count": -1}},
        {"name": "g", "allocatable": {}},
    ]
    plugins = "kubernetes.io/aws-ebs,kubernetes.io/gce-pd,"
    found = read(
        "csinode",
        {"spec": {"drivers": drivers}},
        annotations={"storage.alpha.kubernetes.io/migrated-plugins": plugins},
    )
    assert found.drivers == [
        CSINodeDriver(name="d", node_id="i-1", count=25, topology_keys=["zone"]),
        CSINodeDriver(name="e", node_id="i-1"),
        CSINodeDriver(name="f", count=0),
        CSINodeDriver(name="g"),
    ]
    assert found.migrated == ["kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"]
    assert len(read("csinode", {"spec": {"drivers": [{"name": "d"}] * 999}}).drivers) == 256


def test_a_csi_driver() -> None:
    assert read("csidriver", {"spec": {"storageCapacity": True}}).storage_capacity
    assert not read("csidriver", {}).storage_capacity


def test_storage_capacity() -> None:
    item = {"storageClassName": "fast", "nodeTopology": SELECTOR, "capacity": "1Ti", "maximumVolumeSize": "512Gi"}
    found = read("csistoragecapacity", item)
    assert (found.namespace, found.storage_class, found.capacity, found.volume_max) == ("ns", "fast", 1 << 40, 1 << 39)
    assert found.topology.match_labels == {"tier": "ssd"}
    none = read("csistoragecapacity", {"storageClassName": "fast"})
    assert (none.topology, none.capacity, none.volume_max) == (None, None, None)
    bad = read("csistoragecapacity", {"nodeTopology": BROKEN, "capacity": "much"})
    assert (bad.topology, bad.capacity) == (None, None), "nowhere, and nothing is said"


def test_an_attachment() -> None:
    spec = {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}
    found = read("volumeattachment", {"spec": spec})
    assert (found.driver, found.node, found.volume) == ("d", "n1", "pv")
    inline = {"attacher": "d", "nodeName": "n1", "source": {"inlineVolumeSpec": {"csi": {}}}}
    assert read("volumeattachment", {"spec": inline}).volume == ""
