"""What containers hold by kubelet's word: its PodResources, asked with each look.

They also say whether kubelet gives out CPUs itself: with its policy `none` it has none that could be allocated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.node_report import ReportedKubelet
from berth.kubelet.client import PodResourcesClient, Unanswered
from berth.node_qos_enforcer.core.held import NO_PODS, held_of
from berth.node_qos_enforcer.core.node_report import HELD, KUBELET, Findings
from berth.rules.cpus.kubelet import STATIC

ASK_S: Final = 3.0
"""How long kubelet may take to answer."""
NONE: Final = "none"
"""What kubelet calls a CPU manager that gives out none."""
POLICY_S: Final = 30.0
"""Kubelet's policy changes when it is started anew."""

Pods = Callable[[], Awaitable[Mapping[str, tuple[str, str]]]]


async def _nobody() -> Mapping[str, tuple[str, str]]:
    return NO_PODS


class PodResources:
    """A connection to kubelet; use it as an async context manager."""

    def __init__(
        self, socket: str, monotonic: Callable[[], float], *, reports_cpus: bool, pods: Pods = _nobody
    ) -> None:
        """Take kubelet's socket, and whether CPUs are reported, which its policy belongs to; `pods` says namespace and
        name of each pod by uid. Nothing is opened yet."""
        self.gives_cpus = False
        """Whether kubelet gives out CPUs itself, as far as it is known."""
        self._client = PodResourcesClient(Path(socket), timeout_s=ASK_S)
        self._monotonic = monotonic
        self._reports_cpus = reports_cpus
        self._pods = pods
        self._policy = ""
        self._asked_s: float | None = None

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
        pods = await self._pods()  # before kubelet is asked: see `held_of`
        try:
            held, problems = held_of(await self._client.list(), pods)
        except Unanswered as error:
            away = Problem(field="podresources", message=f"kubelet does not answer: {error}"[:200])
            self._asked_s = None
            unread = findings.unread | {HELD, KUBELET} if self._says_policy(findings) else findings.unread | {HELD}
            return findings._replace(unread=unread, problems=(*findings.problems, away))
        policy = await self._cpu_manager()
        self.gives_cpus = policy == STATIC or any(each.cpus for each in held)
        kubelet = findings.kubelet
        if self._says_policy(findings) and policy:
            kubelet = ReportedKubelet(cpu_manager=policy)
        return findings._replace(held=held, kubelet=kubelet, problems=(*findings.problems, *problems))

    def _says_policy(self, findings: Findings) -> bool:
        """Whether nothing else says what kubelet's policy is."""
        return self._reports_cpus and findings.kubelet is None and KUBELET not in findings.unread

    async def _cpu_manager(self) -> str:
        """Kubelet's policy; empty where it does not say."""
        now_s = self._monotonic()
        if self._asked_s is None or now_s - self._asked_s >= POLICY_S:
            try:
                allocatable = await self._client.allocatable()
            except Unanswered:  # an old kubelet has no such method
                return self._policy
            self._policy, self._asked_s = STATIC if allocatable.cpu_ids else NONE, now_s
        return self._policy
