"""The guard of Berth's notes, in force on a real API server: cluster-writer's labels and annotations are its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.deploy.manifests import CRDS, Json
from tests.deploy.real_api import PODS, as_object, call, pod

from berth.contracts import names
from berth.testing.kube_server import KubeServer

pytestmark = pytest.mark.e2e

WRITER = "berth-system/cluster-writer"
NOTE = {names.ANNOTATION_PLAN: "p1", names.ANNOTATION_ATTEMPT: "1", "example.org/free": "x"}
REFUSED_CHANGES: dict[str, tuple[str, Json]] = {
    "a note changed": ("", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "2"}}}),
    "a note removed": ("", {"metadata": {"annotations": {names.ANNOTATION_PLAN: None}}}),
    "every annotation removed": ("", {"metadata": {"annotations": None}}),
    "a note added": ("", {"metadata": {"annotations": {names.ANNOTATION_QUOTA: "tree/rich"}}}),
    "a note of tomorrow": ("", {"metadata": {"annotations": {"scheduling.berth.sh/new": "x"}}}),
    "another wish than at first": ("", {"metadata": {"annotations": {names.ANNOTATION_GPU_SPLIT: "uneven"}}}),
    "a label of ours": ("", {"metadata": {"labels": {"scheduling.berth.sh/x": "y"}}}),
    "devices forged": ("", {"metadata": {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: "{}"}}}),
    "a reservation forged": ("", {"metadata": {"annotations": {names.ANNOTATION_RESERVATION_ALLOCATED: "{}"}}}),
    "cores forged": ("", {"metadata": {"annotations": {names.ANNOTATION_RESOURCE_STATUS: "{}"}}}),
    "a gang forged by the status": ("/status", {"metadata": {"annotations": {names.ANNOTATION_BIND_GANG_GROUP: "g"}}}),
    "minors forged": ("", {"metadata": {"annotations": {names.ANNOTATION_GPU_MINORS: "0"}}}),
    "a node of HAMi's forged": ("", {"metadata": {"labels": {"hami.io/vgpu-node": "n1"}}}),
    "by the status": ("/status", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "2"}}}),
}


def binding(name: str, annotations: dict[str, str]) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


@pytest.fixture
def noted(api: KubeServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A pod that carries notes of cluster-writer and of somebody else."""
    name = f"noted-{abs(hash(request.node.name)) % 10**8}"
    assert call(api, "POST", PODS, pod(name, labels={"app": "a"})).status == 201
    notes = {"metadata": {"annotations": NOTE}}
    assert call(api, "PATCH", f"{PODS}/{name}", notes, account=WRITER).status == 200
    yield name
    call(api, "DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


@pytest.mark.parametrize("what", REFUSED_CHANGES)
def test_nobody_else_changes_notes_on_a_pod(api: KubeServer, noted: str, what: str) -> None:
    part, body = REFUSED_CHANGES[what]
    refused = call(api, "PATCH", f"{PODS}/{noted}{part}", body)
    assert refused.status == 422, refused
    assert "belong to cluster-writer" in refused.body["message"]
    kept = call(api, "GET", f"{PODS}/{noted}").body["metadata"]
    assert kept["annotations"] == NOTE
    allowed = call(api, "PATCH", f"{PODS}/{noted}{part}", body, account=WRITER)
    assert allowed.status == 200, allowed


def test_everybody_changes_the_rest(api: KubeServer, noted: str) -> None:
    rest = {"metadata": {"annotations": {"example.org/free": "y"}, "labels": {"app": None, "more": "z"}}}
    assert call(api, "PATCH", f"{PODS}/{noted}", rest).status == 200
    condition = {"status": {"conditions": [{"type": "example.org/ok", "status": "True"}]}}
    assert call(api, "PATCH", f"{PODS}/{noted}/status", condition).status == 200
    assert call(api, "DELETE", f"{PODS}/{noted}").status == 200


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_nobody_brings_notes_along(api: KubeServer, where: str) -> None:
    body = pod("forged", **{where: {names.ANNOTATION_QUOTA: "rich"}})
    refused = call(api, "POST", PODS, body)
    assert refused.status == 422, refused
    assert "leave them as they are, and out of manifests" in refused.body["message"]


def test_a_wish_comes_with_the_manifest_and_in_no_binding(api: KubeServer) -> None:
    wish = {names.ANNOTATION_GPU_SPLIT: "uneven"}
    assert call(api, "POST", PODS, pod("uneven", wish)).status == 201
    noting = binding("uneven", {names.ANNOTATION_GPU_SPLIT: ""})
    assert call(api, "POST", f"{PODS}/uneven/binding", noting).status == 422
    assert call(api, "PATCH", f"{PODS}/uneven", {"metadata": {"annotations": {"example.org/free": "y"}}}).status == 200
    refused = call(api, "PATCH", f"{PODS}/uneven", {"metadata": {"annotations": {names.ANNOTATION_GPU_SPLIT: None}}})
    assert refused.status == 422, refused


@pytest.mark.parametrize("key", [names.ANNOTATION_DEVICE_ALLOCATED, names.ANNOTATION_RESERVATION_ALLOCATED])
def test_nobody_brings_allocations_along(api: KubeServer, key: str) -> None:
    refused = call(api, "POST", PODS, pod("forged", {key: "{}"}))
    assert refused.status == 422, refused
    assert "belong to cluster-writer" in refused.body["message"]


@pytest.mark.parametrize("account", ["koord-scheduler", "koordlet"])
def test_koordinators_own_note_allocations_and_nothing_of_berths(api: KubeServer, noted: str, account: str) -> None:
    theirs = f"koordinator-system/{account}"
    may_all = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "koordinator-system"}
    for path, body in (
        ("/api/v1/namespaces", {"metadata": {"name": "koordinator-system"}}),
        ("/api/v1/namespaces/koordinator-system/serviceaccounts", {"metadata": {"name": account}}),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {"metadata": {"name": account}, "roleRef": may_all, "subjects": [subject]},
        ),
    ):
        assert call(api, "POST", path, body).status in (201, 409)
    given = {"metadata": {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: "{}"}}}
    assert call(api, "PATCH", f"{PODS}/{noted}", given, account=theirs).status == 200
    removed = {"metadata": {"annotations": {names.ANNOTATION_DEVICE_ALLOCATED: None}}}
    assert call(api, "PATCH", f"{PODS}/{noted}", removed).status == 422
    ours = {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "7"}}}
    assert call(api, "PATCH", f"{PODS}/{noted}", ours, account=theirs).status == 422


