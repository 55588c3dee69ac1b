"""Time that moves when a test says so, and services in processes of their own."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

DEADLINE_S = 30.0


class ManualClock:
    """Sleepers wake in order of their time when `advance` reaches it."""

    def __init__(self):
        self.time = 1_000.0
        self._sleepers = []
        self._order = itertools.count()

    def now(self):
        return 1_700_000_000.0 + self.time

    def monotonic(self):
        return self.time

    async def sleep(self, seconds):
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time + seconds, next(self._order), woken))
        await woken

    @property
    def sleeping(self):
        return len(self._sleepers)

    async def advance(self, seconds):
        end = self.time + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.time, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self.time = end


async def settle():
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def clock():
    return ManualClock()


class Service:
    """A program that calls `run`, in a process of its own."""

    def __init__(self, folder: Path, body: str, environ: dict[str, str]):
        self.port_file = folder / "port"
        self.err = folder / "err"
        script = folder / "service.py"
        script.write_text(
            "import asyncio, sys\nfrom berth.runtime import *\nfrom berth import runtime\n" + textwrap.dedent(body)
        )
        self._err = self.err.open("wb")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "OTEL_"))}
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            env=inherited | {"BERTH_PORT_FILE": str(self.port_file), "BERTH_INSTANCE": "one"} | environ,
            stderr=self._err,
            stdout=self._err,
            start_new_session=True,
        )

    def text(self) -> str:
        return self.err.read_text()

    def lines(self):
        return [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]

    def messages(self):
        return [line["message"] for line in self.lines()]

    def wait_for(self, condition, what="condition"):
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            result = condition()
            if result:
                return result
            if self.process.poll() is not None:
                result = condition()
                assert result, f"{what}: ended with {self.process.returncode}\n{self.text()}"
                return result
            time.sleep(0.02)
        raise AssertionError(f"{what}: not in time\n{self.text()}")

    def wait_for_message(self, message):
        return self.wait_for(lambda: next((line for line in self.lines() if line["message"] == message), None), message)

    def get(self, page):
        port = int(self.wait_for(lambda: self.port_file.exists() and self.port_file.read_text(), "port file"))
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def code(self):
        return self.process.wait(timeout=DEADLINE_S)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._err.close()


@pytest.fixture
def start_service(tmp_path):
    """Starts programs; whatever runs at the end of the test is killed."""
    services = []

    def start(body, **environ):
        folder = tmp_path / str(len(services))
        folder.mkdir()
        services.append(Service(folder, body, environ))
        return services[-1]

    yield start
    for service in services:
        service.close()
