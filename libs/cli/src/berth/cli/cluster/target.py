"""Which cluster, by options: as settings for services, for our own client, and for a kubectl command to copy."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from berth.cli.errors import CliError
from berth.kube import Kube, KubeConfigError, KubeSettings

REQUEST_TIMEOUT_S = 8.0


class Target(NamedTuple):
    """A cluster by its URL (no login) or by its kubeconfig; an empty context is the kubeconfig's current one."""

    url: str = ""
    kubeconfig: str = ""
    context: str = ""

    @property
    def shown(self) -> str:
        """Its name for people."""
        return self.url or (f"{self.kubeconfig}, context {self.context}" if self.context else self.kubeconfig)

    def environment(self) -> dict[str, str]:
        """Settings of the services that talk to it."""
        named = {
            "BERTH_KUBE_URL": self.url,
            "BERTH_KUBECONFIG": self.kubeconfig,
            "BERTH_KUBE_CONTEXT": self.context,
        }
        return {name: value for name, value in named.items() if value}

    def kubectl(self, *words: str) -> str:
        """A kubectl command on this cluster, ready to copy."""
        login = ["--server", self.url] if self.url else ["--kubeconfig", self.kubeconfig]
        context = ["--context", self.context] if self.context else []
        return shlex.join(["kubectl", *login, *context, *words])

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Kube]:
        """A client, closed afterwards. Raises CliError when the options or files cannot be used."""
        settings = KubeSettings(
            url=self.url,
            kubeconfig=self.kubeconfig,
            context=self.context,
            timeout_s=REQUEST_TIMEOUT_S,
            connections=8,
            user_agent="berth-cli",
        )
        try:
            kube = await Kube.connect(settings)
        except KubeConfigError as error:
            raise CliError(str(error)) from error
        try:
            yield kube
        finally:
            await kube.close()


def target_of(url: str | None, kubeconfig: Path | None, context: str | None) -> Target | None:
    """The cluster that the options name, None when they name none. Raises CliError."""
    if url and kubeconfig:
        raise CliError("--kube-url and --kubeconfig exclude each other")
    if context and not kubeconfig:
        raise CliError("--context needs --kubeconfig")
    if url:
        if not url.startswith(("http://", "https://")):
            raise CliError(f"--kube-url: {url!r} is neither http:// nor https://")
        return Target(url=url)
    if kubeconfig is None:
        return None
    if not kubeconfig.is_file():
        raise CliError(f"--kubeconfig: {kubeconfig} is not a file")
    return Target(kubeconfig=str(kubeconfig.resolve()), context=context or "")
