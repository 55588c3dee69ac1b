"""`berth demo`: a minute with the whole control plane, and proof that what it shows has happened."""

from __future__ import annotations

import asyncio
import shlex
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from berth.bus import Bus
from berth.cli.cluster.target import Target
from berth.cli.connect import embedded
from berth.cli.demo.acts import ACTS, prepare
from berth.cli.demo.grants import percent_held
from berth.cli.demo.machine import NAME as BOX
from berth.cli.demo.scenario import Scenario, scenario
from berth.cli.demo.stage import Stage
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.judge import judge
from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.cli.load.pods import Fate, PodWatch
from berth.cli.load.ready import until_counted
from berth.cli.output import columns
from berth.cli.program import program
from berth.cli.replay.figures import Law, laws_of, percentile
from berth.cli.replay.progress import Progress
from berth.cli.replay.report import laws, mark
from berth.cli.runfile import RunFile
from berth.cli.stack.services import OUR_PODS
from berth.cli.stack.stack import Stack
from berth.contracts import names
from berth.contracts.subjects import PREFIX

COUNTED_TIMEOUT_S = 60.0
DECIDED = f"{PREFIX}.evt.placement.decided.>"
OWN_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "my-pod", "namespace": "default"},
    "spec": {
        "schedulerName": names.SCHEDULER_NAME,
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "resources": {"limits": {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}},
            }
        ],
    },
}
BROKEN_BY_DESIGN = ("unsupported", "quota ", "resources.requests")


class Verdict(NamedTuple):
    """What was shown, and which laws hold."""

    shown: list[tuple[str, bool]]
    laws: list[Law]

    @property
    def good(self) -> bool:
        """Everything happened, and no law is broken."""
        return all(happened for _, happened in self.shown) and all(law.ok for law in self.laws)


async def demo(*, nodes: int, seed: int, keep: bool) -> int:
    """Tell the story; EXIT_BAD when something of it did not happen or a law is broken."""
    try:
        plot = scenario(nodes, seed)
    except ValueError as error:
        raise CliError(f"--{error}") from error
    progress = Progress()
    progress.line(f"berth demo   seed {seed}")
    began = time.monotonic()
    stack = Stack(environment=OUR_PODS, say=lambda text: progress.update(f"  {text}"))
    async with stack, Api(stack.kube_url) as api, embedded(stack.nats_url) as bus:
        with RunFile(nats_url=stack.nats_url, kube_url=stack.kube_url, command="demo"):
            took_s = time.monotonic() - began
            progress.line(
                f"started      nats-server, Kubernetes API and {len(stack.services())} services in {took_s:.1f} s"
            )
            verdict = await stack.unless_broken(_play(plot, api, bus, progress))
            for line in _next(keep, stack.kube_url, stack.home):
                progress.line(line)
            if keep:
                raise CliError(await stack.failed, stack.failed_code)
    return EXIT_OK if verdict.good else EXIT_BAD


async def _play(plot: Scenario, api: Api, bus: Bus, progress: Progress) -> Verdict:
    nodes = sum(1 for each in plot.cluster if each["kind"] == "Node")
    progress.line(f"cluster      {nodes} nodes, {plot.gpus} GPUs ({', '.join(plot.models)})")
    progress.line(f"workload     {plot.pods} pods: jobs alone, a gang, shared GPUs, own CPUs, a reservation, a quota\n")
    await create_all(api, plot.cluster)
    await until_counted(
        api,
        timeout_s=COUNTED_TIMEOUT_S,
        say=lambda done, total: progress.update(f"  nodes whose GPUs are counted: {done}/{total}"),
    )
    watch = PodWatch(api)
    following = asyncio.create_task(watch.run())
    try:
        await watch.seen.wait()
        stage = Stage(api, bus, watch, progress)
        await bus.subscribe(DECIDED, stage.decided)
        await prepare(stage, plot)
        shown = [(act.promise, await act.play(stage, plot)) for act in ACTS]
        progress.update("  checking every promise")
        verdict = Verdict(shown, laws_of(await judge(api, bus)))
        for line in _summary(watch.fates, stage.took_ms, plot, verdict):
            progress.line(line)
        return verdict
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _spread(times_ms: list[float]) -> str:
    if not times_ms:
        return "-"
    return f"p50 {percentile(times_ms, 0.5):.0f} ms, p99 {percentile(times_ms, 0.99):.0f} ms"


def _summary(fates: dict[str, Fate], took_ms: list[float], plot: Scenario, verdict: Verdict) -> list[str]:
    there = [fate for fate in fates.values() if not fate.gone]
    placed = sum(1 for fate in there if fate.node)
    refused = sum(1 for fate in there if not fate.node and fate.refusal.startswith(BROKEN_BY_DESIGN))
    waits = [(fate.bound - fate.sent) * 1000 for fate in fates.values() if fate.node]
    use = percent_held(fates) / plot.gpus
    lines = [
        "",
        f"placed {placed}   waiting {len(there) - placed - refused}   refused {refused}   "
        f"left for others {len(fates) - len(there)}   GPU use 0 % -> {use:.0f} %",
        f"plans {_spread(took_ms)}   from create to bound {_spread(waits)}",
        "",
        "shown",
    ]
    lines += [f"  {mark(happened, 'MISSING')}  {promise}" for promise, happened in verdict.shown]
    lines += ["laws", *laws(verdict.laws)]
    return lines


def _next(keep: bool, kube_url: str, home: Path) -> list[str]:
    """What to do next, ready to copy: in another terminal while this keeps running, else by starting again."""
    berth = program()
    if not keep:
        hints = [
            (f"{berth} demo --keep", "the same, and it keeps running"),
            (f"{berth} demo --nodes 200 --seed 8", "another, larger cluster"),
        ]
        return ["", "next", *columns(hints, indent="  ", gap="   ")]
    file = home / "my-pod.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(OWN_POD)) + b"\n")
    hints = [
        (f"{berth} submit -f {shlex.quote(str(file))}", "a pod of your own, half a GPU"),
        (f"{berth} why my-pod", "where it is and why; the GPUs are full: what would help"),
        (f"{berth} delete infer", "free 60 % of a GPU for it"),
        (f"{berth} delete my-pod", "free what it holds"),
        (f"{berth} why train-b", "why is this pod waiting?"),
        (f"{berth} why gang/train-a", "also quota/ml, reservation/nightly, node/NAME"),
        (f"{berth} node {BOX}", "a machine drawn: its cards, NUMA nodes and cores, and who holds them"),
        (f"{berth} status", "every service, with figures"),
        (f"{berth} watch placement", "placements as they happen"),
        (Target(url=kube_url).kubectl("get", "pods"), "also apply, describe, delete"),
    ]
    return [
        "",
        "still running, until Ctrl-C; in another terminal, from this folder",
        *columns(hints, indent="  ", gap="   "),
    ]
