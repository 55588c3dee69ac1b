"""What connections to the API server are made of."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from berth.kube import PODS, transport


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="needs a kernel with TCP_KEEPIDLE: Linux")
async def test_a_peer_that_is_gone_is_noticed(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within half a minute, by the kernel: a watch reads, and would never hear that nobody is there."""
    made: list[socket.socket] = []
    make = transport._socket

    def noting(info: Any) -> socket.socket:
        made.append(make(info))
        return made[-1]

    monkeypatch.setattr(transport, "_socket", noting)
    kube = await connect()
    await kube.get(PODS, "ns", "p")
    assert len(made) == 1, "the one that the request went through"
    assert made[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    idle_s, every_s, times = (
        made[0].getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    assert idle_s + every_s * times <= 30
