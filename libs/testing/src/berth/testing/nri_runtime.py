"""A container runtime as a plugin sees it: the other end of the Node Resource Interface, with faults on request.

Its framing is its own, written from the interface's description: a mistake of `berth.nri.core` is not answered by the
same mistake.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from google.protobuf.message import Message

from berth.nri import api_pb2 as api
from berth.nri.ttrpc_pb2 import Request, Response

DEADLINE_S = 5.0
PLUGIN, RUNTIME = 1, 2
REQUEST, RESPONSE = 1, 2


class StatusError(Exception):
    """The plugin has answered with a status code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def framed(stream: int, number: int, kind: int, data: bytes, *, cut: Sequence[int] = ()) -> bytes:
    """One message in frames; `cut` says after how many bytes each but the last frame ends."""
    message = struct.pack(">IIBB", len(data), number, kind, 0) + data
    places = [0, *cut, len(message)]
    parts = [message[start:end] for start, end in itertools.pairwise(places)]
    return b"".join(struct.pack(">II", stream, len(part)) + part for part in parts)


class PluginPeer:
    """A plugin that has dialled: what the runtime sees of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = ""
        self.index = ""
        self.events = 0
        self.updates: list[api.ContainerUpdate] = []
        """What it asked for by UpdateContainers."""
        self.failing: set[str] = set()
        """Containers whose updates fail, which the answer names."""
        self.breaking: set[str] = set()
        """Containers whose updates fail as they do in containerd: with a status that names none."""
        self.is_silent = False
        """Whether calls of the plugin get no answer."""
        self.refusal = 0
        """A status code that calls of the plugin get, unless it is 0."""
        self.registered = asyncio.Event()
        self.gone = asyncio.Event()
        self._reader = reader
        self._writer = writer
        self._next = 1
        self._answers: dict[int, asyncio.Future[Response]] = {}
        self._buffers = {PLUGIN: bytearray(), RUNTIME: bytearray()}

    async def serve(self) -> None:
        """Read what the plugin sends, until it is gone."""
        try:
            while True:
                stream, length = struct.unpack(">II", await self._reader.readexactly(8))
                self._buffers[stream] += await self._reader.readexactly(length)
                self._take(stream)
        except (asyncio.IncompleteReadError, OSError):
            self.gone.set()
        finally:
            self._writer.close()

    async def call(self, method: str, request: Message, answer: type[Message] = api.Empty, **how: object) -> Message:
        """What the plugin answers. Raises StatusError, or TimeoutError."""
        number = self.send(method, request.SerializeToString(), **how)  # type: ignore[arg-type]
        return await self.answer_to(number, answer)

    def send(
        self,
        method: str,
        payload: bytes,
        *,
        service: str = "nri.pkg.api.v1alpha1.Plugin",
        timeout_s: float = 2.0,
        cut: Sequence[int] = (),
        number: int = 0,
    ) -> int:
        """Ask without waiting; the number of the call."""
        number = number or self._next
        self._next = max(self._next, number) + 2
        self._answers[number] = asyncio.get_running_loop().create_future()
        request = Request(service=service, method=method, payload=payload, timeout_nano=int(timeout_s * 1e9))
        self.send_raw(framed(PLUGIN, number, REQUEST, request.SerializeToString(), cut=cut))
        return number

    async def answer_to(self, number: int, answer: type[Message] = api.Empty) -> Message:
        """The answer to a call that was sent."""
        async with asyncio.timeout(DEADLINE_S):
            response = await self._answers[number]
        if response.status.code:
            raise StatusError(response.status.code, response.status.message)
        return answer.FromString(response.payload)

    def send_raw(self, data: bytes) -> None:
        """Any bytes."""
        self._writer.write(data)

    async def configure(self, *, config: str = "", request_timeout_ms: int = 2000) -> None:
        """As a runtime does after the registration."""
        request = api.ConfigureRequest(
            config=config, runtime_name="fake", runtime_version="1", request_timeout=request_timeout_ms
        )
        found = await self.call("Configure", request, api.ConfigureResponse)
        assert isinstance(found, api.ConfigureResponse)
        self.events = found.events

    async def synchronize(self, parts: Iterable[api.SynchronizeRequest]) -> list[api.SynchronizeResponse]:
        """Tell the state; each part but the last with `more`."""
        found = []
        for part in parts:
            answer = await self.call("Synchronize", part, api.SynchronizeResponse)
            assert isinstance(answer, api.SynchronizeResponse)
            found.append(answer)
        return found

    async def ready(self, parts: Iterable[api.SynchronizeRequest] = (api.SynchronizeRequest(),)) -> None:
        """Registration, configuration and state, as a runtime goes through them."""
        async with asyncio.timeout(DEADLINE_S):
            await self.registered.wait()
        await self.configure()
        await self.synchronize(parts)

    def drop(self) -> None:
        """Close the connection at once."""
        self._writer.close()

    def _take(self, stream: int) -> None:
        buffer = self._buffers[stream]
        while len(buffer) >= 10:
            length, number, kind, _ = struct.unpack_from(">IIBB", buffer)
            if len(buffer) < 10 + length:
                return
            data = bytes(buffer[10 : 10 + length])
            del buffer[: 10 + length]
            if stream == RUNTIME:
                assert kind == REQUEST
                self._answer(number, Request.FromString(data))
            else:
                assert kind == RESPONSE
                self._answers[number].set_result(Response.FromString(data))

    def _answer(self, number: int, request: Request) -> None:
        assert request.service == "nri.pkg.api.v1alpha1.Runtime"
        response = Response()
        if request.method == "RegisterPlugin":
            found = api.RegisterPluginRequest.FromString(request.payload)
            self.name, self.index = found.plugin_name, found.plugin_idx
        else:
            asked = api.UpdateContainersRequest.FromString(request.payload)
            self.updates += asked.update
            failed = [each for each in asked.update if each.container_id in self.failing]
            response.payload = api.UpdateContainersResponse(failed=failed).SerializeToString()
            if any(each.container_id in self.breaking for each in asked.update):
                response.status.code, response.status.message = 2, "NRI update of some containers failed"
        if self.refusal:
            response.status.code, response.status.message = self.refusal, "not now"
        if self.is_silent:
            return
        self.send_raw(framed(RUNTIME, number, RESPONSE, response.SerializeToString()))
        self.registered.set()


class FakeRuntime:
    """A runtime at a socket. May be stopped and started again."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._server: asyncio.Server | None = None
        self._peers: asyncio.Queue[PluginPeer] = asyncio.Queue()
        self._connected: list[PluginPeer] = []
        self.is_silent = False
        """Whether new plugins get no answer."""
        self.refusal = 0
        """A status code for the registration of new plugins."""

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._accept, str(self.socket))

    async def stop(self) -> None:
        """End as a runtime that restarts: all connections break, and the socket is gone."""
        assert self._server is not None
        self._server.close()
        for peer in self._connected:
            peer.drop()
        await self._server.wait_closed()
        self.socket.unlink(missing_ok=True)
        self._connected.clear()

    async def plugin(self) -> PluginPeer:
        """The next plugin that dials, in the order of dialling. Raises TimeoutError when there is none."""
        async with asyncio.timeout(DEADLINE_S):
            return await self._peers.get()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = PluginPeer(reader, writer)
        peer.is_silent, peer.refusal = self.is_silent, self.refusal
        self._connected.append(peer)
        self._peers.put_nowait(peer)
        await peer.serve()
