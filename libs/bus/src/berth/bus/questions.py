"""Questions and answers: NATS micro services that answer, and callers that ask one instance or all of them.

Every verb listens twice: on `berth.v1.svc.<service>.<verb>` one instance of the service answers, on the same subject
with `.all` behind it each one does. For reading only: an answer may be lost, a question asked twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Mapping

import nats.micro
from nats.errors import Error as NatsError
from nats.micro.request import ERROR_CODE_HEADER, ERROR_HEADER, Request

from berth.bus import headers as h
from berth.bus import metrics
from berth.bus.client import BusClient, Delivery
from berth.bus.connecting import barrier
from berth.bus.errors import Disconnected, InvalidMessage, NoAnswer, RemoteError
from berth.bus.link import Link
from berth.bus.logs import FieldLogger
from berth.bus.port import Endpoint
from berth.bus.tasks import end_tasks
from berth.contracts.subjects import question_subject

log = FieldLogger(__name__)

ALL = ".all"
AT_ONCE = 16
"""Questions that one endpoint works on at the same time; more wait."""
ANSWERS_MAX = 10_000
TIMEOUT_S = 30.0
"""A handler that takes longer is given up; nobody waits for its answer any more."""


async def serve(link: Link, service: str, version: str, endpoints: Mapping[str, Endpoint]) -> Service:
    """Answer from now on, on every connection."""
    running = Service(link, service, version, endpoints)
    await link.on_connect(running.attach)
    return running


class Service:
    """A micro service that is registered anew with every connection."""

    def __init__(self, link: Link, name: str, version: str, endpoints: Mapping[str, Endpoint]) -> None:
        self._link = link
        self._name = name
        self._version = version
        self._endpoints = endpoints
        self._instance = link.token()
        self._limits = {verb: asyncio.Semaphore(AT_ONCE) for verb in endpoints}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def attach(self, client: BusClient) -> None:
        """Register on this connection."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the client library's naive timestamps
            service = await nats.micro.add_service(client, name=self._name, version=self._version)
        for verb in self._endpoints:
            subject = question_subject(self._name, verb)
            for name, at, queue in ((verb, subject, "q"), (f"{verb}-all", subject + ALL, self._instance)):
                await service.add_endpoint(name=name, subject=at, queue_group=queue, handler=self._handler(verb))
        await barrier(client, 5)  # a caller that waited for this may ask at once

    async def stop(self) -> None:
        """Give up the answers under way."""
        await end_tasks(list(self._tasks))

    def _handler(self, verb: str):  # type: ignore[no-untyped-def]  # the library names no type for it
        async def handle(request: Request) -> None:
            # A task of its own: the library would work on one question at a time.
            await self._limits[verb].acquire()
            task = asyncio.create_task(self._answer(verb, request), name=f"bus-answer-{verb}")
            self._tasks[task] = None
            task.add_done_callback(lambda task: self._tasks.pop(task, None))
            task.add_done_callback(lambda _: self._limits[verb].release())

        return handle

    async def _answer(self, verb: str, request: Request) -> None:
        outcome = "answered"
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._endpoints[verb](request.data)
            if answer is None:
                outcome = "left to others"
            else:
                with contextlib.suppress(NatsError, OSError, ValueError):
                    await request.respond(answer)
        except (InvalidMessage, ValueError) as error:
            outcome = "bad question"
            await _refuse(request, "400", str(error))
        except Exception:
            outcome = "failed"
            log.exception("cannot answer a question", service=self._name, verb=verb)
            await _refuse(request, "500", f"{self._name} failed to answer; its log says why")
        metrics.QUESTIONS.labels(self._name, verb, outcome).inc()


async def _refuse(request: Request, code: str, text: str) -> None:
    with contextlib.suppress(NatsError, OSError, ValueError):
        await request.respond_error(code, text.encode("ascii", "backslashreplace").decode()[:1000] or "refused")


async def ask(link: Link, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
    """One answer. Raises NoAnswer, TimedOut, RemoteError, Denied, Disconnected."""
    return _read(await link.request(subject, payload, timeout_s=timeout_s))


async def ask_all(link: Link, subject: str, payload: bytes, *, wait_s: float) -> list[bytes]:
    """Every good answer within `wait_s` seconds; returns early when nobody listens."""
    answers: list[bytes] = []
    done = asyncio.Event()

    def receive(msg: Delivery) -> None:
        try:
            answers.append(_read(msg))
        except NoAnswer:
            done.set()
        except RemoteError as error:
            log.warning("an answer is left out", subject=subject, error=str(error))
        if len(answers) >= ANSWERS_MAX:
            done.set()

    inbox = link.new_inbox()
    subscription = await link.subscribe(inbox, receive)
    try:
        await link.publish(subject + ALL, payload, reply=inbox)
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(wait_s):
                await done.wait()
    finally:
        with contextlib.suppress(Disconnected):
            await subscription.unsubscribe()
    return answers


def _read(msg: Delivery) -> bytes:
    headers = msg.headers
    if not msg.data and headers.get(h.STATUS) == h.NO_RESPONDERS:
        raise NoAnswer(f"nobody listens: {msg.subject}")
    if ERROR_HEADER in headers or ERROR_CODE_HEADER in headers:
        raise RemoteError(headers.get(ERROR_CODE_HEADER, "500"), headers.get(ERROR_HEADER, ""))
    return bytes(msg.data)
