"""The load of a replay: a cluster that is created first, then pods in their order, or at their times."""

from __future__ import annotations

import asyncio
import heapq
from typing import Any, NamedTuple

import aiohttp
import msgspec

from berth.cli.errors import CliError
from berth.cli.load.api import Api, path_of
from berth.cli.load.creator import Creation, create
from berth.cli.load.pods import PodWatch
from berth.cli.replay.settings import ReplayOptions
from berth.simcluster.openb import TraceError, TracePod, read_nodes, read_pods


class Trace(NamedTuple):
    """What was read: manifests of nodes and devices, the pods in order of arrival, and how many GPUs there are."""

    cluster: list[dict[str, Any]]
    nodes: int
    gpus: int
    pods: list[TracePod]


def read(options: ReplayOptions) -> Trace:
    """Read the trace. Raises CliError naming the file and line of a problem."""
    try:
        nodes = read_nodes(options.folder)
        pods = read_pods(options.folder, options.trace)
    except TraceError as error:
        raise CliError(str(error)) from error
    if options.timed and any(pod.created_s is None for pod in pods):
        raise CliError(f"the pod list {options.trace!r} has no times: it can only fill the cluster")
    cluster = [manifest for index, node in enumerate(nodes) for manifest in node.manifests(index=index)]
    return Trace(cluster, len(nodes), sum(node.gpus for node in nodes), pods)


async def fill(api: Api, watch: PodWatch, trace: Trace, options: ReplayOptions) -> None:
    """Create all pods in order; nothing is deleted."""
    await create(api, [_creation(watch, pod) for pod in trace.pods], rate=options.rate)


async def timed(api: Api, watch: PodWatch, trace: Trace, options: ReplayOptions) -> None:
    """Create and delete pods at their times, divided by the scale."""
    first = min(pod.created_s or 0 for pod in trace.pods)
    moments: list[tuple[float, int, int]] = []
    for index, pod in enumerate(trace.pods):
        moments.append((((pod.created_s or 0) - first) / options.timed, index, 0))
        if pod.deleted_s is not None:
            moments.append(((pod.deleted_s - first) / options.timed, index, 1))
    heapq.heapify(moments)
    loop = asyncio.get_running_loop()
    began = loop.time()
    while moments:
        at, index, what = heapq.heappop(moments)
        await asyncio.sleep(max(0.0, began + at - loop.time()))
        due = [(index, what)]
        while moments and began + moments[0][0] <= loop.time():
            due.append(heapq.heappop(moments)[1:])
        await create(api, [_creation(watch, trace.pods[each]) for each, deletes in due if not deletes])
        await asyncio.gather(*(_delete(api, watch, trace.pods[each]) for each, deletes in due if deletes))


def _creation(watch: PodWatch, pod: TracePod) -> Creation:
    manifest = pod.manifest()
    name = f"{manifest['metadata']['namespace']}/{pod.name}"
    watch.expect(name)
    return Creation(path_of(manifest), msgspec.json.encode(manifest), watch.sending(name))


async def _delete(api: Api, watch: PodWatch, pod: TracePod) -> None:
    for _ in range(60):
        try:
            await api.delete(f"/api/v1/namespaces/default/pods/{pod.name}")
        except (aiohttp.ClientError, TimeoutError, OSError):
            await asyncio.sleep(0.5)
            continue
        watch.expect(f"default/{pod.name}").gone = True
        return
