"""One HTTP request without an event loop, to a server of ours."""

from __future__ import annotations

import ssl
import urllib.request

TIMEOUT_S = 30.0


def fetch(url: str, body: bytes | None = None, *, token: str = "", tls: ssl.SSLContext | None = None) -> bytes:
    """The answer's body; a POST when there is a `body`. Raises OSError for anything but success."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=tls) as response:  # noqa: S310
        return bytes(response.read())
