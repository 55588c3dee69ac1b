"""No user of the bus can do more than its part: every user against every subject of the contract, on a real server.

What is expected comes from the catalogue of messages (who writes what) and from a few rules written down here, not from
the table that the rights are generated from.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import nats
import pytest
from nats.aio.client import Client
from tests.deploy.manifests import AGENT, NODES_OF_AGENTS, OTHER_AGENT, tool, users_conf

from berth.bus.topology import TOPOLOGY
from berth.contracts import buckets
from berth.contracts.catalogue import CHANNELS
from berth.contracts.subjects import PREFIX
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually

PASSWORD = "pw"
USERS = sorted({*tool("nats_passwords").users(), *NODES_OF_AGENTS})
AGENTS = set(NODES_OF_AGENTS)
AUTHENTICATOR = "node-authenticator"
SERVICES = [user for user in USERS if user not in ("reader", OTHER_AGENT)]
API, API_ACROSS = "$JS.API", "$JS.berth.API"
"""What the API of the streams is called in the account of the services, and in the others."""
BUCKETS = sorted({channel.place for channel in CHANNELS if channel.place.startswith("berth_")} | {buckets.LEASE})
LEDGER_WRITERS = {"placement-solver", "cluster-writer"}
"""Both write any key of the ledger: a solver decides, the writer raises the epoch and clears what a lost one left."""
MAKERS = {"cluster-watcher", "cluster-writer", "placement-solver"}
"""They make streams that are missing, and bring their settings into shape."""
READERS = {
    buckets.STATE: set(SERVICES) - {"auditor", AUTHENTICATOR},
    buckets.INVENTORY: {"device-inventory", "placement-solver", "recorder", AGENT},
    buckets.QUOTA: {"quota-manager", "placement-solver", "recorder", "auditor"},
    buckets.RESERVATION: {"reservation-manager", "placement-solver", "recorder"},
    buckets.SLO: {"slo-manager", "device-inventory", "placement-solver", "recorder", "yarn-operator", AGENT},
    buckets.METRICS: {AGENT, "device-inventory", "placement-solver", "recorder", "slo-manager"},
    buckets.PRICE: {"placement-solver"},
    buckets.LEDGER: {
        "placement-solver",
        "cluster-writer",
        "recorder",
        "auditor",
        "quota-manager",
        "reservation-manager",
    },
    buckets.LEASE: set(SERVICES) - {"cluster-writer", AGENT, AUTHENTICATOR},
}
"""Who may read a key of a bucket. cluster-writer's Lease is Kubernetes' own; node agents have no replicas, and those of
node-authenticator share its work. The auditor takes nobody's word for the cluster: of QUOTA it reads how quota-manager
is set. What holds for the agent of one node holds for that of another, but for the node.
"""
DESTRUCTIVE = (
    *("STREAM.DELETE.{}", "STREAM.PURGE.{}", "STREAM.MSG.DELETE.{}", "STREAM.SNAPSHOT.{}", "STREAM.RESTORE.{}"),
    *("STREAM.LEADER.STEPDOWN.{}", "STREAM.PEER.REMOVE.{}", "CONSUMER.LEADER.STEPDOWN.{}.x", "CONSUMER.PAUSE.{}.x"),
)


class Probe(NamedTuple):
    """A subject, and the users who may publish it."""

    subject: str
    allowed: frozenset[str]


def sample(pattern: str) -> str:
    return pattern.replace("<account>", "node.x").replace("e<epoch>", "e1").replace("<service>", "quota-manager")


def probes() -> Iterator[Probe]:
    writers: dict[str, set[str]] = {}
    for channel in CHANNELS:
        subject = re.sub(r"<\w+>", "x", sample(channel.pattern))
        if channel.place.startswith("berth_"):
            subject = f"$KV.{channel.place}.{subject}"
        if channel.place == buckets.METRICS:
            assert channel.pattern in ("node.<name>", "report.<name>", "runtime.<name>", "pressure.<name>")
            for agent, node in NODES_OF_AGENTS.items():
                key = channel.pattern.replace("<name>", node)
                yield Probe(f"$KV.{buckets.METRICS}.{key}", frozenset({agent}))
            yield Probe(subject, frozenset())
        elif channel.place != "reply":
            writer = {"reader"} if channel.place == "request" else {channel.writer}
            writers.setdefault(subject, set()).update(LEDGER_WRITERS if channel.place == buckets.LEDGER else writer)
    yield from (Probe(subject, frozenset(users)) for subject, users in writers.items())
    yield Probe(f"$KV.{buckets.LEASE}.certificate.x", frozenset({"admission-webhook"}))
    for user in SERVICES:
        leases = {"placement-solver": "solver.x"}.get(user, user)
        holds = user in READERS[buckets.LEASE]
        yield Probe(f"$KV.{buckets.LEASE}.{leases}", frozenset({user} if holds else ()))
        yield Probe(f"_INBOX_{user}.x", frozenset())
        yield Probe(f"{PREFIX}.dead.{user}.x", frozenset({user} & {"cluster-writer"}))
    for bucket in BUCKETS:
        yield Probe(
            f"$KV.{bucket}.unheard-of", frozenset(LEDGER_WRITERS if bucket == buckets.LEDGER else owners(bucket))
        )
        yield Probe(f"{API}.STREAM.MSG.GET.KV_{bucket}", frozenset(READERS[bucket] - {AGENT}))
        yield Probe(f"{API_ACROSS}.STREAM.MSG.GET.KV_{bucket}", frozenset(AGENTS if AGENT in READERS[bucket] else ()))
    for item in TOPOLOGY:
        for verb in DESTRUCTIVE:
            yield from (Probe(f"{api}.{verb.format(item.stream)}", frozenset()) for api in (API, API_ACROSS))
        if item.stream != buckets.EVENTS:
            yield Probe(f"{API_ACROSS}.CONSUMER.CREATE.{item.stream}.x", frozenset())
    for subject in (
        *(
            "$JS.API.ACCOUNT.PURGE.x",
            "$JS.API.META.LEADER.STEPDOWN",
            "$JS.API.STREAM.CREATE.OTHER",
            "$JS.API.STREAM.NAMES",
        ),
        *("$JS.API.STREAM.TEMPLATE.CREATE.x", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ", "elsewhere"),
        *(f"{PREFIX}.cmd.x", f"{PREFIX}.evt.x", f"{PREFIX}.dead.x"),
        *(f"$JS.API.CONSUMER.DELETE.{buckets.COMMANDS}.x", f"$JS.API.STREAM.MSG.GET.{buckets.COMMANDS}"),
    ):
        yield Probe(subject, frozenset())
    for verb in ("MSG.NEXT", "INFO", "DELETE"):
        yield Probe(f"$JS.API.CONSUMER.{verb}.{buckets.COMMANDS}.cluster-writer", frozenset({"cluster-writer"}))
    yield Probe(f"$JS.ACK.{buckets.COMMANDS}.cluster-writer.1.1.1.1.0", frozenset({"cluster-writer"}))
    yield Probe(f"{API}.STREAM.MSG.GET.{buckets.EVENTS}", frozenset({"cluster-writer"}))
    yield Probe(f"{API_ACROSS}.STREAM.MSG.GET.{buckets.EVENTS}", frozenset({"reader"}))
    yield Probe("_R_.x", frozenset({*SERVICES, *AGENTS}))
    yield Probe("$SYS._INBOX.x", frozenset({AUTHENTICATOR}))
    yield Probe("$SYS.REQ.USER.AUTH", frozenset())


def owners(bucket: str) -> set[str]:
    """Who may write keys of a bucket that the contract does not know: its owner, unless it is kept to its own keys."""
    return {c.writer for c in CHANNELS if c.place == bucket} - {AGENT}


PROBES = list(probes())


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=users_conf(PASSWORD)) as running:
        yield running


class Tried:
    """A connection that notes what it was refused. The client tells that in small letters."""

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.client: Client

    async def note(self, error: Exception) -> None:
        found = re.search(r'permissions violation for (?:publish|subscription) to "([^"]+)"', str(error), re.IGNORECASE)
        assert found, error
        self.denied.add(found.group(1).lower())

    async def settled(self, wanted: set[str]) -> None:
        """Compares once the server has answered, and the client told, everything."""
        await self.client.flush()
        wanted = {subject.lower() for subject in wanted}
        with contextlib.suppress(AssertionError):
            await eventually(lambda: len(self.denied) >= len(wanted), deadline_s=5)
        await self.client.flush()
        assert sorted(self.denied - wanted) == [], "refused"
        assert sorted(wanted - self.denied) == [], "let through"


@pytest.fixture(params=USERS)
async def tried(request: pytest.FixtureRequest, server: NatsServer) -> AsyncIterator[tuple[str, Tried]]:
    attempt = Tried()
    attempt.client = await nats.connect(
        server.url, user=request.param, password=PASSWORD, error_cb=attempt.note, allow_reconnect=False
    )
    yield request.param, attempt
    await attempt.client.close()


async def test_a_user_publishes_what_is_its_own_and_nothing_else(tried: tuple[str, Tried]) -> None:
    user, attempt = tried
    for probe in PROBES:
        await attempt.client.publish(probe.subject, b"{}")
    await attempt.settled({probe.subject for probe in PROBES if user not in probe.allowed})


async def test_a_user_hears_what_is_its_own_and_nothing_else(tried: tuple[str, Tried]) -> None:
    user, attempt = tried
    service = AGENT if user in AGENTS else user
    inboxes = {each: f"_INBOX_{each}.x" for each in SERVICES}
    inboxes |= {each: f"_INBOX_{AGENT}.{node}.x" for each, node in NODES_OF_AGENTS.items()}
    own = {inboxes.get(user, ""), f"{PREFIX}.svc.{service}.status", "$SRV.PING"}
    if user == AUTHENTICATOR:
        own.add("$SYS.REQ.USER.AUTH")
    if user == "reader":
        own = {f"{PREFIX}.evt.>", "_INBOX.x"}
    others = {inbox for each, inbox in inboxes.items() if each != user} | {f"_INBOX_{AGENT}.>"}
    others |= {f"{PREFIX}.svc.{each}.status" for each in SERVICES if each != service}
    others |= {f"{PREFIX}.cmd.>", f"{PREFIX}.dead.>", "$KV.>", ">", "$JS.>", "$SYS.>", "*", f"{PREFIX}.>"}
    others |= {f"$KV.{bucket}.>" for bucket in BUCKETS}
    if user != "reader":
        others |= {f"{PREFIX}.evt.>", "_INBOX.x"}
    others |= {"$SYS.REQ.USER.AUTH"} - own
    for subject in own | others:
        await attempt.client.subscribe(subject)
    await attempt.settled(others)


async def test_nobody_comes_in_without_a_password(server: NatsServer) -> None:
    for told in ({}, {"user": "reader", "password": "wrong"}, {"user": "nobody", "password": PASSWORD}):
        client = Client()
        with pytest.raises(nats.errors.Error):
            await client.connect(server.url, allow_reconnect=False, max_reconnect_attempts=1, error_cb=ignore, **told)
        await client.close()  # a refused connection leaves its socket open


async def ignore(error: Exception) -> None:
    """The refusal is what the test waits for."""


def test_every_subject_that_can_be_written_is_probed() -> None:
    places = {f"$KV.{channel.place}." for channel in CHANNELS if channel.place.startswith("berth_")}
    assert all(any(probe.subject.startswith(place) for probe in PROBES) for place in places)
    assert set(READERS) == set(BUCKETS)
    assert len(PROBES) > 150
