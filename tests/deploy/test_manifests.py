"""Every manifest against a real API server: accepted as it is, and doing what it is for.

Nothing runs here: without controllers and nodes a workload stays an object. What is asked is what only the server can
say: schemas, admission, Pod Security, the guard of Berth's notes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.deploy.manifests import K8S, OVERLAYS, ROOT, RUNNING, WORKLOADS, Json, built, name_of, tool

from berth.contracts import names
from berth.testing.kube_server import KubeMissingError, KubeServer

pytestmark = pytest.mark.e2e

VECTORS = ROOT / "tests/vectors/crds"
ACCEPTED: dict[str, list[Json]] = json.loads((VECTORS / "accepted.json").read_text())
REFUSED: list[Json] = json.loads((VECTORS / "refused.json").read_text())
CRDS: dict[str, Json] = {path.stem: json.loads(path.read_text()) for path in (K8S / "crds").glob("*.json")}
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir() if path.is_dir())
FOREIGN = {
    "podmonitors.monitoring.coreos.com": ("PodMonitor", "v1"),
    "prometheusrules.monitoring.coreos.com": ("PrometheusRule", "v1"),
    "issuers.cert-manager.io": ("Issuer", "v1"),
    "certificates.cert-manager.io": ("Certificate", "v1"),
}
"""Kinds of others that optional components make objects of. Their schemas are not ours to keep: any content passes."""


class Answer(NamedTuple):
    status: int
    body: Json


def call(
    server: KubeServer,
    method: str,
    path: str,
    body: Json | None = None,
    *,
    account: str = "admin",
    accept: str = "application/json",
) -> Answer:
    """One request. A patch is a merge patch; unknown and repeated fields are errors."""
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    if method in ("POST", "PUT", "PATCH"):
        path += ("&" if "?" in path else "?") + "fieldValidation=Strict"
    request = urllib.request.Request(
        server.url + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {server.token(account)}", "Content-Type": content, "Accept": accept},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=30, context=server.tls) as response:
            return Answer(response.status, json.load(response))
    except urllib.error.HTTPError as error:
        return Answer(error.code, json.loads(error.read()))


def foreign_crd(name: str, kind: str, version: str) -> Json:
    plural, _, group = name.partition(".")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


@pytest.fixture(scope="module")
def server() -> Iterator[KubeServer]:
    """With the custom resources, namespaces, accounts, rights and the guard; the guard is in force."""
    try:
        running = KubeServer()
    except KubeMissingError as error:
        pytest.skip(str(error))
    with running:
        foreign = [foreign_crd(name, *rest) for name, rest in FOREIGN.items()]
        running.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": foreign}))
        running.install_berth(K8S)
        until = time.monotonic() + 30
        while call(running, "POST", PODS, pod("probe", {names.ANNOTATION_PLAN: "x"})).status == 201:
            assert time.monotonic() < until, "the guard does not come into force"
            call(running, "DELETE", f"{PODS}/probe?gracePeriodSeconds=0")
        yield running


def applied(server: KubeServer, *arguments: str, stdin: str = "") -> tuple[list[str], str]:
    """What `kubectl apply` says of each object, and what the server warns of."""
    command = ["kubectl", f"--kubeconfig={server.admin_kubeconfig}", "apply", *arguments]
    environment = {**os.environ, "HOME": str(server.home)}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


# --- accepted as they are ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_accepts_every_object_of_an_overlay(server: KubeServer, overlay: str) -> None:
    folder = K8S / "overlays" / overlay
    objects = [each for each in yaml.safe_load_all(server.kubectl("kustomize", str(folder))) if each]
    said, warned = applied(server, "--server-side", "--dry-run=server", "-k", str(folder))
    assert len(said) == len(objects)
    assert all(line.endswith("serverside-applied (server dry run)") for line in said), said
    assert "Warning" not in warned, warned  # Pod Security of workloads, deprecated versions


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_server_accepts_every_component(server: KubeServer, component: str, tmp_path: Path) -> None:
    wanted = ["nats", component] if component == "nats-cluster" else [component]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(K8S / "base", tmp_path.resolve())],
        "components": [os.path.relpath(K8S / "components" / each, tmp_path.resolve()) for each in wanted],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    _, warned = applied(server, "--server-side", "--dry-run=server", "-k", str(tmp_path))
    assert "Warning" not in warned, warned


def test_what_the_tools_print_is_accepted_and_comes_first(server: KubeServer, tmp_path: Path) -> None:
    """In the order of the documentation: the namespaces that come along do not get in the way of the overlay's."""
    passwords, certs = tool("nats_passwords"), tool("certs")
    made = [
        passwords.manifests({user: passwords.password() for user in passwords.users()}),
        certs.manifests(certs.Authority(tmp_path), ["192.0.2.1"], 1, cert_manager=False),
        certs.manifests(certs.Authority(tmp_path), [], 1, cert_manager=True),
    ]
    for items in made:
        applied(server, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    applied(server, "--server-side", "--dry-run=server", "-k", str(K8S / "overlays/single-node"))
    labels = call(server, "GET", "/api/v1/namespaces/berth-system").body["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


# --- Pod Security -----------------------------------------------------------------------------------------------------


def pod_of_template(workload: Json, namespace: str) -> Json:
    template = workload["spec"]["template"]
    metadata = {**template["metadata"], "name": name_of(workload), "namespace": namespace}
    spec = {**template["spec"], "containers": [{**each} for each in template["spec"]["containers"]]}
    claims = workload["spec"].get("volumeClaimTemplates", [])
    spec["volumes"] = [
        *spec.get("volumes", []),
        *({"name": name_of(each), "persistentVolumeClaim": {"claimName": name_of(each)}} for each in claims),
    ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


HOST_PATH = 'restricted volume types ({} restricted volume type "hostPath")'
EXCEPTIONS = {
    "production": {HOST_PATH.format('volume "cgroup" uses')},
    "single-node": {
        HOST_PATH.format('volumes "strategy", "cgroup" use'),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
        "runAsUser=0 (pod must not set runAsUser=0)",
    },
}
"""What the node agent needs beyond the restricted level; the manifests say why, line by line."""


@pytest.fixture(scope="module")
def restricted(server: KubeServer) -> str:
    """A namespace that enforces the restricted level of the newest version."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}}
    assert call(server, "POST", "/api/v1/namespaces", body).status == 201
    return "strict"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_the_node_agent_is_not_restricted(server: KubeServer, overlay: str, restricted: str) -> None:
    workloads = [each for each in built(overlay) if each["kind"] in RUNNING]
    assert len(workloads) == len(WORKLOADS)
    for workload in workloads:
        home, name = workload["metadata"]["namespace"], name_of(workload)
        path = "/api/v1/namespaces/{}/pods?dryRun=All"
        status, body = call(server, "POST", path.format(restricted), pod_of_template(workload, restricted))
        if name == "node-qos-enforcer":
            assert status == 403
            problems = body["message"].partition('violates PodSecurity "restricted:latest": ')[2]
            assert set(re.split(r", (?=run)", problems)) == EXCEPTIONS[overlay]
        else:
            assert status == 201, body
        status, body = call(server, "POST", path.format(home), pod_of_template(workload, home))
        assert status == 201, body


def test_the_home_of_the_services_refuses_what_is_not_restricted(server: KubeServer) -> None:
    plain = {**pod("plain"), "metadata": {"name": "plain", "namespace": "berth-system"}}
    status, body = call(server, "POST", "/api/v1/namespaces/berth-system/pods?dryRun=All", plain)
    assert status == 403
    assert "violates PodSecurity" in body["message"]


# --- the guard --------------------------------------------------------------------------------------------------------

PODS = "/api/v1/namespaces/default/pods"
WRITER = "berth-system/cluster-writer"
NOTE = {names.ANNOTATION_PLAN: "p1", names.ANNOTATION_ATTEMPT: "1", "example.org/free": "x"}


def pod(name: str, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "c", "image": "i"}]},
    }


def binding(name: str, annotations: dict[str, str]) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


@pytest.fixture
def noted(server: KubeServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A pod that carries notes of cluster-writer and of somebody else."""
    name = f"noted-{abs(hash(request.node.name)) % 10**8}"
    assert call(server, "POST", PODS, pod(name, labels={"app": "a"})).status == 201
    notes = {"metadata": {"annotations": NOTE}}
    assert call(server, "PATCH", f"{PODS}/{name}", notes, account=WRITER).status == 200
    yield name
    call(server, "DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


REFUSED_CHANGES: dict[str, tuple[str, Json]] = {
    "a note changed": ("", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "2"}}}),
    "a note removed": ("", {"metadata": {"annotations": {names.ANNOTATION_PLAN: None}}}),
    "every annotation removed": ("", {"metadata": {"annotations": None}}),
    "a note added": ("", {"metadata": {"annotations": {names.ANNOTATION_QUOTA: "tree/rich"}}}),
    "a note of tomorrow": ("", {"metadata": {"annotations": {"scheduling.berth.sh/new": "x"}}}),
    "a label of ours": ("", {"metadata": {"labels": {"scheduling.berth.sh/x": "y"}}}),
    "by the status": ("/status", {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "2"}}}),
}


