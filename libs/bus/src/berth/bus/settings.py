"""How to reach the bus."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

SCHEMES = ("nats", "tls", "ws", "wss")
DOMAIN = re.compile(r"[-_A-Za-z0-9]+")


class BusSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Connection settings. Secrets are read from files, never given as values.

    `url`: one server or several, separated by commas. `replicas`: copies of every stream, 1 or 3; asynchronous
    persistence exists with 1 only. `reconnect_max_s`: longest pause between two attempts to connect. `read_pause_s`:
    how long the connection is left alone, for each message of it, after a read that leaves nothing behind, so that a
    reader in no hurry wakes up once for many messages. `domain`: the JetStream domain, where its API is another one's
    than of this account.
    """

    url: str = "nats://127.0.0.1:4222"
    user: str = ""
    password_file: str = ""
    creds_file: str = ""
    ca_file: str = ""
    name: str = ""
    replicas: int = 1
    connect_timeout_s: float = 2.0
    reconnect_max_s: float = 1.0
    read_pause_s: float = 0.0
    domain: str = ""
    inbox: str = ""

    def __post_init__(self) -> None:
        if self.replicas not in (1, 3, 5):
            raise ValueError(f"replicas: {self.replicas} is not 1, 3 or 5")
        if not self.urls:
            raise ValueError("url: empty")
        for url in self.urls:
            _check_url(url)
        if self.domain and not DOMAIN.fullmatch(self.domain):
            raise ValueError(f"domain: {self.domain[:200]!r} is not one word of letters, digits, - and _")

    @property
    def api(self) -> str:
        """What the subjects of the JetStream API begin with."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    @property
    def urls(self) -> list[str]:
        """The servers, one by one."""
        return [url.strip() for url in self.url.split(",") if url.strip()]


def _check_url(url: str) -> None:
    """Raises ValueError for what can never be connected to; a password in it is not repeated."""
    shown = url.rpartition("@")[2][:200]
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable or any(char.isspace() for char in url):
        raise ValueError(f"url: {shown!r} is not the address of a server, such as nats://127.0.0.1:4222")
