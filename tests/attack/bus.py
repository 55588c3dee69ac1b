"""The shipped users on a real server, filled by an administrator that only the tests have, and what it holds."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import nats
from nats.aio.client import Client
from tests.attack.targets import kept
from tests.deploy.manifests import AGENT, OTHER_AGENT, users_conf

from berth.bus import Bus, BusSettings
from berth.bus.topology import TOPOLOGY
from berth.testing.nats_server import NatsServer

PASSWORD = "pw"
ADMIN = "admin"
READER = "reader"
OUTSIDERS = (AGENT, OTHER_AGENT, READER, "node-authenticator")
"""Users whose account is not that of the streams."""

Held = dict[str, dict[str, Any]]
"""By stream: when it was made, its settings, and every message by sequence."""


def server() -> NatsServer:
    """One with the shipped users, and an administrator among the services."""
    return NatsServer(
        config=users_conf(PASSWORD).replace("users: [", f"users: [\n{{ user: {ADMIN}, password: {PASSWORD} }}", 1)
    )


async def fill(running: NatsServer) -> None:
    """Make the streams, and put a message on every kind of subject."""
    settings = BusSettings(url=running.url.replace("nats://", f"nats://{ADMIN}:{PASSWORD}@"))
    bus = await Bus.connect(settings, service=ADMIN)
    await bus.ensure()
    await bus.close()
    admin = await connect(running, ADMIN)
    for target in kept():
        answer = json.loads((await admin.request(target.subject, b'{"as": "it was"}', timeout=5)).data)
        assert "error" not in answer, (target, answer)
    await admin.close()


async def held(running: NatsServer) -> Held:
    """What the streams hold now."""
    admin = await connect(running, ADMIN)
    found: Held = {}
    for item in TOPOLOGY:
        info = await _api(admin, f"STREAM.INFO.{item.stream}")
        assert "error" not in info, (item.stream, info)
        state = info["state"]
        messages: dict[int, tuple[str, bytes]] = {}
        at = state["first_seq"]
        while at <= state["last_seq"]:
            answer = await _api(admin, f"STREAM.MSG.GET.{item.stream}", {"seq": at, "next_by_subj": ">"})
            if "error" in answer:
                break
            message = answer["message"]
            messages[message["seq"]] = (message["subject"], base64.b64decode(message.get("data", "")))
            at = message["seq"] + 1
        found[item.stream] = {"created": info["created"], "config": info["config"], "messages": messages}
    await admin.close()
    return found


async def _api(client: Client, name: str, body: object = None) -> dict[str, Any]:
    answer = await client.request(f"$JS.API.{name}", b"" if body is None else json.dumps(body).encode(), timeout=5)
    return dict(json.loads(answer.data))


async def connect(running: NatsServer, user: str) -> Client:
    """A client with the rights of a user; what it is refused is expected."""
    return await nats.connect(running.url, user=user, password=PASSWORD, error_cb=_expected, allow_reconnect=False)


async def _expected(error: Exception) -> None:
    """Most of what an attacker tries is refused."""


def publishes(user: str) -> list[str]:
    """A subject for each pattern that the shipped file lets a user publish."""
    (allowed,) = re.findall(rf'user: "{user}".*?publish: {{ allow: \[(.*?)\]', users_conf(PASSWORD), re.DOTALL)
    return [re.sub(r"[*>]", "x", pattern) for pattern in re.findall(r'"([^"]+)"', allowed)]
