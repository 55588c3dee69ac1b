"""The users of the bus: generated from the contract, enough for what each service does, and nothing more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig
from tests.deploy.manifests import AGENT, NODES_OF_AGENTS, ROOT, tool, users_conf

from berth.bus import Bus, BusSettings, Write
from berth.bus.errors import BusError
from berth.bus.port import Committed
from berth.contracts import buckets, subjects
from berth.testing.nats_server import NatsServer

PASSWORD = "pw"


TOOL = tool("nats_permissions")


class Nothing:
    """A sink that forgets."""

    def reset(self) -> None: ...

    def apply(self, entry: object) -> None: ...

    def end(self, sequence: int) -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=users_conf(PASSWORD)) as running:
        yield running


@asynccontextmanager
async def as_user(server: NatsServer, user: str, tmp_path: Path, service: str = "") -> AsyncIterator[Bus]:
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    domain = TOOL.DOMAIN if user in (TOOL.READER, *NODES_OF_AGENTS) else ""
    inbox = NODES_OF_AGENTS.get(user, "")
    settings = BusSettings(url=server.url, user=user, password_file=str(password), domain=domain, inbox=inbox)
    async with asyncio.timeout(20):
        bus = await Bus.connect(settings, service=service or user)
    try:
        yield bus
    finally:
        await bus.close()


@pytest.fixture
async def topology(server: NatsServer, tmp_path: Path) -> None:
    async with as_user(server, "cluster-watcher", tmp_path) as bus:
        await bus.ensure()


def test_agents_are_granted_what_crosses_into_their_account_and_nothing_else() -> None:
    across = {each.local or each.subject for each in TOOL.crossings() if each.target == TOOL.NODES}
    granted = {re.sub(r"\.n1$", ".*", subject) for subject in TOOL.agent_rights("n1").publish}
    assert granted == {*across, "_R_.>"}
    part = TOOL.PARTS[AGENT]
    assert {f"$JS.{TOOL.DOMAIN}.API.STREAM.MSG.GET.KV_{each}" for each in (*part.follows, *part.owns)} < across


def commands_of(service: str) -> list[str]:
    return list(TOOL.fronts(service, buckets.COMMANDS))


def sources(service: str) -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / "services" / service / "src").rglob("*.py")))


def test_the_file_is_what_the_contract_says() -> None:
    assert TOOL.main(["--check"]) == 0


def test_every_service_has_a_user() -> None:
    assert set(TOOL.PARTS) == {path.name for path in (ROOT / "services").iterdir() if path.is_dir()}


@pytest.mark.parametrize("service", sorted(TOOL.PARTS))
def test_the_table_says_what_the_code_does(service: str) -> None:
    """Which buckets a service names, which commands it sends, whether it makes streams: read from its source."""
    part, text = TOOL.PARTS[service], sources(service)
    values = {name: value for name, value in vars(buckets).items() if name.isupper()}
    named = {values[name] for name in re.findall(r"buckets\.([A-Z]+)\b", text)}
    if part.authenticates:
        named = set()  # it names what agents may do
    leases = {buckets.LEASE} if part.leases else set()
    streams = {*((buckets.COMMANDS,) if part.consumes else ()), *((buckets.EVENTS,) if part.reads_events else ())}
    assert named <= {*part.follows, *part.owns, *leases, *streams}
    sent = {".".join(words) for words in re.findall(r'command_subject\(\s*"([a-z]+)"(?:, "([a-z]+)")?', text)}
    granted = {front.removesuffix(".>").removeprefix(f"{subjects.PREFIX}.cmd.") for front in commands_of(service)}
    assert {each.rstrip(".") for each in sent} == granted
    assert ("bus.ensure()" in text) == part.makes_topology
    assert (".consume(" in text) == part.consumes
    assert (".last_event(" in text) == part.reads_events
    assert ("bus.ledger()" in text) == part.commits


@pytest.mark.parametrize("service", sorted(TOOL.PARTS))
async def test_a_service_can_do_its_work(service: str, server: NatsServer, tmp_path: Path, topology: None) -> None:
    part = TOOL.PARTS[service]
    async with as_user(server, service, tmp_path) as bus, asyncio.timeout(20):
        if part.makes_topology:
            await bus.ensure()
        for bucket in part.follows:
            keys: tuple[str, ...] = (subjects.named_key("node", "n1") if part.on_nodes else ">",)
            if bucket == buckets.LEDGER and service != "placement-solver":
                keys = subjects.COUNTED
            follower = bus.follow(bucket, Nothing(), keys=keys)
            task = asyncio.create_task(follower.run())
            await follower.ready.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if part.reads_events:
            assert await bus.last_event("berth.v1.evt.placement.bound.none.none") is None
        for bucket in part.owns:
            for kind in ("node", "report", "runtime") if part.on_nodes else ("node",):
                key = subjects.named_key(kind, "n1")
                owned = bus.owned(bucket, keys=key if part.on_nodes else ">")
                await owned.ready()
                owned.put(key, b'{"n": 1}')
                await owned.drain()
        for lease in part.leases:
            held = bus.lease(lease.replace("*", "me"), "me", ttl_s=2)
            task = asyncio.create_task(held.run())
            while not held.active:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if part.commits:
            ledger = bus.ledger()
            stored = await ledger.read("e1.plan.x")
            outcome = await ledger.commit([Write("e1.plan.x", b"{}", stored.sequence if stored else 0)])
            assert isinstance(outcome, Committed)
        for front in commands_of(service):
            command = front.removesuffix(".>")
            await bus.commands().publish(f"{command}.x", b"{}", id=f"{service}.{command}", type="t")
        for front in TOOL.fronts(service, buckets.EVENTS):
            await bus.events().publish(front.replace(">", "x"), b"{}", id=f"{service}.{front}", type="t")
        await bus.commands().drain()
        await bus.events().drain()


async def test_the_writer_gets_the_commands(server: NatsServer, tmp_path: Path, topology: None) -> None:
    got = asyncio.Event()

    async def handle(message: object) -> None:
        got.set()

    async with as_user(server, "quota-manager", tmp_path) as bus:
        subject = subjects.command_subject("patch", "elasticquotas", "ns", "q")
        await bus.commands().publish(subject, b"{}", id="one", type="t")
        await bus.commands().drain()
    async with as_user(server, "cluster-writer", tmp_path) as bus, asyncio.timeout(20):
        consumer = bus.consume("cluster-writer", handle, subjects=f"{subjects.PREFIX}.cmd.>")
        task = asyncio.create_task(consumer.run())
        await got.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_reader_asks_and_listens(server: NatsServer, tmp_path: Path, topology: None) -> None:
    async def answer(payload: bytes) -> bytes:
        return b"well"

    heard = asyncio.Event()

    async def hear(message: object) -> None:
        heard.set()

    async with (
        as_user(server, "placement-solver", tmp_path) as solver,
        as_user(server, "reader", tmp_path, service="cli") as reader,
        asyncio.timeout(20),
    ):
        await solver.serve("placement-solver", "1.0.0", {"status": answer})
        asked = subjects.question_subject("placement-solver", "status")
        assert await reader.ask(asked, b"{}") == b"well"
        assert await reader.ask_all(asked, b"{}") == [b"well"]
        await reader.subscribe(f"{subjects.PREFIX}.evt.>", hear)
        while not heard.is_set():
            subject = subjects.event_subject("placement", "decided", "p")
            await solver.events().publish(subject, b"{}", id="told", type="t")
            await asyncio.sleep(0.01)


async def test_a_reader_keeps_its_place_among_the_events(server: NatsServer, topology: None, tmp_path: Path) -> None:
    """A durable consumer of its own, from another account: made, read from, acknowledged, read on."""
    async with as_user(server, "placement-solver", tmp_path) as solver, asyncio.timeout(20):
        for name in ("one", "two", "three"):
            subject = subjects.event_subject("placement", "decided", name)
            await solver.events().publish(subject, b"{}", id=f"kept-{name}", type="t")
        await solver.events().drain()
    reader = await nats.connect(server.url, user="reader", password=PASSWORD)
    js = reader.jetstream(domain=TOOL.DOMAIN)
    assert (await js.stream_info(buckets.EVENTS)).state.messages
    config = ConsumerConfig(durable_name="mine", ack_policy=AckPolicy.EXPLICIT, ack_wait=60)
    await js.add_consumer(buckets.EVENTS, config)
    first = await js.pull_subscribe_bind("mine", buckets.EVENTS)
    (message,) = await first.fetch(1, timeout=5)
    sequence = message.metadata.sequence.stream
    await message.ack_sync(timeout=5)
    again = await js.pull_subscribe_bind("mine", buckets.EVENTS)
    found = await again.fetch(2, timeout=5)
    assert [each.metadata.sequence.stream for each in found] == [sequence + 1, sequence + 2]
    await js.delete_consumer(buckets.EVENTS, "mine")
    await reader.close()


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("quota-manager", "$KV.berth_state.pod.a.b"),
        ("quota-manager", "$KV.berth_ledger.epoch"),
        ("device-inventory", "berth.v1.cmd.evict.pods.ns.pod"),
        ("node-qos-enforcer", "$KV.berth_metrics.other.n1"),
        ("node-qos-enforcer", "$KV.berth_metrics.node.n2"),
        ("node-qos-enforcer", "berth.v1.evt.placement.bound.ns.pod"),
        ("node-qos-enforcer", "$JS.berth.API.CONSUMER.CREATE.KV_berth_state.mine"),
        ("placement-solver", "$JS.API.STREAM.DELETE.KV_berth_ledger"),
        ("cluster-watcher", "$JS.API.STREAM.PURGE.KV_berth_state"),
        ("reader", "berth.v1.cmd.evict.pods.ns.pod"),
        ("reader", "$KV.berth_state.pod.a.b"),
    ],
)
async def test_nobody_can_do_more(user: str, subject: str, server: NatsServer, tmp_path: Path, topology: None) -> None:
    async with as_user(server, user, tmp_path, service="cli" if user == "reader" else "") as bus:
        with pytest.raises(BusError, match=r"denied|violation|permission"):
            await bus.ask(subject, b"{}", timeout_s=5)
