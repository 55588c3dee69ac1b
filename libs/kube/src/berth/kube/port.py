"""How requests travel, as a protocol: HTTP in a real process, a simulated network in a simulated one.

What `Kube` sends through it is complete: method, escaped path, query, bytes. Nothing above knows which one it has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

from berth.kube.answer import Answer


class Transport(Protocol):
    """The way to one API server. Cancellation is the only thing that raises."""

    async def close(self) -> None:
        """Close every connection; streams under way end."""

    async def send(
        self,
        verb: str,
        method: str,
        label: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """One request. `verb` and `label` name it in the metrics; `path` is escaped already."""

    def stream(
        self, label: str, path: str, *, params: Mapping[str, str], idle_s: float
    ) -> AsyncGenerator[bytes | Answer, None]:
        """A watch: its lines, then one Answer that says how it ended."""
