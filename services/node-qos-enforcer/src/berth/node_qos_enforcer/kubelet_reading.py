"""What kubelet says: the file in which its CPU manager keeps what it gave out, its configuration, its pods."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from berth.contracts.base import Problem
from berth.contracts.kube import Pod
from berth.kubelet.core.configz import BYTES_MAX as CONFIG_BYTES_MAX
from berth.kubelet.core.configz import FILE, KubeletConfig, read_config_file, read_configz
from berth.kubelet.core.pod_list import BYTES_MAX as PODS_BYTES_MAX
from berth.kubelet.core.pod_list import pods_now, read_pods
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.settings import Settings
from berth.rules.cpus.kubelet import CHECKPOINT, CHECKPOINT_LENGTH_MAX, Checkpoint, read_checkpoint

TIMEOUT_S: Final = 3.0
ASK_EVERY_S: Final = 30.0
"""Kubelet's configuration changes when kubelet is started anew."""


def read_state(root: str) -> Checkpoint | Problem | None:
    """The CPU manager's checkpoint below kubelet's root; None where there is none."""
    try:
        text = DiskTree(root, max_bytes=CHECKPOINT_LENGTH_MAX).read(CHECKPOINT)
    except Unreadable as error:
        return Problem(field=CHECKPOINT, message=f"cannot be read: {error.reason}")
    return None if text is None else read_checkpoint(text)


def read_config(path: str) -> KubeletConfig | Problem | None:
    """Kubelet's configuration file; None where it says nothing. A file that is not there says nothing."""
    folder, _, name = path.rpartition("/")
    try:
        text = DiskTree(folder or "/", max_bytes=CONFIG_BYTES_MAX).read(name)
    except Unreadable as error:
        return Problem(field=FILE, message=f"cannot be read: {error.reason}")
    return None if text is None else read_config_file(text)


class KubeletApi:
    """Asks kubelet over HTTP. Blocking."""

    def __init__(self, url: str, *, token_file: str, ca_file: str) -> None:
        """Take where kubelet answers, the file of the token to show, and what its certificate is checked by."""
        self._url = url.rstrip("/")
        self._token_file, self._ca_file = token_file, ca_file

    def get(self, path: str, field: str, bytes_max: int) -> str | Problem:
        """The answer's text. A problem names `field`."""
        url = f"{self._url}/{path}"
        try:
            request = Request(url, headers=self._headers())  # noqa: S310 - the scheme is checked by settings
            with self._opener(url).open(request, timeout=TIMEOUT_S) as answer:
                body = answer.read(bytes_max + 1)
        except (URLError, OSError, ValueError, HTTPException) as error:
            return Problem(field=field, message=f"kubelet does not answer: {error}"[:200])
        if len(body) > bytes_max:
            return Problem(field=field, message=f"is larger than {bytes_max} bytes")
        return str(body.decode(errors="replace"))

    def _headers(self) -> dict[str, str]:
        # Kubelet's tokens are renewed in their file.
        token = Path(self._token_file).read_text().strip() if self._token_file else ""
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _opener(self, url: str) -> OpenerDirector:
        if urlsplit(url).scheme != "https":
            return build_opener(ProxyHandler({}))
        context = ssl.create_default_context(cafile=self._ca_file or None)
        # Its certificate names the node, and it is asked by an address.
        context.check_hostname = False
        return build_opener(ProxyHandler({}), HTTPSHandler(context=context))


def kubelet_api(settings: Settings) -> KubeletApi:
    """Kubelet, as the settings say where it is and how to ask."""
    token, ca = settings.kubelet_token_file, settings.kubelet_ca_file
    return KubeletApi(settings.kubelet_url, token_file=token, ca_file=ca)


class Configz:
    """Asks kubelet for its configuration now and then. Blocking."""

    def __init__(self, api: KubeletApi, monotonic: Callable[[], float]) -> None:
        """Take whom to ask."""
        self._api = api
        self._monotonic = monotonic
        self._asked_s: float | None = None
        self._answer: KubeletConfig | Problem | None = None

    def read(self) -> KubeletConfig | Problem:
        """The configuration as it was some seconds ago at most; a problem is asked about again at once."""
        now_s = self._monotonic()
        is_old = self._asked_s is None or now_s - self._asked_s >= ASK_EVERY_S
        if is_old or self._answer is None or isinstance(self._answer, Problem):
            body = self._api.get("configz", "configz", CONFIG_BYTES_MAX)
            self._answer, self._asked_s = body if isinstance(body, Problem) else read_configz(body), now_s
        return self._answer


class KubeletPods:
    """Asks kubelet for its pods. Blocking. One that does not answer, or has just started, leaves those of before."""

    def __init__(self, api: KubeletApi) -> None:
        """Take whom to ask."""
        self._api = api
        self.pods: tuple[Pod, ...] = ()
        self.problem: Problem | None = None

    def read(self) -> tuple[Pod, ...]:
        """The pods that count now; what was wrong with the answer is `problem`."""
        body = self._api.get("pods", "pods", PODS_BYTES_MAX)
        read = body if isinstance(body, Problem) else read_pods(body)
        self.pods = pods_now(self.pods, read)
        self.problem = read if isinstance(read, Problem) else next(iter(read.problems), None)
        return self.pods
