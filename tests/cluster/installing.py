"""Berth is installed as its documentation says, and everything of it comes up."""

from __future__ import annotations

import subprocess
import sys

from tests.cluster import images
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.requirements import NODE_ADDRESS

OVERLAY = ROOT / "k8s/overlays/single-node"
SYSTEM, NODES = "berth-system", "berth-nodes"


def load(cluster: Cluster) -> None:
    """Berth's images, from the Docker engine to containerd."""
    facts = images.facts(images.load_berth(cluster.node))
    cluster.report.step(f"{len(facts)} images of Berth loaded into containerd")


def install(cluster: Cluster) -> None:
    """Passwords, certificate, manifests; returns once every workload is ready."""
    # A claim without a class is bound to a volume without one: what a cluster without a default StorageClass offers.
    volume = cluster.space.home / "volume"
    volume.mkdir()
    cluster.apply("volume.yaml", PATH=str(volume))
    certificates = ["--folder", str(cluster.space.home / "certs"), "--name", NODE_ADDRESS]
    for tool, arguments in (("nats_passwords.py", []), ("certs.py", certificates)):
        command = [sys.executable, str(ROOT / "tools" / tool), *arguments]
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        cluster.kubectl("apply", "-f", "-", stdin=made)
    cluster.kubectl("apply", "--server-side", "-k", str(OVERLAY))
    cluster.report.step("kubectl apply --server-side -k k8s/overlays/single-node")
    until_ready(cluster)
    cluster.report.step(f"every workload is ready: {', '.join(name for _, name in workloads(cluster))}")


def workloads(cluster: Cluster) -> list[tuple[str, str]]:
    """Namespace and `kind/name` of each workload of Berth."""
    kinds = {"deployments": "deployment", "statefulsets": "statefulset", "daemonsets": "daemonset"}
    return [
        (space, f"{kind}/{item['metadata']['name']}")
        for plural, kind in kinds.items()
        for space in (SYSTEM, NODES)
        for item in cluster.items(f"/apis/apps/v1/namespaces/{space}/{plural}")
    ]


def until_ready(cluster: Cluster) -> None:
    """Return once every pod of every workload is ready, readiness being Berth's own: views complete, bus connected."""
    for space, name in workloads(cluster):
        cluster.rolled_out(name, space)
