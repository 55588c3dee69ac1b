"""Reviews over HTTPS, to webhooks that are given by their address."""

from __future__ import annotations

import asyncio
import ssl
from functools import lru_cache

import aiohttp

from berth.simcluster.admission.matching import Hook
from berth.simcluster.admission.reviewing import UnaskedError

ANSWER_BYTES_MAX = 8 << 20


class Asker:
    """Asks webhooks; connections are kept."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, hook: Hook, review: bytes) -> bytes:
        """See `berth.simcluster.admission.reviewing.Ask`."""
        if not hook.url:
            raise UnaskedError("it is a Service, and a simulated cluster has no network of pods")
        if self._session is None:
            self._session = aiohttp.ClientSession()
        timeout = aiohttp.ClientTimeout(total=hook.timeout_s)
        headers = {"Content-Type": "application/json"}
        try:
            async with self._session.post(
                hook.url, data=review, headers=headers, timeout=timeout, ssl=_trusting(hook.ca)
            ) as response:
                if response.status != 200:
                    raise UnaskedError(f"it answers {response.status}")
                return await response.content.read(ANSWER_BYTES_MAX)
        except TimeoutError as error:
            raise UnaskedError(f"no answer within {hook.timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise UnaskedError(str(error)) from error

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)


@lru_cache(maxsize=32)
def _trusting(ca: str) -> ssl.SSLContext:
    """Trusts these certificates alone, whether or not they are of an authority. Raises SSLError for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=ca)
    return context
