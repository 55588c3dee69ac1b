"""A small client of the simulated API over plain HTTP: post, list and watch, nothing parsed that is not needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.load.wire import Wires

CONNECTIONS = 64
TIMEOUT_S = 60.0
LINE_BYTES_MAX = 8 << 20
_JSON = {"Content-Type": "application/json"}
_PLURALS = {
    "ClusterNetworkTopology": "clusternetworktopologies",
    "ElasticQuota": "elasticquotas",
    "NodeResourceTopology": "noderesourcetopologies",
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
}
_CLUSTER_SCOPED = (
    "Node",
    "Device",
    "ClusterNetworkTopology",
    "NodeMetric",
    "NodeResourceTopology",
    "Reservation",
    "ReservationSchedule",
    "PriorityClass",
    "StorageClass",
    "PersistentVolume",
    "Namespace",
)


class Api:
    """An API server by its URL; an asynchronous context."""

    def __init__(self, url: str, *, connections: int = CONNECTIONS) -> None:
        self._url = url.rstrip("/")
        self._connections = connections
        self._wires = Wires(self._url)
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Api:
        connector = aiohttp.TCPConnector(limit=self._connections + 8, keepalive_timeout=60)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=_JSON)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._wires.close()
        await self._session.close()

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body; raises OSError or TimeoutError when the server cannot be asked."""
        return await self._wires.post(path, body)

    async def delete(self, path: str) -> int:
        """The status of a DELETE; raises aiohttp.ClientError or TimeoutError when the server cannot be asked."""
        async with self._session.delete(self._url + path) as response:
            await response.read()
            return response.status

    async def put(self, path: str, manifest: dict[str, Any]) -> None:
        """Replace an object. Raises CliError for anything but a good answer."""
        body = msgspec.json.encode(manifest)
        async with self._session.put(self._url + path, data=body) as response:
            if response.status != 200:
                text = refusal(await response.read())
                raise CliError(f"the API server answers {response.status} to {path}: {text}", EXIT_BAD)

    async def raw(self, path: str) -> bytes:
        """The body. Raises CliError for anything but a good answer."""
        try:
            async with self._session.get(self._url + path) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise CliError(f"the API server at {self._url} cannot be reached: {error}") from error
        if response.status != 200:
            raise CliError(f"the API server answers {response.status} to {path}: {refusal(body)}", EXIT_BAD)
        return body

    async def get(self, path: str) -> Any:
        """The decoded body; raises as `raw` does."""
        return msgspec.json.decode(await self.raw(path))

    async def items(self, path: str) -> list[Any]:
        """The items of a list."""
        found: list[Any] = (await self.get(path))["items"]
        return found

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch, until the server ends it or the connection breaks."""
        timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
        async with self._session.get(self._url + path, timeout=timeout) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > LINE_BYTES_MAX:
                    raise CliError(f"a line of the watch on {path} is longer than {LINE_BYTES_MAX} bytes")
                for line in lines:
                    if line:
                        yield line


def path_of(manifest: dict[str, Any]) -> str:
    """The collection in which a manifest is created."""
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    kind = str(manifest["kind"])
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    if kind in _CLUSTER_SCOPED:
        return f"{base}/{plural}"
    return f"{base}/namespaces/{manifest['metadata'].get('namespace', 'default')}/{plural}"


def refusal(body: bytes) -> str:
    """The message of a Status, or the beginning of what there is instead."""
    try:
        return str(msgspec.json.decode(body)["message"])[:300]
    except (msgspec.DecodeError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
