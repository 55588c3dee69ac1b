"""Entries of the webhook configurations on a real API server: stored as they are, and asked for what they name.

Nobody listens where they lead, and in some tests they may not fail: who is refused would have been asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.deploy.manifests import Json
from tests.deploy.real_api import call, pod

from berth.admission_webhook.core.entries import entries_of, open_doors
from berth.contracts import names
from berth.contracts.state import ClusterColocationProfile
from berth.rules.admission.gates import DEFAULTS
from berth.rules.webhooks import KINDS, MUTATING, VALIDATING, rendered
from berth.testing.kube_server import KubeServer

pytestmark = pytest.mark.e2e

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
NODES, MAPS = "/api/v1/nodes", "/api/v1/namespaces/{}/configmaps"
URL = "https://127.0.0.1:1"
SELECTOR = {"matchLabels": {"app": "etl"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
PROFILE = ClusterColocationProfile(name="etl", uid="u", version=1, spec={"selector": SELECTOR})


def entries(kind: str) -> list[Json]:
    """Of every door, all gates being open."""
    wanted = entries_of(kind, [PROFILE], (), schedulers=('odd"one', "ours"), doors=open_doors(frozenset(DEFAULTS)))
    return [rendered(entry, URL) for entry in wanted.entries]


@pytest.fixture
def strict(api: KubeServer) -> Iterator[None]:
    """Entries that may not fail are in force."""
    paths = []
    for kind in KINDS:
        body: dict[str, Any] = {"metadata": {"name": "strict"}, "webhooks": entries(kind)}
        for entry in body["webhooks"]:
            entry |= {"failurePolicy": "Fail", "timeoutSeconds": 1}
        paths.append(CONFIGURATIONS.format(kind))
        assert call(api, "POST", paths[-1], body).status == 201
    yield
    for path in paths:
        call(api, "DELETE", f"{path}/strict")


@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_stored_as_they_are_written(api: KubeServer, kind: str) -> None:
    """What is asked for is compared with what is there: a default that is filled in would be written for ever."""
    body = {"metadata": {"name": f"plain-{kind}"}, "webhooks": entries(kind)}
    made = call(api, "POST", f"{CONFIGURATIONS.format(kind)}?dryRun=All", body)
    assert made.status == 201, made
    assert made.body["webhooks"] == body["webhooks"]
    assert {MUTATING: 6, VALIDATING: 4}[kind] == len(body["webhooks"])


def asked(api: KubeServer, method: str, path: str, body: Json) -> str:
    """The entry that was asked and could not be; empty: nobody was."""
    answer = call(api, method, path, body)
    if answer.status < 300:
        return ""
    message = str(answer.body["message"])
    assert "failed calling webhook" in message, answer
    return message.partition('webhook "')[2].partition(".admission.berth.sh")[0]


@pytest.mark.usefixtures("strict")
def test_nodes_are_asked_about_when_their_labels_change(api: KubeServer) -> None:
    name = "asked-about"
    assert asked(api, "POST", NODES, {"metadata": {"name": name}}) == ""
    node = f"{NODES}/{name}"
    taint = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    assert asked(api, "PATCH", node, taint) == ""
    assert asked(api, "PATCH", node, {"metadata": {"annotations": {"a": "b"}}}) == ""
    assert asked(api, "PATCH", node, {"metadata": {"labels": {"pool": "a"}}}) == "validate-node"
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert asked(api, "PATCH", f"{node}/status", status) == ""
    ratio = {"metadata": {"annotations": {names.ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.5}'}}}
    assert asked(api, "PATCH", node, ratio) == ""
    status["status"]["conditions"][0]["status"] = "False"
    assert asked(api, "PATCH", f"{node}/status", status) == "mutate-node-status"


@pytest.mark.usefixtures("strict")
def test_the_configmap_of_strategies_is_asked_about_and_no_other(api: KubeServer) -> None:
    call(api, "POST", "/api/v1/namespaces", {"metadata": {"name": "berth-system"}})
    labels = {names.LABEL_CONFIG_MAP_TYPE: names.SLO_CONFIG_MAP_TYPE}

    def written(namespace: str, name: str, **metadata: Any) -> str:
        return asked(api, "POST", MAPS.format(namespace), {"metadata": {"name": name, **metadata}})

    assert written("berth-system", "strategies", labels=labels) == "validate-configmap"
    assert written("berth-system", "another") == ""
    assert written("kube-system", "strategies", labels=labels) == ""


@pytest.mark.usefixtures("strict")
def test_pods_of_profiles_and_of_our_schedulers_are_asked_about(api: KubeServer) -> None:
    def created(name: str, namespace: str, scheduler: str, app: str) -> str:
        made = pod(name, labels={"app": app})
        made["spec"]["schedulerName"] = scheduler
        return asked(api, "POST", f"/api/v1/namespaces/{namespace}/pods", made)

    assert created("a", "default", "theirs", "web") == ""
    assert created("b", "default", "theirs", "etl") == "etl.profiles"
    assert created("c", "default", "ours", "web") == "mutate-pod"
    assert created("d", "kube-system", "theirs", "etl") == ""
