"""The command line: `serve`, `generate`, `openb`, `traffic`."""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from berth.simcluster.controllers import ControllerSettings
from berth.simcluster.faults import Fault
from berth.simcluster.generate import ClusterShape, WorkloadShape, generate_cluster, generate_workload
from berth.simcluster.kubelet import KubeletSettings
from berth.simcluster.manifests import write_manifests
from berth.simcluster.openb import read_nodes, read_pods
from berth.simcluster.server import SimCluster
from berth.simcluster.settings import SimSettings
from berth.simcluster.store.store import HISTORY
from berth.simcluster.traffic import Traffic, TrafficSettings

_log = logging.getLogger("berth.simcluster")


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code: 0 well, 1 failed, 2 unusable settings."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    try:
        code: int = options.run(options)
    except (ValueError, OSError) as error:
        print(f"berth.simcluster: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="berth.simcluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _serve_options(commands.add_parser("serve", help="serve a simulated Kubernetes API until a signal comes"))
    made = commands.add_parser("generate", help="write the manifests of a synthetic cluster and workload")
    made.add_argument("--nodes", type=int, default=100)
    made.add_argument("--pods", type=int, default=0)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--output", type=Path, required=True, help="file, one JSON object a line")
    made.set_defaults(run=_generate)
    trace = commands.add_parser("openb", help="write the manifests of the openb trace")
    trace.add_argument("folder", type=Path, help="folder of the trace's CSV files")
    trace.add_argument("--trace", default="default", help="which pod list: default, cpu100, gpushare40, ...")
    trace.add_argument("--output", type=Path, required=True, help="file, one JSON object a line")
    trace.set_defaults(run=_openb)
    steady = commands.add_parser("traffic", help="create and delete pods steadily until a signal comes")
    steady.add_argument("--url", required=True, help="of the API server, without login")
    steady.add_argument("--rate", type=float, default=1.0, help="arrivals a second: single pods, now and then a gang")
    steady.add_argument("--stay-seconds", type=float, default=60.0, help="mean life of a pod")
    steady.add_argument("--pods-max", type=int, default=200, help="no pod comes while so many are there")
    steady.add_argument("--namespace", default="default")
    steady.add_argument("--seed", type=int, default=0)
    steady.set_defaults(run=_traffic)
    return parser


def _serve_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=0, help="0: any free one")
    add("--port-file", type=Path, help="written once the port is open")
    add("--crds", type=Path, help="folder of CRDs instead of those of the protocol")
    add("--manifests", type=Path, action="append", default=[], help="JSON file of objects that exist from the start")
    add("--history", type=int, default=HISTORY, help="changes kept per resource for watches and paged lists")
    add("--bookmark-seconds", type=float, default=5.0)
    add("--token-file", type=Path, help="lines token,user; other tokens are refused")
    add("--kubelet", action=argparse.BooleanOptionalAction, default=True, help="simulate kubelets")
    add("--running", action=argparse.BooleanOptionalAction, default=True, help="kubelets report bound pods as Running")
    add("--start-delay-seconds", type=float, default=1.0)
    add("--stop-delay-seconds", type=float, default=0.5)
    add("--heartbeat-seconds", type=float, default=300.0)
    add("--controllers", action=argparse.BooleanOptionalAction, default=True, help="run ReplicaSets, budgets, volumes")
    add("--provision-failures", type=float, default=0.0, help="share of the attempts to make a volume that fail")
    add("--speed", type=float, default=1.0, help="divides all times of kubelets and controllers")
    add("--sim", action=argparse.BooleanOptionalAction, default=False, help="serve /sim/: faults and a summary")
    add("--faults", type=Path, help="JSON file: a list of fault rules")
    add("--seed", type=int, default=0)
    parser.set_defaults(run=_serve)


def _settings(options: argparse.Namespace) -> SimSettings:
    kubelet = KubeletSettings(
        start_delay_s=options.start_delay_seconds,
        stop_delay_s=options.stop_delay_seconds,
        heartbeat_s=options.heartbeat_seconds,
        speed=options.speed,
        running=options.running,
    )
    controllers = ControllerSettings(
        provision_failures=options.provision_failures, speed=options.speed, seed=options.seed
    )
    faults: tuple[Fault, ...] = ()
    if options.faults is not None:
        try:
            faults = msgspec.json.decode(options.faults.read_bytes(), type=tuple[Fault, ...])
        except msgspec.MsgspecError as error:
            raise ValueError(f"{options.faults}: {error}") from error
    return SimSettings(
        host=options.host,
        port=options.port,
        port_file=options.port_file,
        crds=options.crds,
        history=options.history,
        bookmark_s=options.bookmark_seconds,
        kubelet=kubelet if options.kubelet else None,
        controllers=controllers if options.controllers else None,
        token_file=options.token_file,
        admin=options.sim,
        faults=faults,
        seed=options.seed,
        manifests=tuple(options.manifests),
    )


def _serve(options: argparse.Namespace) -> int:
    return asyncio.run(_serve_until_signal(SimCluster(_settings(options))))


def _on_signal() -> asyncio.Event:
    """Set by the first signal that asks this process to end."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return asked


async def _serve_until_signal(sim: SimCluster) -> int:
    asked = _on_signal()
    try:
        await sim.start()
        _log.info("simulated Kubernetes API", extra={"url": sim.url})
        failed = await sim.wait(asked)
        if failed is not None:
            _log.error("stopped by an error", exc_info=failed)
        return 0 if failed is None else 1
    finally:
        await sim.stop()


def _traffic(options: argparse.Namespace) -> int:
    traffic = Traffic(
        TrafficSettings(
            url=options.url,
            rate=options.rate,
            stay_s=options.stay_seconds,
            pods_max=options.pods_max,
            namespace=options.namespace,
            seed=options.seed,
        )
    )

    async def until_signal() -> None:
        await traffic.run(_on_signal())

    asyncio.run(until_signal())
    return 0


def _generate(options: argparse.Namespace) -> int:
    cluster = generate_cluster(ClusterShape(nodes=options.nodes), seed=options.seed)
    workload = generate_workload(WorkloadShape(pods=options.pods), seed=options.seed)
    print(write_manifests(options.output, [*cluster, *workload]), "objects")
    return 0


def _openb(options: argparse.Namespace) -> int:
    nodes = read_nodes(options.folder)
    pods = read_pods(options.folder, options.trace)
    manifests = [manifest for node in nodes for manifest in node.manifests()]
    print(write_manifests(options.output, [*manifests, *(pod.manifest() for pod in pods)]), "objects")
    return 0
