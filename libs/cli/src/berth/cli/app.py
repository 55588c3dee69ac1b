"""The commands and their options. Each command's module is imported only when it runs."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from berth.cli.commands import local, recorded
from berth.cli.commands.parameters import BUS, AsJson, BusFlags, Files, Namespace, RunNumber
from berth.cli.commands.shadow import shadow
from berth.cli.commands.tune import tune
from berth.cli.errors import EXIT_USAGE
from berth.cli.running import run

EXIT_CODES = """Exit codes: 0 all is well; 1 the answer is bad (a law broken, a pod not placed, a service missing);
2 wrong usage, or nothing to connect to; 3 no space on the disk, or a bus that cannot carry Berth; 130 ended by Ctrl-C,
143 by SIGTERM."""

app = App(
    name="berth",
    help="Places Kubernetes workloads on shared, heterogeneous clusters, and says why.",
    help_epilogue=EXIT_CODES,
    help_format="markdown",
    help_formatter="default" if sys.stdout.isatty() else "plain",
    version=version("berth-cli"),
    version_flags=["--version"],
)


@app.command
def status(*, json: AsJson = False, bus: BusFlags = BUS) -> int:
    """Every instance of every service: active or standby, ready or not, and figures.

    Exit code 1 when a service is missing, has no active instance, or is not ready.
    """
    from berth.cli.commands.status import status as command

    return run(command(bus=bus.given(), as_json=json))


@app.command
def why(
    about: str,
    /,
    *,
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"])] = None,
    json: AsJson = False,
    bus: BusFlags = BUS,
) -> int:
    """Why is a pod where it is, or nowhere? With node, devices, quota, what would help, and its past.

    Also `gang/NAME`, `quota/NAME`, `reservation/NAME` and `node/NAME`. Exit code 0 when it has a node or is known, 1
    when it waits, is refused, is gone, or is not known.

    Parameters
    ----------
    about
        NAME or NAMESPACE/NAME of a pod, or KIND/NAME: `gang/train`, `gang/team/train`, `quota/ml`, `node/n1`.
    namespace
        Namespace of the pod or gang; `default` when not given.
    """
    from berth.cli.commands.why import why as command

    return run(command(about, namespace=namespace, bus=bus.given(), as_json=json))


@app.command(name="what-if")
def what_if(
    *,
    file: Files = (),
    without_node: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    quota: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    profile: str = "",
    namespace: Namespace = None,
    limit: Annotated[float, Parameter(validator=Number(gt=0, lte=30))] = 5.0,
    json: AsJson = False,
    bus: BusFlags = BUS,
) -> int:
    """What would become of pods that are not there, without some nodes, or with other quotas? Nothing is written.

    Played through by the rules of the solver on what it sees now: where each pod would go, with which devices, who
    would have to leave for whom, and why one would get no place. Exit code 1 when one would not.

    Parameters
    ----------
    file
        Manifests in YAML or JSON, `-` for standard input: pods, PodGroups, and what makes pods of a template.
    without_node
        A node that would be gone; its pods would be made anew. May be repeated.
    quota
        Other limits of a quota group, `GROUP=max.RESOURCE=QUANTITY,min.RESOURCE=QUANTITY`. May be repeated.
    profile
        Scheduler name for all pods of the files instead of their own: by its rules they are placed.
    namespace
        Namespace of pods that name none; `default` when not given.
    limit
        Seconds after which an answer is cut off.
    """
    from berth.cli.commands.what_if import Wish
    from berth.cli.commands.what_if import what_if as command

    wish = Wish(file, namespace, without_node, quota, profile, limit)
    return run(command(wish, bus=bus.given(), as_json=json))


@app.command
def reservation(name: str = "", /, *, json: AsJson = False, bus: BusFlags = BUS) -> int:
    """List Reservations, or show one: state, node, what it holds, its users, its borrowers, who waits, what it costs.

    Exit code 1 when no such Reservation is known.

    Parameters
    ----------
    name
        Its name; all of them when not given.
    """
    from berth.cli.commands.reservation import reservation as command

    return run(command(name, bus=bus.given(), as_json=json))


@app.command
def gang(
    name: str = "",
    /,
    *,
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"])] = None,
    json: AsJson = False,
    bus: BusFlags = BUS,
) -> int:
    """Show a gang: members by state, where they lie, the last round, who leaves for it; without NAME a line for each.

    Exit code 0 when the gang is bound or decided, 1 when it waits or is not known.

    Parameters
    ----------
    name
        NAME or NAMESPACE/NAME of a gang: that of its PodGroup, or the one that its pods name.
    namespace
        Namespace of the gang, `default` when not given; without NAME, that of the gangs to list.
    """
    from berth.cli.commands.gang import gang as command

    return run(command(name, namespace=namespace, bus=bus.given(), as_json=json))


@app.command
def node(name: str, /, *, json: AsJson = False, bus: BusFlags = BUS) -> int:
    """Draw a node: what is free, its cards, NICs, zones and cores with their holders, its pods, what is in flight.

    Exit code 1 when no such node is known.

    Parameters
    ----------
    name
        Its name.
    """
    from berth.cli.commands.node import node as command

    return run(command(name, bus=bus.given(), as_json=json))


@app.command
def quota(name: str = "", /, *, json: AsJson = False, bus: BusFlags = BUS) -> int:
    """Draw the tree of quota groups: what each may use and uses, what it has lent and borrowed, and who waits why.

    Exit code 1 when no such group is known.

    Parameters
    ----------
    name
        A group: with those above and below it. Without it all.
    """
    from berth.cli.commands.quota import quota as command

    return run(command(name, bus=bus.given(), as_json=json))


@app.command
def prices(*, json: AsJson = False, bus: BusFlags = BUS) -> int:
    """What GPUs are worth by what arrives, to each solver, since when; what one more of what is short would admit.

    Exit code 1 where the last answer of a price maker made no sense, so that the prices before it hold.
    """
    from berth.cli.commands.prices import prices as command

    return run(command(bus=bus.given(), as_json=json))


@app.command
def profile(
    *,
    file: Files = (),
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    profiles: Path | None = None,
    draw: Annotated[int, Parameter(validator=Number(gte=1, lte=100))] = 1,
    namespace: Namespace = None,
    json: AsJson = False,
    bus: BusFlags = BUS,
) -> int:
    """What would profiles make of a pod? `berth profile --dry-run -f my-pod.yaml`: which match, and what they change.

    Nothing is written. Exit code 1 when a pod would be refused.

    Parameters
    ----------
    file
        YAML or JSON file of pods, `-` for standard input; may be given again.
    dry_run
        Has to be given: there is nothing else that this command does.
    profiles
        File of ClusterColocationProfiles (and PriorityClasses, Namespaces) to go by, in place of the cluster's.
    draw
        Draw of the pod, 1 to 100: a profile of p percent applies to draws up to p.
    namespace
        Namespace of pods that name none; `default` when not given.
    """
    from berth.cli.commands.profile import profile as command

    if not dry_run:
        print("berth profile: only --dry-run is there; profiles apply when pods are created", file=sys.stderr)
        return EXIT_USAGE
    asked = command(list(file), profiles=profiles, draw=draw, namespace=namespace, bus=bus.given(), as_json=json)
    return run(asked)


@app.command
def submit(
    *,
    file: Files = (),
    namespace: Namespace = None,
    kubeconfig: Path | None = None,
    context: str | None = None,
    kube_url: str | None = None,
    run_number: RunNumber = "",
) -> int:
    """Create pods, gangs, quotas, reservations of your own: `berth submit -f my-pod.yaml`.

    In the cluster of the `berth up` or `demo` that runs here, unless another is named. Exit code 1 when one is refused.

    Parameters
    ----------
    file
        YAML or JSON file of manifests, `-` for standard input; may be given again.
    namespace
        Namespace of objects that name none; `default` when not given.
    kubeconfig
        Kubeconfig of another cluster.
    context
        Context of the kubeconfig.
    kube_url
        URL of another cluster's API server (no login).
    run_number
        Which `berth up` or `demo` of this machine, by its number.
    """
    from berth.cli.cluster.target import target_of
    from berth.cli.commands.submit import submit as command

    async def work() -> int:
        target = target_of(kube_url, kubeconfig, context)
        return await command(list(file), namespace=namespace, target=target, run=run_number)

    return run(work())


@app.command
def delete(
    *about: str,
    file: Files = (),
    namespace: Namespace = None,
    kubeconfig: Path | None = None,
    context: str | None = None,
    kube_url: str | None = None,
    run_number: RunNumber = "",
) -> int:
    """Delete pods and other objects: `berth delete my-pod`, `berth delete reservation/r`, `berth delete -f FILE`.

    Exit code 1 when one is not there, or refused.

    Parameters
    ----------
    about
        NAME of a pod, or KIND/NAME.
    file
        File of manifests whose objects go; may be given again.
    namespace
        Namespace of objects that name none; `default` when not given.
    kubeconfig
        Kubeconfig of another cluster.
    context
        Context of the kubeconfig.
    kube_url
        URL of another cluster's API server (no login).
    run_number
        Which `berth up` or `demo` of this machine, by its number.
    """
    from berth.cli.cluster.target import target_of
    from berth.cli.commands.submit import delete as command

    async def work() -> int:
        target = target_of(kube_url, kubeconfig, context)
        return await command(list(about), list(file), namespace=namespace, target=target, run=run_number)

    return run(work())


@app.command
def rights(user: str, /) -> int:
    """Print a manifest that grants a user what `berth up` needs in a cluster: `... | kubectl apply -f -`.

    Parameters
    ----------
    user
        Its name, as `kubectl auth whoami` prints it.
    """
    import msgspec

    from berth.cli.cluster import grants
    from berth.cli.cluster.rights import WATCHER, WRITER

    print(msgspec.json.format(msgspec.json.encode(grants.manifest(user, (*WATCHER, *WRITER)))).decode())
    return 0


@app.command
def watch(pattern: str = "", /, *, json: AsJson = False, bus: BusFlags = BUS) -> int:
    """Events as they happen, one a line.

    Parameters
    ----------
    pattern
        Which events: `placement`, `placement.bound`, `quota`, ... or a whole subject; all when not given.
    """
    from berth.cli.commands.watch import watch as command

    return run(command(pattern, bus=bus.given(), as_json=json))


app.command(local.up)
app.command(local.replay)
app.command(local.demo)
app.command(recorded.audit)
app.command(recorded.replay_decision)
app.command(recorded.at)
app.command(shadow)
app.command(tune)