@pytest.mark.parametrize("what", REFUSED_CHANGES)
def test_nobody_else_changes_notes_on_a_pod(server: KubeServer, noted: str, what: str) -> None:
    part, body = REFUSED_CHANGES[what]
    refused = call(server, "PATCH", f"{PODS}/{noted}{part}", body)
    assert refused.status == 422, refused
    assert "belong to cluster-writer" in refused.body["message"]
    kept = call(server, "GET", f"{PODS}/{noted}").body["metadata"]
    assert kept["annotations"] == NOTE
    allowed = call(server, "PATCH", f"{PODS}/{noted}{part}", body, account=WRITER)
    assert allowed.status == 200, allowed


def test_everybody_changes_the_rest(server: KubeServer, noted: str) -> None:
    rest = {"metadata": {"annotations": {"example.org/free": "y"}, "labels": {"app": None, "more": "z"}}}
    assert call(server, "PATCH", f"{PODS}/{noted}", rest).status == 200
    condition = {"status": {"conditions": [{"type": "example.org/ok", "status": "True"}]}}
    assert call(server, "PATCH", f"{PODS}/{noted}/status", condition).status == 200
    assert call(server, "DELETE", f"{PODS}/{noted}").status == 200


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_nobody_brings_notes_along(server: KubeServer, where: str) -> None:
    body = pod("forged", **{where: {names.ANNOTATION_QUOTA: "rich"}})
    refused = call(server, "POST", PODS, body)
    assert refused.status == 422, refused
    assert "leave them as they are, and out of manifests" in refused.body["message"]


