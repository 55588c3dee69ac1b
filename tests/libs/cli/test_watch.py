"""`berth watch` as a process whose output somebody stops reading."""

from __future__ import annotations

import subprocess
import sys

from berth.testing.nats_server import NatsServer


def test_a_closed_pipe_ends_it_quietly_though_nothing_happens(nats_server: NatsServer) -> None:
    command = [sys.executable, "-m", "berth.cli", "watch", "--nats", nats_server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stderr.readline() == f"asking bus {nats_server.url}\n"
            assert process.stderr.readline() == "listening on berth.v1.evt.>\n"
            process.stdout.close()
            assert process.wait(20) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()
