"""Who races: each is started against a kubeconfig, binds the pods that name it, and is stopped."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Protocol

from berth.cli.stack.process import Process
from berth.cli.stack.stack import Stack
from berth.testing.kube_server import KubeServer, find_binary

CLIENT_QPS = 5_000
SOLVER = "placement-solver"


class Contender(Protocol):
    """A scheduler under test."""

    name: str
    scheduler: str
    """The `schedulerName` of its pods."""

    async def start(self, server: KubeServer) -> None:
        """Started; it need not be ready."""

    async def leave(self) -> None:
        """What decides is stopped; pods stay pending."""

    async def come_back(self, server: KubeServer) -> None:
        """What decides is started again; it need not be ready."""

    async def stop(self) -> None:
        """Stopped, all of it."""

    def pids(self) -> dict[str, int]:
        """Its processes by name."""

    def bus_url(self) -> str:
        """Where its bus is; empty: it has none."""

    def killable(self) -> list[str]:
        """Processes that somebody starts again when they are killed."""

    def kill(self, name: str) -> None:
        """SIGKILL one of them."""


class KubeScheduler:
    """kube-scheduler with its default configuration, without leader election.

    Its client's limit is raised, since the default of 50 requests a second would be all that is measured.
    """

    name = "kube-scheduler"
    scheduler = "default-scheduler"

    def __init__(self) -> None:
        self._process: Process | None = None

    async def start(self, server: KubeServer) -> None:
        config = server.home / "kube-scheduler.yaml"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {server.admin_kubeconfig}, qps: {CLIENT_QPS}, burst: {CLIENT_QPS}}}\n"
        )
        command = [str(find_binary("kube-scheduler")), f"--config={config}", "--secure-port=0"]
        self._process = Process(self.name, command, server.home / "kube-scheduler.log")
        await self._process.start()

    async def leave(self) -> None:
        await self.stop()

    async def come_back(self, server: KubeServer) -> None:
        await self.start(server)

    async def stop(self) -> None:
        if self._process is not None:
            await self._process.stop()

    def pids(self) -> dict[str, int]:
        return {self.name: self._process.pid} if self._process else {}

    def bus_url(self) -> str:
        return ""

    def killable(self) -> list[str]:
        return []

    def kill(self, name: str) -> None:
        raise KeyError(name)


class Berth:
    """All services that bind plain pods, as processes, with their own nats-server; no node agents."""

    name = "berth"
    scheduler = "berth-scheduler"

    def __init__(self, solvers: int = 1, keep_logs: Path | None = None) -> None:
        self._solvers = solvers
        self._keep_logs = keep_logs
        self._stack: Stack | None = None

    async def start(self, server: KubeServer) -> None:
        self._stack = Stack(
            kube={"BERTH_KUBECONFIG": str(server.admin_kubeconfig)},
            replicas={SOLVER: self._solvers, "node-qos-enforcer": 0},
            environment={"BERTH_LOG_LEVEL": "info"},
        )
        await self._stack.__aenter__()

    async def leave(self) -> None:
        if self._stack is not None:
            await self._stack.scale(SOLVER, 0)

    async def come_back(self, server: KubeServer) -> None:
        if self._stack is not None:
            await self._stack.scale(SOLVER, self._solvers)

    async def stop(self) -> None:
        if self._stack is None:
            return
        if self._keep_logs is not None:
            shutil.copytree(self._stack.home / "logs", self._keep_logs, dirs_exist_ok=True)
        await self._stack.__aexit__()

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._stack.processes.items()} if self._stack else {}

    def bus_url(self) -> str:
        return self._stack.nats_url if self._stack else ""

    def killable(self) -> list[str]:
        return list(self._stack.processes) if self._stack else []

    def kill(self, name: str) -> None:
        if self._stack is not None:
            self._stack.processes[name].signal(signal.SIGKILL)
