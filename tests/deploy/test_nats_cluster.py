"""The bus of the production overlay for real: three servers, TLS, the users; and what happens when leaders die."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.deploy.manifests import tool
from tests.deploy.tls_bus import PASSWORD, config_of, make_certificates, needs_openssl

from berth.bus import Bus, BusError, BusSettings, Write, jetstream
from berth.bus.port import Committed, Refused, Unknown
from berth.bus.topology import TOPOLOGY
from berth.contracts import buckets, subjects
from berth.testing.nats_cluster import NAMES, NatsCluster
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

LEDGER_STREAM = f"KV_{buckets.LEDGER}"
ACCOUNT = "e1.account.node.n1"
FAILOVER_S = 60.0

pytestmark = [pytest.mark.e2e, needs_openssl]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def cluster(certificates: Path) -> Iterator[NatsCluster]:
    with NatsCluster(config_of(certificates)) as running:
        yield running


class Clients:
    """Buses of any user, closed at the end."""

    def __init__(self, cluster: NatsCluster, certificates: Path, stack: AsyncExitStack) -> None:
        self._cluster, self._certificates, self._stack = cluster, certificates, stack

    async def __call__(self, user: str) -> Bus:
        settings = BusSettings(
            url=self._cluster.url,
            user=user,
            password_file=str(self._certificates / "password"),
            ca_file=str(self._certificates / "ca.crt"),
            replicas=3,
            connect_timeout_s=5,
        )
        async with asyncio.timeout(30):
            bus = await Bus.connect(settings, service=user)
        self._stack.push_async_callback(bus.close)
        return bus


@pytest.fixture
async def connect(cluster: NatsCluster, certificates: Path) -> AsyncIterator[Clients]:
    async with AsyncExitStack() as stack:
        clients = Clients(cluster, certificates, stack)
        watcher = await clients("cluster-watcher")
        async with asyncio.timeout(FAILOVER_S):
            await watcher.ensure()  # waits until the servers have found each other
        yield clients


async def leader_of(bus: Bus, stream: str) -> str:
    answer = await jetstream.call(bus._link, f"STREAM.INFO.{stream}")
    return str(answer["cluster"]["leader"])


class Committer:
    """Commits plan after plan, each with a decision of its own and one more on the common account."""

    def __init__(self, name: str, bus: Bus) -> None:
        self.name = name
        self.committed: list[str] = []
        self.refused = 0
        self.unknown = 0
        self._bus = bus

    async def run(self, plans: int) -> None:
        for number in range(plans):
            await self._commit(f"{self.name}-{number}")

    async def _commit(self, plan: str) -> None:
        """Until it is there: a refused one is made anew, an unknown one looked up, as solvers do."""
        ledger, key = self._bus.ledger(), f"e1.plan.{plan}"
        while True:
            try:
                account = await ledger.read(ACCOUNT)
                count = int(account.value) if account else 0
                batch = [
                    Write(key, b"{}", 0),
                    Write(ACCOUNT, str(count + 1).encode(), account.sequence if account else 0),
                ]
                outcome = await ledger.commit(batch)
                if isinstance(outcome, Unknown):
                    self.unknown += 1
                    stored = await self._read_for_certain(key)
                    if stored:
                        break
            except BusError:
                await asyncio.sleep(0.1)
                continue
            if isinstance(outcome, Committed):
                break
            self.refused += isinstance(outcome, Refused)
        self.committed.append(plan)

    async def _read_for_certain(self, key: str) -> bool:
        """A batch whose answer was lost may still be on its way: two leaders' reads, some time apart, say no."""
        for _ in range(2):
            while True:
                try:
                    if await self._bus.ledger().read(key) is not None:
                        return True
                    break
                except BusError:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(1.0)
        return False


async def test_every_stream_has_three_copies_on_disk(connect: Clients) -> None:
    bus = await connect("cluster-watcher")
    for item in TOPOLOGY:
        info = await jetstream.stream_info(bus._link, item.stream)
        assert info.config["num_replicas"] == 3, item.stream
        assert info.config.get("persist_mode") != "async"
    answer = await jetstream.call(bus._link, f"STREAM.INFO.{LEDGER_STREAM}")
    assert {answer["cluster"]["leader"], *(each["name"] for each in answer["cluster"]["replicas"])} == set(NAMES)


