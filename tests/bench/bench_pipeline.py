"""The whole control plane on this machine: plain pods from creation to bind, through every service and the bus.

Pods come as fast as the simulated API takes them; then a second lot comes at a steady rate, for latency. CPU is that of
each process, per pod bound in the first lot. Prints tables; asserts nothing.

    python tests/bench/bench_pipeline.py [--pods 4000] [--nodes 400] [--solvers 1] [--rate 100]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from typing import Any

from told import tell

from berth.cli.load.api import Api, path_of
from berth.cli.load.creator import Creation, create, create_all
from berth.cli.load.pods import PodWatch
from berth.cli.replay.processes import Processes
from berth.cli.stack.stack import Stack
from berth.contracts.codec import encode
from berth.simcluster.generate import PodRequest, node_manifest, pod_manifest

WAIT_S = 300.0
STEADY_S = 10.0
SIM = ["--no-running", "--heartbeat-seconds", "100000"]


async def lot(api: Api, watch: PodWatch, prefix: str, count: int, rate: float) -> list[float]:
    """Create pods and wait until all are bound; when each was sent and bound, as latencies in milliseconds."""
    creations = []
    names = [f"{prefix}-{number}" for number in range(count)]
    for name in names:
        manifest: dict[str, Any] = pod_manifest(name, PodRequest(10, 16))
        creations.append(Creation(path_of(manifest), encode(manifest), watch.sending(f"default/{name}")))
    await create(api, creations, rate=rate)
    fates = [watch.expect(f"default/{name}") for name in names]
    async with asyncio.timeout(WAIT_S):
        while not all(fate.node for fate in fates):
            await asyncio.sleep(0.02)
    return [1000 * (fate.bound - fate.sent) for fate in fates]


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def run(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    async with (
        Stack(replicas={"placement-solver": options.solvers}, sim_arguments=SIM) as stack,
        Api(stack.kube_url) as api,
    ):
        nodes = [
            node_manifest(f"node-{number}", cpu_milli=64_000, memory_mib=262_144, pods=500, index=number)
            for number in range(options.nodes)
        ]
        await create_all(api, nodes)
        watch = PodWatch(api)
        watching = asyncio.create_task(watch.run())
        await watch.seen.wait()
        await lot(api, watch, "warm", 50, 0)
        processes = Processes(stack)
        processes.begin()
        began = loop.time()
        rushed = await lot(api, watch, "rush", options.pods, 0)
        took_s = max(fate.bound for name, fate in watch.fates.items() if "/rush-" in name) - began
        processes.sample()
        uses = processes.uses()
        steady = await lot(api, watch, "steady", int(options.rate * STEADY_S), options.rate)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    print(f"{options.pods} plain pods, {options.nodes} nodes, {options.solvers} solver(s)")
    print(f"as fast as it goes: {options.pods / took_s:.0f} pods/s, p50 {statistics.median(rushed):.0f} ms")
    print(
        f"at {options.rate:g} pods/s:    p50 {statistics.median(steady):.0f} ms, p99 {percentile(steady, 0.99):.0f} ms"
    )
    tell(
        "rates",
        pods=options.pods,
        nodes=options.nodes,
        solvers=options.solvers,
        pods_a_second=options.pods / took_s,
        rushed_p50_ms=statistics.median(rushed),
        rate=options.rate,
        p50_ms=statistics.median(steady),
        p99_ms=percentile(steady, 0.99),
    )
    print(f"{'process':<24}{'CPU ms/pod':>11}{'peak MiB':>10}")
    for use in uses:
        print(f"{use.name:<24}{1000 * use.cpu_s / options.pods:>11.2f}{use.rss_bytes / 2**20:>10.0f}")
        tell("processes", name=use.name, cpu_ms_a_pod=1000 * use.cpu_s / options.pods, peak_mib=use.rss_bytes / 2**20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=4_000)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--solvers", type=int, default=1)
    parser.add_argument("--rate", type=float, default=100.0)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
