"""Every service as a process, on a bus that knows what each may do: nothing is denied, and pods are placed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from berth.simcluster import SimSettings, serve
from berth.simcluster.generate import ClusterShape, PodRequest, generate_cluster, pod_manifest
from berth.simcluster.manifests import write_manifests
from berth.testing.nats_server import NatsServer

ROOT = Path(__file__).parents[2]
PASSWORD = "pw"
DEADLINE_S = 120.0


@contextmanager
def running(services: list[str], common: dict[str, str], logs: Path) -> Iterator[dict[str, Path]]:
    """The services until the end of the block, each as its own user; their logs by name."""
    found = {service: logs / f"{service}.log" for service in services}
    processes = []
    try:
        for service, log in found.items():
            environment = {**os.environ, **common, "BERTH_NATS_USER": service}
            with log.open("wb") as file:
                module = f"berth.{service.replace('-', '_')}"
                processes.append(
                    subprocess.Popen([sys.executable, "-m", module], env=environment, stdout=file, stderr=file)
                )
        yield found
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=5) as response:
        return dict(json.load(response))


def post(url: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=5).close()


@pytest.mark.e2e
async def test_the_whole_control_plane_works_with_least_rights_on_the_bus(house: Any, tmp_path: Path) -> None:
    users = re.sub(r"\$NATS_PASSWORD_\w+", PASSWORD, (ROOT / "k8s/components/nats/users.conf").read_text())
    (tmp_path / "password").write_text(PASSWORD)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "berth-system"}}
    write_manifests(tmp_path / "cluster.json", [namespace, *generate_cluster(ClusterShape(nodes=3), seed=1)])
    settings = SimSettings(manifests=(tmp_path / "cluster.json",))
    with NatsServer(config=users) as server:
        async with serve(settings) as api:
            common = {
                "BERTH_NATS_URL": server.url,
                "BERTH_NATS_PASSWORD_FILE": str(tmp_path / "password"),
                "BERTH_KUBE_URL": api.url,
                "BERTH_LOG_FORMAT": "json",
                "BERTH_EXIT_WITH_PARENT": "true",
                "BERTH_NODE_NAME": "node-00000",
            }
            with running(house.services, common, tmp_path) as logs:
                pods = f"{api.url}/api/v1/namespaces/default/pods"
                await asyncio.to_thread(post, pods, pod_manifest("works", PodRequest(1_000, 1_024, 1)))
                await asyncio.to_thread(post, pods, pod_manifest("waits", PodRequest(10_000_000, 1_024, 0)))
                async with asyncio.timeout(DEADLINE_S):
                    while True:
                        works = await asyncio.to_thread(get, f"{pods}/works")
                        waits = await asyncio.to_thread(get, f"{pods}/waits")
                        if works["spec"].get("nodeName") and any(
                            each["type"] == "PodScheduled" and each["status"] == "False"
                            for each in waits["status"].get("conditions", [])
                        ):
                            break
                        await asyncio.sleep(0.1)
                text = {name: log.read_text() for name, log in logs.items()}
    denied = {name: re.findall(r".*(?:ermissions [Vv]iolation|denied).*", log)[:3] for name, log in text.items()}
    assert not {name: lines for name, lines in denied.items() if lines}
