"""Answers the runtime from memory, and notes what it reports.

Nothing here waits for the bus. What a container gets of its pod's devices is read from the kernel's own files, in a
thread of the plugin's, so that a device that hangs holds back that container alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.inside.beginning import beginning
from berth.node_qos_enforcer.core.inside.cpus import Wanted, wanted_limits, with_batch_limits
from berth.node_qos_enforcer.core.inside.creation import adjustment
from berth.node_qos_enforcer.core.inside.devices import device_edits, has_devices
from berth.node_qos_enforcer.core.inside.facts import InsideFacts
from berth.node_qos_enforcer.core.inside.findings import Key, Kind
from berth.node_qos_enforcer.core.inside.lacking import lacking
from berth.node_qos_enforcer.core.inside.seen import ContainerSeen, PodSeen, container_seen, limits_of, pod_seen
from berth.node_qos_enforcer.inside import figures
from berth.node_qos_enforcer.inside.folders import Folders
from berth.node_qos_enforcer.inside.known import Inside
from berth.nri import Adjustment, Creation, Event, Fault, Handler, Refusal, Resources, Runtime, Update
from berth.nri import api_pb2 as api
from berth.rules.cpus.shared_pools import SharedPools
from berth.telemetry import Logger
from berth.vendors.probe import Probe
from berth.vendors.vendor import Edits

EVENTS: Final = (
    Event.RUN_POD_SANDBOX,
    Event.STOP_POD_SANDBOX,
    Event.REMOVE_POD_SANDBOX,
    Event.CREATE_CONTAINER,
    Event.POST_START_CONTAINER,
    Event.UPDATE_CONTAINER,
    Event.STOP_CONTAINER,
    Event.REMOVE_CONTAINER,
)
"""All that every runtime with this interface knows."""
THREADS: Final = 4
NO_EDITS: Final = Edits()


class NodeHandler(Handler):
    """What the runtime asks of this node."""

    def __init__(
        self, inside: Inside, probe: Probe, folders: Folders, log: Logger, *, refuses: bool, threads: int = THREADS
    ) -> None:
        """Take what is known, the machine to be read, and whether a container without its devices is refused."""
        self._inside = inside
        self._probe = probe
        self._folders = folders
        self._log = log
        self._refuses = refuses
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="nri")

    async def configured(self, runtime: Runtime, config: str) -> None:
        """See `Handler`."""
        self._log.info("the container runtime asks us", runtime=runtime.name, version=runtime.version)

    async def synchronize(self, part: api.SynchronizeRequest) -> Sequence[Update]:
        """See `Handler`. Limits are put right afterwards: a refused one would have the plugin thrown out here."""
        inside = self._inside
        pods = [(pod_seen(each), each.pid > 0) for each in part.pods]
        containers = [container_seen(each) for each in part.containers]
        whole = inside.board.hear(pods, containers, more=part.more)
        if whole is not None:
            inside.findings.forget(lambda key: bool(key.pod) and key.pod not in inside.board.pods)
            inside.begun = whole
            inside.changed.set()
        return ()

    async def create_container(self, pod: api.PodSandbox, container: api.Container) -> Creation:
        """See `Handler`. Refuses a container that cannot have the devices of its pod, unless the settings forbid it."""
        inside, seen, asked = self._inside, pod_seen(pod), container_seen(container)
        inside.board.begin(seen)
        facts = inside.facts
        edits = await self._edits(seen, asked, facts)
        self._note("devices", seen, asked.name, edits)
        if isinstance(edits, Problem):
            figures.CREATIONS.labels("refused" if self._refuses else "without devices").inc()
            if self._refuses:
                raise Refusal(f"{edits.field}: {edits.message}")
            edits = NO_EDITS
        pools = inside.pools(facts)
        wanted = with_batch_limits(wanted_limits(seen, asked.limits, pools, facts), seen, asked.name, facts)
        self._note("cpus", seen, asked.name, wanted)
        begins, problem = beginning(seen, asked, facts, may_lower=inside.may_lower_oom_scores(seen.uid))
        self._note("score", seen, asked.name, problem)
        inside.findings.note(Key("lacking", seen.id, asked.name), None)
        inside.board.create(asked, wanted)
        if not inside.inventory.is_known and has_devices(seen):
            inside.begun = [each for each in inside.begun if inside.board.has(each.id)]
            inside.begun.append(_with(asked, edits))
        found = adjustment(asked, edits, wanted, begins, read_only=frozenset({facts.library}))
        figures.CREATIONS.labels("as it was asked" if found == Adjustment() else "adjusted").inc()
        return Creation(found, self._leaving(seen, pools, facts))

    async def update_container(
        self, pod: api.PodSandbox, container: api.Container, resources: api.LinuxResources
    ) -> Sequence[Update]:
        """See `Handler`. What kubelet changes keeps the CPUs of the pod, and its quota as the node scales it."""
        inside, seen = self._inside, pod_seen(pod)
        inside.board.begin(seen)
        base = inside.board.resized(container.id, limits_of(resources))
        facts = inside.facts
        wanted = wanted_limits(seen, base, inside.pools(facts), facts)
        wanted = with_batch_limits(wanted, seen, container.name, facts)
        self._note("cpus", seen, container.name, wanted)
        inside.changed.set()
        found = Resources(
            cpus=wanted.cpus,
            cpu_quota_us=wanted.quota_us,
            cpu_shares=wanted.cpu_shares,
            memory_limit=wanted.memory_limit,
        )
        if found == Resources():
            return ()
        update = Update(container.id, found)
        inside.board.pushed([update], (), 0.0)
        return (update,)

    async def stop_container(self, pod: api.PodSandbox, container: api.Container) -> Sequence[Update]:
        """See `Handler`."""
        self._inside.board.remove(container.id)
        return ()

    async def happened(self, event: Event, pod: api.PodSandbox, container: api.Container) -> None:
        """See `Handler`. CPUs of a pod leave the shared pools before its first container, until it has ended."""
        inside = self._inside
        match event:
            case Event.RUN_POD_SANDBOX:
                inside.board.begin(pod_seen(pod))
            case Event.STOP_POD_SANDBOX | Event.REMOVE_POD_SANDBOX:
                inside.board.end(pod.id)
                inside.findings.forget(lambda key: key.pod == pod.id)
            case Event.POST_START_CONTAINER:
                inside.board.start(container.id)
            case Event.REMOVE_CONTAINER:
                inside.board.remove(container.id)
            case _:
                return
        inside.changed.set()

    async def disconnected(self, fault: Fault) -> None:
        """See `Handler`."""
        self._inside.board.disconnected()

    def close(self) -> None:
        """No more reading."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _edits(self, pod: PodSeen, container: ContainerSeen, facts: InsideFacts) -> Edits | Problem:
        if not has_devices(pod):
            return NO_EDITS
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, device_edits, pod, container.name, facts, self._probe)
        if isinstance(found, Problem) or not found.mounts:
            return found
        return await loop.run_in_executor(self._threads, self._folders.prepare, found) or found

    def _leaving(self, pod: PodSeen, pools: SharedPools, facts: InsideFacts) -> tuple[Update, ...]:
        """Others leave the pod's own CPUs before this container begins. Most have been asked to when its sandbox came;
        what the runtime refuses here is asked for again by who keeps containers right, and told."""
        if isinstance(pod.status, Problem) or not pod.status.cpus or not facts.layout.all:
            return ()
        updates = self._inside.board.updates(facts, pools, math.inf)
        return tuple(Update(each.container_id, each.resources, ignore_failure=True) for each in updates)

    async def check_begun(self) -> None:
        """Containers that began while the runtime could not ask us may lack what only a creation can give.

        Whose devices a node has says its inventory: before that is known, nothing is. What was created by that of a
        former process, or without its devices, is looked at as well: cards may have been exchanged.
        """
        inside, facts = self._inside, self._inside.facts
        begun, inside.begun = inside.begun, []
        loop = asyncio.get_running_loop()
        for each in begun:
            pod = inside.board.pods.get(each.pod_id)
            if pod is None or not has_devices(pod) or not inside.board.has(each.id):
                continue
            edits = await loop.run_in_executor(self._threads, device_edits, pod, each.name, facts, self._probe)
            if pod.id in inside.board.pods:
                found = edits if isinstance(edits, Problem) else lacking(pod, each, edits)
                self._note("devices", pod, each.name, None)
                self._note("lacking", pod, each.name, found)

    def _note(self, kind: Kind, pod: PodSeen, container: str, found: Wanted | Edits | Problem | None) -> None:
        problem = found.problem if isinstance(found, Wanted) else found
        problem = problem if isinstance(problem, Problem) else None
        if self._inside.findings.note(Key(kind, pod.id, container), problem) and problem is not None:
            figures.FINDINGS.labels(kind).inc()
            self._log.warning("inside the node", field=problem.field, problem=problem.message, container=container)


def _with(container: ContainerSeen, edits: Edits) -> ContainerSeen:
    """A container with what it is created with."""
    return container._replace(
        env={**container.env, **edits.env},
        devices={**container.devices, **{each.path: (each.major, each.minor) for each in edits.nodes}},
        mounts=container.mounts | {each.destination for each in edits.mounts},
    )
