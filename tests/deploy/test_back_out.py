"""Backing out as the operations guide says: kube-scheduler takes up what Berth has left pending, under Berth's name."""

from __future__ import annotations

import asyncio
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.cli.stack.process import Process
from berth.cli.stack.stack import Stack
from berth.testing.kube_server import KubeMissingError, KubeServer, find_binary

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/operations.md").read_text()
DEADLINE_S = 120.0


@pytest.fixture
def server() -> Iterator[KubeServer]:
    try:
        find_binary("kube-scheduler")
        server = KubeServer()
    except KubeMissingError as error:
        pytest.skip(f"no real API server and kube-scheduler: {error}")
    with server:
        server.install_berth(ROOT / "k8s")
        yield server


def guide_configuration(kubeconfig: Path) -> str:
    """The configuration that the guide shows, for this server."""
    blocks = [textwrap.dedent(block) for block in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)]
    (shown,) = [block for block in blocks if "/etc/kubernetes/scheduler.conf" in block]
    assert "KubeSchedulerConfiguration" in shown
    return shown.replace("/etc/kubernetes/scheduler.conf", str(kubeconfig))


def create(server: KubeServer, *manifests: dict[str, Any]) -> None:
    server.kubectl("create", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in manifests))


def node(name: str, cpu: str) -> dict[str, Any]:
    capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "berth-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def seen(server: KubeServer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(server.kubectl("get", "pod", name, "--namespace=default", "--output=json"))
    return found


def refusal(server: KubeServer, name: str) -> str:
    conditions = seen(server, name).get("status", {}).get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


async def until_on(server: KubeServer, name: str, where: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while seen(server, name)["spec"].get("nodeName") != where:
            await asyncio.sleep(0.2)


async def test_pods_left_pending_are_placed_by_kube_scheduler(server: KubeServer, tmp_path: Path) -> None:
    create(server, node("small", "4"), pod("placed", "1"), pod("too-large", "16"))
    accounts = {name: server.kubeconfig(f"berth-system/{name}") for name in ("cluster-watcher", "cluster-writer")}
    async with Stack(kubeconfigs=accounts, replicas={"node-qos-enforcer": 0}):
        await until_on(server, "placed", "small")
        async with asyncio.timeout(DEADLINE_S):
            while not refusal(server, "too-large"):
                await asyncio.sleep(0.2)
    before = seen(server, "placed")
    create(server, pod("late", "1"))

    config = tmp_path / "kube-scheduler.yaml"
    config.write_text(guide_configuration(server.admin_kubeconfig))
    command = [str(find_binary("kube-scheduler")), f"--config={config}", "--secure-port=0"]
    scheduler = Process("kube-scheduler", command, tmp_path / "kube-scheduler.log")
    await scheduler.start()
    try:
        await until_on(server, "late", "small")
        create(server, node("large", "32"))
        await until_on(server, "too-large", "large")
    finally:
        await scheduler.stop()
    assert seen(server, "placed")["spec"] == before["spec"]
    listed = server.kubectl(
        "get", "pods", "-A", "--field-selector=spec.schedulerName=berth-scheduler,spec.nodeName=", "--output=name"
    )
    assert listed == ""
