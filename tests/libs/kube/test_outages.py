"""Reflectors of one process come back together after an outage, and storm nobody."""

import asyncio
import heapq
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest

from berth.contracts.kube import AnyObject
from berth.kube import ELASTIC_QUOTAS, PODS, Answer, Handler, KubeApi, Outages, Reflector, Resource, Selection
from berth.kube.outages import AFTER_S, HURRIES_MAX, Reach

REFUSED = Answer(0, b"", "ClientConnectorError: connection refused")
DOWN = Answer(503, b"", "Down")


class Clock:
    """Time goes on when it is told to, from one sleeper's end to the next."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self._count += 1
        waker = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time_s + seconds, self._count, waker))
        await waker

    async def go_on(self, seconds: float = 0.0) -> None:
        until_s = self.time_s + seconds
        await self._rest()
        while self._sleepers and self._sleepers[0][0] <= until_s:
            self.time_s, _, waker = heapq.heappop(self._sleepers)
            if not waker.done():
                waker.set_result(None)
                await self._rest()
        self.time_s = until_s

    async def _rest(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


class Server:
    """Up or down as a whole, except for kinds that have an answer of their own. Says nothing unless told to."""

    def __init__(self, clock: Clock) -> None:
        self.down: Answer | None = None
        self.own: dict[str, Answer] = {}
        self.tries: list[tuple[float, str]] = []
        self.version = 1
        self._clock = clock
        self._streams: dict[str, asyncio.Queue[bytes | Answer]] = {}

    async def page(self, selection: Selection, *, limit: int, token: str = "") -> Answer:
        name = selection.resource.plural
        problem = self._tried(name)
        if problem is not None:
            return problem
        return Answer(200, b'{"kind":"List","metadata":{"resourceVersion":"%d"},"items":[]}' % self.version)

    async def discover(self, path: str) -> Answer:
        return self.down or Answer(0, b"", "NotAsked")

    async def watch(
        self, selection: Selection, *, version: int, stream_s: int, idle_s: float
    ) -> AsyncGenerator[bytes | Answer, None]:
        name = selection.resource.plural
        problem = self._tried(name)
        if problem is not None:
            yield problem
            return
        queue = self._streams[name] = asyncio.Queue()
        while True:
            line = await queue.get()
            yield line
            if isinstance(line, Answer):
                return

    def _tried(self, name: str) -> Answer | None:
        self.tries.append((self._clock.time_s, name))
        return self.own.get(name, self.down)

    def say(self, resource: Resource) -> None:
        """Something of this kind happens."""
        self.version += 1
        meta = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": str(self.version)}
        event = {"type": "ADDED", "object": {"metadata": meta}}
        self._streams[resource.plural].put_nowait(msgspec.json.encode(event))

    def go_down(self, how: Answer) -> None:
        self.down = how
        for queue in self._streams.values():
            queue.put_nowait(Answer(0, b"", "ClientPayloadError: cut"))

    def tries_of(self, resource: Resource, since_s: float = 0.0) -> list[float]:
        return [at for at, name in self.tries if name == resource.plural and at >= since_s]


@asynccontextmanager
async def following(
    server: Server, clock: Clock, *resources: Resource, shared: bool = True
) -> AsyncIterator[list[Reflector[AnyObject]]]:
    outages = Outages()
    reflectors = [
        Reflector(
            cast(KubeApi, server),
            Selection(resource),
            AnyObject,
            Handler[AnyObject](),
            clock=clock,
            rng=random.Random(seed),
            outages=outages if shared else None,
        )
        for seed, resource in enumerate(resources)
    ]
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    await clock.go_on()
    yield reflectors
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def slow() -> Clock:
    return Clock()


@pytest.fixture
def api(slow: Clock) -> Server:
    return Server(slow)


async def back_after(api: Server, slow: Clock, *, shared: bool, how: Answer = REFUSED) -> float:
    """How long after the first pod event behind an outage the quotas are asked for again, their pause being long."""
    async with following(api, slow, PODS, ELASTIC_QUOTAS, shared=shared):
        api.own[ELASTIC_QUOTAS.plural] = how
        api.go_down(how)
        await slow.go_on(120.0)
        api.down, began_s = None, slow.time_s
        while not api.tries_of(PODS, began_s):
            await slow.go_on(0.05)
        api.own.clear()
        api.say(PODS)
        said_s = slow.time_s
        while not api.tries_of(ELASTIC_QUOTAS, said_s):
            await slow.go_on(0.05)
        return api.tries_of(ELASTIC_QUOTAS, said_s)[0] - said_s


@pytest.mark.parametrize("how", [REFUSED, Answer(0, b"", "Timeout")], ids=["refused", "timeout"])
async def test_the_first_that_gets_through_brings_the_others_back(api: Server, slow: Clock, how: Answer) -> None:
    assert await back_after(api, slow, shared=True, how=how) <= AFTER_S


async def test_without_sharing_a_pause_lasts(api: Server, slow: Clock) -> None:
    assert await back_after(api, slow, shared=False) > 1.0


@pytest.mark.parametrize(
    "own",
    [
        Answer(429, b"", "TooManyRequests", 5.0),
        Answer(404, b"", "NotFound"),
        Answer(403, b"", "Forbidden"),
        Answer(503, b"", "Down", 20.0),
        Answer(0, b"", "ResponseTooLarge"),
    ],
    ids=lambda answer: f"{answer.status}-{answer.reason}",
)
async def test_a_pause_with_another_cause_is_not_cut_short(api: Server, slow: Clock, own: Answer) -> None:
    """Whatever else goes on: the same tries at the same times as by itself."""

    async def tries(server: Server, clock: Clock, *, shared: bool) -> list[float]:
        server.own[ELASTIC_QUOTAS.plural] = own
        async with following(server, clock, PODS, ELASTIC_QUOTAS, shared=shared):
            for _ in range(20):
                server.go_down(REFUSED)
                await clock.go_on(1.0)
                server.down = None
                await clock.go_on(10.0)
                server.say(PODS)
                await clock.go_on(2.0)
        return server.tries_of(ELASTIC_QUOTAS)

    other = Clock()
    alone = await tries(Server(other), other, shared=False)
    assert len(alone) > 3
    assert await tries(api, slow, shared=True) == alone


async def test_a_list_that_is_answered_ends_an_outage_too(api: Server, slow: Clock) -> None:
    api.down = DOWN
    async with following(api, slow, PODS, ELASTIC_QUOTAS) as (pods, quotas):
        await slow.go_on(100.0)
        assert not pods.listed.is_set()
        api.down = None
        while not (pods.listed.is_set() or quotas.listed.is_set()):
            await slow.go_on(0.05)
        await slow.go_on(AFTER_S + 0.05)
        assert pods.listed.is_set()
        assert quotas.listed.is_set()


@pytest.mark.parametrize(
    "told", [Answer(410, b"", "Expired"), Answer(429, b"", "TooManyRequests", 1.0), Answer(404, b"", "NotFound")]
)
async def test_who_is_answered_again_backs_off_from_the_beginning(api: Server, slow: Clock, told: Answer) -> None:
    """A server that starts says so for a while; the length of the outage before that is no reason to come late."""
    async with following(api, slow, ELASTIC_QUOTAS):
        api.go_down(REFUSED)
        await slow.go_on(600.0)
        api.down, began_s = told, slow.time_s
        while not api.tries_of(ELASTIC_QUOTAS, began_s):
            await slow.go_on(0.05)
        answered_s = slow.time_s
        await slow.go_on((told.retry_after_s or 0.0) + 0.25)
        assert len(api.tries_of(ELASTIC_QUOTAS, answered_s - 0.05)) >= 2


async def test_a_version_that_is_too_old_ends_an_outage_too(api: Server, slow: Clock) -> None:
    async with following(api, slow, PODS, ELASTIC_QUOTAS):
        api.own[ELASTIC_QUOTAS.plural] = REFUSED
        api.go_down(REFUSED)
        await slow.go_on(120.0)
        api.down, began_s = Answer(410, b"", "Expired"), slow.time_s
        while not api.tries_of(PODS, began_s):
            await slow.go_on(0.01)
        said_s = slow.time_s
        await slow.go_on(AFTER_S)
        assert api.tries_of(ELASTIC_QUOTAS, said_s - 0.01)


@pytest.mark.parametrize(("status", "ends"), [(401, 0), (403, 0), (429, 0), (404, 1), (410, 1)])
async def test_a_server_that_only_puts_off_is_not_back_yet(slow: Clock, status: int, ends: int) -> None:
    outages = Outages()
    reach = Reach(outages, slow)
    waiting = asyncio.create_task(reach.pause(1.0))
    await slow.go_on(1.0)
    await waiting
    reach.refused(Answer(status))
    assert outages.ended == ends


async def test_back_off_begins_again_once_until_something_was_read(slow: Clock) -> None:
    reach, told = Reach(Outages(), slow), Answer(429, b"", "TooManyRequests", 1.0)

    async def unanswered() -> None:
        waiting = asyncio.create_task(reach.pause(1.0))
        await slow.go_on(1.0)
        await waiting

    assert not reach.refused(told)
    await unanswered()
    assert not reach.refused(DOWN)
    assert [reach.refused(told) for _ in range(3)] == [True, False, False]
    await unanswered()
    assert not reach.refused(told)
    reach.through()
    await unanswered()
    assert reach.refused(told)


async def test_an_end_while_the_next_try_is_under_way_counts(slow: Clock) -> None:
    outages = Outages()
    reach = Reach(outages, slow)
    reach.trying()
    outages.end()
    waiting = asyncio.create_task(reach.pause(30.0))
    await slow.go_on(AFTER_S)
    assert waiting.done()


async def test_nobody_hurries_on_its_own_word(slow: Clock) -> None:
    """A server that answers the first page and never the second is asked no more often than one that is down."""
    reach = Reach(Outages(), slow)
    tries = 0

    async def list_in_vain() -> None:
        nonlocal tries
        while True:
            tries += 1
            reach.trying()
            reach.through()
            await reach.pause(10.0)

    task = asyncio.create_task(list_in_vain())
    await slow.go_on(100.0)
    task.cancel()
    assert tries == 11


async def test_after_a_few_hurries_in_vain_a_pause_lasts_its_time(slow: Clock) -> None:
    outages = Outages()
    reach = Reach(outages, slow)
    for expected in [*[True] * HURRIES_MAX, False] * 2:
        reach.trying()
        waiting = asyncio.create_task(reach.pause(30.0))
        await slow.go_on()
        outages.end()
        await slow.go_on(AFTER_S)
        assert waiting.done() is expected
        await slow.go_on(30.0)
        assert waiting.done()


async def test_getting_through_starts_the_hurries_anew(slow: Clock) -> None:
    outages = Outages()
    reach = Reach(outages, slow)
    for _ in range(3 * HURRIES_MAX):
        reach.trying()
        waiting = asyncio.create_task(reach.pause(30.0))
        await slow.go_on()
        outages.end()
        await slow.go_on(AFTER_S)
        assert waiting.done()
        reach.through()


async def test_kinds_that_keep_failing_do_not_drive_each_other(api: Server, slow: Clock) -> None:
    """Every list is answered, every watch fails: no more requests than a few times those without sharing."""

    class HalfUp(Server):
        async def page(self, selection: Selection, *, limit: int, token: str = "") -> Answer:
            self.down = None
            answer = await super().page(selection, limit=limit, token=token)
            self.down = Answer(502, b"", "Bad Gateway")
            return answer

    counts = []
    for shared in (False, True):
        clock = Clock()
        server = HalfUp(clock)
        server.down = Answer(502, b"", "Bad Gateway")
        async with following(server, clock, *[PODS, ELASTIC_QUOTAS] * 6, shared=shared):
            await clock.go_on(600.0)
        counts.append(len(server.tries))
    assert counts[1] <= 4 * counts[0]


async def test_whoever_stops_in_its_pause_leaves_nothing_behind(slow: Clock) -> None:
    outages = Outages()
    waiting = asyncio.create_task(outages.pause(slow, 30.0))
    await slow.go_on()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    outages.end()
    assert outages._pauses == {}
