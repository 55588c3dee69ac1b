"""What each service may do on a real API server: exactly the rights of `k8s/`, and nothing beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio
import yaml
from tests.e2e.clusters import K8S, cluster_of

from berth.testing.kube_server import KubectlError, KubeServer

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

HOME, NODES = "berth-system", "berth-nodes"
ELSEWHERE = "default"
PLACES = (HOME, NODES, ELSEWHERE)
Json = dict[str, Any]


class Right(NamedTuple):
    """One thing that may be done in a namespace; an empty `name` means objects of any name."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""


class Server(NamedTuple):
    kube: KubeServer
    session: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Json | None = None, token: str = "") -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {token or self.kube.admin_token}"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        async with self.session.request(method, self.kube.url + path, json=body, headers=headers) as response:
            return response.status, await response.json()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(real_kind: str) -> AsyncIterator[Server]:
    with cluster_of(real_kind) as cluster:
        connector = aiohttp.TCPConnector(limit=32, ssl=cluster.tls)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Server(cluster.server, session)  # type: ignore[attr-defined]


def manifests() -> Iterator[Json]:
    """Every object of the base, and the rights of preemption."""
    for file in [*sorted((K8S / "base").glob("*.yaml")), K8S / "components/preemption/rights.yaml"]:
        yield from (each for each in yaml.safe_load_all(Path(file).read_text()) if each)


def accounts() -> list[str]:
    """The service accounts of the base, `namespace/name`."""
    found = [each["metadata"] for each in manifests() if each["kind"] == "ServiceAccount"]
    return [f"{meta['namespace']}/{meta['name']}" for meta in found]


def rights_of(namespace: str, rules: Iterable[Json]) -> set[Right]:
    """Every single right that rules give."""
    return {
        Right(namespace, group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    }


def granted(account: str) -> set[Right]:
    """What the manifests give an account, in its own namespaces and elsewhere."""
    namespace, _, name = account.partition("/")
    roles = {(each["kind"], each["metadata"]["name"]): each for each in manifests() if each["kind"].endswith("Role")}
    found: set[Right] = set()
    for binding in manifests():
        if not binding["kind"].endswith("RoleBinding"):
            continue
        if (namespace, name) not in [(each["namespace"], each["name"]) for each in binding["subjects"]]:
            continue
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        everywhere = binding["kind"] == "ClusterRoleBinding"
        for place in PLACES if everywhere else [binding["metadata"]["namespace"]]:
            found |= rights_of(place, role["rules"])
    return found


async def allowed(server: Server, account: str) -> set[Right]:
    """What the server itself says that the account may do."""
    token = await asyncio.to_thread(server.kube.token, account)
    found: set[Right] = set()
    for place in PLACES:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": place},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        status, answer = await server.call("POST", path, review, token)
        assert status == 201, answer
        assert not answer["status"]["incomplete"], answer
        found |= rights_of(place, answer["status"]["resourceRules"])
    return found


async def test_every_service_may_do_what_the_manifests_say_and_nothing_else(server: Server) -> None:
    await asyncio.to_thread(server.kube.kubectl, "create", "serviceaccount", "nobody", "--namespace", ELSEWHERE)
    nobody = await allowed(server, f"{ELSEWHERE}/nobody")  # what everybody may: ask who one is, and what one may
    assert {right.verb for right in nobody} == {"create"}
    for account in accounts():
        assert await allowed(server, account) - nobody == granted(account), account
    assert len(accounts()) >= 7


POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}
FORBIDDEN = {
    "the watcher creates a pod": ("cluster-watcher", "POST", "/api/v1/namespaces/default/pods", POD),
    "the watcher reads secrets": ("cluster-watcher", "GET", "/api/v1/secrets", None),
    "the watcher patches a node": ("cluster-watcher", "PATCH", "/api/v1/nodes/n", {"metadata": {}}),
    "the writer reads secrets": ("cluster-writer", "GET", "/api/v1/namespaces/berth-system/secrets", None),
    "the writer creates a pod": ("cluster-writer", "POST", "/api/v1/namespaces/default/pods", POD),
    "the writer deletes a node": ("cluster-writer", "DELETE", "/api/v1/nodes/n", None),
    "the writer reads another Lease": (
        "cluster-writer",
        "GET",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
        None,
    ),
    "the writer takes another Lease at home": (
        "cluster-writer",
        "PATCH",
        "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/other",
        {"metadata": {}},
    ),
    "the solver lists pods": ("placement-solver", "GET", "/api/v1/pods", None),
    "the quota manager patches a quota": (
        "quota-manager",
        "PATCH",
        "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas/q",
        {"metadata": {}},
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
async def test_what_is_not_given_is_forbidden(server: Server, what: str) -> None:
    service, method, path, body = FORBIDDEN[what]
    status, answer = await server.call(method, path, body, server.kube.token(f"{HOME}/{service}"))
    assert status == 403, answer
    assert f"system:serviceaccount:{HOME}:{service}" in answer["message"]


async def test_a_wrong_token_is_nobody(server: Server) -> None:
    status, _ = await server.call("GET", "/api/v1/pods", token="no-such-token")
    assert status == 401


async def test_the_server_accepts_every_custom_resource_definition(server: Server) -> None:
    wanted = {file.stem for file in (K8S / "crds").glob("*.json")}
    _, listed = await server.call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    found = {each["metadata"]["name"]: each for each in listed["items"]}
    assert set(found) == wanted
    for name, each in found.items():
        conditions = {condition["type"]: condition["status"] for condition in each["status"]["conditions"]}
        assert conditions["Established"] == "True", name
        assert conditions["NamesAccepted"] == "True", name
        assert conditions.get("NonStructuralSchema", "False") == "False", name
        if each["spec"]["group"].endswith(".k8s.io"):
            assert conditions["KubernetesAPIApprovalPolicyConformant"] == "True", name


async def test_only_the_writer_changes_the_attempt_of_a_pod(server: Server) -> None:
    path = "/api/v1/namespaces/default/pods"
    manifest = {**POD, "metadata": {"name": "guarded"}, "spec": {**POD["spec"], "schedulerName": "nobody"}}
    status, answer = await server.call("POST", path, manifest)
    assert status == 201, answer
    body = {"metadata": {"annotations": {"scheduling.berth.sh/attempt": "1"}}}
    async with asyncio.timeout(30):  # the server reads a new policy some time after it is written
        while True:
            status, answer = await server.call("PATCH", f"{path}/guarded", body)
            if status != 200:
                break
            await server.call("PATCH", f"{path}/guarded", {"metadata": {"annotations": None}})
            await asyncio.sleep(0.1)
    assert status == 422, answer
    assert "belong to cluster-writer" in answer["message"]
    status, _ = await server.call("PATCH", f"{path}/guarded/status", body)
    assert status == 422
    status, _ = await server.call("POST", path, {**manifest, "metadata": {"name": "born", **body["metadata"]}})
    assert status == 422
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    binding = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "guarded", **body["metadata"]}}
    status, _ = await server.call("POST", f"{path}/guarded/binding", {**binding, "target": target})
    assert status == 422
    status, answer = await server.call("PATCH", f"{path}/guarded", body, server.kube.token(f"{HOME}/cluster-writer"))
    assert status == 200, answer
    assert answer["metadata"]["annotations"]["scheduling.berth.sh/attempt"] == "1"


