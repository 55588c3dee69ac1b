"""The simulated API gives the answers of the real one: the same requests to both, status, reason and fields compared.

A scenario is a list of requests in a namespace of its own. `$uid` and `$version` stand for those of the object that was
last answered, in what comes after it. What a server makes up itself (uids, versions, times) is made equal before the
comparison; of objects only what the scenario is about is compared, since the simulated server fills in fewer defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from tests.e2e.clusters import K8S
from yarl import URL

from berth.simcluster import SimSettings, serve
from berth.testing.kube_server import KubeServer

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

Json = Any
MERGE, STRATEGIC, JSON, APPLY = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)
ME = "?fieldManager=me&force=true"
PODS, BUDGETS = "/api/v1/namespaces/$ns/pods", "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/$ns/podgroups"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/$ns/events"
READ_BY_PROGRAMS = (404, 409, 429)
NOBODY = "00000000-0000-0000-0000-000000000000"


class Step(NamedTuple):
    """One request; of the object in the answer these dotted fields are compared."""

    method: str
    path: str
    body: Json = None
    fields: tuple[str, ...] = ("metadata.name", "metadata.labels", "metadata.annotations")
    kind: str = "application/json"


def pod(name: str, spec: Json | None = None, **meta: Json) -> Json:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"schedulerName": "nobody", "containers": [container], **(spec or {})},
    }


def binding(name: str, node: str = "n1", target: Json = None, **meta: Json) -> Json:
    node_of = {"apiVersion": "v1", "kind": "Node", "name": node} if target is None else target
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": node_of}


def post(path: str, body: Json, *fields: str) -> Step:
    return Step("POST", path, body, (*Step._field_defaults["fields"], *fields))


def patch(path: str, body: Json, *fields: str, kind: str = MERGE) -> Step:
    return Step("PATCH", path, body, (*Step._field_defaults["fields"], *fields), kind)


def get(path: str, *fields: str) -> Step:
    return Step("GET", path, None, (*Step._field_defaults["fields"], *fields))


def delete(path: str, body: Json = None, *fields: str) -> Step:
    return Step("DELETE", path, body, (*Step._field_defaults["fields"], *fields))


def options(**more: Json) -> Json:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **more}


def group(name: str = "g", **more: Json) -> Json:
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name}, "spec": {"minMember": 2}, **more}


def reservation(**more: Json) -> Json:
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation"}
    spec = {"template": {"spec": {"containers": []}}, "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}]}
    return {**kind, "metadata": {"name": "$ns"}, "spec": spec, **more}


def device(**spec: Json) -> Json:
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    return {**kind, "metadata": {"name": "$ns"}, "spec": spec}


def lease(**more: Json) -> Json:
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**kind, "metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}, **more}


def budget(**spec: Json) -> Json:
    selector = {"selector": {"matchLabels": {"app": "web"}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": selector | spec,
    }


def eviction(name: str, **more: Json) -> Json:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


NODE_NAME, PHASE = "spec.nodeName", "status.phase"
RUNNING = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
GRACE = "metadata.deletionGracePeriodSeconds"

SCENARIOS: dict[str, list[Step]] = {
    "binding": [
        post(f"{PODS}/p/binding", binding("p")),
        post(PODS, pod("p", annotations={"a": "1", "b": "1"})),
        post(f"{PODS}/p/binding", binding("q")),
        post(f"{PODS}/p/binding", binding("p", target={"kind": "Node"})),
        post(f"{PODS}/p/binding", binding("p", target={"kind": "Pod", "name": "x"})),
        post(f"{PODS}/p/binding", binding("p", uid=NOBODY)),
        get(f"{PODS}/p"),
        post(f"{PODS}/p/binding", binding("p", resourceVersion="1")),
        get(f"{PODS}/p", NODE_NAME, PHASE),
        get(f"{PODS}/p"),
        post(f"{PODS}/p/binding", binding("p", uid="$uid", annotations={"b": "2"}, labels={"l": "1"})),
        get(f"{PODS}/p", NODE_NAME, "status.conditions"),
        post(f"{PODS}/p/binding", binding("p")),
        post(f"{PODS}/p/binding", binding("p", node="n2")),
    ],
    "binding of a pod with a gate": [
        post(PODS, pod("p", {"schedulingGates": [{"name": "example.com/wait"}]}), "status.conditions"),
        post(f"{PODS}/p/binding", binding("p")),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": []}}),
        post(f"{PODS}/p/binding", binding("p")),
        get(f"{PODS}/p", NODE_NAME),
    ],
    "binding of a pod that goes": [
        post(PODS, pod("p", finalizers=["example.com/hold"])),
        delete(f"{PODS}/p"),
        post(f"{PODS}/p/binding", binding("p")),
        patch(f"{PODS}/p", {"metadata": {"finalizers": None}}),
        get(f"{PODS}/p"),
    ],
    "deleting": [
        post(PODS, pod("p")),
        delete(f"{PODS}/p", options(preconditions={"uid": NOBODY})),
        delete(f"{PODS}/p", options(gracePeriodSeconds=-1)),
        get(f"{PODS}/p"),
        delete(f"{PODS}/p", options(preconditions={"uid": "$uid"})),
        delete(f"{PODS}/p"),
        post(PODS, pod("q", {"nodeName": "n"})),
        delete(f"{PODS}/q", None, GRACE),
        get(f"{PODS}/q", GRACE),
        delete(f"{PODS}/q", options(gracePeriodSeconds=5), GRACE),
        delete(f"{PODS}/q", options(gracePeriodSeconds=0)),
        get(f"{PODS}/q"),
    ],
    "patching": [
        post(PODS, pod("p", labels={"a": "1"})),
        patch(f"{PODS}/none", {"metadata": {"labels": {"a": "2"}}}),
        patch(f"{PODS}/p", {"metadata": {"labels": {"a": None, "b": "2"}}}),
        patch(f"{PODS}/p", {"metadata": {"uid": NOBODY, "labels": {"b": "3"}}}),
        patch(f"{PODS}/p", {"metadata": {"resourceVersion": "1", "labels": {"b": "3"}}}),
        get(f"{PODS}/p"),
        patch(f"{PODS}/p", {"metadata": {"resourceVersion": "$version", "uid": "$uid", "labels": {"b": "4"}}}),
        patch(f"{PODS}/p", {"metadata": {"labels": {"b": "not a value!"}}}),
        patch(f"{PODS}/p", {"metadata": {"labels": {"b": 3}}}),
        patch(f"{PODS}/p", {"status": {"phase": "Running"}}, PHASE),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}, "metadata": {"labels": {"c": "1"}}}, PHASE),
        patch(f"{PODS}/p", {"metadata": {"labels": {"d": "1"}}}, kind="application/x-patch"),
        patch(f"{PODS}/p", [{"op": "test", "path": "/metadata/labels/b", "value": "9"}], kind=JSON),
        patch(f"{PODS}/p", [{"op": "add", "path": "/metadata/labels/e", "value": "9"}], kind=JSON),
        patch(f"{PODS}/p", [{"op": "remove", "path": "/metadata/labels/zz"}], kind=JSON),
        patch(f"{PODS}/p", "text"),
    ],
    "conditions are merged by their type": [
        post(PODS, pod("p")),
        patch(
            f"{PODS}/p/status",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            "status.conditions",
            kind=STRATEGIC,
        ),
        patch(
            f"{PODS}/p/status",
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}},
            "status.conditions",
            kind=STRATEGIC,
        ),
        patch(
            f"{PODS}/p/status",
            {"metadata": {"uid": NOBODY}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            kind=STRATEGIC,
        ),
    ],
    "creating": [
        post(PODS, pod("p")),
        post(PODS, pod("p")),
        post(PODS, pod("Not a name")),
        post(PODS, pod("q", namespace="elsewhere")),
        post("/api/v1/namespaces/no-such-namespace/pods", pod("p")),
        post(PODS, {**pod("r"), "kind": "Service"}),
        post(PODS, {**pod("r"), "apiVersion": "v2"}),
        post(PODS, pod("r", {"containers": []})),
        post(PODS, pod("r", labels={"a": "not a value!"})),
        post("/api/v1/namespaces/$ns/nothings", pod("p")),
        get(f"{PODS}/none"),
    ],
    "replacing": [
        post(GROUPS, group()),
        Step("PUT", f"{GROUPS}/g", group()),
        Step("PUT", f"{GROUPS}/g", group(metadata={"name": "g", "resourceVersion": "1"})),
        Step("PUT", f"{GROUPS}/g", group(metadata={"name": "h", "resourceVersion": "1"})),
        get(f"{GROUPS}/g", "spec"),
        Step(
            "PUT",
            f"{GROUPS}/g",
            group(metadata={"name": "g", "resourceVersion": "$version"}, spec={"minMember": 3}),
            ("spec", "metadata.generation"),
        ),
        Step("PUT", f"{GROUPS}/none", group("none")),
    ],
    "a custom resource without a status of its own": [
        post(GROUPS, group(status={"phase": "Pending"}), "status.phase", "metadata.generation"),
        patch(f"{GROUPS}/g", {"status": {"phase": "Running"}}, "status.phase", "metadata.generation"),
        patch(f"{GROUPS}/g", {"metadata": {"uid": NOBODY}}),
        patch(f"{GROUPS}/g", {"metadata": {"resourceVersion": "1"}}),
        patch(f"{GROUPS}/g", {"spec": {"minMember": "many"}}),
        patch(f"{GROUPS}/g", {"spec": {"nobodyKnows": 1}}, "spec"),
        patch(f"{GROUPS}/g", {"spec": {"minMember": 5}}, "spec", "metadata.generation"),
        patch(f"{GROUPS}/g", {"spec": {"minMember": 6}}, kind=STRATEGIC),
    ],
    "server-side apply, guarded by a version": [
        patch(f"{GROUPS}/g{ME}", group(metadata={"name": "g", "resourceVersion": "1"}), kind=APPLY),
        patch(f"{GROUPS}/g{ME}", group(metadata={"name": "g", "resourceVersion": "1"}), kind=APPLY),
        patch(f"{GROUPS}/g{ME}", group(metadata={"name": "g", "resourceVersion": "$version"}), kind=APPLY),
    ],
    "a custom resource with a status of its own": [
        post(RESERVATIONS, reservation(status={"phase": "Pending"}), "status.phase", "metadata.generation"),
        patch(f"{RESERVATIONS}/$ns", {"status": {"phase": "Failed"}}, "status.phase", "metadata.generation"),
        patch(f"{RESERVATIONS}/$ns/status", {"status": {"phase": "Available"}, "spec": {"ttl": "9h"}}, "status.phase"),
        get(f"{RESERVATIONS}/$ns", "status.phase", "spec.ttl", "metadata.generation"),
        patch(f"{RESERVATIONS}/$ns/status", {"metadata": {"uid": NOBODY}, "status": {"phase": "Failed"}}),
        patch(f"{RESERVATIONS}/$ns/status", {"metadata": {"resourceVersion": "1"}, "status": {"phase": "Failed"}}),
        patch(f"{RESERVATIONS}/$ns/status", {"status": {"phase": 3}}),
        patch(f"{RESERVATIONS}/$ns", {"spec": {"ttl": "9h"}}, "spec.ttl", "metadata.generation"),
        delete(f"{RESERVATIONS}/$ns", options(preconditions={"uid": NOBODY})),
        delete(f"{RESERVATIONS}/$ns"),
    ],
    "a schema": [
        post(DEVICES, device(devices=3)),
        post(DEVICES, device(devices=[{"minor": "one", "type": 3}])),
        post(DEVICES, device(devices=[{"type": "gpu", "resources": {"koordinator.sh/gpu-core": "many"}}])),
        post(DEVICES, device(devices=[{"type": "gpu", "minor": 0, "nobodyKnows": {"a": 1}}]), "spec.devices"),
        patch(f"{DEVICES}/$ns", {"spec": {"devices": [{"type": "gpu", "health": "yes"}]}}),
        post(f"{GROUPS}", {**group("h"), "spec": {}}),
        post(f"{GROUPS}", {**group("h"), "spec": None}),
        delete(f"{DEVICES}/$ns"),
    ],
    "leases": [
        get(f"{LEASES}/l"),
        post(LEASES, lease(), "spec.holderIdentity"),
        post(LEASES, lease()),
        patch(f"{LEASES}/l", {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "b"}}),
        patch(f"{LEASES}/l", {"spec": {"leaseDurationSeconds": -1}}),
        patch(f"{LEASES}/l", {"spec": {"renewTime": "yesterday"}}),
        patch(f"{LEASES}/l", {"spec": {"holderIdentity": "b"}}, "spec.holderIdentity"),
        get(f"{LEASES}/l", "spec"),
    ],
    "evictions": [
        post(f"{PODS}/p/eviction", eviction("p")),
        post(PODS, pod("p", labels={"app": "web"})),
        post(f"{PODS}/p/binding", binding("p")),
        patch(f"{PODS}/p/status", RUNNING, PHASE),
        post(BUDGETS, budget(minAvailable=1), "spec"),
        patch(
            f"{BUDGETS}/b/status",
            {
                "status": {
                    "observedGeneration": 1,
                    "disruptionsAllowed": 0,
                    "currentHealthy": 1,
                    "desiredHealthy": 1,
                    "expectedPods": 1,
                }
            },
        ),
        post(f"{PODS}/p/eviction", eviction("q")),
        post(f"{PODS}/p/eviction", eviction("p", deleteOptions={"preconditions": {"uid": NOBODY}})),
        post(f"{PODS}/p/eviction", eviction("p")),
        delete(f"{BUDGETS}/b"),
        post(f"{PODS}/p/eviction", eviction("p", deleteOptions={"preconditions": {"uid": NOBODY}})),
        post(f"{PODS}/p/eviction", eviction("p", deleteOptions={"gracePeriodSeconds": 0})),
        get(f"{PODS}/p"),
    ],
    "budgets": [
        post(BUDGETS, budget(minAvailable=1, maxUnavailable=1)),
        post(BUDGETS, budget(minAvailable=-1)),
        post(BUDGETS, budget(minAvailable="many")),
        post(BUDGETS, budget(maxUnavailable="50%"), "spec"),
    ],
    "nodes": [
        post(
            NODES,
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "$ns"}, "status": {"capacity": {"cpu": "4"}}},
        ),
        get(f"{NODES}/$ns", "status.capacity", "status.allocatable"),
        patch(f"{NODES}/$ns/status", {"status": {"allocatable": {"cpu": "3", "x.y/z": "2"}}}, "status.allocatable"),
        patch(f"{NODES}/$ns/status", {"metadata": {"uid": NOBODY}, "status": {"allocatable": {"cpu": "1"}}}),
        patch(f"{NODES}/$ns", {"spec": {"unschedulable": True}}, "spec.unschedulable"),
        patch(f"{NODES}/$ns", {"metadata": {"labels": {"a": "b"}}, "status": {"allocatable": {"cpu": "1"}}}),
        get(f"{NODES}/$ns", "status.allocatable", "spec.unschedulable"),
        delete(f"{NODES}/$ns"),
    ],
    "events": [
        post(EVENTS, {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$ns"}}),
        post(EVENTS, {"metadata": {"name": "f"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"}}),
        get(f"{EVENTS}/e", "involvedObject.name"),
    ],
    "lists": [
        post(PODS, pod("a", labels={"x": "1"})),
        post(PODS, pod("b", labels={"x": "2"})),
        post(PODS, pod("c", {"nodeName": "n"}, labels={"x": "2"})),
        get(PODS, "items"),
        get(f"{PODS}?limit=2", "items", "metadata.remainingItemCount"),
        get(f"{PODS}?labelSelector=x%3D2", "items"),
        get(f"{PODS}?labelSelector=x%20in%20(1,2),x!%3D1", "items"),
        get(f"{PODS}?fieldSelector=spec.nodeName%3D", "items"),
        get(f"{PODS}?fieldSelector=spec.nodeName%3Dn", "items"),
        get(f"{PODS}?fieldSelector=spec.nothing%3Dn"),
        get(f"{PODS}?labelSelector=x%20in%20("),
        get(f"{PODS}?limit=-1"),
        get(f"{PODS}?continue=nonsense"),
        get(f"{PODS}?resourceVersion=nonsense"),
        get(f"{PODS}?resourceVersionMatch=Exact"),
        get(f"{PODS}?resourceVersion=0&resourceVersionMatch=Wrong"),
    ],
}


class Server(NamedTuple):
    """One of the two."""

    session: aiohttp.ClientSession
    url: str

    async def ask(self, step: Step, known: dict[str, str]) -> tuple[int, Json]:
        url = URL(self.url + fill(step.path, known), encoded=True)
        data = None if step.body is None else fill(json.dumps(step.body), known).encode()
        async with self.session.request(step.method, url, data=data, headers={"Content-Type": step.kind}) as response:
            text = await response.read()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(real_kind: str) -> AsyncIterator[tuple[Server, Server]]:
    with KubeServer() as kube:
        kube.install(K8S / "crds")
        kube.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        headers = {"Authorization": f"Bearer {kube.admin_token}"}
        connector = aiohttp.TCPConnector(ssl=kube.tls)
        async with (
            serve(SimSettings(kubelet=None)) as simulated,
            aiohttp.ClientSession() as plain,
            aiohttp.ClientSession(connector=connector, headers=headers) as secure,
        ):
            yield Server(plain, simulated.url), Server(secure, kube.url)


def fill(text: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(name, value)
    return text


def field(answer: Json, path: str) -> Json:
    """A dotted field; of lists of objects their names."""
    for part in path.split("."):
        answer = answer.get(part) if isinstance(answer, dict) else None
    if path == "items" and isinstance(answer, list):
        return [each["metadata"]["name"] for each in answer]
    if path.endswith("conditions") and isinstance(answer, list):
        return sorted((each["type"], each["status"], each.get("reason", "")) for each in answer)
    return answer


def told(answer: tuple[int, Json], step: Step, known: dict[str, str]) -> Json:
    """What is compared of an answer: of a refusal the words where programs read them, else the refused fields."""
    status, body = answer
    if not isinstance(body, dict):
        return status, body
    if body.get("kind") != "Status":
        return status, body.get("kind"), {path: field(body, path) or None for path in step.fields}
    text = str(body.get("message", ""))
    for name in ("$uid", "$ns", "$version"):
        text = text.replace(known[name], name)
    causes = sorted({(each.get("field"), each.get("reason")) for each in body.get("details", {}).get("causes", [])})
    words = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "#", text) if status in READ_BY_PROGRAMS else ""
    return status, body.get("status"), body.get("reason"), causes, words


@pytest.mark.parametrize("what", SCENARIOS)
async def test_both_servers_say_the_same(servers: tuple[Server, Server], what: str) -> None:
    name = "same-" + re.sub(r"\W+", "-", what)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    known = [{"$ns": name, "$uid": NOBODY, "$version": "1"} for _ in servers]
    for server, mine in zip(servers, known, strict=True):
        await server.ask(post("/api/v1/namespaces", space), mine)
    differences = []
    for number, step in enumerate(SCENARIOS[what]):
        said = []
        for server, mine in zip(servers, known, strict=True):
            answer = await server.ask(step, mine)
            said.append(told(answer, step, mine))
            if isinstance(answer[1], dict) and answer[1].get("metadata", {}).get("uid"):
                mine["$uid"] = answer[1]["metadata"]["uid"]
                mine["$version"] = answer[1]["metadata"]["resourceVersion"]
        if said[0] != said[1]:
            differences.append(
                f"{number}: {step.method} {step.path} {step.body}\n   simulated {said[0]}\n   real      {said[1]}"
            )
    assert not differences, "\n".join(differences)