def test_only_the_writer_notes_in_a_binding(api: KubeServer) -> None:
    for name in ("bound", "foreign"):
        assert call(api, "POST", PODS, pod(name)).status == 201
    refused = call(api, "POST", f"{PODS}/bound/binding", binding("bound", {names.ANNOTATION_PLAN: "p"}))
    assert refused.status == 422, refused
    older = PODS.removesuffix("pods") + "bindings"
    refused = call(api, "POST", older, binding("bound", {names.ANNOTATION_PLAN: "p"}))
    assert refused.status == 422, refused
    done = call(api, "POST", f"{PODS}/bound/binding", binding("bound", {names.ANNOTATION_PLAN: "p"}), account=WRITER)
    assert done.status == 201, done
    assert call(api, "GET", f"{PODS}/bound").body["metadata"]["annotations"] == {names.ANNOTATION_PLAN: "p"}
    others = call(api, "POST", f"{PODS}/foreign/binding", binding("foreign", {"example.org/free": "x"}))
    assert others.status == 201, others


def test_sizes_of_a_bound_pod_are_not_forged(api: KubeServer) -> None:
    """Node agents limit batch containers by them. Before the bind they are anybody's: the bind writes over them."""
    key = names.ANNOTATION_EXTENDED_RESOURCE_SPEC
    assert call(api, "POST", PODS, pod("sized", {key: "{}"})).status == 201
    waiting = {"metadata": {"annotations": {key: '{"containers":{}}'}}}
    assert call(api, "PATCH", f"{PODS}/sized", waiting).status == 200
    notes = {names.ANNOTATION_PLAN: "p", key: "bound"}
    assert call(api, "POST", f"{PODS}/sized/binding", binding("sized", notes), account=WRITER).status == 201
    for forged in ("{}", None):
        refused = call(api, "PATCH", f"{PODS}/sized", {"metadata": {"annotations": {key: forged}}})
        assert refused.status == 422, refused
        assert "extended-resource-spec" in refused.body["message"]
    rest = {"metadata": {"annotations": {"example.org/free": "y"}}}
    assert call(api, "PATCH", f"{PODS}/sized", rest).body["metadata"]["annotations"][key] == "bound"


def test_a_reservation_is_guarded_as_a_pod_is(api: KubeServer) -> None:
    path = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
    crd = CRDS["reservations.scheduling.koordinator.sh"]
    made = as_object(crd, path, {"spec": {"template": {}, "owners": [{"object": {"name": "p"}}]}}, "guarded")
    assert call(api, "POST", path, made).status == 201
    note = {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "3"}}}
    assert call(api, "PATCH", f"{path}/guarded", note).status == 422
    assert call(api, "PATCH", f"{path}/guarded", note, account=WRITER).status == 200
    assert call(api, "PATCH", f"{path}/guarded", {"spec": {"ttl": "2h"}}).status == 200


def test_a_pod_with_very_many_annotations_is_judged_too(api: KubeServer) -> None:
    """The judgement costs less than the server allows at the largest size of annotations: else Fail would refuse it."""
    many = {f"example.org/{number}": "" for number in range(11_000)}
    assert call(api, "POST", PODS, pod("many", many)).status == 201
    assert call(api, "PATCH", f"{PODS}/many", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert call(api, "PATCH", f"{PODS}/many", {"metadata": {"annotations": NOTE}}).status == 422
