"""How fast the simulated API is: creates and binds per second over HTTP, server and client in two processes.

Run: `python tests/bench/bench_simcluster.py [--pods 5000] [--connections 32] [--watches 1]`
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import psutil
from told import tell

POD = {
    "metadata": {"labels": {"app": "bench", "koordinator.sh/qosClass": "LS"}},
    "spec": {
        "schedulerName": "berth-scheduler",
        "containers": [
            {
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi", "koordinator.sh/gpu-core": "50"},
                    "limits": {"cpu": "1", "memory": "1Gi", "koordinator.sh/gpu-core": "50"},
                },
            }
        ],
    },
}


async def many(count: int, connections: int, call: Callable[[int], object]) -> float:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await call(number)  # type: ignore[misc]

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(connections)))
    return count / (time.perf_counter() - started)


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


async def watch(session: aiohttp.ClientSession, seen: list[int]) -> None:
    async with session.get("/api/v1/pods?watch=1", timeout=aiohttp.ClientTimeout(total=None)) as response:
        async for chunk in response.content.iter_any():
            seen[0] += chunk.count(b"\n")


async def bench(pid: int, url: str, pods: int, connections: int, watches: int) -> None:
    connector = aiohttp.TCPConnector(limit=connections + watches)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        seen = [[0] for _ in range(watches)]
        watchers = [asyncio.create_task(watch(session, each)) for each in seen]
        headers = {"Content-Type": "application/json"}

        async def create(number: int) -> None:
            pod = {**POD, "metadata": {**POD["metadata"], "name": f"pod-{number}"}}  # type: ignore[dict-item]
            body = json.dumps(pod).encode()
            async with session.post("/api/v1/namespaces/default/pods", data=body, headers=headers) as response:
                assert response.status == 201, await response.text()
                await response.read()

        async def bind(number: int) -> None:
            body = b'{"metadata":{"annotations":{"a":"b"}},"target":{"kind":"Node","name":"node-1"}}'
            path = f"/api/v1/namespaces/default/pods/pod-{number}/binding"
            async with session.post(path, data=body, headers=headers) as response:
                assert response.status == 201, await response.text()
                await response.read()

        for name, call in (("creates", create), ("binds", bind)):
            before = cpu_s(pid)
            rate = await many(pods, connections, call)
            each_ms = (cpu_s(pid) - before) * 1000 / pods
            print(f"{name:8} {rate:6.0f}/s, server {each_ms:.3f} ms CPU each")
            tell("calls", call=name, rate=rate, cpu_ms=each_ms)
        started = time.perf_counter()
        async with session.get("/api/v1/pods") as response:
            size = len(await response.read())
        print(f"list of {pods} pods: {(time.perf_counter() - started) * 1000:.0f} ms, {size / 1e6:.1f} MB")
        while any(each[0] < 2 * pods for each in seen):
            await asyncio.sleep(0.01)
        print("events seen by the watches:", [each[0] for each in seen])
        for task in watchers:
            task.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--watches", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        command = [sys.executable, "-m", "berth.simcluster", "serve", "--no-kubelet", "--port-file", str(port_file)]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 30
            while not port_file.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            url = f"http://127.0.0.1:{port_file.read_text().strip()}"
            asyncio.run(bench(server.pid, url, options.pods, options.connections, options.watches))
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    main()
