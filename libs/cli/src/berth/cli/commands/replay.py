"""`berth replay`: a recorded workload against the whole control plane, measured and checked."""

from __future__ import annotations

import asyncio
import time

import msgspec

from berth.cli.connect import embedded
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.judge import judge
from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.cli.load.pods import PodWatch
from berth.cli.load.ready import until_counted
from berth.cli.replay import load
from berth.cli.replay.figures import Figures, figures_of, laws_of, process_rows, shapes_of
from berth.cli.replay.kills import kill_each
from berth.cli.replay.processes import Processes
from berth.cli.replay.progress import Progress
from berth.cli.replay.report import report
from berth.cli.replay.settings import ReplayOptions
from berth.cli.runfile import RunFile
from berth.cli.stack.services import OUR_PODS
from berth.cli.stack.stack import Stack

SIMULATED_API = ["--no-running", "--heartbeat-seconds", "0", "--stop-delay-seconds", "0"]
"""Kubelets report nothing and nodes stay as they are: what is measured is placing, not the simulation."""
COUNTED_TIMEOUT_S = 180.0
QUIET_S = 3.0
STALLED_S = 120.0


async def replay(options: ReplayOptions) -> int:
    """Run it; EXIT_BAD when something is wrong or missing at the end."""
    if options.json_file is not None and not options.json_file.absolute().parent.is_dir():
        raise CliError(f"--json: there is no folder {options.json_file.absolute().parent}")
    progress = Progress()
    trace = load.read(options)
    named = options.named
    progress.line(f"berth replay   {named}: {trace.nodes} nodes, {trace.gpus} GPUs, {len(trace.pods)} pods")
    stack = Stack(
        replicas={"placement-solver": options.solvers},
        environment=OUR_PODS,
        sim_arguments=SIMULATED_API,
        keep=options.keep,
        say=lambda text: progress.line(f"  {text}"),
    )
    async with stack, Api(stack.kube_url) as api:
        with RunFile(nats_url=stack.nats_url, kube_url=stack.kube_url, command="replay"):
            if options.keep:
                progress.line(f"  logs in {stack.home / 'logs'}")
            figures = await stack.unless_broken(Replay(options, trace, stack, api, progress).run())
    for line in report(figures):
        progress.line(line)
    if options.json_file is not None:
        await asyncio.to_thread(
            options.json_file.write_bytes, msgspec.json.format(msgspec.json.encode(figures)) + b"\n"
        )
    return EXIT_OK if figures.good else EXIT_BAD


class Replay:
    """One replay on a stack that is up."""

    def __init__(self, options: ReplayOptions, trace: load.Trace, stack: Stack, api: Api, progress: Progress) -> None:
        self._wish = options
        self._trace = trace
        self._stack = stack
        self._api = api
        self._progress = progress
        self._processes = Processes(stack)
        self._kills = 0

    async def run(self) -> Figures:
        """Cluster, pods, end, checks."""
        await self._create_cluster()
        watch = PodWatch(self._api)
        following = asyncio.create_task(watch.run())
        await watch.seen.wait()
        self._processes.begin()
        sampling = asyncio.create_task(self._processes.run())
        try:
            await self._load(watch)
            await self._until_settled(watch)
            self._processes.sample()
            return await self._judge(watch)
        finally:
            for task in (following, sampling):
                task.cancel()
            await asyncio.gather(following, sampling, return_exceptions=True)

    async def _create_cluster(self) -> None:
        began = time.monotonic()
        self._progress.update("  creating nodes and devices")
        await create_all(self._api, self._trace.cluster)
        await until_counted(
            self._api,
            timeout_s=COUNTED_TIMEOUT_S,
            say=lambda done, total: self._progress.update(f"  nodes with counted devices: {done}/{total}"),
        )
        self._progress.line(f"  cluster known after {time.monotonic() - began:.1f} s")
        await create_all(self._api, self._trace.ahead)

    async def _load(self, watch: PodWatch) -> None:
        """Create the pods, and kill beside it when asked to."""
        loader = load.timed if self._wish.timed else load.fill
        loading = asyncio.create_task(loader(self._api, watch, self._trace, self._wish))
        killing = asyncio.create_task(kill_each(self._stack, self._say)) if self._wish.kill else None
        tasks = {task for task in (loading, killing) if task is not None}
        began, before = time.monotonic(), 0
        try:
            while tasks:
                done, tasks = await asyncio.wait(tasks, timeout=1.0)
                for task in done:
                    task.result()
                self._show(watch, time.monotonic() - began, watch.bound - before)
                before = watch.bound
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._kills = killing.result() if killing is not None else 0

    async def _until_settled(self, watch: PodWatch) -> None:
        """Every pod has a node or a reason, and nothing has moved for a while; or nothing moves any more."""
        loop = asyncio.get_running_loop()
        began, before = loop.time(), watch.bound
        while True:
            open_pods = sum(1 for fate in watch.fates.values() if not fate.is_settled)
            quiet_s = loop.time() - watch.last_change
            if quiet_s > (STALLED_S if open_pods else QUIET_S):
                return
            if open_pods:
                self._show(watch, loop.time() - began, watch.bound - before)
            before = watch.bound
            await asyncio.sleep(1.0)

    def _show(self, watch: PodWatch, elapsed_s: float, binds: int) -> None:
        refused = sum(1 for fate in watch.fates.values() if not fate.node and fate.refusal)
        sent = sum(1 for fate in watch.fates.values() if fate.sent >= 0)
        self._progress.update(
            f"  {elapsed_s:4.0f} s   created {sent}/{len(self._trace.pods)}   bound {watch.bound}   "
            f"refused {refused}   {binds}/s"
        )

    def _say(self, text: str) -> None:
        self._progress.line(f"  {text}")

    async def _judge(self, watch: PodWatch) -> Figures:
        figures = figures_of(watch.fates, trace=self._wish.named, nodes=self._trace.nodes, gpus=self._trace.gpus)
        figures.shapes = shapes_of(watch.fates, {pod.name: pod.shape for pod in self._trace.pods})
        figures.kills = self._kills
        figures.processes = process_rows(self._processes.uses(), figures.bound)
        self._progress.update("  checking every promise")
        async with embedded(self._stack.nats_url) as bus:
            figures.laws = laws_of(await judge(self._api, bus))
        for name, fate in watch.fates.items():
            if fate.moved:
                figures.violations.append(f"{name} changed its node")
        return figures
