"""Workloads under Pod Security as a real API server enforces it: restricted, but for what the node agent needs."""

from __future__ import annotations

import re

import pytest
from tests.deploy.manifests import OPTIONAL, OVERLAYS, RUNNING, WORKLOADS, Json, built, name_of
from tests.deploy.real_api import call, pod

from berth.testing.kube_server import KubeServer

pytestmark = pytest.mark.e2e

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


@pytest.fixture(scope="session")
def restricted(api: KubeServer) -> str:
    """A namespace that enforces the restricted level of the newest version."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}}
    assert call(api, "POST", "/api/v1/namespaces", body).status == 201
    return "strict"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_the_node_agent_is_not_restricted(api: KubeServer, overlay: str, restricted: str) -> None:
    workloads = [each for each in built(overlay) if each["kind"] in RUNNING]
    optional = {name_of(each) for each in OPTIONAL}
    assert {name_of(each) for each in workloads} == {name_of(each) for each in WORKLOADS} - optional
    for workload in workloads:
        home, name = workload["metadata"]["namespace"], name_of(workload)
        path = "/api/v1/namespaces/{}/pods?dryRun=All"
        status, body = call(api, "POST", path.format(restricted), pod_of_template(workload, restricted))
        if name == "node-qos-enforcer":
            assert status == 403
            problems = body["message"].partition('violates PodSecurity "restricted:latest": ')[2]
            assert set(re.split(r", (?=run)", problems)) == EXCEPTIONS[overlay]
        else:
            assert status == 201, body
        status, body = call(api, "POST", path.format(home), pod_of_template(workload, home))
        assert status == 201, body


def test_the_home_of_the_services_refuses_what_is_not_restricted(api: KubeServer) -> None:
    plain = {**pod("plain"), "metadata": {"name": "plain", "namespace": "berth-system"}}
    status, body = call(api, "POST", "/api/v1/namespaces/berth-system/pods?dryRun=All", plain)
    assert status == 403
    assert "violates PodSecurity" in body["message"]
