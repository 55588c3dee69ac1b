"""Logins of node agents, on a bus with the shipped users: node-authenticator lets them in, for their node only.

What the API server says of a token is written down here; `test_real_logins.py` has a real one say it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import nats
import pytest
from nats.aio.client import Client
from tests.deploy.manifests import AGENT, shipped_users_conf, tool

from berth.bus import Bus, BusSettings, Denied
from berth.bus.logins import AT_ONCE, SUBJECT, Issuer, read_question
from berth.contracts import buckets
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import escape, named_key
from berth.kube import Answer, KubeApi
from berth.node_authenticator.core.review import NODE_CLAIM
from berth.node_authenticator.settings import Settings
from berth.node_authenticator.shell import Shell
from berth.runtime import Context
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually

PASSWORD = "pw"
SEED, ISSUER = tool("nats_passwords").account_key()
HOUR_S = 3600


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=shipped_users_conf(PASSWORD, ISSUER)) as running:
        yield running


def token(node: str, until: float | None = None) -> str:
    """A token that the API server below takes for that of an agent."""
    claims = {"exp": until or time.time() + HOUR_S, "node": node}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.c2ln"


class Reviews:
    """An API server that reviews tokens, as far as the service asks it."""

    def __init__(self) -> None:
        self.asked = 0
        self.away = False
        self.hung = asyncio.Event()
        self.hung.set()

    async def create(self, resource: Any, namespace: str, body: Any, *, field_manager: str = "") -> Answer:
        self.asked += 1
        await self.hung.wait()
        if self.away:
            return Answer(503, b"", "Service Unavailable")
        assert (resource.label, namespace, body["kind"]) == ("tokenreviews.authentication.k8s.io", "", "TokenReview")
        payload = body["spec"]["token"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        user = {
            "username": "system:serviceaccount:berth-nodes:node-qos-enforcer",
            "extra": {NODE_CLAIM: [claims["node"]]},
        }
        alive = claims["exp"] > time.time() and claims["node"] != "deleted"
        status = {"authenticated": alive, "audiences": body["spec"]["audiences"], "user": user if alive else {}}
        return Answer(201, json.dumps({"status": status}).encode(), "Created")


def settings_of(server: NatsServer, folder: Path, user: str, password: str, **more: Any) -> BusSettings:
    file = folder / f"{user}-{more.get('inbox', '')}"
    file.write_text(password)
    return BusSettings(url=server.url, user=user, password_file=str(file), **more)


@asynccontextmanager
async def authenticator(server: NatsServer, folder: Path, api: Reviews) -> AsyncIterator[Shell]:
    bus = await Bus.connect(settings_of(server, folder, "node-authenticator", PASSWORD), service="node-authenticator")
    seed = folder / "seed"
    seed.write_text(SEED + "\n")
    context = Context(service="node-authenticator", settings=Settings(signing_seed_file=str(seed)), bus=bus)
    shell = Shell(context, cast("KubeApi", api))
    task = asyncio.create_task(shell.run())
    try:
        await asyncio.sleep(0.1)
        yield shell
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await bus.close()


@asynccontextmanager
async def agent(server: NatsServer, folder: Path, node: str, password: str) -> AsyncIterator[Bus]:
    settings = settings_of(server, folder, AGENT, password, domain="berth", inbox=escape(node))
    bus = await Bus.connect(settings, service=AGENT)
    try:
        yield bus
    finally:
        await bus.close()


async def comes_in(server: NatsServer, **told: Any) -> bool:
    client = Client()
    try:
        await client.connect(server.url, allow_reconnect=False, max_reconnect_attempts=1, error_cb=ignore, **told)
    except (nats.errors.Error, TimeoutError):
        return False
    finally:
        await client.close()
    return True


async def ignore(error: Exception) -> None:
    """A refusal is what the tests wait for."""


async def topology(server: NatsServer, folder: Path) -> None:
    bus = await Bus.connect(settings_of(server, folder, "cluster-watcher", PASSWORD), service="cluster-watcher")
    await bus.ensure()
    await bus.close()


def figures(node: str) -> str:
    return f"$KV.{buckets.METRICS}.{named_key('node', node)}"


async def test_an_agent_works_for_its_node_and_for_no_other(server: NatsServer, tmp_path: Path) -> None:
    await topology(server, tmp_path)
    node = "node-1.example"
    async with (
        asyncio.timeout(30),
        authenticator(server, tmp_path, Reviews()),
        agent(server, tmp_path, node, token(node)) as bus,
    ):
        owned = bus.owned(buckets.METRICS, keys=named_key("node", node))
        await owned.ready()
        owned.put(named_key("node", node), b'{"n": 1}')
        await owned.drain()
        for subject in (figures("node-2.example"), figures("node-1"), "$KV.berth_state.node.x", SUBJECT):
            with pytest.raises(Denied):
                await bus.ask(subject, b"{}", timeout_s=5)


async def test_everybody_else_logs_in_without_the_service(server: NatsServer) -> None:
    for user in sorted(tool("nats_passwords").users()):
        assert await comes_in(server, user=user, password=PASSWORD), user
    assert not await comes_in(server, user=AGENT, password=token("n1"))


@pytest.mark.parametrize(
    "told",
    [
        {"user": AGENT, "password": "pw"},
        {"user": AGENT, "password": token("deleted")},
        {"user": AGENT, "password": token("n1", until=1.0)},
        {"user": AGENT, "password": token("n" * 3000)},
        {"user": "cluster-writer", "password": token("n1")},
        {"user": "node-authenticator", "password": token("n1")},
        {"user": "reader", "password": "wrong"},
        {"user": "nobody", "password": token("n1")},
        {"token": token("n1")},
        {},
    ],
)
async def test_nobody_else_comes_in(told: Mapping[str, str], server: NatsServer, tmp_path: Path) -> None:
    async with authenticator(server, tmp_path, Reviews()) as shell:
        assert not await comes_in(server, **told)
        assert await comes_in(server, user=AGENT, password=token("n1")), "and the service goes on"
    assert shell.context.health.ready


async def test_who_is_refused_by_name_costs_the_api_server_nothing(server: NatsServer, tmp_path: Path) -> None:
    api = Reviews()
    async with authenticator(server, tmp_path, api):
        await comes_in(server, user="nobody", password=token("n1"))
        await comes_in(server, user=AGENT, password="no token")
    assert api.asked == 0


async def test_a_session_ends_with_its_token_and_the_next_begins_with_the_renewed_one(
    server: NatsServer, tmp_path: Path
) -> None:
    api = Reviews()
    async with (
        asyncio.timeout(30),
        authenticator(server, tmp_path, api),
        agent(server, tmp_path, "n1", token("n1", until=int(time.time()) + 3)) as bus,
    ):
        assert api.asked == 1
        settings_of(server, tmp_path, AGENT, token("n1"), inbox="n1")  # as kubelet does
        await eventually(lambda: api.asked == 2 and bus.connected.is_set(), deadline_s=15)


async def test_an_agent_waits_while_the_api_server_is_away(server: NatsServer, tmp_path: Path) -> None:
    api = Reviews()
    api.away = True
    async with asyncio.timeout(30), authenticator(server, tmp_path, api) as shell:
        assert not await comes_in(server, user=AGENT, password=token("n1"))
        assert not shell.context.health.ready
        api.away = False
        assert await comes_in(server, user=AGENT, password=token("n1"))
        assert shell.context.health.ready


async def test_two_replicas_share_the_logins(server: NatsServer, tmp_path: Path) -> None:
    first, second = Reviews(), Reviews()
    async with authenticator(server, tmp_path, first), authenticator(server, tmp_path, second):
        for number in range(20):
            assert await comes_in(server, user=AGENT, password=token(f"n{number}"))
    assert first.asked + second.asked == 20
    assert first.asked
    assert second.asked


async def test_too_many_at_once_are_left_to_come_again(server: NatsServer, tmp_path: Path) -> None:
    """What is more than can be in work is not kept: a flood of logins costs no memory."""
    api = Reviews()
    api.hung.clear()
    async with asyncio.timeout(60), authenticator(server, tmp_path, api):
        told = {"user": AGENT, "password": token("n1")}
        waiting = [asyncio.create_task(comes_in(server, **told)) for _ in range(AT_ONCE + 40)]
        await eventually(lambda: api.asked >= AT_ONCE, deadline_s=20)
        assert api.asked == AT_ONCE
        api.hung.set()
        await asyncio.gather(*waiting)
        assert await comes_in(server, **told)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not a JWT"),
        (b"a.b", "not a JWT"),
        (b"a.!!!.c", "not an authorization request"),
        (b"a." + base64.urlsafe_b64encode(b"{}") + b".c", "not an authorization request"),
        (b"a." + base64.urlsafe_b64encode(b"\xff\xfe") + b".c", "not an authorization request"),
        (
            b"a."
            + base64.urlsafe_b64encode(b'{"nats":{"server_id":{"id":"N"},"user_nkey":"U","type":"user"}}')
            + b".c",
            "nats.type",
        ),
    ],
)
def test_a_question_that_cannot_be_read_is_named(raw: bytes, reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        read_question(raw)


@pytest.mark.parametrize("seed", [b"", b"SAAA", b"\xff", b"SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY"])
def test_a_seed_of_no_account_is_refused(seed: bytes) -> None:
    with pytest.raises(ValueError, match="seed"):
        Issuer(seed)
