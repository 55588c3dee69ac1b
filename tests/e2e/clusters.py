"""The two API servers that the suite runs against: the simulated one, and a real kube-apiserver with its etcd.

Tests say what they need of the server itself (an outage, a forgotten history); each kind knows how that is had. On the
real one RBAC is on and every service has the identity and the rights that the manifests give it.
"""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import pytest

from berth.cli.stack.services import SERVICES, SIMULATED_API
from berth.cli.stack.stack import Stack
from berth.testing.kube_server import KubeMissingError, KubeServer, find_binary
from berth.testing.kube_server.server import RIGHTS

K8S = Path(__file__).parents[2] / "k8s"
HOME = "berth-system"
SIMULATED, REAL = "simulated", "real"
KINDS = (SIMULATED, REAL)
BINARIES = ("kube-apiserver", "etcd", "kubectl")


def skip_without_binaries() -> None:
    """Skip what needs the real server when something for it is not there; the reason says how to get it."""
    try:
        for name in BINARIES:
            find_binary(name)
    except KubeMissingError as error:
        pytest.skip(f"no real API server: {error}")


class Cluster(Protocol):
    """An API server in the hands of a test."""

    kind: str

    def stack_settings(self) -> dict[str, Any]:
        """What a Stack is to be told of it."""

    def adopt(self, stack: Stack) -> None:
        """The stack is up; the server may be asked from now on."""

    @property
    def url(self) -> str:
        """Where it is."""

    @property
    def headers(self) -> dict[str, str]:
        """What makes us its administrator."""

    @property
    def tls(self) -> ssl.SSLContext | bool:
        """How to trust it."""

    def down(self) -> Any:
        """A context in which the server does not answer; it knows everything it knew afterwards."""

    async def forget(self, session: aiohttp.ClientSession) -> None:
        """No watch can be taken up again at a version before now. Call it while `down`, or between watches."""


class Simulated:
    """The simulated API, a process of the stack."""

    kind = SIMULATED
    headers: dict[str, str] = {}
    tls = True

    def __init__(self) -> None:
        self._stack: Stack
        self.url = ""

    def stack_settings(self) -> dict[str, Any]:
        return {}

    def adopt(self, stack: Stack) -> None:
        self._stack = stack
        self.url = stack.kube_url

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """It keeps its state in memory: standing still is the outage that it can survive; watches break."""
        pid = self._stack.processes[SIMULATED_API].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
            async with aiohttp.ClientSession() as session:
                await session.post(f"{self.url}/sim/watches/close")

    async def forget(self, session: aiohttp.ClientSession) -> None:
        async with session.post(f"{self.url}/sim/history/compact") as response:
            assert response.status == 200
        async with session.post(f"{self.url}/sim/watches/close") as response:
            assert response.status == 200


class Real:
    """kube-apiserver and etcd, with Berth's rights applied."""

    kind = REAL

    def __init__(self, server: KubeServer) -> None:
        self.server = server

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.admin_token}"}

    @property
    def tls(self) -> ssl.SSLContext:
        return self.server.tls

    def stack_settings(self) -> dict[str, Any]:
        """Each service its own identity."""
        return {
            "kubeconfigs": {
                spec.name: self.server.kubeconfig(f"{HOME}/{spec.name}") for spec in SERVICES if spec.needs_kube
            }
        }

    def adopt(self, stack: Stack) -> None:
        """It has been there before."""

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        self.server.api.kill()
        try:
            yield
        finally:
            self.server.api.start()

    async def forget(self, session: aiohttp.ClientSession) -> None:
        """Compact etcd, and restart the API server: its cache of past changes would still serve old versions."""
        self.server.compact()
        self.server.api.kill()
        self.server.api.start()


@contextmanager
def cluster_of(kind: str, *, custom_resources: bool = True) -> Iterator[Cluster]:
    """A server of this kind; the real one is started here, the simulated one with the stack."""
    if kind == SIMULATED:
        yield Simulated()
        return
    with KubeServer() as server:
        if custom_resources:
            server.install_berth(K8S)
        else:
            server.install(K8S / "overlays/single-node", RIGHTS)
        yield Real(server)
