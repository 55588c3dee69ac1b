"""What kubelet says of itself: the file in which its CPU manager keeps what it gave out, and its configuration."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from berth.contracts.base import Problem
from berth.kubelet.core.configz import BYTES_MAX, KubeletConfig, read_configz
from berth.node_qos_enforcer.files import DiskTree, Unreadable
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


class Configz:
    """Asks kubelet for its configuration now and then. Blocking."""

    def __init__(self, url: str, *, token_file: str, ca_file: str, monotonic: Callable[[], float]) -> None:
        """Take where kubelet answers, the file of the token to show, and what its certificate is checked by."""
        self._url = f"{url.rstrip('/')}/configz"
        self._token_file, self._ca_file = token_file, ca_file
        self._monotonic = monotonic
        self._asked_s: float | None = None
        self._answer: KubeletConfig | Problem | None = None

    def read(self) -> KubeletConfig | Problem:
        """The configuration as it was some seconds ago at most; a problem is asked about again at once."""
        now_s = self._monotonic()
        is_old = self._asked_s is None or now_s - self._asked_s >= ASK_EVERY_S
        if is_old or self._answer is None or isinstance(self._answer, Problem):
            self._answer, self._asked_s = self._ask(), now_s
        return self._answer

    def _ask(self) -> KubeletConfig | Problem:
        try:
            request = Request(self._url, headers=self._headers())  # noqa: S310 - the scheme is checked by settings
            with self._opener().open(request, timeout=TIMEOUT_S) as answer:
                body = answer.read(BYTES_MAX + 1)
        except (URLError, OSError, ValueError) as error:
            return Problem(field="configz", message=f"kubelet does not answer: {error}"[:200])
        if len(body) > BYTES_MAX:
            return Problem(field="configz", message=f"is larger than {BYTES_MAX} bytes")
        return read_configz(body.decode(errors="replace"))

    def _headers(self) -> dict[str, str]:
        # Kubelet's tokens are renewed in their file.
        token = Path(self._token_file).read_text().strip() if self._token_file else ""
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _opener(self) -> OpenerDirector:
        if urlsplit(self._url).scheme != "https":
            return build_opener(ProxyHandler({}))
        context = ssl.create_default_context(cafile=self._ca_file or None)
        # Its certificate names the node, and it is asked by an address.
        context.check_hostname = False
        return build_opener(ProxyHandler({}), HTTPSHandler(context=context))
