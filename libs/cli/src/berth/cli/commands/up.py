"""`berth up`: the whole control plane on this machine until it is stopped.

What only some ways of starting need is imported there: it would make the first pod of the others wait.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from berth.cli.bus_options import BusOptions
from berth.cli.cluster.checks import check, check_node, node_of_this_machine, until_served
from berth.cli.cluster.target import Target
from berth.cli.errors import CliError
from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.cli.output import columns
from berth.cli.program import program
from berth.cli.runfile import RunFile
from berth.cli.stack.services import NODE_AGENT, RECORDER, WEBHOOK
from berth.cli.stack.stack import Stack
from berth.contracts import names
from berth.telemetry.redaction import redacted_text

FIRST_POD = "first-pod"
SCHEDULER_NAMES = "BERTH_SCHEDULER_NAMES"


class UpOptions(NamedTuple):
    """What was asked for. Without a `target` the cluster is simulated; `bus` names one that runs already."""

    target: Target | None = None
    nodes: int = 20
    seed: int = 0
    solvers: int = 1
    bus: BusOptions = MappingProxyType({})
    install: bool = False
    node: str | None = None
    keep: bool = False
    record: Path | None = None


def say(text: str) -> None:
    """A line now, even when piped."""
    print(text, flush=True)


async def up(options: UpOptions) -> int:
    """Run until cancelled. Raises CliError when a part ends that cannot be started again."""
    say("berth up")
    bus: Mapping[str, str] = {}
    node, installed = "", []
    if options.target:
        bus = await _bus(options.bus)
        installed = await check(options.target, install=options.install, alone=not bus, say=_detail)
        node = await _node(options.target, options.node)
    elif options.bus or options.install or options.node:
        raise CliError("--nats, --install-crds and --node are for a cluster that exists: name it with --kubeconfig")
    began = time.monotonic()

    async def until_kube_serves() -> None:
        if options.target:
            await until_served(options.target, installed)

    stack = Stack(
        kube=options.target.environment() if options.target else None,
        nats=bus,
        replicas={
            "placement-solver": options.solvers,
            NODE_AGENT: 1 if node or not options.target else 0,
            WEBHOOK: 0 if options.target else 1,  # a cluster's API server does not reach this machine
            RECORDER: 1 if options.record else 0,
        },
        environment=_environment(node, options.record),
        until_kube_serves=until_kube_serves,
        keep=options.keep,
        say=_detail,
    )
    async with stack:
        took_s = time.monotonic() - began
        where = await _cluster(stack, options)
        kube_url = stack.kube_url or (options.target.url if options.target else "")
        login = {"kubeconfig": options.target.kubeconfig, "context": options.target.context} if options.target else {}
        with RunFile(nats_url=stack.nats_url, kube_url=kube_url, command="up", **login):
            for line in _welcome(stack, options.target, where, node, took_s):
                say(line)
            why = await stack.failed
    raise CliError(why, stack.failed_code)


def _environment(node: str, folder: Path | None) -> dict[str, str]:
    found = {"BERTH_NODE_NAME": node} if node else {}
    return found | ({"BERTH_RECORD_FOLDER": str(folder.absolute())} if folder else {})


def _detail(text: str) -> None:
    say(f"  {text}")


async def _bus(options: BusOptions) -> Mapping[str, str]:
    """Settings of the bus that runs already; none when one of our own is to be started. Raises CliError."""
    if not options and not os.environ.get("BERTH_NATS_URL", "").strip():
        return {}
    from berth.cli.connect import connected, environment_for

    async with connected(options, is_answer=False):
        return environment_for(options)


async def _node(target: Target, wanted: str | None) -> str:
    """The node whose agent is to run here; empty for none."""
    if wanted:
        await check_node(target, wanted)
    return wanted or await node_of_this_machine(target)


async def _cluster(stack: Stack, options: UpOptions) -> str:
    """What the services work on, for people; a simulated cluster gets its nodes."""
    if options.target:
        return options.target.shown
    gpus = await _create_nodes(stack.kube_url, options.nodes, options.seed)
    return f"{stack.kube_url}  (simulated, {options.nodes} nodes, {gpus} GPUs)"


async def _create_nodes(url: str, nodes: int, seed: int) -> int:
    """The nodes and devices of a synthetic cluster; how many GPUs they have."""
    from berth.simcluster.generate import ClusterShape, generate_cluster

    try:
        manifests = generate_cluster(ClusterShape(nodes=nodes), seed=seed)
    except ValueError as error:
        raise CliError(f"--{error}") from error
    async with Api(url) as api:
        await create_all(api, manifests)
    return sum(len(each["spec"]["devices"]) for each in manifests if each["kind"] == "Device")


def scheduler_names() -> list[str]:
    """The names that the services will answer to, as they read them from the environment."""
    given = [name.strip() for name in os.environ.get(SCHEDULER_NAMES, "").split(",")]
    return [name for name in given if name] or [names.SCHEDULER_NAME]


def _first_pod(stack: Stack, target: Target | None) -> Path:
    """Write a pod into the folder of this run."""
    gpu = {} if target else {names.GPU_CORE: "50", names.GPU_MEMORY_RATIO: "50"}
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep", "3600"],
        "resources": {"limits": {"cpu": "100m", **gpu}},
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": FIRST_POD, "namespace": "default"},
        "spec": {"schedulerName": scheduler_names()[0], "containers": [container]},
    }
    file = stack.home / f"{FIRST_POD}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    return file


def _welcome(stack: Stack, target: Target | None, where: str, node: str, took_s: float) -> list[str]:
    bus = redacted_text(stack.nats_url)
    facts = [
        ("bus", bus),
        ("Kubernetes API", where),
        ("pods with", f"schedulerName: {' or '.join(scheduler_names())}"),
        ("services", f"{len(stack.services())}, ready in {took_s:.1f} s; logs in {stack.home / 'logs'}"),
    ]
    facts += [("node agent", f"as {node}")] if node else []
    berth, first = program(), _first_pod(stack, target)
    cluster = Target(url=stack.kube_url) if stack.kube_url else None
    kubectl = cluster.kubectl if cluster else (target.kubectl if target else Target().kubectl)
    pods = [
        (f"{berth} submit -f {shlex.quote(str(first))}", ""),
        (f"{berth} why {FIRST_POD}", "where it is and why, or why it is nowhere"),
        (f"{berth} delete {FIRST_POD}", ""),
    ]
    hints = [
        (f"{berth} status", "every service, with figures"),
        (f"{berth} watch", "placements as they happen"),
        (kubectl("get", "pods"), "also apply, describe, delete"),
        (f"nats --server {bus} sub 'berth.v1.evt.placement.>'", ""),
    ]
    return [
        *columns(facts, indent="  "),
        "",
        "a first pod (in another terminal, from this folder)",
        *columns(pods, indent="  "),
        "",
        "and then",
        *columns(hints, indent="  "),
        "",
        "Ctrl-C stops everything and leaves nothing behind."
        if stack.kube_url
        else "Ctrl-C stops everything; pods that are bound stay where they are.",
    ]