def test_only_the_writer_notes_in_a_binding(server: KubeServer) -> None:
    for name in ("bound", "foreign"):
        assert call(server, "POST", PODS, pod(name)).status == 201
    refused = call(server, "POST", f"{PODS}/bound/binding", binding("bound", {names.ANNOTATION_PLAN: "p"}))
    assert refused.status == 422, refused
    older = PODS.removesuffix("pods") + "bindings"
    refused = call(server, "POST", older, binding("bound", {names.ANNOTATION_PLAN: "p"}))
    assert refused.status == 422, refused
    done = call(server, "POST", f"{PODS}/bound/binding", binding("bound", {names.ANNOTATION_PLAN: "p"}), account=WRITER)
    assert done.status == 201, done
    assert call(server, "GET", f"{PODS}/bound").body["metadata"]["annotations"] == {names.ANNOTATION_PLAN: "p"}
    others = call(server, "POST", f"{PODS}/foreign/binding", binding("foreign", {"example.org/free": "x"}))
    assert others.status == 201, others


def test_a_reservation_is_guarded_as_a_pod_is(server: KubeServer) -> None:
    path = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
    crd = CRDS["reservations.scheduling.koordinator.sh"]
    made = as_object(crd, path, {"spec": {"template": {}, "owners": [{"object": {"name": "p"}}]}}, "guarded")
    assert call(server, "POST", path, made).status == 201
    note = {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: "3"}}}
    assert call(server, "PATCH", f"{path}/guarded", note).status == 422
    assert call(server, "PATCH", f"{path}/guarded", note, account=WRITER).status == 200
    assert call(server, "PATCH", f"{path}/guarded", {"spec": {"ttl": "2h"}}).status == 200


