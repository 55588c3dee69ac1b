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
from berth.simcluster.generate.mixed import LABEL_SHAPE, MixedShape, generate_mixed
from berth.simcluster.openb import TraceError, read_nodes, read_pods


class Arrival(NamedTuple):
    """One pod. Times are in seconds since the trace began, None where it has no times; `shape` is empty where pods are
    not distinguished."""

    manifest: dict[str, Any]
    created_s: int | None = None
    deleted_s: int | None = None
    shape: str = ""

    @property
    def name(self) -> str:
        """`namespace/name`."""
        meta = self.manifest["metadata"]
        return f"{meta['namespace']}/{meta['name']}"


class Trace(NamedTuple):
    """What is replayed: manifests of nodes and devices, `ahead` what is created after them and before the pods, the
    pods in order of arrival, and how many GPUs there are."""

    cluster: list[dict[str, Any]]
    nodes: int
    gpus: int
    pods: list[Arrival]
    ahead: list[dict[str, Any]] = []


def read(options: ReplayOptions) -> Trace:
    """Read the trace, or make it. Raises CliError naming what is wrong, of a file the line as well."""
    return _generated(options) if options.generated else _recorded(options)


def _generated(options: ReplayOptions) -> Trace:
    try:
        made = generate_mixed(MixedShape(nodes=options.nodes, pods=options.pods), seed=options.seed)
    except ValueError as error:
        raise CliError(f"--{error}") from error
    pods = [Arrival(pod, shape=pod["metadata"]["labels"][LABEL_SHAPE]) for pod in made.pods]
    return Trace(made.cluster, options.nodes, made.gpus, pods, made.ahead)


def _recorded(options: ReplayOptions) -> Trace:
    try:
        nodes = read_nodes(options.folder)
        pods = read_pods(options.folder, options.trace)
    except TraceError as error:
        raise CliError(str(error)) from error
    if options.timed and any(pod.created_s is None for pod in pods):
        raise CliError(f"the pod list {options.trace!r} has no times: it can only fill the cluster")
    cluster = [manifest for index, node in enumerate(nodes) for manifest in node.manifests(index=index)]
    arrivals = [Arrival(pod.manifest(), pod.created_s, pod.deleted_s) for pod in pods]
    return Trace(cluster, len(nodes), sum(node.gpus for node in nodes), arrivals)


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


def _creation(watch: PodWatch, pod: Arrival) -> Creation:
    watch.expect(pod.name)
    return Creation(path_of(pod.manifest), msgspec.json.encode(pod.manifest), watch.sending(pod.name))


async def _delete(api: Api, watch: PodWatch, pod: Arrival) -> None:
    path = f"{path_of(pod.manifest)}/{pod.manifest['metadata']['name']}"
    for _ in range(60):
        try:
            await api.delete(path)
        except (aiohttp.ClientError, TimeoutError, OSError):
            await asyncio.sleep(0.5)
            continue
        watch.expect(pod.name).gone = True
        return
