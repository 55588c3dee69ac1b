"""admission-webhook as the API server meets it: its own process, TLS connections that are kept, wall clock.

Requests come at random, so many a second, whatever became of those before (an open loop): what is measured is from the
moment at which one is due to the last byte of its answer. They are pods as they are created, half of them to be changed
and half to be checked, of a cluster with fifty profiles of which three match, a thousand quotas and fifty thousand
pods. Every gate about pods is on, and pods change meanwhile. In turns with it a bare server of the same kind, in a
process of its own, decodes the same bytes and admits. Both have one core, which the client keeps off; how long they
stood in line for it is said, since on a busy machine that is most of what is measured. Prints medians of the rounds and
ratios; asserts nothing.

    python tests/bench/bench_webhook.py [--rate 200] [--seconds 10] [--rounds 3] [--pods 50000] [--changes 200]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
from aiohttp import web
from bench_admission import BATCH, CALLS, MIXED, body, pod
from told import tell

from berth.admission_webhook import keys
from berth.bus import Bus, BusSettings
from berth.contracts import buckets, names, state
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.subjects import named_key, namespaced_key, synced_key
from berth.testing.nats_server import NatsServer

CONNECTIONS = 16
WARM = 300
PROFILES, QUOTAS, FAN = 50, 1_000, 50
GATES = (
    "EnableQuotaAdmission=true,EnableQuotaAdmissionOnUpdate=true,ValidatePodDeviceResource=true,MultiQuotaTree=true,"
    "EnablePodEnhancedValidator=true"
)
UNIT = {names.CPU: 1_000, names.MEMORY: 1 << 30}
KINDS = ("clustercolocationprofiles", "priorityclasses", "namespaces", "elasticquotas")


class Round(NamedTuple):
    """What one server did with one round of requests."""

    p50_ms: float
    p99_ms: float
    most_ms: float
    core: float
    """Share of a core that its process took."""
    queued: float
    """Share of the time in which its process stood in line for the core."""


def messages(pods: int) -> list[tuple[str, Message]]:
    """A cluster, as STATE has it."""
    found: list[tuple[str, Message]] = []
    specs: dict[str, dict[str, Any]] = {
        f"p{number}": {"selector": {"matchLabels": {"app": f"other-{number}", "tier": "x"}}}
        for number in range(PROFILES - 3)
    }
    specs |= {"a": BATCH, "b": MIXED, "c": {**BATCH, "patch": {"spec": {"terminationGracePeriodSeconds": 30}}}}
    for name, spec in specs.items():
        profile = state.ClusterColocationProfile(name=name, uid=name, version=1, spec=spec)
        found.append((named_key("clustercolocationprofile", name), profile))
    found.append(
        (named_key("priorityclass", "koord-batch"), state.PriorityClass(name="koord-batch", version=1, value=5000))
    )
    for number in range(QUOTAS):
        name = f"team-{number}"
        found.append((named_key("namespace", name), state.Namespace(name=name, version=1, labels={"team": name})))
        parent = "" if number < QUOTAS // FAN else f"team-{number % (QUOTAS // FAN)}"
        labels = {names.LABEL_QUOTA_PARENT: parent} if parent else {names.LABEL_QUOTA_IS_PARENT: "true"}
        most = {key: amount * 1_000_000 for key, amount in UNIT.items()}
        quota = state.ElasticQuota(
            namespace="quotas", name=name, uid=name, version=1, labels=labels, min=UNIT, max=most
        )
        found.append((namespaced_key("elasticquota", "quotas", name), quota))
    found += [seen(number, 1) for number in range(pods)]
    found += [(synced_key(kind), state.Synced(kind=kind, version=1, complete=True)) for kind in KINDS]
    return found


def seen(number: int, version: int) -> tuple[str, Message]:
    """A pod of the cluster."""
    namespace, name = f"team-{number % QUOTAS}", f"pod-{number}"
    labels = {names.LABEL_QUOTA_NAME: f"team-{random.Random(number).randrange(QUOTAS)}"}
    template = state.PodTemplate(labels=labels, requests=UNIT)
    found = state.Pod(namespace=namespace, name=name, uid=name, version=version, template=template, node="n")
    return namespaced_key("pod", namespace, name), found


async def changing(put: Callable[[str, bytes], object], pods: int, rate: float) -> None:
    """So many pods a second are seen anew, for ever."""
    version = 1
    while True:
        version += 1
        for number in range(pods):
            key, message = seen(number, version)
            put(key, encode(message))
            await asyncio.sleep(1 / rate)


def bodies() -> list[tuple[str, bytes]]:
    """Requests, as they take turns: pods of many teams, each asked about twice."""
    rng, found = random.Random(1), []
    for _ in range(200):
        made = pod()
        made["metadata"]["labels"][names.LABEL_QUOTA_NAME] = f"team-{rng.randrange(QUOTAS // FAN, QUOTAS)}"
        found += [(path, body(made)) for path in CALLS]
    return found


class Connection:
    """One kept connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Without a look at the certificate: what it costs is the client's."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context))

    async def ask(self, path: str, content: bytes) -> bytes:
        """The body of the answer. Raises RuntimeError for any status but 200."""
        head = f"POST {path}?timeout=2s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        status, *fields = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        (length,) = (int(each.split(":")[1]) for each in fields if each.lower().startswith("content-length"))
        answer = await self._reader.readexactly(length)
        if " 200 " not in status:
            raise RuntimeError(f"{status} {answer!r}")
        return answer


