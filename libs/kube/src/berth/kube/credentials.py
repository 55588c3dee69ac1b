"""Where the API server is and how to prove who we are: static token, token file, service account, or a kubeconfig.

Promises: a token that is rotated on disk is noticed within a minute, and after a 401 at once. Client certificates are
read once, at connect. Secrets never appear in a repr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from berth.kube.clock import Clock
from berth.kube.settings import KubeSettings

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_BYTES_MAX = 1 << 20
REFRESH_S = 60.0
RENEW_S = 1.0
"""Shortest time between two reads, however many requests are answered 401."""


class KubeConfigError(Exception):
    """There is no usable way to reach an API server; the text says what was tried and names the file or field."""


def checked_header(header: str) -> str:
    """The header if it can be sent. Raises KubeConfigError, without the secret, if it would break the request."""
    if not header.isascii() or not header.isprintable():
        raise KubeConfigError("token: holds characters that no header can carry")
    return header


class Credentials(Protocol):
    """The value of the Authorization header, kept fresh."""

    async def authorization(self, *, renew: bool = False) -> str | None:
        """The header's value, None for none. `renew` after a 401: do not trust what is remembered."""


class Endpoint(NamedTuple):
    """An API server and the way in."""

    server: str
    credentials: Credentials
    tls: ssl.SSLContext | None = None
    tls_server_name: str | None = None
    proxy: str | None = None


class StaticCredentials:
    """A header that never changes."""

    def __init__(self, header: str | None) -> None:
        self._header = None if header is None else checked_header(header)

    async def authorization(self, *, renew: bool = False) -> str | None:
        """The header it was made with."""
        return self._header


class RefreshedCredentials:
    """A header that `read` makes anew every `REFRESH_S`, and after a 401, when it is called with True.

    A failing read keeps the last header: it may still be good.
    """

    def __init__(self, read: Callable[[bool], Awaitable[str]], clock: Clock, header: str) -> None:
        self._read = read
        self._clock = clock
        self._header = checked_header(header)
        self._read_at = clock.monotonic()
        self._lock = asyncio.Lock()

    async def authorization(self, *, renew: bool = False) -> str | None:
        """The header, at most a minute old; one read at a time, however many requests wait for it."""
        age_max_s = RENEW_S if renew else REFRESH_S
        if self._clock.monotonic() - self._read_at < age_max_s:
            return self._header
        async with self._lock:
            if self._clock.monotonic() - self._read_at >= age_max_s:
                with contextlib.suppress(OSError, ValueError, KubeConfigError):
                    self._header = checked_header(await self._read(renew))
                self._read_at = self._clock.monotonic()
        return self._header


def read_token_file(path: Path) -> str:
    """`Bearer <token>` of a token file. Raises KubeConfigError when it is missing, empty, or not a token."""
    try:
        with path.open("rb") as file:
            token = file.read(TOKEN_BYTES_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KubeConfigError(f"token file {path}: {error}") from error
    if not token or any(c.isspace() for c in token):
        raise KubeConfigError(f"token file {path} holds no token")
    return f"Bearer {token}"


def from_url(settings: KubeSettings, clock: Clock) -> Endpoint:
    """The endpoint of a plain URL, with a token or token file if there is one."""
    credentials: Credentials
    if settings.token_file:
        credentials = of_file(Path(settings.token_file), clock)
    else:
        credentials = StaticCredentials(f"Bearer {settings.token}" if settings.token else None)
    return Endpoint(settings.url.rstrip("/"), credentials, tls_context(settings.url, settings.ca_file or None))


def in_cluster(clock: Clock, folder: Path = SERVICE_ACCOUNT) -> Endpoint:
    """The endpoint of the cluster that we are a pod of."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Endpoint(server, of_file(folder / "token", clock), tls_context(server, str(folder / "ca.crt")))


def runs_in_cluster() -> bool:
    """Whether we look like a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()


def tls_context(
    server: str, ca_file: str | None, cert_file: str | None = None, key_file: str | None = None, verify: bool = True
) -> ssl.SSLContext | None:
    """The TLS settings for a server, None for plain HTTP. Raises KubeConfigError for files that cannot be used."""
    if not server.startswith("https://"):
        return None
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if cert_file:
            context.load_cert_chain(cert_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise KubeConfigError(
            f"certificates {ca_file or 'of the machine'}, {cert_file or 'no client'}: {error}"
        ) from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def of_file(path: Path, clock: Clock) -> RefreshedCredentials:
    """Credentials from a token file. Raises KubeConfigError when it cannot be read now."""

    async def read(_: bool) -> str:
        return await asyncio.to_thread(read_token_file, path)

    return RefreshedCredentials(read, clock, read_token_file(path))
