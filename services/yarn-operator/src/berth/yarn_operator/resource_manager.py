"""The REST of one YARN cluster's ResourceManagers: the active one of them is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from berth.contracts.base import Problem
from berth.yarn_operator.core.listing import Listing, is_active, read_listing
from berth.yarn_operator.core.units import Share
from berth.yarn_operator.rest import NoAnswerError, Rest

OK: Final = 200
REFUSALS: Final = range(400, 500)
"""Statuses that are about the request. A standby sends people on, which is none of them."""


class UnreachableError(Exception):
    """No ResourceManager of the cluster is active and answers; says why."""


class RefusedError(Exception):
    """The active ResourceManager does not carry out a request; says why."""


class ResourceManager:
    """One cluster, by the URLs of its ResourceManagers."""

    def __init__(self, rest: Rest, urls: Sequence[str], *, user: str) -> None:
        self._rest = rest
        self._urls = [url.rstrip("/") for url in urls]
        self._user = {"user.name": user} if user else {}
        self._active = ""

    async def listing(self) -> Listing | Problem:
        """Its NodeManagers. Raises UnreachableError."""
        url = await self._found()
        return read_listing(await self._get(f"{url}/ws/v1/cluster/nodes"))

    async def grant(self, manager: str, share: Share, *, over_commit_timeout_s: int) -> None:
        """Change the resource of a NodeManager. Raises UnreachableError, also where the outcome is not known, and
        RefusedError."""
        url = await self._found()
        body = {
            "resource": {"memory": share.memory_mb, "vCores": share.vcores},
            "overCommitTimeout": over_commit_timeout_s * 1000 if over_commit_timeout_s > 0 else over_commit_timeout_s,
        }
        path = f"{url}/ws/v1/cluster/nodes/{quote(manager, safe='')}/resource"
        try:
            answer = await self._rest.post(path, self._user, msgspec.json.encode(body))
        except NoAnswerError as error:
            self._active = ""
            raise UnreachableError(f"{url}: {error}") from error
        if answer.status != OK:
            said = answer.body[:200].decode(errors="replace")
            text = f"{url} answers {answer.status} to a grant for {manager}: {said}"
            if answer.status in REFUSALS:
                raise RefusedError(text)
            self._active = ""
            raise UnreachableError(text)

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
            answer = await self._rest.get(url, self._user)
        except NoAnswerError as error:
            self._active = ""
            raise UnreachableError(f"{url}: {error}") from error
        if answer.status != OK:
            self._active = ""
            raise UnreachableError(f"{url} answers {answer.status}")
        return answer.body
