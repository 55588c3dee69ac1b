"""A real API server as Berth's manifests leave it, and requests to it as one account or another."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from typing import NamedTuple

from tests.deploy.manifests import K8S, Json

from berth.contracts import names
from berth.testing.kube_server import KubeServer

PODS = "/api/v1/namespaces/default/pods"
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


def applied(server: KubeServer, *arguments: str, stdin: str = "") -> tuple[list[str], str]:
    """What `kubectl apply` says of each object, and what the server warns of."""
    command = ["kubectl", f"--kubeconfig={server.admin_kubeconfig}", "apply", *arguments]
    environment = {**os.environ, "HOME": str(server.home)}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def pod(name: str, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "c", "image": "i"}]},
    }


def as_object(crd: Json, path: str, document: Json, name: str) -> Json:
    group, version = path.split("/")[2:4]
    metadata = {**document.get("metadata", {}), "name": name}
    return {**document, "apiVersion": f"{group}/{version}", "kind": crd["spec"]["names"]["kind"], "metadata": metadata}


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


def prepare(server: KubeServer) -> None:
    """The custom resources, namespaces, accounts, rights and the guard; the guard is in force."""
    foreign = [foreign_crd(name, *rest) for name, rest in FOREIGN.items()]
    server.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": foreign}))
    server.install_berth(K8S)
    until = time.monotonic() + 30
    while call(server, "POST", PODS, pod("probe", {names.ANNOTATION_PLAN: "x"})).status == 201:
        assert time.monotonic() < until, "the guard does not come into force"
        call(server, "DELETE", f"{PODS}/probe?gracePeriodSeconds=0")
