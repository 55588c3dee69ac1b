"""Whoever holds the password of a node agent or of a reader changes nothing that is not theirs.

nats-server checks the subject of a request and not the subject that the answer goes to, nor where a consumer delivers.
So every request that such a user may send is sent with every subject that somebody would like to write as its reply,
and consumers are asked to deliver there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.attack.bus import OUTSIDERS, READER, Held, connect, fill, held, publishes, server
from tests.attack.targets import AGENTS_NODES, kept, wanted
from tests.deploy.manifests import AGENT, NODES_OF_AGENTS, tool

from berth.contracts import buckets
from berth.contracts.subjects import PREFIX
from berth.testing.nats_server import NatsServer

SERVICES = sorted(set(tool("nats_permissions").PARTS) - {AGENT})
SETTLE_S = 0.5


@pytest.fixture
def running() -> Iterator[NatsServer]:
    with server() as found:
        yield found


def not_its_own(user: str, found: Held) -> Held:
    """Without what the user may write: a node agent has the figures and the report of its node."""
    if user in NODES_OF_AGENTS:
        figures = found[f"KV_{buckets.METRICS}"]["messages"]
        own = {
            f"$KV.{buckets.METRICS}.{kind}.{NODES_OF_AGENTS[user]}"
            for kind in ("node", "report", "runtime", "pressure")
        }
        found[f"KV_{buckets.METRICS}"]["messages"] = {
            sequence: message for sequence, message in figures.items() if message[0] not in own
        }
    return found


async def settled(client: Client) -> None:
    """The server has read all that was sent, and what follows from it has come about."""
    await client.flush(timeout=30)
    await asyncio.sleep(SETTLE_S)


@pytest.mark.parametrize("user", OUTSIDERS)
async def test_no_reply_subject_changes_anything(user: str, running: NatsServer) -> None:
    await fill(running)
    before = not_its_own(user, await held(running))
    client = await connect(running, user)
    for subject in publishes(user):
        for reply in wanted():
            await client.publish(subject, b"", reply=reply)
    await settled(client)
    await client.close()
    assert not_its_own(user, await held(running)) == before


async def test_an_answer_is_not_written_into_another_nodes_figures(running: NatsServer) -> None:
    """The import of that subject is in the account of the agents: no answer takes that way."""
    await fill(running)
    stream = f"KV_{buckets.METRICS}"
    before = (await held(running))[stream]
    client = await connect(running, AGENT)
    for subject in publishes(AGENT):
        if not subject.startswith("$KV."):
            for key in (f"{kind}.{node}" for kind in ("node", "report", "runtime") for node in AGENTS_NODES):
                await client.publish(subject, b"", reply=f"$KV.{buckets.METRICS}.{key}")
    await settled(client)
    await client.close()
    assert (await held(running))[stream] == before


@pytest.mark.parametrize("user", OUTSIDERS)
async def test_no_consumer_delivers_where_its_maker_may_not_write(user: str, running: NatsServer) -> None:
    """The maker listens there as far as it may: a consumer delivers only where somebody does."""
    await fill(running)
    before = not_its_own(user, await held(running))
    client = await connect(running, user)
    creates = [subject for subject in publishes(user) if ".CONSUMER.CREATE." in subject]
    targets = [target.subject for target in kept()]
    for target in targets:
        await client.subscribe(target)
    for subject in creates:
        head, _, tail = subject.partition(".CONSUMER.CREATE.")
        stream = tail.split(".")[0]
        for number, target in enumerate(targets):
            config = {"name": f"c{number}", "deliver_subject": target, "deliver_policy": "all", "ack_policy": "none"}
            body = json.dumps({"stream_name": stream, "config": config}).encode()
            await client.publish(f"{head}.CONSUMER.CREATE.{stream}.c{number}", body, reply=client.new_inbox())
    await settled(client)
    await client.close()
    assert not_its_own(user, await held(running)) == before


async def test_a_roll_up_of_one_key_removes_no_other(running: NatsServer) -> None:
    """A header that makes the server purge the stream that is written to."""
    await fill(running)
    before = await held(running)
    client = await connect(running, AGENT)
    for scope in ("all", "sub"):
        await client.publish(f"$KV.{buckets.METRICS}.node.n1", b"{}", headers={"Nats-Rollup": scope})
    await settled(client)
    await client.close()
    stream = f"KV_{buckets.METRICS}"
    after = (await held(running))[stream]["messages"]
    assert before[stream]["messages"].items() <= after.items()


@pytest.mark.parametrize("service", SERVICES)
async def test_no_service_reaches_the_other_accounts_by_a_reply(service: str, running: NatsServer) -> None:
    """What a service may ask for is answered in its own account alone: no agent or reader takes it for an answer."""
    await fill(running)
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    listening = {AGENT: (f"_INBOX_{AGENT}.n1.>", f"{PREFIX}.svc.{AGENT}.>"), READER: ("_INBOX.>", "_INBOX_cli.>")}
    outsiders = {user: await connect(running, user) for user in listening}
    for user, client in outsiders.items():
        for subject in listening[user]:
            await client.subscribe(subject, cb=hear)
        await client.flush()
    client = await connect(running, service)
    for subject in publishes(service):
        if subject.startswith("$JS.API.STREAM."):
            for reply in (f"_INBOX_{AGENT}.n1.1", "_INBOX.x.1", f"{PREFIX}.svc.{AGENT}.status"):
                await client.publish(subject, b"", reply=reply)
    await settled(client)
    for each in (client, *outsiders.values()):
        await each.close()
    assert heard == []
