"""The race itself: the same three courses for each contender, each contender on servers of its own.

1. Rush: the contender runs and has bound some pods already; then all pods are created as fast as the client can. The
   rate is pods by the time from the first creation sent to the last bind seen.
2. Steady: pods come at a fixed rate into the same cluster; create to bound.
3. Drain: on fresh servers all pods are created first, then the contender is started. The rate is between its first and
   its last bind, so that starting up does not count.

CPU and calls count from the first creation until the contender's processes are quiet again: what goes out behind the
binds (Events, tidying) is paid for as well.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import calls
import fixtures
import usage
from client import Client
from contenders import Contender
from figures import Course, latencies, rate_between

from berth.testing.kube_server import KubeServer

WARM_PODS = 50
SETTLE_TIMEOUT_S = 120.0
"""For what a contender does once, at its first start in a cluster; it is not part of any course."""
CRDS_READY_TIMEOUT_S = 30.0


class Wish(NamedTuple):
    """Sizes of a race."""

    nodes: int
    pods: int
    rate: float
    seconds: float
    timeout_s: float
    drain: bool


class BrokenError(Exception):
    """The contender did something that no scheduler may."""


async def rush_and_steady(contender: Contender, wish: Wish) -> list[Course]:
    """Courses 1 and 2."""
    async with _field(wish) as (server, client):
        try:
            await contender.start(server)
            warm = list(fixtures.pods("warm", WARM_PODS, contender.scheduler))
            await client.create(warm)
            await _all_bound(client, [item.name for item in warm], wish)
            await usage.until_quiet(contender.pids, SETTLE_TIMEOUT_S)
            stand = _Stand(server, client, contender)
            rush = list(fixtures.pods("rush", wish.pods, contender.scheduler))
            courses = [await _run("rush", stand, rush, wish, 0.0)]
            count = int(wish.rate * wish.seconds)
            if count:
                steady = list(fixtures.pods("steady", count, contender.scheduler))
                courses.append(await _run("steady", stand, steady, wish, wish.rate))
            await _judge(client)
        finally:
            await contender.stop()
    return courses


async def drain(contender: Contender, wish: Wish) -> Course:
    """Course 3."""
    async with _field(wish) as (server, client):
        try:
            items = list(fixtures.pods("drain", wish.pods, contender.scheduler))
            await client.create(items)
            stand = _Stand(server, client, contender)
            before = await stand.look()
            await contender.start(server)
            lost = await client.until_bound((item.name for item in items), wish.timeout_s)
            bound = [client.bound[item.name] for item in items if item.name in client.bound]
            await usage.until_quiet(contender.pids)
            course = await stand.course("drain", before, len(items), 0)
            await _judge(client)
        finally:
            await contender.stop()
    course.unbound = len(lost)
    course.pods_per_s = rate_between(bound)
    return course


async def _run(name: str, stand: _Stand, items: list[fixtures.Item], wish: Wish, rate: float) -> Course:
    """Create the pods, wait for all of them, wait for quiet."""
    client = stand.client
    before = await stand.look()
    await client.create(items, rate=rate)
    created_s = max(client.sent[item.name] for item in items) - client.sent[items[0].name]
    lost = await client.until_bound((item.name for item in items), wish.timeout_s)
    await usage.until_quiet(stand.contender.pids)
    course = await stand.course(name, before, len(items), len(items))
    bound = [item.name for item in items if item.name in client.bound]
    took_s = max((client.bound[pod] for pod in bound), default=0.0) - client.sent[items[0].name]
    course.unbound = len(lost)
    course.pods_per_s = len(bound) / took_s if bound else 0.0
    course.created_per_s = len(items) / created_s if created_s else 0.0
    course.p50_ms, course.p99_ms = latencies([client.bound[pod] - client.sent[pod] for pod in bound])
    return course


class _Look(NamedTuple):
    use: dict[str, usage.Use]
    calls: Counter[str]


class _Stand:
    """Where the looks are taken from."""

    def __init__(self, server: KubeServer, client: Client, contender: Contender) -> None:
        self.client = client
        self.contender = contender
        self._server = server

    async def look(self) -> _Look:
        """Counters and clocks now; the API server's own first, since asking for them costs."""
        counted = calls.calls_of(await self.client.raw("/metrics"))
        return _Look(self._uses(), counted)

    def _uses(self) -> dict[str, usage.Use]:
        servers = {daemon.name: daemon.pid for daemon in (self._server.api, self._server.etcd)}
        return {**usage.uses({**self.contender.pids(), **servers}), "load client": usage.own_use()}

    async def course(self, name: str, before: _Look, pods: int, created: int) -> Course:
        """What has been used since."""
        use = usage.spent(before.use, self._uses())
        counted = calls.calls_of(await self.client.raw("/metrics"))
        ours = {each: use[each] for each in self.contender.pids() if each in use}
        return Course(
            name=name,
            pods=pods,
            contender_cpu_ms=1000 * sum(each.cpu_s for each in ours.values()) / pods,
            contender_peak_mib=sum(each.peak_bytes for each in ours.values()) / 2**20,
            cpu_ms={each: round(1000 * used.cpu_s / pods, 3) for each, used in use.items()},
            peak_mib={each: round(used.peak_bytes / 2**20) for each, used in use.items()},
            calls=calls.per_pod(before.calls, counted, pods, Counter({"POST pods": created})),
        )


@asynccontextmanager
async def _field(wish: Wish) -> AsyncIterator[tuple[KubeServer, Client]]:
    """Fresh servers with the nodes in them."""
    with KubeServer() as server:  # blocks the loop, in which nothing runs yet
        async with Client(server.url, server.admin_token, server.tls) as client:
            await client.create(fixtures.namespaces())
            names = {item.name for item in fixtures.crds()}
            await client.create(fixtures.crds())
            await _until_established(client, names)
            await client.create(fixtures.nodes(wish.nodes))
            yield server, client


async def _until_established(client: Client, names: set[str]) -> None:
    async with asyncio.timeout(CRDS_READY_TIMEOUT_S):
        while names:
            listed = await client.json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            for crd in listed["items"]:
                conditions = crd.get("status", {}).get("conditions") or []
                if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
                    names.discard(crd["metadata"]["name"])
            await asyncio.sleep(0.2)


async def _all_bound(client: Client, names: list[str], wish: Wish) -> None:
    lost = await client.until_bound(names, wish.timeout_s)
    if lost:
        raise BrokenError(
            f"{len(lost)} of {len(names)} warm-up pods were not bound within {wish.timeout_s:g} s: {lost[:3]}"
        )


async def _judge(client: Client) -> None:
    """Raises BrokenError when a node holds more than it has. Outside of what is measured."""
    wrong = fixtures.overfull(await client.json("/api/v1/nodes"), await client.json("/api/v1/namespaces/race/pods"))
    if wrong:
        raise BrokenError("; ".join(wrong[:5]))
