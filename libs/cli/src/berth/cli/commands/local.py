"""`berth up`, `berth replay` and `berth demo`: a control plane on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from berth.cli.commands.parameters import BUS, BusFlags, Keep, Nodes, Seed
from berth.cli.limits import NODES_MAX
from berth.cli.running import run


def up(
    *,
    nodes: Nodes = 20,
    seed: Seed = 0,
    kubeconfig: Path | None = None,
    context: str | None = None,
    kube_url: str | None = None,
    bus: BusFlags = BUS,
    install_crds: Annotated[bool, Parameter(negative="")] = False,
    node: str | None = None,
    solvers: Annotated[int, Parameter(validator=Number(gte=1, lte=16))] = 1,
    keep: Keep = False,
    record: Path | None = None,
) -> int:
    """Run the whole control plane on this machine until Ctrl-C.

    An embedded nats-server on a free port of this machine, every service as a process of its own, and a simulated
    Kubernetes API with GPU nodes, unless a real cluster is given. What ends is started again.

    Parameters
    ----------
    nodes
        Nodes of the simulated cluster.
    seed
        Which simulated cluster; the same seed gives the same one.
    kubeconfig
        Kubeconfig of a cluster, instead of the simulated one.
    context
        Context of the kubeconfig; its current one when not given.
    kube_url
        URL of a cluster's API server, instead of the simulated one (no login).
    bus
        A bus that runs already, for a cluster that exists; without it and BERTH_NATS_URL one of our own is started.
    install_crds
        Install what the cluster lacks: custom resource definitions, and the namespace of the Lease.
    node
        Run the node agent too, for this node; without it only when this machine is a node of the cluster.
    solvers
        How many placement solvers share the work.
    keep
        Leave the folder with logs and the bus's store behind.
    record
        Folder to keep in what solvers read, for `berth audit` and `berth replay-decision`.
    """
    from berth.cli.cluster.target import target_of
    from berth.cli.commands.up import UpOptions
    from berth.cli.commands.up import up as command

    async def work() -> int:
        options = UpOptions(
            target=target_of(kube_url, kubeconfig, context),
            nodes=nodes,
            seed=seed,
            solvers=solvers,
            bus=bus.given(),
            install=install_crds,
            node=node,
            keep=keep,
            record=record,
        )
        return await command(options)

    return run(work())


def replay(
    folder: Path | None = None,
    /,
    *,
    trace: str = "default",
    generated: Literal["", "mixed"] = "",
    nodes: Annotated[int, Parameter(validator=Number(gte=1, lte=NODES_MAX))] = 1000,
    pods: Annotated[int, Parameter(validator=Number(gte=0, lte=200_000))] = 10_000,
    seed: Seed = 0,
    fill: Annotated[bool, Parameter(negative="")] = False,
    timed: Annotated[float | None, Parameter(validator=Number(gt=0, lte=1e9))] = None,
    rate: Annotated[float, Parameter(validator=Number(gte=0, lte=100_000))] = 0.0,
    solvers: Annotated[int, Parameter(validator=Number(gte=1, lte=16))] = 1,
    kill: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[Path | None, Parameter(name="--json")] = None,
    keep: Keep = False,
) -> int:
    """Replay the openb trace, or a workload that is made: how fast, how full, and was everything right?

    Creates the nodes with their devices in a simulated cluster, then all pods in order, and waits until each is bound
    or refused with a reason. Exit code 0 only when the result is complete and breaks no law.

    Parameters
    ----------
    folder
        Folder of the trace's CSV files; else BERTH_TRACE_DIR.
    trace
        Which pod list: `default`, `cpu100`, `gpushare40`, `gpuspec10`, `multigpu20`, ...
    generated
        Make a workload instead of reading one: `mixed`, machines of every vendor and pods of every shape.
    nodes
        Nodes of a workload that is made.
    pods
        Its pods.
    seed
        Which of them; the same seed makes the same.
    fill
        Create all pods and delete none, so that the cluster fills up (the default).
    timed
        Create and delete pods at their recorded times instead, divided by this.
    rate
        Pods to create a second; 0 is as fast as it goes.
    solvers
        How many placement solvers share the work.
    kill
        Kill -9 every service and the bus once each while pods come in.
    json
        File to write all figures to.
    keep
        Leave the folder with logs and the bus's store behind.
    """
    from berth.cli.commands.replay import replay as command
    from berth.cli.errors import CliError
    from berth.cli.replay.settings import ReplayOptions, trace_folder

    async def work() -> int:
        if fill and timed:
            raise CliError("--fill and --timed exclude each other")
        if generated and (folder or timed):
            raise CliError(f"--generated excludes {'--timed' if timed else 'a folder'}: there is nothing recorded")
        options = ReplayOptions(
            folder=Path() if generated else trace_folder(folder),
            trace=trace,
            generated=generated,
            nodes=nodes,
            pods=pods,
            seed=seed,
            timed=timed or 0.0,
            rate=rate,
            solvers=solvers,
            kill=kill,
            json_file=json,
            keep=keep,
        )
        return await command(options)

    return run(work())


def demo(
    *,
    nodes: Nodes = 40,
    seed: Seed = 7,
    keep: Keep = False,
) -> int:
    """A minute with the whole control plane on a simulated GPU cluster.

    Starts the real services with a nats-server and a simulated Kubernetes API, shows placements, a gang, shared GPUs,
    a reservation, a quota and refusals with their reasons, then checks that all of it happened and no law is broken.

    Parameters
    ----------
    nodes
        Nodes of the cluster.
    seed
        Which cluster and workload; the same seed creates the same.
    keep
        Keep running afterwards, for `berth why`, `status` and `watch`, until Ctrl-C.
    """
    from berth.cli.commands.demo import demo as command

    return run(command(nodes=nodes, seed=seed, keep=keep))
