"""What containers hold by kubelet's word: its PodResources, asked with each look."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final

from berth.contracts.base import Problem
from berth.kubelet.client import PodResourcesClient, Unanswered
from berth.node_qos_enforcer.core.held import held_of
from berth.node_qos_enforcer.core.node_report import HELD, Findings

ASK_S: Final = 3.0
"""How long kubelet may take to answer."""


class PodResources:
    """A connection to kubelet; use it as an async context manager."""

    def __init__(self, socket: str) -> None:
        """Take kubelet's socket. Nothing is opened yet."""
        self._client = PodResourcesClient(Path(socket), timeout_s=ASK_S)

    async def __aenter__(self) -> PodResources:
        """Open it."""
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self._client.__aexit__(kind, error, trace)

    async def added_to(self, findings: Findings) -> Findings:
        """The findings, and what containers hold; while kubelet is away that stays as it was."""
        try:
            held, problems = held_of(await self._client.list())
        except Unanswered as error:
            away = Problem(field="podresources", message=f"kubelet does not answer: {error}"[:200])
            return findings._replace(unread=findings.unread | {HELD}, problems=(*findings.problems, away))
        return findings._replace(held=held, problems=(*findings.problems, *problems))