async def driven(
    port: int, process: psutil.Process, asked: list[tuple[str, bytes]], rate: float, seconds: float
) -> Round:
    """One round."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await Connection.open(port))
    rng, spent = random.Random(7), list[float]()

    async def one(due: float, path: str, content: bytes) -> None:
        connection = await free.get()
        await connection.ask(path, content)
        spent.append(time.perf_counter() - due)
        free.put_nowait(connection)

    for number in range(WARM):
        await one(0.0, *asked[number % len(asked)])
    spent.clear()
    used, queued, began = sum(process.cpu_times()[:2]), queued_s(process), time.perf_counter()
    due, tasks = began, []
    while due < began + seconds:
        due += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(due, *asked[len(tasks) % len(asked)])))
    await asyncio.gather(*tasks)
    took = time.perf_counter() - began
    while not free.empty():
        free.get_nowait()._writer.close()
    core = (sum(process.cpu_times()[:2]) - used) / took
    cuts = statistics.quantiles(spent, n=100)
    in_line = (queued_s(process) - queued) / took
    return Round(cuts[49] * 1e3, cuts[98] * 1e3, max(spent) * 1e3, core, in_line)


def queued_s(process: psutil.Process) -> float:
    """How long the main thread of a process was ready to run, and did not, in seconds."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9


async def until_asked(port: int, path: str, content: bytes, holds: Callable[[bytes], bool]) -> None:
    """Wait until a server answers so."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if holds(await (await Connection.open(port)).ask(path, content)):
                return
        await asyncio.sleep(0.2)
    raise RuntimeError("a server is not ready")


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def started(
    arguments: list[str], core: int, environment: dict[str, str] | None = None
) -> AsyncIterator[psutil.Process]:
    """A process on one core."""
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [sys.executable, *arguments], env={**os.environ, **(environment or {})}, stdout=log, stderr=log
        )
        try:
            os.sched_setaffinity(child.pid, {core})
            yield psutil.Process(child.pid)
        finally:
            child.terminate()
            child.wait(20)


def bare(port: int) -> None:
    """The baseline: decode, admit."""
    answer = msgspec.json.encode({"response": {"uid": "u" * 36, "allowed": True}})

    async def handle(request: web.Request) -> web.Response:
        msgspec.json.decode(await request.read())
        return web.Response(body=answer, content_type="application/json")

    app = web.Application(client_max_size=8 << 20)
    app.add_routes([web.post(path, handle) for path in CALLS])
    context = keys.server_context()
    keys.serve_with(context, keys.make("127.0.0.1", time.time(), 3600))
    web.run_app(app, host="127.0.0.1", port=port, ssl_context=context, access_log=None, print=None)


async def measured(options: argparse.Namespace) -> None:
    """Both servers, in turns."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    asked = bodies()
    with NatsServer(sync="2m") as nats:
        bus = await Bus.connect(BusSettings(url=nats.url), service="bench")
        await bus.ensure()
        owned = bus.owned(buckets.STATE)
        await owned.ready()
        for key, message in messages(options.pods):
            await owned.wait_while_full()
            owned.put(key, encode(message))
        await owned.drain()
        ports = free_port(), free_port()
        settings = {
            "BERTH_NATS_URL": nats.url,
            "BERTH_WEBHOOK_PORT": str(ports[0]),
            "BERTH_WEBHOOK_URL": f"https://127.0.0.1:{ports[0]}",
            "BERTH_ADMISSION_GATES": GATES,
            "BERTH_LOG_LEVEL": "error",
        }
        file = str(Path(__file__).resolve())
        async with (
            started(["-m", "berth.admission_webhook"], cores[-1], settings) as webhook,
            started([file, "--bare", str(ports[1])], cores[-1]) as plain,
        ):
            path, content = asked[0]
            await until_asked(ports[0], path, content, lambda answer: b'"patch"' in answer)
            await until_asked(ports[1], path, content, lambda answer: b"allowed" in answer)
            change = asyncio.create_task(changing(owned.put, options.pods, options.changes))
            rounds: dict[str, list[Round]] = {"webhook": [], "bare": []}
            for _ in range(options.rounds):
                for name, port, process in (("bare", ports[1], plain), ("webhook", ports[0], webhook)):
                    rounds[name].append(await driven(port, process, asked, options.rate, options.seconds))
            change.cancel()
            memory = webhook.memory_info().rss / 2**20
        await bus.close()
    print(
        f"{options.rate:g} requests/s of {len(content)} bytes, {CONNECTIONS} connections; {PROFILES} profiles, "
        f"{QUOTAS} quotas, {options.pods} pods, {options.changes:g} changes/s; "
        f"{options.rounds} rounds of {options.seconds:g} s; {memory:.0f} MiB"
    )
    medians = {name: Round(*map(statistics.median, zip(*found, strict=True))) for name, found in rounds.items()}
    for name, found in medians.items():
        print(
            f"{name:8s} p50 {found.p50_ms:6.2f} ms   p99 {found.p99_ms:6.2f} ms   most {found.most_ms:6.1f} ms   "
            f"{100 * found.core:5.1f} % of a core, {100 * found.queued:4.1f} % in line for it"
        )
        tell("answers", server=name, **found._asdict())
    mine, theirs = medians["webhook"], medians["bare"]
    print(f"ratio of p99 {mine.p99_ms / theirs.p99_ms:.1f}, of the core {mine.core / theirs.core:.1f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--changes", type=float, default=200)
    parser.add_argument("--bare", type=int, metavar="PORT", help="be the baseline")
    options = parser.parse_args()
    if options.bare:
        bare(options.bare)
    else:
        asyncio.run(measured(options))


if __name__ == "__main__":
    main()
