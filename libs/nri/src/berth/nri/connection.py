"""One connection to the runtime, from registration to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from google.protobuf.message import Message

from berth.nri import api_pb2 as api
from berth.nri import metrics
from berth.nri.core import ttrpc
from berth.nri.core.adjusting import creation_message, update_messages
from berth.nri.core.fault import Fault
from berth.nri.core.methods import EVENTS, REQUESTS, Event, decode, event_mask, unknown_fields
from berth.nri.core.session import PLUGIN_SERVICE, Answer, Call, Incoming, Passed, Refused, Session
from berth.nri.handler import Handler, Refusal, Runtime
from berth.nri.settings import PluginSettings

log = logging.getLogger(__name__)

READ_BYTES = 64 << 10
IN_FLIGHT_MAX = 64
"""Calls of the runtime that are answered at the same time; behind them reading stops."""
REQUEST_TIMEOUT_S = 2.0
"""How long a runtime waits that does not say."""
SHARE_OF_TIMEOUT = 0.75
"""A plugin that is late is thrown out: the answer goes after so much of the time, whatever the handler does."""
CLOSE_S = 1.0
"""For the runtime to take what was written last."""
REASON_MAX = 1024
"""Of a refusal, in characters."""
NEVER_FAILED = {"Configure", "Synchronize"}
"""An error in these would have the plugin thrown out, and no container is held back by them."""


class Connection:
    """Serves the runtime over one socket, and asks it. Made anew after each end."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        settings: PluginSettings,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._settings = settings
        self._session = Session()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._ended: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()
        self._configured = asyncio.Event()
        self._synchronized = asyncio.Event()
        self._timeout_s = REQUEST_TIMEOUT_S
        self.runtime: Runtime | None = None
        """Who has configured us; None before."""

    @property
    def is_ready(self) -> bool:
        """Whether the runtime has taken the plugin and sent its whole state."""
        return self._synchronized.is_set() and not self._ended.done()

    async def run(self) -> Fault:
        """Serve until the connection ends; why it did. The socket is closed then, and nothing runs on."""
        # Reading comes first: the runtime may ask before it has answered the registration.
        self._start(self._read())
        self._start(self._register())
        try:
            return await asyncio.shield(self._ended)
        finally:
            self._end(Fault("closed", "the plugin stops"))
            await self._close()

    async def ask(self, method: str, request: Message, timeout_s: float) -> Answer | Fault:
        """Call the runtime. No answer in time ends the connection: what became of the call is not known."""
        asked = self._session.ask(method, request.SerializeToString(), timeout_s)
        if isinstance(asked, Fault):
            return asked
        if self._ended.done():
            return self._ended.result()
        number, data = asked
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(data)
                await asyncio.wait((future, self._ended), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            self._end(Fault("deadline", f"{method}: no answer within {timeout_s:g} s"))
        finally:
            del self._waiting[number]
        return future.result() if future.done() else self._ended.result()

    async def _register(self) -> None:
        settings = self._settings
        request = api.RegisterPluginRequest(plugin_name=settings.name, plugin_idx=settings.index)
        answer = await self.ask("RegisterPlugin", request, settings.register_s)
        if isinstance(answer, Fault):
            self._end(answer)
        elif answer.code != ttrpc.OK:
            self._end(Fault("refused", f"RegisterPlugin: status {answer.code}: {answer.text[:200]}"))
        elif not await _within(settings.register_s, self._configured):
            self._end(Fault("deadline", f"Configure did not come within {settings.register_s:g} s"))
        elif not await _within(settings.synchronize_s, self._synchronized):
            self._end(Fault("deadline", f"Synchronize did not end within {settings.synchronize_s:g} s"))

    async def _read(self) -> None:
        while not self._ended.done():
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError as error:
                self._end(Fault("closed", f"reading: {error.strerror or type(error).__name__}"))
                return
            if not data:
                self._end(self._session.end())
                return
            for each in self._session.receive(data):
                await self._take(each)

    async def _take(self, incoming: Incoming) -> None:
        match incoming:
            case Call():
                await self._slots.acquire()
                self._start(self._serve(incoming))
            case Answer(call=number) if number in self._waiting:
                self._waiting[number].set_result(incoming)
            case Answer():
                metrics.PASSED.labels("answer").inc()
            case Refused(call=number, code=code, text=text):
                metrics.PASSED.labels("call").inc()
                await self._send(self._session.answer(number, code=code, text=text))
            case Passed(what=what):
                metrics.PASSED.labels(what).inc()
            case Fault():
                self._end(incoming)

    async def _serve(self, call: Call) -> None:
        started = asyncio.get_running_loop().time()
        try:
            if call.service != PLUGIN_SERVICE or call.method not in REQUESTS:
                metrics.CALLS.labels("unknown", "unknown").inc()
                log.warning("NRI: the runtime calls an unknown method %.100s/%.100s", call.service, call.method)
                text = f"unknown method {call.service[:100]}/{call.method[:100]}"
                await self._send(self._session.answer(call.call, code=ttrpc.UNIMPLEMENTED, text=text))
                return
            request = decode(call.method, call.payload)
            if isinstance(request, Fault):
                metrics.CALLS.labels(call.method, "malformed").inc()
                self._end(request)
                return
            if unknown := unknown_fields(request):
                metrics.UNKNOWN_FIELDS.labels(call.method).inc(unknown)
            outcome, answer = await self._answer(call, request)
            await self._send(answer)
            metrics.CALLS.labels(call.method, outcome).inc()
            metrics.CALL_SECONDS.labels(call.method).observe(asyncio.get_running_loop().time() - started)
            if isinstance(request, api.SynchronizeRequest) and not request.more:
                self._synchronized.set()
                metrics.CONNECTED.set(1)
            elif call.method == "Shutdown":
                self._end(Fault("shutdown", "the runtime asks the plugin to shut down"))
        finally:
            self._slots.release()

    async def _answer(self, call: Call, request: Message) -> tuple[str, bytes]:
        """Outcome and bytes; always in time, whatever the handler does."""
        within_s = SHARE_OF_TIMEOUT * min(self._timeout_s, call.timeout_s or self._timeout_s)
        try:
            async with asyncio.timeout(within_s):
                # What cannot be encoded raises here as well.
                payload = (await self._ask_handler(call.method, request)).SerializeToString()
        except TimeoutError:
            log.error("NRI: %s: the handler gave no answer within %.3f s", call.method, within_s)
            outcome, code, text = "late", ttrpc.DEADLINE_EXCEEDED, f"{call.method}: no answer within {within_s:.3f} s"
        except Refusal as refusal:
            if call.method not in NEVER_FAILED:
                reason = str(refusal)[:REASON_MAX]
                return "refused", self._session.answer(call.call, code=ttrpc.FAILED_PRECONDITION, text=reason)
            outcome, code, text = "failed", ttrpc.INTERNAL, f"{call.method}: nothing is refused there"
        except Exception as error:
            # The text of what was raised may quote a value, which may be secret.
            log.error("NRI: %s: the handler raised %s", call.method, type(error).__name__)
            outcome, code, text = "failed", ttrpc.INTERNAL, f"{call.method}: the plugin {self._settings.name} failed"
        else:
            return "answered", self._session.answer(call.call, payload)
        if self._settings.failure_policy == "Fail" and call.method not in NEVER_FAILED:
            return outcome, self._session.answer(call.call, code=code, text=text)
        return outcome, self._session.answer(call.call, self._nothing(request).SerializeToString())

    def _nothing(self, request: Message) -> Message:
        """The answer that changes nothing."""
        match request:
            case api.ConfigureRequest():
                return api.ConfigureResponse(events=event_mask(self._settings.events))
            case api.SynchronizeRequest():
                return api.SynchronizeResponse(more=request.more)
        return api.Empty()

    async def _ask_handler(self, method: str, request: Message) -> Message:
        handler = self._handler
        match request:
            case api.ConfigureRequest():
                await self._configure(request)
                return self._nothing(request)
            case api.SynchronizeRequest():
                updates = await handler.synchronize(request)
                # A part that is answered with updates, or as if it were the last, has the plugin thrown out.
                return api.SynchronizeResponse(
                    update=[] if request.more else update_messages(updates), more=request.more
                )
            case api.CreateContainerRequest():
                return creation_message(await handler.create_container(request.pod, request.container))
            case api.UpdateContainerRequest():
                updates = await handler.update_container(request.pod, request.container, request.linux_resources)
                return api.UpdateContainerResponse(update=update_messages(updates, request.container.id))
            case api.StopContainerRequest():
                updates = await handler.stop_container(request.pod, request.container)
                return api.StopContainerResponse(update=update_messages(updates))
            case api.UpdatePodSandboxRequest():
                await handler.update_pod(request)
            case api.ValidateContainerAdjustmentRequest():
                reason = await handler.validate(request)
                return api.ValidateContainerAdjustmentResponse(reject=bool(reason), reason=reason)
            case api.StateChangeEvent():
                await self._tell(request.event, request.pod, request.container)
            case api.EventRequest():
                await self._tell(EVENTS[method], request.pod, request.container)
        return api.Empty()

    async def _configure(self, request: api.ConfigureRequest) -> None:
        if request.request_timeout > 0:
            self._timeout_s = request.request_timeout / 1000
        self.runtime = Runtime(request.runtime_name, request.runtime_version, self._timeout_s)
        self._configured.set()
        await self._handler.configured(self.runtime, request.config)

    async def _tell(self, number: int, pod: api.PodSandbox, container: api.Container) -> None:
        try:
            event = Event(number)
        except ValueError:
            metrics.PASSED.labels("event").inc()
            return
        await self._handler.happened(event, pod, container)

    async def _send(self, data: bytes) -> None:
        if self._ended.done():
            return
        self._writer.write(data)
        try:
            async with asyncio.timeout(self._settings.call_s):
                await self._writer.drain()
        except TimeoutError:
            self._end(Fault("deadline", f"the runtime has read nothing for {self._settings.call_s:g} s"))
        except OSError as error:
            self._end(Fault("closed", f"writing: {error.strerror or type(error).__name__}"))

    def _end(self, fault: Fault) -> None:
        if not self._ended.done():
            self._ended.set_result(fault)
            metrics.CONNECTED.set(0)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("NRI: a mistake in the plugin", exc_info=error)
            self._end(Fault("closed", f"a mistake in the plugin: {type(error).__name__}"))

    async def _close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._writer.wait_closed()
        self._writer.transport.abort()


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
