"""What connections to the API server are made of."""

from __future__ import annotations

import socket

import pytest

from berth.kube.transport import _socket


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="needs a kernel with TCP_KEEPIDLE: Linux")
def test_a_peer_that_is_gone_is_noticed() -> None:
    """Within half a minute, by the kernel: a watch reads, and would never hear that nobody is there."""
    with _socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle_s, every_s, times = (
            made.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
    assert idle_s + every_s * times <= 30
