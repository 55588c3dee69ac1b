"""The race itself: the same courses for each contender, each contender on servers of its own.

1. Backlog: the contender has bound some pods already; then what decides is stopped (kube-scheduler; Berth's
   placement-solver), all pods are created, and it is started again. The rate is between the first and the last bind, so
   that starting does not count.
2. Rush: pods are created as fast as the client can, the contender running. The rate is pods by the time from the first
   creation sent to the last bind seen. Where client, servers and contender share few cores, they slow each other, and
   the rate says what all of them can do together.
3. Steady: pods come at a fixed rate; create to bound.
4. First start: on fresh servers all pods are created first, then all of the contender is started for the first time.
   The rate is as in the first course.
5. Kills (Berth alone): pods come at a fixed rate while each of its processes, the bus included, is killed once with
   SIGKILL, one after the other. All have to be bound in the end.
6. Preemption: every node is full of pods of low priority; pods of high priority come as fast as the client can create
   them. The rate is as in the second course; who had to leave is counted at the API server.

CPU and calls count from the first creation until the contender's processes are quiet again: what goes out behind the
binds (Events, tidying) is paid for as well, in the first course also what the services that stay do while the pods are
created. What a process that comes back uses until the first bind is its start, and is shown apart.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import calls
import fixtures
import spans
import usage
from client import Client
from contenders import Contender
from figures import Course, latencies, rate_between

from berth.testing.kube_server import KubeServer

WARM_PODS = 50
SETTLE_TIMEOUT_S = 120.0
"""For what a contender does once, at its first start in a cluster; it is not part of any course."""
CRDS_READY_TIMEOUT_S = 30.0
FIRST_BIND_POLL_S = 0.01
KILLS_RATE = 150.0
"""Pods a second while processes are killed: less than what can be bound, so that every kill meets pods on their way."""


class RaceOptions(NamedTuple):
    """Sizes of a race."""

    nodes: int
    pods: int
    rate: float
    seconds: float
    timeout_s: float
    rush: bool
    first_start: bool
    kills: bool
    shape: str
    preemptors: int
    backlog: bool = True
    spans: bool = False


class BrokenError(Exception):
    """The contender did something that no scheduler may."""


async def on_warm(contender: Contender, options: RaceOptions) -> list[Course]:
    """Courses 1 to 3, one after the other in the same cluster."""
    async with _field(options) as (server, client):
        try:
            contest = await _warm(server, client, contender, options)
            courses = [await _backlog(contest, options)] if options.backlog else []
            if options.rush:
                rush = list(fixtures.pods("rush", options.pods, contender.scheduler, options.shape))
                courses.append(await _run("rush", contest, rush, 0.0, options))
            if count := int(options.rate * options.seconds):
                steady = list(fixtures.pods("steady", count, contender.scheduler, options.shape))
                courses.append(await _steady(contest, steady, options))
            if options.kills and contender.killable():
                doomed = list(fixtures.pods("kills", options.pods, contender.scheduler, options.shape))
                courses.append(await _killed(contest, doomed, options))
            await _judge(client, options.shape)
        finally:
            await contender.stop()
    return courses


async def first_start(contender: Contender, options: RaceOptions) -> Course:
    """Course 4."""
    async with _field(options) as (server, client):
        try:
            items = list(fixtures.pods("first", options.pods, contender.scheduler, options.shape))
            await client.create(items)
            contest = _Contest(server, client, contender)
            before = await contest.look()
            await contender.start(server)
            course = await _end("first start", contest, before, items, options)
            await _judge(client, options.shape)
        finally:
            await contender.stop()
    return course


async def preemption(contender: Contender, options: RaceOptions) -> Course:
    """Course 6."""
    async with _field(options) as (server, client):
        try:
            low = list(fixtures.low_pods(options.nodes))
            await client.create([fixtures.priority_class(), *low])
            contest = await _warm(server, client, contender, options)
            items = list(fixtures.high_pods(options.preemptors, contender.scheduler))
            course = await _run("preemption", contest, items, 0.0, options)
            course.victims = len({item.name for item in low} - await _standing(client))
            await _judge(client, fixtures.PLAIN)
        finally:
            await contender.stop()
    return course


async def _warm(server: KubeServer, client: Client, contender: Contender, options: RaceOptions) -> _Contest:
    """The contender, once it has been started, has bound some pods and is quiet."""
    await contender.start(server)
    warm = list(fixtures.pods("warm", WARM_PODS, contender.scheduler, options.shape))
    await client.create(warm)
    await _all_bound(client, [item.name for item in warm], options)
    await usage.until_quiet(contender.pids, SETTLE_TIMEOUT_S)
    return _Contest(server, client, contender)


async def _standing(client: Client) -> set[str]:
    """Pods that nobody has asked to leave."""
    pods = (await client.json("/api/v1/namespaces/race/pods"))["items"]
    return {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


async def _steady(contest: _Contest, items: list[fixtures.Item], options: RaceOptions) -> Course:
    url = contest.contender.bus_url()
    if not (options.spans and url):
        return await _run("steady", contest, items, options.rate, options)
    async with spans.watched(url, contest.client) as seen:
        course = await _run("steady", contest, items, options.rate, options)
    course.spans = seen.table()
    return course


async def _backlog(contest: _Contest, options: RaceOptions) -> Course:
    """The contender's own work counts from the creations; the servers' from the end of them."""
    items = list(fixtures.pods("backlog", options.pods, contest.contender.scheduler, options.shape))
    await contest.contender.leave()
    others = await contest.look()
    await contest.client.create(items)
    await usage.until_quiet(contest.contender.pids, SETTLE_TIMEOUT_S)
    servers = await contest.look()
    staying = {name: use for name, use in others.use.items() if name in contest.contender.pids()}
    await contest.contender.come_back(contest.server)
    await _any_bound(contest.client, items, options)
    back = {name: pid for name, pid in contest.contender.pids().items() if name not in staying}
    start = usage.uses(back)
    course = await _end("backlog", contest, _Look({**servers.use, **staying, **start}, servers.calls), items, options)
    course.start_cpu_s = sum(use.cpu_s for use in start.values())
    return course


async def _any_bound(client: Client, items: list[fixtures.Item], options: RaceOptions) -> None:
    names = {item.name for item in items}
    deadline = time.monotonic() + options.timeout_s
    while names.isdisjoint(client.bound) and time.monotonic() < deadline:
        await asyncio.sleep(FIRST_BIND_POLL_S)


async def _killed(contest: _Contest, items: list[fixtures.Item], options: RaceOptions) -> Course:
    """Processes are killed at even distances over the time of the creations."""
    names = contest.contender.killable()
    took_s = len(items) / KILLS_RATE

    async def kill() -> None:
        for name in names:
            await asyncio.sleep(took_s / (len(names) + 1))
            contest.contender.kill(name)

    killing = asyncio.create_task(kill())
    course = await _run("kills", contest, items, KILLS_RATE, options)
    await killing
    course.killed = names
    # Who was killed has taken its count of CPU along.
    course.contender_cpu_ms = 0.0
    course.cpu_ms = {name: used for name, used in course.cpu_ms.items() if name not in names}
    return course


async def _end(name: str, contest: _Contest, before: _Look, items: list[fixtures.Item], options: RaceOptions) -> Course:
    """Wait until all are bound and the contender is quiet: what it took, and the rate between the binds."""
    bound = contest.client.bound
    lost = await contest.client.until_bound((item.name for item in items), options.timeout_s)
    await usage.until_quiet(contest.contender.pids)
    course = await contest.course(name, before, len(items), 0)
    course.unbound = len(lost)
    course.pods_per_s = rate_between([bound[item.name] for item in items if item.name in bound])
    return course


async def _run(name: str, contest: _Contest, items: list[fixtures.Item], rate: float, options: RaceOptions) -> Course:
    """Create the pods, wait for all of them, wait for quiet."""
    client = contest.client
    before = await contest.look()
    await client.create(items, rate=rate)
    created_s = max(client.sent[item.name] for item in items) - client.sent[items[0].name]
    lost = await client.until_bound((item.name for item in items), options.timeout_s)
    await usage.until_quiet(contest.contender.pids)
    course = await contest.course(name, before, len(items), len(items))
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


class _Contest:
    """Where the looks are taken from."""

    def __init__(self, server: KubeServer, client: Client, contender: Contender) -> None:
        self.client = client
        self.contender = contender
        self.server = server

    async def look(self) -> _Look:
        """Counters and clocks now; the API server's own first, since asking for them costs."""
        counted = calls.calls_of(await self.client.raw("/metrics"))
        return _Look(self._uses(), counted)

    def _uses(self) -> dict[str, usage.Use]:
        servers = {daemon.name: daemon.pid for daemon in (self.server.api, self.server.etcd)}
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
async def _field(options: RaceOptions) -> AsyncIterator[tuple[KubeServer, Client]]:
    """Fresh servers with the nodes in them."""
    with KubeServer() as server:  # blocks the loop, in which nothing runs yet
        async with Client(server.url, server.admin_token, server.tls) as client:
            await client.create(fixtures.namespaces())
            names = {item.name for item in fixtures.crds()}
            await client.create(fixtures.crds())
            await _until_established(client, names)
            await client.create(fixtures.nodes(options.nodes))
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


async def _all_bound(client: Client, names: list[str], options: RaceOptions) -> None:
    lost = await client.until_bound(names, options.timeout_s)
    if lost:
        raise BrokenError(
            f"{len(lost)} of {len(names)} warm-up pods were not bound within {options.timeout_s:g} s: {lost[:3]}"
        )


async def _judge(client: Client, shape: str) -> None:
    """Raises BrokenError when a node holds more than it has, or a pod is where it must not be. Outside of what is
    measured."""
    nodes, pods = await client.json("/api/v1/nodes"), await client.json("/api/v1/namespaces/race/pods")
    wrong = fixtures.overfull(nodes, pods) + fixtures.misplaced(shape, nodes, pods)
    if wrong:
        raise BrokenError("; ".join(wrong[:5]))
