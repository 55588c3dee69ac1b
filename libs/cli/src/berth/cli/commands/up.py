"""`berth up`: the whole control plane on this machine until it is told to stop."""

from __future__ import annotations

import time
from pathlib import Path

from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.cli.output import columns
from berth.cli.runfile import RunFile
from berth.cli.stack.stack import Stack
from berth.kube import Kube, KubeConfigError, KubeSettings, Selection
from berth.kube.resources import NODES
from berth.simcluster.generate import ClusterShape, generate_cluster

REACH_TIMEOUT_S = 5.0


def say(text: str) -> None:
    """A line now, even when piped."""
    print(text, flush=True)


async def up(*, nodes: int, seed: int, kube_url: str | None, kubeconfig: Path | None, solvers: int, keep: bool) -> int:
    """Run until cancelled; EXIT_BAD when a part ends that cannot be started again."""
    kube = _kube(kube_url, kubeconfig)
    if kube:
        await _check_reachable(kube_url or "", kubeconfig)
    began = time.monotonic()
    stack = Stack(kube=kube, replicas={"placement-solver": solvers}, keep=keep, say=lambda text: say(f"  {text}"))
    say("berth up")
    async with stack:
        took_s = time.monotonic() - began
        gpus = 0 if kube else await _create_nodes(stack.kube_url, nodes, seed)
        where = next(iter(kube.values())) if kube else f"{stack.kube_url}  (simulated, {nodes} nodes, {gpus} GPUs)"
        with RunFile(nats_url=stack.nats_url, kube_url=stack.kube_url or (kube_url or ""), command="up"):
            for line in _welcome(stack, where, took_s):
                say(line)
            why = await stack.failed
    raise CliError(why, EXIT_BAD)


def _kube(url: str | None, kubeconfig: Path | None) -> dict[str, str]:
    if url and kubeconfig:
        raise CliError("--kube-url and --kubeconfig exclude each other")
    if url:
        if not url.startswith(("http://", "https://")):
            raise CliError(f"--kube-url: {url!r} is neither http:// nor https://")
        return {"BERTH_KUBE_URL": url}
    if kubeconfig:
        if not kubeconfig.is_file():
            raise CliError(f"--kubeconfig: {kubeconfig} is not a file")
        return {"BERTH_KUBECONFIG": str(kubeconfig.resolve())}
    return {}


async def _check_reachable(url: str, kubeconfig: Path | None) -> None:
    """Raises CliError when the cluster does not let us list its nodes."""
    settings = KubeSettings(url=url, kubeconfig=str(kubeconfig or ""), timeout_s=REACH_TIMEOUT_S)
    try:
        kube = await Kube.connect(settings)
    except KubeConfigError as error:
        raise CliError(str(error)) from error
    try:
        answer = await kube.page(Selection(NODES), limit=1)
    finally:
        await kube.close()
    if not answer.ok:
        where = url or str(kubeconfig)
        raise CliError(f"the API server of {where} cannot be used: {answer.status or 'no answer'} {answer.message}")


async def _create_nodes(url: str, nodes: int, seed: int) -> int:
    """The nodes and devices of a synthetic cluster; how many GPUs they have."""
    try:
        manifests = generate_cluster(ClusterShape(nodes=nodes), seed=seed)
    except ValueError as error:
        raise CliError(f"--{error}") from error
    async with Api(url) as api:
        await create_all(api, manifests)
    return sum(len(each["spec"]["devices"]) for each in manifests if each["kind"] == "Device")


def _welcome(stack: Stack, where: str, took_s: float) -> list[str]:
    facts = [
        ("bus", stack.nats_url),
        ("Kubernetes API", where),
        ("services", f"{len(stack.services())}, ready in {took_s:.1f} s; logs in {stack.home / 'logs'}"),
    ]
    hints = [
        ("berth status", "every service, with figures"),
        ("berth watch", "placements as they happen"),
        ("berth why NAMESPACE/POD", "where a pod is and why, or why it is nowhere"),
        (f"nats --server {stack.nats_url} sub 'berth.v1.evt.placement.>'", ""),
    ]
    return [
        *columns(facts, indent="  "),
        "",
        "try it (in another terminal)",
        *columns(hints, indent="  "),
        "",
        "Ctrl-C stops everything and leaves nothing behind.",
    ]
