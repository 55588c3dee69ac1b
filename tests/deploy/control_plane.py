"""The whole control plane as processes, each service as its own user of a bus that knows what each may do."""

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

from tests.deploy.manifests import AGENT, NODES_OF_AGENTS, tool

from berth.cli.stack.stack import HOME_OBJECTS
from berth.simcluster.generate import ClusterShape, PodRequest, generate_cluster, pod_manifest
from berth.simcluster.manifests import write_manifests

DEADLINE_S = 120.0


@contextmanager
def running(services: list[str], common: dict[str, str], logs: Path) -> Iterator[dict[str, Path]]:
    """The services until the end of the block, each as its own user; their logs by name."""
    found = {service: logs / f"{service}.log" for service in services}
    processes = []
    try:
        for service, log in found.items():
            environment = {**os.environ, **common, "BERTH_NATS_USER": service}
            if service == AGENT:
                environment["BERTH_NATS_DOMAIN"] = "berth"
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


def cluster_file(folder: Path) -> Path:
    """Three nodes, and what the manifests bring along."""
    write_manifests(folder / "cluster.json", [*HOME_OBJECTS, *generate_cluster(ClusterShape(nodes=3), seed=1)])
    return folder / "cluster.json"


async def bound(pods: str, name: str) -> None:
    """The pod is created, and bound."""
    await asyncio.to_thread(post, pods, pod_manifest(name, PodRequest(1_000, 1_024, 1)))
    async with asyncio.timeout(DEADLINE_S):
        while not (await asyncio.to_thread(get, f"{pods}/{name}"))["spec"].get("nodeName"):
            await asyncio.sleep(0.1)


async def refused(pods: str, name: str) -> None:
    """The pod is created, and told that it fits nowhere."""
    await asyncio.to_thread(post, pods, pod_manifest(name, PodRequest(10_000_000, 1_024, 0)))
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = (await asyncio.to_thread(get, f"{pods}/{name}"))["status"].get("conditions", [])
            if any(each["type"] == "PodScheduled" and each["status"] == "False" for each in found):
                return
            await asyncio.sleep(0.1)


def environment(bus: str, password: Path, api: str) -> dict[str, str]:
    """What every service is told. The agent is that of a node whose rights its user has; nobody asks about logins."""
    seed = password.with_name("signing-seed")
    seed.write_text(tool("nats_passwords").account_key()[0])
    return {
        "BERTH_SIGNING_SEED_FILE": str(seed),
        "BERTH_NATS_URL": bus,
        "BERTH_NATS_PASSWORD_FILE": str(password),
        "BERTH_KUBE_URL": api,
        "BERTH_LOG_FORMAT": "json",
        "BERTH_EXIT_WITH_PARENT": "true",
        "BERTH_NODE_NAME": NODES_OF_AGENTS[AGENT],
    }


def nothing_was_denied(logs: dict[str, Path]) -> None:
    text = {name: log.read_text() for name, log in logs.items()}
    denied = {name: re.findall(r".*(?:ermissions [Vv]iolation|denied).*", log)[:3] for name, log in text.items()}
    assert not {name: lines for name, lines in denied.items() if lines}
