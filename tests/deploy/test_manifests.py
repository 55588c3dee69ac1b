"""Every manifest against a real API server: accepted as it is.

Nothing runs here: without controllers and nodes a workload stays an object. What is asked is what only the server can
say: schemas and admission.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.deploy.manifests import K8S, OVERLAYS, WORKLOADS, Json, tool
from tests.deploy.real_api import applied, call

from berth.testing.kube_server import KubeServer

pytestmark = pytest.mark.e2e

FOLDER = K8S / "components"
COMPONENTS = sorted(str(path.parent.relative_to(FOLDER)) for path in FOLDER.rglob("kustomization.yaml"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_accepts_every_object_of_an_overlay(api: KubeServer, overlay: str) -> None:
    folder = K8S / "overlays" / overlay
    objects = [each for each in yaml.safe_load_all(api.kubectl("kustomize", str(folder))) if each]
    said, warned = applied(api, "--server-side", "--dry-run=server", "-k", str(folder))
    assert len(said) == len(objects)
    assert all(line.endswith("serverside-applied (server dry run)") for line in said), said
    assert "Warning" not in warned, warned  # Pod Security of workloads, deprecated versions


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_server_accepts_every_component(api: KubeServer, component: str, tmp_path: Path) -> None:
    wanted = ["nats", component] if component == "nats-cluster" else [component]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(K8S / "base", tmp_path.resolve())],
        "components": [os.path.relpath(K8S / "components" / each, tmp_path.resolve()) for each in wanted],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    _, warned = applied(api, "--server-side", "--dry-run=server", "-k", str(tmp_path))
    assert "Warning" not in warned, warned


def test_what_the_tools_print_is_accepted_and_comes_first(api: KubeServer, tmp_path: Path) -> None:
    """In the order of the documentation: the namespaces that come along do not get in the way of the overlay's."""
    passwords, certs = tool("nats_passwords"), tool("certs")
    made = [
        passwords.manifests({user: passwords.password() for user in passwords.users()}),
        certs.manifests(certs.Authority(tmp_path), ["192.0.2.1"], 1, cert_manager=False),
        certs.manifests(certs.Authority(tmp_path), [], 1, cert_manager=True),
    ]
    for items in made:
        applied(api, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    applied(api, "--server-side", "--dry-run=server", "-k", str(K8S / "overlays/single-node"))
    labels = call(api, "GET", "/api/v1/namespaces/berth-system").body["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("sample", sorted(path.name for path in (K8S / "samples").iterdir()))
def test_the_server_accepts_every_sample(api: KubeServer, sample: str) -> None:
    objects = list(yaml.safe_load_all((K8S / "samples" / sample).read_text()))
    for name in {each["metadata"]["namespace"] for each in objects}:
        applied(api, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    said, warned = applied(api, "--server-side", "--dry-run=server", "-f", str(K8S / "samples" / sample))
    assert len(said) == len(objects)
    assert "Warning" not in warned, warned


def test_a_check_that_is_no_check_would_fail(api: KubeServer, tmp_path: Path) -> None:
    """The dry run does refuse: a field that does not exist, a value that is out of range."""
    good: Callable[[], Json] = lambda: json.loads(json.dumps(WORKLOADS[0]))  # noqa: E731
    wrong = good()
    wrong["spec"]["template"]["spec"]["containers"][0]["readinessprobe"] = {}
    absurd = good()
    absurd["spec"]["replicas"] = -1
    for bad in (wrong, absurd):
        with pytest.raises(AssertionError, match=r"readinessprobe|replicas"):
            applied(api, "--server-side", "--dry-run=server", "-f", "-", stdin=json.dumps(bad))
