"""The REST of one YARN cluster's ResourceManagers: the active one of them is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import aiohttp
import msgspec

from berth.contracts.base import Problem
from berth.yarn_operator.core.listing import Listing, is_active, read_listing
from berth.yarn_operator.core.units import Share

BODY_BYTES_MAX: Final = 64 << 20
OK: Final = 200


class UnreachableError(Exception):
    """No ResourceManager of the cluster is active and answers; says why."""


class ResourceManager:
    """One cluster, by the URLs of its ResourceManagers."""

    def __init__(self, session: aiohttp.ClientSession, urls: Sequence[str], *, user: str) -> None:
        self._session = session
        self._urls = [url.rstrip("/") for url in urls]
        self._user = {"user.name": user} if user else {}
        self._active = ""

    async def listing(self) -> Listing | Problem:
        """Its NodeManagers. Raises UnreachableError."""
        url = await self._found()
        return read_listing(await self._get(f"{url}/ws/v1/cluster/nodes"))

    async def grant(self, manager: str, share: Share, *, over_commit_timeout_s: int) -> None:
        """Change the resource of a NodeManager. Raises UnreachableError, also where the outcome is not known."""
        url = await self._found()
        body = {
            "resource": {"memory": share.memory_mb, "vCores": share.vcores},
            "overCommitTimeout": over_commit_timeout_s * 1000 if over_commit_timeout_s > 0 else over_commit_timeout_s,
        }
        path = f"{url}/ws/v1/cluster/nodes/{quote(manager, safe='')}/resource"
        try:
            async with self._session.post(
                path, data=msgspec.json.encode(body), params=self._user, headers=_JSON, allow_redirects=False
            ) as response:
                text = (await response.content.read(1000)).decode(errors="replace")
                if response.status != OK:
                    self._active = ""
                    raise UnreachableError(f"{url} answers {response.status} to a grant for {manager}: {text[:200]}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._active = ""
            raise UnreachableError(f"{url}: {error or type(error).__name__}") from error

    async def _found(self) -> str:
        """The active one; looked for again after each failure."""
        if self._active:
            return self._active
        reasons = []
        for url in self._urls:
            try:
                if is_active(await self._get(f"{url}/ws/v1/cluster/info")):
                    self._active = url
                    return url
                reasons.append(f"{url} is not active")
            except UnreachableError as error:
                reasons.append(str(error))
        raise UnreachableError("; ".join(reasons)[:500])

    async def _get(self, url: str) -> bytes:
        try:
            async with self._session.get(url, headers=_JSON, params=self._user, allow_redirects=False) as response:
                if response.status != OK:
                    self._active = ""
                    raise UnreachableError(f"{url} answers {response.status}")
                body = bytearray()
                async for chunk in response.content.iter_any():
                    body += chunk
                    if len(body) > BODY_BYTES_MAX:
                        raise UnreachableError(f"{url} answers with more than {BODY_BYTES_MAX} bytes")
                return bytes(body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._active = ""
            raise UnreachableError(f"{url}: {error or type(error).__name__}") from error


_JSON: Final = {"Accept": "application/json", "Content-Type": "application/json"}
