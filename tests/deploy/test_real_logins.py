"""A node agent logs in with the token that a real API server makes for its pod, by way of node-authenticator."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.manifests import AGENT, shipped_users_conf, tool
from tests.deploy.real_api import call

from berth.bus import Bus, BusSettings
from berth.bus.errors import Denied
from berth.contracts import buckets
from berth.contracts.subjects import escape, named_key
from berth.node_authenticator.settings import Settings
from berth.testing.kube_server import KubeServer
from berth.testing.nats_server import NatsServer

pytestmark = pytest.mark.e2e

PASSWORD = "pw"
SEED, ISSUER = tool("nats_passwords").account_key()
PODS = "/api/v1/namespaces/berth-nodes/pods"
ACCOUNTS = "/api/v1/namespaces/berth-nodes/serviceaccounts"
AUDIENCE = Settings().token_audience


def token(api: KubeServer, node: str, account: str = AGENT, audience: str = AUDIENCE, *, bound: bool = True) -> str:
    """As kubelet asks for one: of a pod of this account on the node."""
    call(api, "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    call(api, "POST", ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
    name = f"{account}-{node}"
    spec = {"nodeName": node, "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}
    call(api, "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    pod = call(api, "GET", f"{PODS}/{name}").body
    reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
    spec = {"audiences": [audience], "expirationSeconds": 600, **({"boundObjectRef": reference} if bound else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = call(api, "POST", f"{ACCOUNTS}/{account}/token", body)
    assert answer.status == 201, answer
    return str(answer.body["status"]["token"])


@pytest.fixture(scope="module")
def bus() -> Iterator[NatsServer]:
    with NatsServer(config=shipped_users_conf(PASSWORD, ISSUER)) as running:
        yield running


@contextmanager
def process(module: str, bus: NatsServer, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    common = {"BERTH_NATS_URL": bus.url, "BERTH_LOG_FORMAT": "json", "BERTH_EXIT_WITH_PARENT": "true"}
    running = subprocess.Popen([sys.executable, "-m", module], env={**os.environ, **common, **more})
    try:
        yield running
    finally:
        running.terminate()
        assert running.wait(30) == 0


@pytest.fixture
def authenticator(api: KubeServer, bus: NatsServer, tmp_path: Path) -> Iterator[None]:
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "seed").write_text(SEED)
    with process(
        "berth.node_authenticator",
        bus,
        BERTH_NATS_USER="node-authenticator",
        BERTH_NATS_PASSWORD_FILE=str(tmp_path / "password"),
        BERTH_SIGNING_SEED_FILE=str(tmp_path / "seed"),
        BERTH_KUBECONFIG=str(api.kubeconfig("berth-system/node-authenticator")),
    ):
        yield


@asynccontextmanager
async def client(bus: NatsServer, folder: Path, user: str, password: str, node: str = "") -> AsyncIterator[Bus]:
    file = folder / f"{user}-{node}-password"
    file.write_text(password)
    more: dict[str, Any] = {"domain": "berth", "inbox": escape(node)} if node else {}
    connected = await Bus.connect(BusSettings(url=bus.url, user=user, password_file=str(file), **more), service=user)
    try:
        yield connected
    finally:
        await connected.close()


class Keys:
    """The keys of a bucket."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def reset(self) -> None:
        self.found.clear()

    def apply(self, entry: Any) -> None:
        self.found.add(entry.key)

    def end(self, sequence: int) -> None: ...


async def test_an_agent_reports_its_node_with_the_token_of_its_pod(
    api: KubeServer, bus: NatsServer, authenticator: None, tmp_path: Path
) -> None:
    node = "node-1.example"
    mine = tmp_path / "token"
    mine.write_text(token(api, node))
    async with asyncio.timeout(90), client(bus, tmp_path, "cluster-watcher", PASSWORD) as watcher:
        await watcher.ensure()
        with process(
            "berth.node_qos_enforcer",
            bus,
            BERTH_NATS_USER=AGENT,
            BERTH_NATS_DOMAIN="berth",
            BERTH_NATS_PASSWORD_FILE=str(mine),
            BERTH_NODE_NAME=node,
        ):
            async with client(bus, tmp_path, AGENT, mine.read_text(), node) as beside:
                seen = Keys()
                task = asyncio.create_task(
                    beside.follow(buckets.METRICS, seen, keys=named_key("node", node)).run(), name="figures"
                )
                while named_key("node", node) not in seen.found:
                    await asyncio.sleep(0.1)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                with pytest.raises(Denied):
                    await beside.ask(f"$KV.{buckets.METRICS}.{named_key('node', 'node-2')}", b"{}", timeout_s=5)


@pytest.mark.parametrize("kind", ["of another account", "for another audience", "of no pod", "of a deleted pod"])
async def test_no_other_token_is_good_enough(
    kind: str, api: KubeServer, bus: NatsServer, authenticator: None, tmp_path: Path
) -> None:
    good = token(api, "node-3")
    if kind == "of another account":
        bad = token(api, "node-3", account="somebody")
    elif kind == "for another audience":
        bad = token(api, "node-3", audience="https://kubernetes.default.svc")
    elif kind == "of no pod":
        bad = token(api, "node-3", bound=False)
    else:
        bad = token(api, "node-4")
        assert call(api, "DELETE", f"{PODS}/{AGENT}-node-4?gracePeriodSeconds=0").status == 200
    async with asyncio.timeout(60), client(bus, tmp_path, AGENT, good, "node-3"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4), client(bus, tmp_path, AGENT, bad, "node-4"):
                pass
    claims = json.loads(_payload(good))
    assert claims["kubernetes.io"]["node"]["name"] == "node-3", "what the API server reads the node from"


def _payload(text: str) -> bytes:
    part = text.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
