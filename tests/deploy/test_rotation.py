"""Passwords and certificates of the bus are renewed while services run, as docs/operations.md says."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.deploy.manifests import tool, users_conf
from tests.deploy.tls_bus import needs_openssl

from berth.bus import Bus, BusSettings
from berth.bus.port import OwnedPort
from berth.contracts import buckets
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

pytestmark = needs_openssl
WRITER, READER = "cluster-watcher", "placement-solver"


class Installation:
    """A server with the shipped users, and the files that its pods and those of the services see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = NatsServer()
        self.authority = tool("certs").Authority(folder / "authority")
        self.ca = folder / "ca.crt"
        self.ca.write_text(self.authority.certificate.read_text())
        self.issue()
        self.passwords("old")
        self.give("old", WRITER, READER)

    def issue(self) -> None:
        """A new certificate for the server, by the authority of now."""
        key, certificate = self.authority.issue(tool("certs").server_names(), 1)
        (self.folder / "tls.key").write_text(key)
        (self.folder / "tls.crt").write_text(certificate)

    def passwords(self, word: str) -> None:
        """What the server takes from its next start on."""
        tls = f'tls {{ key_file: "{self.folder}/tls.key", cert_file: "{self.folder}/tls.crt" }}'
        self.server.configure(f"{users_conf(word)}\n{tls}")

    def give(self, word: str, *users: str) -> None:
        """The mounted files of these services."""
        for user in users:
            (self.folder / user).write_text(word + "\n")

    def shown(self) -> bytes:
        """The certificate that the server shows; it speaks first, and TLS follows."""
        trust = ssl.create_default_context(cafile=str(self.ca))
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as plain:
            assert plain.makefile("rb", buffering=0).readline().endswith(b"\r\n")
            with trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                return connection.getpeercert(binary_form=True) or b""

    def connections(self) -> dict[str, int]:
        """The number of each service's connection, which another one would not have."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.monitor_port}/connz", timeout=10) as answer:
            return {each["name"]: each["cid"] for each in json.load(answer)["connections"] if each.get("name")}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[tuple[OwnedPort, View]]:
        """A service that owns STATE, and one that reads it."""
        async with AsyncExitStack() as stack:
            buses = []
            for user in (WRITER, READER):
                settings = BusSettings(
                    url=self.server.url, user=user, password_file=str(self.folder / user), ca_file=str(self.ca)
                )
                bus = await Bus.connect(settings, service=user)
                stack.push_async_callback(bus.close)
                buses.append(bus)
            await buses[0].ensure()
            view = View()
            reading = asyncio.create_task(buses[1].follow(buckets.STATE, view).run())
            stack.callback(reading.cancel)
            owned = buses[0].owned(buckets.STATE)
            await owned.ready()
            yield owned, view


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    with made.server:
        yield made


async def arrives(owned: OwnedPort, view: View, key: str) -> None:
    owned.put(key, b"{}")
    async with asyncio.timeout(30):
        await owned.drain()
    await eventually(lambda: key in view.values, what=f"{key} has been read")


async def until_refused(server: NatsServer, since: int, user: str) -> None:
    def said() -> bool:
        return f'User "{user}"' in server.log.read_text()[since:]

    await eventually(said, what=f"{user} has been refused")


async def test_new_passwords_need_no_restart_of_services(installation: Installation) -> None:
    server = installation.server
    async with installation.running() as (owned, view):
        await arrives(owned, view, "node.a")
        installation.passwords("new")
        installation.give("new", WRITER)
        server.restart()
        await until_refused(server, 0, READER)  # its file was late
        owned.put("node.b", b"{}")
        async with asyncio.timeout(30):
            await owned.drain()
        assert "node.b" not in view.values
        installation.give("new", READER)
        await eventually(lambda: "node.b" in view.values, what="the late one is back")
        await arrives(owned, view, "node.c")


async def test_a_renewed_certificate_breaks_no_connection(installation: Installation) -> None:
    async with installation.running() as (owned, view):
        await arrives(owned, view, "node.a")
        before, connections = installation.shown(), installation.connections()
        installation.issue()
        installation.server.reload()
        await eventually(lambda: installation.shown() != before, what="the server shows the new one")
        await arrives(owned, view, "node.b")
        assert installation.connections() == connections
        assert set(connections) == {WRITER, READER}
        installation.server.restart()
        await arrives(owned, view, "node.c")


async def test_another_authority_is_trusted_first_and_then_used(installation: Installation) -> None:
    another = tool("certs").Authority(installation.folder / "another")
    async with installation.running() as (owned, view):
        await arrives(owned, view, "node.a")
        installation.ca.write_text(installation.authority.certificate.read_text() + another.certificate.read_text())
        installation.authority = another
        installation.issue()
        installation.server.restart()
        await arrives(owned, view, "node.b")
