"""Claims, volumes and storage classes: what the API fills in, refuses, and lets nobody change."""

import pytest

from berth.simcluster import Path, Store
from berth.simcluster.store.objects import decode

CLAIMS = Path("", "v1", "persistentvolumeclaims", "default")
VOLUMES = Path("", "v1", "persistentvolumes")
CLASSES = Path("storage.k8s.io", "v1", "storageclasses")
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


@pytest.fixture
def store():
    return Store(clock=lambda: 1_000_000.0)


def make(store, path, body, **meta):
    reply = store.create(path, {"metadata": {"name": "x", **meta}, **body})
    return reply.status, decode(reply.body)


def fields(answer):
    return [cause["field"] for cause in answer["details"]["causes"]]


def test_what_is_filled_in(store):
    _, claim = make(store, CLAIMS, {"spec": CLAIM})
    assert (claim["spec"]["volumeMode"], claim["status"]) == ("Filesystem", {"phase": "Pending"})
    assert "storageClassName" not in claim["spec"]
    _, volume = make(store, VOLUMES, {"spec": VOLUME})
    assert (volume["spec"]["persistentVolumeReclaimPolicy"], volume["status"]["phase"]) == ("Retain", "Pending")
    _, kind = make(store, CLASSES, {"provisioner": "d"})
    assert (kind["reclaimPolicy"], kind["volumeBindingMode"]) == ("Delete", "Immediate")


def test_the_youngest_default_class(store):
    for name in ("one", "two"):
        make(store, CLASSES, {"provisioner": "d"}, name=name, annotations=DEFAULT)
    make(store, CLASSES, {"provisioner": "d"}, name="three")
    assert make(store, CLAIMS, {"spec": CLAIM}, name="a")[1]["spec"]["storageClassName"] == "two"
    own = make(store, CLAIMS, {"spec": {**CLAIM, "storageClassName": ""}}, name="b")[1]
    assert own["spec"]["storageClassName"] == ""


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (CLAIMS, {}, ["spec.accessModes", "spec.resources[storage]"]),
        (CLAIMS, {"spec": {**CLAIM, "resources": {"requests": {"storage": "-1"}}}}, ["spec.resources[storage]"]),
        (CLAIMS, {"spec": {**CLAIM, "accessModes": ["Sometimes"]}}, ["spec.accessModes"]),
        (CLAIMS, {"spec": {**CLAIM, "volumeMode": "Tape"}}, ["spec.volumeMode"]),
        (VOLUMES, {}, ["spec.accessModes", "spec.capacity", "spec.capacity", "spec"]),
        (VOLUMES, {"spec": {**VOLUME, "hostPath": None}}, ["spec"]),
        (CLASSES, {}, ["provisioner"]),
        (CLASSES, {"provisioner": "d", "volumeBindingMode": "Later"}, ["volumeBindingMode"]),
    ],
)
def test_what_is_refused(store, path, body, expected):
    status, answer = make(store, path, body)
    assert status == 422
    assert fields(answer) == expected


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"volumeName": "v"}, 200),
        ({"resources": {"requests": {"storage": "2Gi"}}}, 200),
        ({"accessModes": ["ReadOnlyMany"]}, 422),
        ({"storageClassName": "other"}, 422),
    ],
)
def test_what_of_a_claim_may_change(store, change, status):
    make(store, CLAIMS, {"spec": CLAIM})
    one = CLAIMS._replace(name="x")
    assert store.patch(one, {"spec": change}).status == status
    if "volumeName" in change:
        assert store.patch(one, {"spec": {"volumeName": "w"}}).status == 422


def test_what_decides_about_volumes_is_fixed(store):
    make(store, CLASSES, {"provisioner": "d"})
    one = CLASSES._replace(name="x")
    assert store.patch(one, {"provisioner": "e"}).status == 422
    assert store.patch(one, {"metadata": {"annotations": DEFAULT}}).status == 200


@pytest.mark.parametrize("plural", ["csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"])
async def test_they_are_served_with_their_schemas(client, plural):
    path = "/apis/storage.k8s.io/v1"
    found = {each["name"]: each for each in (await client.ok("GET", path))["resources"]}
    home = f"{path}/namespaces/default" if found[plural]["namespaced"] else path
    status, answer = await client.call("POST", f"{home}/{plural}", {"metadata": {"name": "x"}, "spec": "no"})
    if plural != "csistoragecapacities":
        assert (status, "$.spec" in answer["message"]) == (400, True)
    body = {"metadata": {"name": "y"}}
    if plural == "csistoragecapacities":
        status, answer = await client.call("POST", f"{home}/{plural}", {**body, "nodeTopology": 5})
        assert (status, "$.nodeTopology" in answer["message"]) == (400, True)
    await client.ok("POST", f"{home}/{plural}", body)
    document = await client.ok("GET", "/openapi/v3/apis/storage.k8s.io/v1")
    kinds = {name.rpartition(".")[2] for name in document["components"]["schemas"]}
    assert found[plural]["kind"] in kinds
