"""How to reach an API server. Every field has a default that suits a pod in a cluster."""

from __future__ import annotations

import msgspec

WATCH_PAUSE_PER_LINE_S = 0.002


class KubeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API server is, who we are, and how much we take of it.

    The first that is given wins: `url` (with `token` or `token_file`, `ca_file`), then `kubeconfig` (with `context`),
    then the service account of the pod we run in, then `$KUBECONFIG` or `~/.kube/config`.
    """

    url: str = ""
    token: str = ""
    """Bearer token for `url`."""
    token_file: str = ""
    """File with the bearer token for `url`; read again every minute."""
    ca_file: str = ""
    """Certificates to trust for `url`, PEM; empty trusts the machine's."""
    kubeconfig: str = ""
    """Path of a kubeconfig; several, separated by colons, are merged."""
    context: str = ""
    """Context of the kubeconfig; empty takes its current one."""
    connections: int = 64
    """Connections for ordinary requests; each watch has one of its own."""
    timeout_s: float = 30.0
    """Longest time for one ordinary request, waiting for a free connection included."""
    page_bytes_max: int = 256 << 20
    """Largest response body; a list whose page is larger is asked for in smaller pages."""
    line_bytes_max: int = 32 << 20
    """Longest line of a watch."""
    watch_pause_s: float = 0.0
    """How long a watch is left alone at most after a read: a burst then costs one turn instead of one per event."""
    user_agent: str = "berth"

    def __repr__(self) -> str:
        """Without the token: settings end up in logs."""
        return f"KubeSettings(url={self.url!r}, kubeconfig={self.kubeconfig!r}, context={self.context!r})"

    def rest_s(self, lines: int) -> float:
        """How long a watch is left alone after a read that brought so many lines.

        The less it brought, the less is to come: an event by itself is not followed by a long pause, and from 500 a
        second on each pause brings as many as make the next one longer.
        """
        return min(self.watch_pause_s, lines * WATCH_PAUSE_PER_LINE_S)

    def problems(self) -> list[str]:
        """What is wrong with these settings, naming the field."""
        found = []
        if self.url and not self.url.startswith(("http://", "https://")):
            found.append(f"url: {self.url!r} is neither http:// nor https://")
        if not 1 <= self.connections <= 10_000:
            found.append(f"connections: {self.connections} is not within 1..10000")
        if not 0 < self.timeout_s <= 3600:
            found.append(f"timeout_s: {self.timeout_s} is not within 0..3600")
        if self.page_bytes_max < 1 << 10 or self.line_bytes_max < 1 << 10:
            found.append("page_bytes_max, line_bytes_max: less than 1024")
        if not 0 <= self.watch_pause_s <= 1:
            found.append(f"watch_pause_s: {self.watch_pause_s} is not within 0..1")
        if self.token and self.token_file:
            found.append("token, token_file: only one of them")
        return found