@pytest.mark.slow
async def test_leaders_die_in_the_middle_of_commits_and_nothing_is_lost_or_doubled(
    cluster: NatsCluster, connect: Clients
) -> None:
    plans = 60
    committers = [Committer(f"c{i}", await connect("placement-solver")) for i in range(2)]
    seen = View()
    follower = (await connect("cluster-writer")).follow(buckets.LEDGER, seen)
    following = asyncio.create_task(follower.run())
    running = [asyncio.create_task(each.run(plans)) for each in committers]
    watcher = await connect("cluster-watcher")
    killed = []
    try:
        async with asyncio.timeout(240):
            for mark in (plans // 2, plans):
                await eventually(
                    lambda mark=mark: sum(len(each.committed) for each in committers) >= mark, deadline_s=120
                )
                leader = await leader_of(watcher, LEDGER_STREAM)
                killed.append(leader)
                cluster[leader].kill()
                before = sum(len(each.committed) for each in committers)
                await eventually(
                    lambda before=before: sum(len(each.committed) for each in committers) >= before + 10, deadline_s=90
                )
                cluster[leader].start()
            await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
    assert all(not task.cancelled() and task.exception() is None for task in running)

    account = await committers[0]._bus.ledger().read(ACCOUNT)
    assert account is not None
    assert int(account.value) == 2 * plans  # every plan charged the account exactly once
    wanted = {f"e1.plan.{each.name}-{number}" for each in committers for number in range(plans)}
    await eventually(lambda: seen.values.get(ACCOUNT) == account.value, deadline_s=FAILOVER_S)
    assert {key for key in seen.values if key.startswith("e1.plan.")} == wanted
    stored = [entry.sequence for entry in seen.entries if entry.key.startswith("e1.plan.")]
    assert len(set(stored)) == len(wanted)  # none was written twice, whatever was seen again
    assert len(killed) == 2
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_nobody_gets_in_without_the_authority_or_the_password(
    cluster: NatsCluster, connect: Clients, certificates: Path, tmp_path: Path
) -> None:
    (tmp_path / "wrong").write_text("wrong")
    right = {"user": "reader", "password_file": str(certificates / "password"), "ca_file": str(certificates / "ca.crt")}
    for wrong in ({"password_file": str(tmp_path / "wrong")}, {"ca_file": ""}, {"user": "nobody"}):
        settings = BusSettings(**{"url": cluster.url, "connect_timeout_s": 1} | right | wrong)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await Bus.connect(settings, service="cli")
    plain = cluster.url.replace("tls://", "nats://")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await Bus.connect(
                BusSettings(**{"url": plain, "connect_timeout_s": 1} | right | {"ca_file": ""}), service="cli"
            )


async def test_a_program_outside_follows_placements(cluster: NatsCluster, connect: Clients, certificates: Path) -> None:
    """With the plain client, as docs/subscribe.md says: the authority, the user, the password; any of the servers."""
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.subject)

    reader = await nats.connect(
        cluster.url.split(","),
        user="reader",
        password=PASSWORD,
        tls=ssl.create_default_context(cafile=str(certificates / "ca.crt")),
    )
    await reader.subscribe("berth.v1.evt.placement.>", cb=hear)
    await reader.flush()
    writer = await connect("cluster-writer")
    subject = subjects.event_subject("placement", "bound", "ns", "pod")
    for number in range(20):
        # It takes its time until the servers know that somebody listens at another one.
        await writer.events().publish(subject, b"{}", id=f"{number}", type="placement.bound.v1")
        await asyncio.sleep(0.2 * number)
        if heard:
            break
    assert set(heard) == {subject}
    kept = await reader.jetstream(domain="berth").get_msg(buckets.EVENTS, 1)
    assert kept.subject == subject
    await reader.close()


async def test_a_server_without_a_certificate_of_the_authority_joins_no_route(
    cluster: NatsCluster, connect: Clients, certificates: Path, tmp_path: Path
) -> None:
    """Somebody else's certificate: their server stays alone."""
    certs = tool("certs")
    key, certificate = certs.Authority(tmp_path / "other").issue(certs.server_names(), 1)
    (tmp_path / "tls.key").write_text(key)
    (tmp_path / "tls.crt").write_text(certificate)
    shutil.copy(certificates / "ca.crt", tmp_path)
    route = cluster["nats-0"].route_port
    config = config_of(tmp_path).replace("$ROUTES", f"nats-route://127.0.0.1:{route}")
    with NatsServer(name="stranger", config=config.replace("$ROUTE_PORT", "-1")):
        await eventually(lambda: "unknown authority" in cluster["nats-0"].log.read_text())
        bus = await connect("cluster-watcher")
        answer = await jetstream.call(bus._link, f"STREAM.INFO.{LEDGER_STREAM}")
        assert {answer["cluster"]["leader"], *(each["name"] for each in answer["cluster"]["replicas"])} == set(NAMES)
