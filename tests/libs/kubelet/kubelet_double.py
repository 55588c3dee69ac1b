"""A kubelet that serves PodResources on a unix socket: it answers what it is told to, and can go away."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from berth.kubelet.client import SERVICE, SIZES


class KubeletDouble:
    """Answers by method: bytes, or a status to refuse with. `asked` is every question, as method and bytes."""

    def __init__(self, path: Path, answers: dict[str, bytes | tuple[grpc.StatusCode, str]]) -> None:
        self.path = path
        self.answers = answers
        self.asked: list[tuple[str, bytes]] = []
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        server = grpc.aio.server(options=[(name, 4 * size) for name, size in SIZES])
        server.add_generic_rpc_handlers((_Answering(self),))
        server.add_insecure_port(f"unix:{self.path}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def __aenter__(self) -> KubeletDouble:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class _Answering(grpc.GenericRpcHandler):
    def __init__(self, kubelet: KubeletDouble) -> None:
        self._kubelet = kubelet

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        service, _, method = handler_call_details.method.removeprefix("/").partition("/")
        if service != SERVICE or method not in self._kubelet.answers:
            return None

        async def answer(request: bytes, context: Any) -> bytes:
            self._kubelet.asked.append((method, request))
            said = self._kubelet.answers[method]
            if isinstance(said, bytes):
                return said
            await context.abort(*said)
            raise AssertionError

        return grpc.unary_unary_rpc_method_handler(answer)
