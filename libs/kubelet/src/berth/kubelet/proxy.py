"""A server of PodResources beside kubelet's: List says what the pods' records add, GetAllocatableResources what the
node's inventory does, all else is kubelet's own word.

Other methods pass as bytes, so that those of a newer kubelet do, too. Callers mount the folder of this
socket in the place of kubelet's, whose own socket is never touched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from berth.contracts.base import Problem
from berth.kubelet.client import SERVICE, SIZES, PodResourcesClient, Unanswered
from berth.kubelet.core.allocated import AllocatedDevice
from berth.kubelet.core.merging import Describe, Pods, by_kind, merge, with_devices
from berth.kubelet.podresources_pb2 import AllocatableResourcesResponse, ListPodResourcesResponse
from berth.kubelet.sockets import SocketUnusable, identity, make_free

CONCURRENT_MAX: Final = 32
"""Calls answered at a time; each may hold an answer of 16 MiB twice."""
_LIST: Final = f"/{SERVICE}/List"
_ALLOCATABLE: Final = f"/{SERVICE}/GetAllocatableResources"
_PREFIX: Final = f"/{SERVICE}/"
_GRACE_S: Final = 1.0

KnownPods = Callable[[], Awaitable[Pods | None]]
"""The pods of the node as known now, asked for with each answer; None while nobody knows them."""
KnownDevices = Callable[[], Iterable[AllocatedDevice]]
"""The devices of the node that are given out where pods are placed."""
Report = Callable[[tuple[Problem, ...]], None]
"""What is done with the problems of one answer; it is called with none as well."""

_Context = grpc.aio.ServicerContext[bytes, bytes]
_Handler = Callable[[bytes, _Context], Awaitable[bytes]]


def _ignore(problems: tuple[Problem, ...]) -> None:
    """Report nothing."""


class PodResourcesProxy(grpc.GenericRpcHandler):
    """Listens from `start` to `stop`, or as an async context manager. `upstream` is open all the while.

    A caller gets `UNAVAILABLE` while kubelet is away or the pods are not known; it gets what kubelet refuses with as
    it is.
    """

    def __init__(
        self,
        path: Path,
        upstream: PodResourcesClient,
        pods: KnownPods,
        *,
        devices: KnownDevices = tuple,
        describe: Describe = by_kind,
        report: Report = _ignore,
    ) -> None:
        """Take the socket to listen at, kubelet, the pods, the node's devices, how devices are shown, and who hears of
        problems."""
        self.path = path
        self._upstream = upstream
        self._pods = pods
        self._devices = devices
        self._describe = describe
        self._report = report
        self._server: grpc.aio.Server | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def is_listening(self) -> bool:
        """Whether callers reach this server: its socket is still there, and nobody put another in its place."""
        return self._identity is not None and identity(self.path) == self._identity

    async def start(self) -> None:
        """Listen. Raises SocketUnusable."""
        if self.path.absolute() == self._upstream.path.absolute() or _is_same(self.path, self._upstream.path):
            raise SocketUnusable(f"{self.path}: that is kubelet's own socket")
        make_free(self.path)
        server = grpc.aio.server(options=SIZES, maximum_concurrent_rpcs=CONCURRENT_MAX)
        server.add_generic_rpc_handlers((self,))
        try:
            server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            raise SocketUnusable(f"{self.path}: {error}") from error
        await server.start()
        self._server, self._identity = server, identity(self.path)

    async def stop(self) -> None:
        """Stop listening; calls in flight have a second to end. Another server's socket stays."""
        server, self._server = self._server, None
        if server is not None:
            mine = self.is_listening
            self._identity = None
            await server.stop(_GRACE_S)
            if mine:
                self.path.unlink(missing_ok=True)

    async def __aenter__(self) -> PodResourcesProxy:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Who answers a method; nobody where it is of another service."""
        method = handler_call_details.method
        if not method.startswith(_PREFIX):
            return None
        own = {_LIST: self._list, _ALLOCATABLE: self._allocatable}
        handler = own.get(method) or self._passed_on(method.removeprefix(_PREFIX))
        return grpc.unary_unary_rpc_method_handler(handler)

    def _passed_on(self, method: str) -> _Handler:
        async def answer(request: bytes, context: _Context) -> bytes:
            return await self._ask(method, request, context)

        return answer

    async def _list(self, request: bytes, context: _Context) -> bytes:
        raw = await self._ask("List", request, context)
        pods = await self._pods()
        if pods is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the pods of this node are not known yet")
        answer = ListPodResourcesResponse()
        try:
            answer.ParseFromString(raw)
        except DecodeError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"kubelet's answer cannot be read: {error}")
        merged = merge(answer, pods, self._describe)
        self._report(merged.problems)
        return merged.answer.SerializeToString()

    async def _allocatable(self, request: bytes, context: _Context) -> bytes:
        raw = await self._ask("GetAllocatableResources", request, context)
        answer = AllocatableResourcesResponse()
        try:
            answer.ParseFromString(raw)
        except DecodeError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"kubelet's answer cannot be read: {error}")
        return with_devices(answer, self._devices(), self._describe).SerializeToString()

    async def _ask(self, method: str, request: bytes, context: _Context) -> bytes:
        try:
            return await self._upstream.ask(method, request, timeout_s=context.time_remaining())
        except Unanswered as error:
            await context.abort(error.code, f"kubelet: {error.reason}")


def _is_same(one: Path, other: Path) -> bool:
    found = identity(one)
    return found is not None and found == identity(other)
