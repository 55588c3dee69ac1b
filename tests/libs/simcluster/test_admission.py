"""Webhooks of the simulated API: which are called, what becomes of their answers, and of none."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from berth.simcluster.admission.conditions import ConditionError, holds
from berth.simcluster.admission.matching import Hook
from berth.simcluster.admission.reviewing import Admission, UnaskedError
from berth.simcluster.http.target import Target, parse_target
from berth.simcluster.store import Reply, Store
from berth.simcluster.store.objects import decode, encode
from berth.simcluster.store.status import ApiError

Json = dict[str, Any]
POD = {"object": {"metadata": {"labels": {"a": "b"}}, "spec": {"schedulerName": "ours"}}, "oldObject": None}
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("has(object.spec.schedulerName) && object.spec.schedulerName in [\"ours\", 'x']", True),
        ('has(object.spec.schedulerName) && object.spec.schedulerName in ["theirs"]', False),
        ("has(object.spec.nothing) && object.spec.nothing == 'x'", False),
        ("has(object.metadata.annotations) && ('x' in object.metadata.annotations || 'y' == 'z')", False),
        ("object.spec.nothing in ['x'] || has(object.spec)", True),
        ("!(object.metadata.labels.a != 'b') && 'a' in object.metadata.labels", True),
        ("true && !false", True),
    ],
)
def test_a_condition_is_answered(expression: str, expected: bool) -> None:
    assert holds(expression, POD) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "object.spec.nothing == 'x'",
        "other.spec",
        "object.spec",
        "has(object.spec",
        "'a' in 'abc'",
        "object ~ 1",
        "true true",
    ],
)
def test_a_condition_that_cannot_be_answered_is_an_error(expression: str) -> None:
    with pytest.raises(ConditionError):
        holds(expression, POD)


def entry(name: str, **more: Any) -> Json:
    return {
        "name": f"{name}.example.org",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": f"https://example.org/{name}"},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
        ],
        **more,
    }


def patching(*operations: Json) -> Json:
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(encode(operations)).decode()}


class World:
    """A store with webhooks that are functions."""

    def __init__(self) -> None:
        self.store = Store(clock=lambda: 1_700_000_000.0)
        self.webhooks: dict[str, Callable[[Json], Json]] = {}
        self.asked: list[str] = []
        self.admission = Admission(self.store, self.ask)

    async def ask(self, hook: Hook, review: bytes) -> bytes:
        name = hook.name.partition(".")[0]
        self.asked.append(name)
        request = decode(review)["request"]
        return encode({"response": {"uid": request["uid"], **self.webhooks[name](request)}})

    def configure(self, kind: str, *entries: Json) -> None:
        path = self.target(f"{CONFIGURATIONS}/{kind}webhookconfigurations").path
        reply = self.store.create(path, {"metadata": {"name": kind}, "webhooks": list(entries)})
        assert reply.status == 201, reply.body

    def target(self, raw: str) -> Target:
        target = parse_target(raw)
        assert target is not None
        return target

    async def call(self, verb: str, raw: str, body: Json, kind: str = "application/merge-patch+json") -> Reply:
        target = self.target(raw)
        assert self.admission.concerns(verb, target)
        return await self.admission.call(verb, target, encode(body), kind)


@pytest.fixture
def world() -> World:
    return World()


def pod(**labels: str) -> Json:
    return {"metadata": {"generateName": "p-", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_a_pod_is_created_as_webhooks_change_it(world: World) -> None:
    seen: list[Json] = []

    def webhook(request: Json) -> Json:
        seen.append(request)
        return patching({"op": "add", "path": "/metadata/labels/new", "value": "x"})

    world.webhooks = {
        "m": webhook,
        "v": lambda request: {"allowed": request["object"]["metadata"]["labels"]["new"] == "x"},
    }
    world.configure("mutating", entry("m"))
    world.configure("validating", entry("v"))
    reply = await world.call("create", PODS, pod(a="b"))
    assert reply.status == 201
    made = decode(reply.body)
    assert made["metadata"]["labels"] == {"a": "b", "new": "x"}
    assert made["metadata"]["name"].startswith("p-")
    (request,) = seen
    assert (request["operation"], request["namespace"], request["name"]) == ("CREATE", "default", "")
    assert {"uid", "name"}.isdisjoint(request["object"]["metadata"]), "as an API server would ask: before it is stored"
    assert request["object"]["spec"]["schedulerName"] == "default-scheduler"


async def test_who_is_not_concerned_is_not_asked(world: World) -> None:
    world.webhooks = dict.fromkeys(("far", "other", "cel", "broken", "mine"), lambda request: {"allowed": True})
    nowhere = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}]}
    world.configure(
        "mutating",
        entry("far", namespaceSelector=nowhere),
        entry("other", objectSelector={"matchLabels": {"a": "c"}}),
        entry("cel", matchConditions=[{"name": "c", "expression": "object.spec.schedulerName == 'ours'"}]),
        entry("broken", matchConditions=[{"name": "c", "expression": "object.no"}]),
        entry("mine", objectSelector={"matchLabels": {"a": "b"}}),
    )
    assert (await world.call("create", PODS, pod(a="b"))).status == 201
    assert world.asked == ["mine"]
    assert not world.admission.concerns("create", world.target("/api/v1/nodes"))
    assert not world.admission.concerns("delete", world.target(f"{PODS}/x"))


async def test_a_webhook_comes_again_when_a_later_one_changed_the_object(world: World) -> None:
    world.webhooks = {
        "m": lambda request: {"allowed": True},
        "n": lambda request: patching({"op": "add", "path": "/metadata/labels/n", "value": "x"}),
    }
    world.configure("mutating", entry("m", reinvocationPolicy="IfNeeded"), entry("n"))
    await world.call("create", PODS, pod(a="b"))
    assert world.asked == ["m", "n", "m"]


def unasked(request: Json) -> Json:
    raise UnaskedError("nobody answers")


BAD: dict[str, Callable[[Json], Json]] = {
    "nobody answers": unasked,
    "a patch that does not fit": lambda request: patching({"op": "remove", "path": "/metadata/none"}),
    "a patch of another kind": lambda request: {"allowed": True, "patch": base64.b64encode(b"{}").decode()},
    "no base64": lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": "?"},
    "no boolean": lambda request: {"allowed": "yes"},
}


@pytest.mark.parametrize("what", BAD)
async def test_what_may_fail_is_passed_over(world: World, what: str) -> None:
    world.webhooks = {"m": BAD[what]}
    world.configure("mutating", entry("m"))
    assert (await world.call("create", PODS, pod(a="b"))).status == 201
    assert world.asked == ["m"]


async def test_what_must_not_fail_stops_the_request(world: World) -> None:
    world.webhooks = {"m": unasked}
    world.configure("mutating", entry("m", failurePolicy="Fail"))
    with pytest.raises(ApiError) as caught:
        await world.call("create", PODS, pod())
    assert caught.value.code == 500
    assert decode(world.store.list(world.target(PODS).path).body)["items"] == []


async def test_a_refusal_is_told(world: World) -> None:
    world.webhooks = {"v": lambda request: {"allowed": False, "status": {"code": 403, "message": "not so"}}}
    world.configure("validating", entry("v"))
    with pytest.raises(ApiError) as caught:
        await world.call("create", PODS, pod())
    answer = json.loads(caught.value.reply().body)
    assert (answer["code"], answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == 'admission webhook "v.example.org" denied the request: not so'


async def test_a_change_is_seen_with_what_was_there_before(world: World) -> None:
    name = decode(world.store.create(world.target(PODS).path, pod(a="b")).body)["metadata"]["name"]
    seen: list[Json] = []

    def webhook(request: Json) -> Json:
        seen.append(request)
        return patching({"op": "replace", "path": "/metadata/labels/a", "value": "webhook"})

    world.webhooks = {"m": webhook}
    world.configure("mutating", entry("m"))
    reply = await world.call("patch", f"{PODS}/{name}", {"metadata": {"labels": {"a": "c"}}})
    assert reply.status == 200
    assert decode(reply.body)["metadata"]["labels"] == {"a": "webhook"}
    (request,) = seen
    labels = [request[each]["metadata"]["labels"]["a"] for each in ("object", "oldObject")]
    assert (request["operation"], labels) == ("UPDATE", ["c", "b"])


async def test_entries_are_filled_in_and_a_generation_grows(world: World) -> None:
    world.configure("mutating", entry("m"))
    path = world.target(f"{CONFIGURATIONS}/mutatingwebhookconfigurations/mutating").path
    made = decode(world.store.get(path).body)
    assert made["webhooks"][0]["reinvocationPolicy"] == "Never"
    assert (made["webhooks"][0]["timeoutSeconds"], made["metadata"]["generation"]) == (10, 1)
    changed = decode(world.store.patch(path, {"webhooks": []}).body)
    assert (changed["webhooks"], changed["metadata"]["generation"]) == ([], 2)
    refused = world.store.patch(path, {"webhooks": [{"name": "x"}]})
    assert refused.status == 422
