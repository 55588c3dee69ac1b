"""The service as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp

from berth.cluster_watcher.settings import Settings
from berth.testing.environment import environment_of
from berth.testing.views import eventually, eventually_async


async def test_it_starts_serves_and_stops(world: Any, tmp_path: Path) -> None:
    await world.create_node("n1")
    await world.create_pod("a")
    port_file = tmp_path / "port"
    settings = Settings(
        nats_url=world.nats.url, kube_url=world.sim.url, port_file=str(port_file), exit_with_parent=True, instance="w"
    )
    environment = {"PATH": os.environ["PATH"]} | environment_of(settings)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "berth.cluster_watcher", env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        await eventually(lambda: world.cluster.pods == {"a"} and "node.n1" in world.cluster.values)
        base = f"http://127.0.0.1:{port_file.read_text().strip()}"
        async with aiohttp.ClientSession() as http:

            async def ready() -> bool:
                async with http.get(f"{base}/readyz") as answer:
                    return answer.status == 200

            async def measured() -> bool:
                async with http.get(f"{base}/metrics") as answer:
                    return 'berth_cluster_objects{kind="pods"} 1.0' in await answer.text()

            await eventually_async(ready)
            await eventually_async(measured)
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
