"""The way from one client to the simulated API server: `berth.kube.port.Transport` without sockets.

Requests and answers take their time each way and do not wait for each other; what was sent is carried out though its
sender may be dead by then. A watch is a stream: its lines keep their order, and come in bursts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from berth.kube.answer import TOO_LARGE, Answer
from berth.kube.client import Kube
from berth.kube.settings import KubeSettings
from berth.simcluster.http.target import Target, parse_target
from berth.simcluster.http.watch import Watcher
from berth.simcluster.store import Path
from berth.simcluster.store.collection import event_line
from berth.simcluster.store.objects import encode
from berth.simcluster.store.status import failure
from berth.simcluster.verbs import timeout_s, verb_of
from berth.testing.simulation.kube_faults import Fate
from berth.testing.simulation.kube_server import DISCOVER, SimKube
from berth.testing.simulation.process import Process
from berth.testing.simulation.scheduling import Cancellable, Scheduler, WorldScheduler
from berth.testing.simulation.world import World

TIMED_OUT: Final = Answer(0, b"", "Timeout")
BROKEN: Final = Answer(0, b"", "ServerDisconnectedError")
REFUSED: Final = Answer(0, b"", "ClientConnectorError: connection refused")
ENDED: Final = Answer(200, b"", "EndOfStream")
_NO_PATH: Final = Answer(404, b"", "NotFound")
_KEPT_TRYING: Final = 0.5
"""Of requests sent into silence: how many still arrive once it is over, whatever became of their sender."""


class SimTransport:
    """One client of the server. `inside` schedules in the client's process; `name` says who it is."""

    def __init__(self, server: SimKube, name: str, inside: Scheduler, settings: KubeSettings) -> None:
        self.server = server
        self.name = name
        self.inside = inside
        self.settings = settings
        self._limit = asyncio.Semaphore(settings.connections)
        self._waiting: dict[asyncio.Future[Answer], None] = {}
        self._flows: dict[_Flow, None] = {}

    async def close(self) -> None:
        """Close every connection; what waits for an answer gets none, streams end."""
        for waiter in list(self._waiting):
            _settle(waiter, BROKEN)
        for flow in list(self._flows):
            flow.finish(BROKEN)

    def break_off(self) -> None:
        """The process is no more: the server notices that its connections are gone. For outside of it."""
        for flow in list(self._flows):
            flow.leave()

    async def send(
        self,
        verb: str,
        method: str,
        label: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """See `berth.kube.port.Transport`."""
        target = Target(Path("", "", "", "", path), {}) if verb == DISCOVER else _target(path, params)
        if target is None:
            return _NO_PATH
        asked = DISCOVER if verb == DISCOVER else verb_of(method, target)
        answer = TIMED_OUT
        try:
            async with asyncio.timeout(self.settings.timeout_s), self._limit:
                answer = await self._exchange(asked, target, body or b"", content_type)
        except TimeoutError:
            pass
        self.server.requests[asked, target.path.plural, answer.status] += 1
        return answer

    async def _exchange(self, verb: str, target: Target, body: bytes, content_type: str) -> Answer:
        server = self.server
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            fate = server.draw(verb, target, self.name)
            there_s: float | None = fate.there_s
            away = server.away(self.name)
            if away is not None and away.how == "refused":
                self.inside.later(fate.there_s, _settle, waiter, REFUSED)
                there_s = None
            elif away is not None and away.how == "silent":
                late_s = away.until_s - self.inside.now() + fate.there_s
                there_s = late_s if server.chance() < _KEPT_TRYING else None
            if there_s is not None:
                server.scheduler.later(there_s, self._arrive, waiter, verb, target, body, content_type, fate)
            return await waiter
        finally:
            del self._waiting[waiter]

    def _arrive(
        self, waiter: asyncio.Future[Answer], verb: str, target: Target, body: bytes, content_type: str, fate: Fate
    ) -> None:
        """A request has reached the server, outside of every process."""
        server, back_s = self.server, fate.back_s
        away = server.away(self.name)
        if (away is not None and away.how == "refused") or fate.mishap == "lost":
            answer = BROKEN
        else:
            answer = server.serve(verb, target, body, content_type, fate)
            if fate.mishap == "lost-after":
                answer = BROKEN
        if fate.times_out and answer is BROKEN:
            return
        if away is not None and away.how != "refused":
            back_s += away.until_s - server.scheduler.now()
        if len(answer.body) > self.settings.page_bytes_max:
            answer = Answer(0, b"", TOO_LARGE)
        elif answer.ok:
            answer = answer._replace(reason=HTTPStatus(answer.status).phrase)
        self.inside.later(back_s, _settle, waiter, answer)

    async def stream(
        self, label: str, path: str, *, params: Mapping[str, str], idle_s: float
    ) -> AsyncGenerator[bytes | Answer, None]:
        """See `berth.kube.port.Transport`."""
        target = _target(path, params)
        if target is None:
            yield _NO_PATH
            return
        flow = _Flow(self, target)
        self._flows[flow] = None
        end: Answer | None = None
        try:
            flow.start()
            while end is None:
                await flow.something(idle_s if flow.began else self.settings.timeout_s)
                lines = 0
                while flow.lines:
                    line = flow.lines.popleft()
                    lines += 1
                    if len(line) > self.settings.line_bytes_max:
                        flow.end = Answer(
                            0, b"", f"{TOO_LARGE}: line of more than {self.settings.line_bytes_max} bytes"
                        )
                        flow.lines.clear()
                        break
                    yield line
                end = flow.end
                if end is None and (rest_s := self.settings.rest_s(lines)) > 0:
                    await asyncio.sleep(rest_s)
        finally:
            flow.leave()
            self._flows.pop(flow, None)
        yield end


class _Flow:
    """One watch, from both ends."""

    def __init__(self, transport: SimTransport, target: Target) -> None:
        self.lines: deque[bytes] = deque()
        self.end: Answer | None = None
        self.began = False
        """Whether the server's word that the watch has begun has come."""
        self._transport = transport
        self._server = transport.server
        self._target = target
        self._watcher: Watcher | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timers: list[Cancellable] = []
        self._on_way = False
        self._left = False
        self._silent = False
        self._lag_s = 0.0

    # --- the client's end ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Ask the server."""
        server, name = self._server, self._transport.name
        away = server.away(name)
        if away is not None and away.how == "refused":
            self._transport.inside.later(server.delay(), self.finish, REFUSED)
        elif away is None or away.how == "answers":
            server.scheduler.later(server.delay(), self._open)

    async def something(self, idle_s: float) -> None:
        """Return when it began, or there are lines or the end; silence for `idle_s` is the end."""
        if self.lines or self.end is not None:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(idle_s):
                await self._waiter
        except TimeoutError:
            if not self.lines:
                self.finish(TIMED_OUT)

    def finish(self, end: Answer) -> None:
        """This is how it ended."""
        if self.end is None:
            self.end = end
        self._wake()

    def leave(self) -> None:
        """The connection is closed, by whichever end."""
        self._left = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.on_lines = None
            self._server.close(watcher, self._transport.name, self._cut)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _arrive(self) -> None:
        """A burst of lines has come, inside the client's process."""
        self._on_way = False
        self.began = True
        watcher = self._watcher
        if watcher is None or self._silent or self.end is not None:
            return
        away = self._server.away(self._transport.name)
        if away is not None:
            self._send_later(away.until_s - self._server.scheduler.now())
            return
        self.lines.extend(line[:-1] for line in watcher.take())
        if watcher.closed:
            self.finish(ENDED)
        self._wake()

    # --- the server's end, outside of every process -------------------------------------------------------------------

    def _open(self) -> None:
        if self._left:
            return
        server, transport = self._server, self._transport
        fate = server.draw_stream(self._target)
        self._lag_s = fate.lag_s
        if fate.gone:
            body = failure(410, "Expired", "too old resource version: it was compacted")
            transport.inside.later(server.delay(), self._gone, event_line("ERROR", encode(body))[:-1])
            return
        opened = server.open(self._target, transport.name, self._cut)
        if isinstance(opened, Answer):
            transport.inside.later(server.delay(), self.finish, opened)
            return
        away = server.away(transport.name)
        late_s = 0.0 if away is None else away.until_s - server.scheduler.now()
        transport.inside.later(server.delay() + late_s, self._begin)
        self._watcher = opened
        opened.on_lines = self._lines_wait
        later = server.scheduler.later
        if seconds := timeout_s(self._target):
            self._timers.append(later(seconds, opened.close))
        if fate.ends:
            ending = {"cut": self._cut, "ended": opened.close, "silent": self._fall_silent}[fate.ends]
            self._timers.append(later(fate.life_s, ending))
        self._lines_wait()

    def _begin(self) -> None:
        self.began = True
        self._wake()

    def _gone(self, line: bytes) -> None:
        self.lines.append(line)
        self.finish(ENDED)

    def _lines_wait(self) -> None:
        if self._silent and self._watcher is not None:
            self._watcher.take()
        elif not self._on_way:
            self._send_later(0.0)

    def _send_later(self, more_s: float) -> None:
        self._on_way = True
        self._transport.inside.later(self._server.delay() + self._lag_s + more_s, self._arrive)

    def _fall_silent(self) -> None:
        self._silent = True

    def _cut(self) -> None:
        """What was on its way is lost."""
        if not self._left:
            self.leave()
            self._transport.inside.later(self._server.delay(), self.finish, BROKEN)


def connector(server: SimKube, world: World, process: Process) -> Callable[[KubeSettings, object], Awaitable[Kube]]:
    """`Context.connect_kube` of a simulated process: its connections break when it ends."""
    inside = WorldScheduler(world, process)

    async def connect(settings: KubeSettings, clock: object) -> Kube:
        transport = SimTransport(server, process.name, inside, settings)
        process.on_end(lambda _: transport.break_off())
        return Kube(transport, f"simulated://{process.name}")

    return connect


def _target(path: str, params: Mapping[str, str] | None) -> Target | None:
    target = parse_target(path)
    return target if target is None or not params else target._replace(query=dict(params))


def _settle(waiter: asyncio.Future[Answer], answer: Answer) -> None:
    if not waiter.done():
        waiter.set_result(answer)
