"""Commands of the other services against the simulated API without HTTP, and what they are about."""

from __future__ import annotations

import json
from typing import Any

from berth.bus.port import Message
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.commands import Commands
from berth.cluster_writer.commands.objects import ObjectCommands
from berth.cluster_writer.eviction_publisher import EvictionPublisher
from berth.cluster_writer.node_evictions import NodeEvictions
from berth.cluster_writer.outbox import Note
from berth.contracts import subjects
from berth.contracts.codec import encode
from berth.contracts.command import (
    AnnotateNode,
    ApplyObject,
    Command,
    DeleteObject,
    EvictionNote,
    EvictPod,
    OfferNode,
    PatchNode,
    PatchObject,
    RefusePod,
    ReportPod,
)
from berth.contracts.kube import OwnerReference
from berth.contracts.state import Pod
from berth.runtime.clock import SystemClock
from berth.simcluster.store import Path

RESERVATION_API = "scheduling.koordinator.sh/v1alpha1/reservations"

SLO_API = "slo.koordinator.sh/v1alpha1/nodeslos"
SLO = Path("slo.koordinator.sh", "v1alpha1", "nodeslos", "", "n")
NODE = Path("", "v1", "nodes", "", "n")


class FakeOutbox:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def put(self, note: Note) -> None:
        self.notes.append(note)


class FakePublisher:
    """Takes whatever is offered."""

    def offer(self, *_: Any, **__: Any) -> bool:
        return True


def subject_of(command: Command) -> str:
    """The one that its sender puts it on."""
    match command:
        case PatchNode():
            return subjects.command_subject("patch", "nodes", command.name)
        case AnnotateNode():
            return subjects.command_subject("annotate", "nodes", command.name)
        case OfferNode():
            return subjects.command_subject("offer", "nodes", command.name)
        case ApplyObject():
            plural = command.api.rpartition("/")[2] or "nodeslos"
            names = [command.namespace, command.name] if command.namespace else [command.name]
            return subjects.command_subject("apply", plural, *names)
        case DeleteObject():
            return subjects.command_subject("delete", command.api.rpartition("/")[2], command.name)
        case PatchObject():
            plural = command.api.rpartition("/")[2]
            names = [command.namespace, command.name] if command.namespace else [command.name]
            return subjects.command_subject("patch", plural, *names)
        case RefusePod():
            return subjects.command_subject("refuse", "pods", command.namespace, command.name)
        case ReportPod():
            return subjects.command_subject("report", "pods", command.namespace, command.name)
        case EvictPod():
            return subjects.command_subject("evict", "pods", command.namespace, command.name)


class CommandBench:
    """Commands at work, with a view that is shown what it sees."""

    def __init__(self, api: Any) -> None:
        self.api, self.outbox = api, FakeOutbox()
        self.cluster = ClusterView(lambda *args: None)
        clock = SystemClock()
        self.objects = ObjectCommands(api, clock)
        evictions = NodeEvictions(api, clock, EvictionPublisher(FakePublisher(), self.outbox))
        self.commands = Commands(self.cluster, api, self.outbox, clock, evictions)

    async def send(self, command: Command) -> None:
        await self.commands.handle(Message(subject=subject_of(command), data=encode(command)))

    def show(self, name: str) -> Pod:
        """Have the view see a pod as the API server has it, which is returned."""
        pod: Pod = self.api.seen(name)
        self.cluster.read_state(subjects.pod_key("default", name), encode(pod), deleted=False, gap=False)
        return pod


def eviction(pod: Pod, **given: Any) -> EvictPod:
    """A command for a node's sake to have a pod leave."""
    note = EvictionNote(need="BEMemoryEvict-1", feature="BEMemoryEvict", accumulator="podUsed", message="full")
    said: dict[str, Any] = {"reason": "NodePressure", "node": pod.node, "revision": 5, "note": note, **given}
    return EvictPod(namespace="default", name=pod.name, uid=pod.uid, **said)


def refusal(pod: Pod, message: str = "no capacity", **more: Any) -> RefusePod:
    """A command to tell a pod that it cannot be placed."""
    return RefusePod(namespace="default", name=pod.name, uid=pod.uid, message=message, **more)


def strategy(percent: int, *, uid: str, revision: int = 1) -> ApplyObject:
    """A command to have the NodeSLO of the node with this uid suppress at so many percent."""
    spec = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": percent}}
    owner = OwnerReference(api_version="v1", kind="Node", name="n", uid=uid)
    return ApplyObject(api=SLO_API, name="n", spec=spec, owner=owner, revision=revision)


def register_again(api: Any) -> str:
    """The node is deleted and comes back under another uid, which is returned."""
    assert api.store.delete(NODE).status == 200
    uid: str = api.node("n").uid
    return uid


def applied(api: Any) -> Any:
    """The NodeSLO."""
    return json.loads(api.store.get(SLO).body)


def percent(api: Any) -> Any:
    """At how many the NodeSLO suppresses."""
    return applied(api)["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"]
