"""Look at a cluster before anything is started there: reachable, equipped, allowed, and not served by another Berth."""

from __future__ import annotations

import asyncio
import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from berth.cli.cluster import kinds, rights
from berth.cli.cluster.target import Target
from berth.cli.errors import CliError
from berth.cli.output import columns
from berth.cli.program import program
from berth.kube import LEASES, NAMESPACES, NODES, Kube, Resource, Selection
from berth.kube.lease_record import read_lease

LEASE = "cluster-writer"
LEASE_PAUSE_S = 1.0
FORBIDDEN = 403
NOT_FOUND = 404
MACHINE_ID = Path("/etc/machine-id")


GUARDS = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", False)
GUARD = "berth-notes"
WRITER_ACCOUNT = "system:serviceaccount:berth-system:cluster-writer"


class _NodeInfo(msgspec.Struct, rename={"machine_id": "machineID"}):
    machine_id: str = ""


class _NodeStatus(msgspec.Struct, rename={"node_info": "nodeInfo"}):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Node(msgspec.Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


async def check(target: Target, *, install: bool, alone: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return when the services can work there; what is missing but not needed is said.

    `install`: create what is missing. `alone`: nobody else may hold cluster-writer's Lease, for our bus is our own.
    The result is what was installed, which the server serves a moment later (`kinds.until_served`). Raises CliError
    with the command that helps.
    """
    async with target.client() as kube:
        await _reach(kube, target)
        installed = await _kinds(kube, target, install, say)
        await _home(kube, target, install, say)
        await _rights(kube, target)
        await _guard(kube, target)
        if alone:
            await _nobody_else(kube, target, say)
    return installed


async def until_served(target: Target, installed: list[dict[str, Any]]) -> None:
    """Return once the server serves what was installed. Raises CliError when it never does."""
    if installed:
        async with target.client() as kube:
            await kinds.until_served(kube, installed)


async def _reach(kube: Kube, target: Target) -> None:
    answer = await kube.page(Selection(NODES), limit=1)
    if answer.status == FORBIDDEN:
        await _rights(kube, target)
    if not answer.ok:
        raise CliError(
            f"the API server of {target.shown} cannot be used: {answer.status or 'no answer'} {answer.message}"
        )


async def _kinds(kube: Kube, target: Target, install: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    missing = await kinds.lacking(kube, kinds.definitions())
    if not missing:
        return []
    plurals = ", ".join(each["spec"]["names"]["plural"] for each in missing)
    if install:
        await kinds.install(kube, missing)
        say(f"installed {plurals}; they stay when Berth has gone")
        return missing
    say(f"this cluster lacks {plurals}; without them plain pods are placed, but no GPUs, quotas or reservations")
    say(f"  to install them: --install-crds, or {target.kubectl('apply', '--server-side', '-f', str(kinds.folder()))}")
    return []


async def _home(kube: Kube, target: Target, install: bool, say: Callable[[str], None]) -> None:
    answer = await kube.get(NAMESPACES, "", rights.HOME)
    if answer.status != NOT_FOUND:
        return
    if not install:
        command = target.kubectl("create", "namespace", rights.HOME)
        raise CliError(f"the namespace {rights.HOME} is missing, where a Lease is kept; create it with\n  {command}")
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": rights.HOME}}
    answer = await kube.create(NAMESPACES, "", manifest)
    if not answer.ok:
        raise CliError(f"--install-crds: namespace {rights.HOME}: {answer.status or 'no answer'} {answer.message}")
    say(f"created the namespace {rights.HOME}; it stays when Berth has gone")


async def _rights(kube: Kube, target: Target) -> None:
    refused = await rights.refused(kube, (*rights.WATCHER, *rights.WRITER))
    if not refused:
        return
    verbs: dict[str, list[str]] = {}
    for need in refused:
        verbs.setdefault(need.kind, []).append(need.verb)
    lines = columns([(kind, " ".join(dict.fromkeys(of))) for kind, of in verbs.items()], indent="  ")
    user = await rights.user_of(kube) or "USER"
    granting = f"{program()} rights {shlex.quote(user)} | kubectl apply -f -"
    raise CliError(
        f"the login {user} of {target.shown} may not do what Berth does:\n"
        + "\n".join(lines)
        + f"\nan administrator of that cluster grants it, with kubectl under their own login, by\n  {granting}"
    )


async def _guard(kube: Kube, target: Target) -> None:
    """Where the manifests were applied, only the account of their cluster-writer may bind with Berth's notes."""
    if not (await kube.get(GUARDS, "", GUARD)).ok:
        return
    if await rights.user_of(kube) != WRITER_ACCOUNT:
        command = target.kubectl("delete", f"{GUARDS.plural}.{GUARDS.group}", GUARD)
        raise CliError(
            f"Berth's manifests are in the cluster of {target.shown}, and their guard lets only {WRITER_ACCOUNT} bind; "
            f"take them away, or the guard alone:\n  {command}"
        )


async def _nobody_else(kube: Kube, target: Target, say: Callable[[str], None]) -> None:
    """A Lease that is kept alive belongs to a Berth that runs here already, on a bus of its own."""
    first = read_lease((await kube.get(LEASES, rights.HOME, LEASE)).body)
    if first is None or not first.holder:
        return
    say(f"{first.holder} held the Lease {rights.HOME}/{LEASE}: is it still there?")
    deadline = asyncio.get_running_loop().time() + first.duration_s + LEASE_PAUSE_S
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(LEASE_PAUSE_S)
        now = read_lease((await kube.get(LEASES, rights.HOME, LEASE)).body)
        if now is None or not now.holder:
            return
        if now.version != first.version:
            raise CliError(
                f"Berth runs in the cluster of {target.shown} already: {now.holder} keeps the Lease "
                f"{rights.HOME}/{LEASE}. Stop it first, or join its bus with --nats"
            )


async def node_of_this_machine(target: Target) -> str:
    """The name of the node that this machine is; empty when it is none of that cluster."""
    name = socket.gethostname().lower()
    async with target.client() as kube:
        answer = await kube.get(NODES, "", name)
    return name if answer.ok and _is_this_machine(answer.body) else ""


def _is_this_machine(node: bytes) -> bool:
    try:
        theirs = msgspec.json.decode(node, type=_Node).status.node_info.machine_id
        return bool(theirs) and theirs == MACHINE_ID.read_text().strip()
    except (msgspec.MsgspecError, OSError):
        return False


async def check_node(target: Target, name: str) -> None:
    """Raises CliError when the cluster has no node of this name."""
    async with target.client() as kube:
        answer = await kube.get(NODES, "", name)
    if answer.status == NOT_FOUND:
        raise CliError(f"--node: the cluster of {target.shown} has no node {name}")