def test_a_pod_with_very_many_annotations_is_judged_too(server: KubeServer) -> None:
    """The judgement costs less than the server allows at the largest size of annotations: else Fail would refuse it."""
    many = {f"example.org/{number}": "" for number in range(11_000)}
    assert call(server, "POST", PODS, pod("many", many)).status == 201
    assert call(server, "PATCH", f"{PODS}/many", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert call(server, "PATCH", f"{PODS}/many", {"metadata": {"annotations": NOTE}}).status == 422


# --- custom resources -------------------------------------------------------------------------------------------------


def paths_of(crd: Json) -> list[str]:
    """Where objects of each version are; those with a namespace in `default`."""
    space = "/namespaces/default" if crd["spec"]["scope"] == "Namespaced" else ""
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    return [f"/apis/{group}/{version['name']}{space}/{plural}" for version in crd["spec"]["versions"]]


def as_object(crd: Json, path: str, document: Json, name: str) -> Json:
    group, version = path.split("/")[2:4]
    metadata = {**document.get("metadata", {}), "name": name}
    return {**document, "apiVersion": f"{group}/{version}", "kind": crd["spec"]["names"]["kind"], "metadata": metadata}


def contains(stored: Any, wanted: Any) -> bool:
    """Everything wanted is there as it was written; the server may add defaults, and leaves out what is null."""
    if isinstance(wanted, dict):
        return all(value is None or (key in stored and contains(stored[key], value)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(stored) == len(wanted) and all(map(contains, stored, wanted))
    return bool(stored == wanted)


@pytest.mark.parametrize("name", sorted(CRDS))
def test_objects_of_users_are_stored_unchanged(server: KubeServer, name: str) -> None:
    crd = CRDS[name]
    for number, document in enumerate(ACCEPTED[name]):
        for path in paths_of(crd):
            called = f"sample-{number}-{path.split('/')[3]}"
            made = call(server, "POST", path, as_object(crd, path, document, called))
            assert made.status == 201, made
            if "status" in crd["spec"]["versions"][0].get("subresources", {}) and "status" in document:
                patch = {"status": document["status"]}
                made = call(server, "PATCH", f"{path}/{called}/status", patch)
                assert made.status == 200, made
            for field in (key for key in document if key != "metadata"):
                assert contains(made.body[field], document[field]), (field, made.body[field])


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case['crd'].partition('.')[0]}-{case['field']}")
def test_absurd_objects_are_refused_with_the_field(server: KubeServer, case: Json) -> None:
    crd = CRDS[case["crd"]]
    path = paths_of(crd)[-1]
    status, body = call(server, "POST", f"{path}?dryRun=All", as_object(crd, path, case["object"], "absurd"))
    assert status in (400, 422), body
    assert case["field"] in body["message"], body


@pytest.mark.parametrize("name", sorted(CRDS))
def test_lists_have_their_columns(server: KubeServer, name: str) -> None:
    crd = CRDS[name]
    for path, version in zip(paths_of(crd), crd["spec"]["versions"], strict=True):
        table = call(server, "GET", path, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        columns = [each["name"] for each in version.get("additionalPrinterColumns", [])]
        assert [each["name"] for each in table.body["columnDefinitions"]] == ["Name", *(columns or ["Age"])]


def test_kinds_have_their_short_names(server: KubeServer) -> None:
    for name, crd in CRDS.items():
        wanted = crd["spec"]["names"]
        version = crd["spec"]["versions"][-1]["name"]
        listed = call(server, "GET", f"/apis/{crd['spec']['group']}/{version}").body["resources"]
        (found,) = [each for each in listed if each["name"] == wanted["plural"]]
        assert found.get("shortNames", []) == wanted.get("shortNames", []), name
        assert found["namespaced"] is (crd["spec"]["scope"] == "Namespaced")
        status = any(each["name"] == f"{wanted['plural']}/status" for each in listed)
        assert status is ("status" in crd["spec"]["versions"][-1].get("subresources", {})), name


def test_a_check_that_is_no_check_would_fail(server: KubeServer, tmp_path: Path) -> None:
    """The dry run does refuse: a field that does not exist, a value that is out of range."""
    good: Callable[[], Json] = lambda: json.loads(json.dumps(WORKLOADS[0]))  # noqa: E731
    wrong = good()
    wrong["spec"]["template"]["spec"]["containers"][0]["readinessprobe"] = {}
    absurd = good()
    absurd["spec"]["replicas"] = -1
    for bad in (wrong, absurd):
        with pytest.raises(AssertionError, match=r"readinessprobe|replicas"):
            applied(server, "--server-side", "--dry-run=server", "-f", "-", stdin=json.dumps(bad))
