"""A vendor's device plugin, as a double: kubelet counts its devices, picks some, and asks it about them."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from tests.e2e.container_runtime import entry, field

SERVICE = "v1beta1.DevicePlugin"
FOLDER = "var/lib/kubelet/device-plugins"
"""Where kubelet has it, whatever its settings say."""
DEADLINE_S = 30.0


class DevicePlugin(grpc.GenericRpcHandler):
    """Devices of one resource, at kubelet whose machine has its root at `root`. A context manager."""

    def __init__(self, root: Path, resource: str, *devices: str) -> None:
        self._folder = root / FOLDER
        self._resource = resource
        self._devices = devices
        self._over: queue.Queue[None] = queue.Queue()
        self._server: grpc.Server | None = None

    def __enter__(self) -> DevicePlugin:
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((self,))
        server.add_insecure_port(f"unix:{self._folder}/double.sock")
        server.start()
        self._server = server
        asked = field(1, "v1beta1") + field(2, "double.sock") + field(3, self._resource)
        deadline = time.monotonic() + DEADLINE_S
        with grpc.insecure_channel(f"unix:{self._folder}/kubelet.sock") as kubelet:
            while True:
                try:
                    kubelet.unary_unary("/v1beta1.Registration/Register")(asked, timeout=2)
                    return self
                except grpc.RpcError:
                    assert time.monotonic() < deadline, "kubelet takes no device plugin"
                    time.sleep(0.1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.put(None)
        if self._server is not None:
            self._server.stop(1).wait()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        service, _, method = handler_call_details.method.removeprefix("/").partition("/")
        if service != SERVICE:
            return None
        if method == "ListAndWatch":
            return grpc.unary_stream_rpc_method_handler(self._list)
        answers = {"GetDevicePluginOptions": self._options, "Allocate": self._allocate}
        return grpc.unary_unary_rpc_method_handler(answers[method]) if method in answers else None

    def _list(self, request: bytes, context: Any) -> Iterator[bytes]:
        yield b"".join(field(1, field(1, each) + field(2, "Healthy")) for each in self._devices)
        self._over.get()

    def _options(self, request: bytes, context: Any) -> bytes:
        return b""

    def _allocate(self, request: bytes, context: Any) -> bytes:
        """One container asks for devices, by ids of fewer than 128 bytes; it is told in its environment that it has
        some."""
        return field(1, field(1, entry("DOUBLE", "given")))
