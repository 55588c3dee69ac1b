"""A client of kubelet's PodResources: every call is one question over its unix socket, in bytes or in messages."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from berth.kubelet.podresources_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)

M = TypeVar("M", bound=Message)

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
SERVICE: Final = "v1.PodResourcesLister"
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
TIMEOUT_S: Final = 10.0

SIZES: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
)
_CHANNEL: Final = (
    *SIZES,
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    # Kubelet is away while it restarts, for seconds: gRPC's own back-off would grow to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)


class Unanswered(Exception):  # noqa: N818 - the name is the finding
    """A question was not answered. `code` is the status, `reason` a sentence.

    The status is kubelet's own where it refused; `UNAVAILABLE` where it could not be reached, did not answer in time
    or said what cannot be read.
    """

    def __init__(self, code: grpc.StatusCode, reason: str) -> None:
        """Name the status and the reason."""
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.reason = reason


_UNREACHED: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
)


class PodResourcesClient:
    """One connection, which is made anew by itself whenever kubelet comes back. Use it as an async context manager."""

    def __init__(self, path: Path = SOCKET, *, timeout_s: float = TIMEOUT_S) -> None:
        """Take kubelet's socket, and how long one answer may take. Nothing is opened yet."""
        self.path = path
        self._timeout_s = timeout_s
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> PodResourcesClient:
        """Open the connection; it is made by the first question."""
        self._channel = grpc.aio.insecure_channel(f"unix:{self.path}", options=_CHANNEL)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; questions in flight end as cancelled."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def list(self) -> ListPodResourcesResponse:
        """What all pods of the node hold. Raises Unanswered."""
        return _read(await self.ask("List", _bytes(ListPodResourcesRequest())), ListPodResourcesResponse())

    async def allocatable(self) -> AllocatableResourcesResponse:
        """What kubelet has to give out. Raises Unanswered."""
        asked = AllocatableResourcesRequest()
        return _read(await self.ask("GetAllocatableResources", _bytes(asked)), AllocatableResourcesResponse())

    async def get(self, namespace: str, name: str) -> PodResources:
        """What one pod holds. Raises Unanswered."""
        asked = GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        return _read(await self.ask("Get", _bytes(asked)), GetPodResourcesResponse()).pod_resources

    async def ask(self, method: str, request: bytes, *, timeout_s: float | None = None) -> bytes:
        """The answer to any unary method of the service, both in bytes. Raises Unanswered."""
        if self._channel is None:
            raise Unanswered(grpc.StatusCode.UNAVAILABLE, "the connection to kubelet is closed")
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"/{SERVICE}/{method}")
        limit_s = self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s)
        try:
            return await call(request, timeout=limit_s)
        except grpc.aio.AioRpcError as error:
            code, reason = error.code(), error.details() or "no reason given"
            raise Unanswered(grpc.StatusCode.UNAVAILABLE if code in _UNREACHED else code, reason) from error


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _read(answer: bytes, message: M) -> M:
    try:
        message.ParseFromString(answer)
    except DecodeError as error:
        raise Unanswered(grpc.StatusCode.UNAVAILABLE, f"kubelet's answer cannot be read: {error}") from error
    return message