async def test_what_device_plugins_read_of_our_pods_is_not_for_users_to_write(server: Server) -> None:
    path = "/api/v1/namespaces/default/pods"
    for name, scheduler in (("handed", "berth-scheduler"), ("others", "volcano")):
        manifest = {**POD, "metadata": {"name": name}, "spec": {**POD["spec"], "schedulerName": scheduler}}
        status, answer = await server.call("POST", path, manifest)
        assert status == 201, answer
    body = {"metadata": {"annotations": {"huawei.com/npu-core": "0-vir02"}}}
    async with asyncio.timeout(30):  # the server reads a new policy some time after it is written
        while (await server.call("PATCH", f"{path}/handed", body))[0] == 200:
            await server.call("PATCH", f"{path}/handed", {"metadata": {"annotations": None}})
            await asyncio.sleep(0.1)
    status, answer = await server.call("PATCH", f"{path}/handed", body)
    assert (status, "that device plugins take devices by" in answer["message"]) == (422, True)
    assert (await server.call("PATCH", f"{path}/others", body))[0] == 200, "of another scheduler"
    writer = server.kube.token(f"{HOME}/cluster-writer")
    assert (await server.call("PATCH", f"{path}/handed", body, writer))[0] == 200
    gone = {"metadata": {"annotations": {"huawei.com/npu-core": None}}}
    assert (await server.call("PATCH", f"{path}/handed", gone))[0] == 422
    touched = {"metadata": {"annotations": {"own": "1"}}}
    assert (await server.call("PATCH", f"{path}/handed", touched))[0] == 200


async def test_kubectl_says_the_same(server: Server) -> None:
    with pytest.raises(KubectlError, match="forbidden"):
        await asyncio.to_thread(server.kube.kubectl, "get", "secrets", "-A", account=f"{HOME}/cluster-writer")
