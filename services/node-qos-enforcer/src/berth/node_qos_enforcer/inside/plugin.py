"""Serves the container runtime for ever, and keeps containers right that run.

What the runtime reports wakes `Keeper`, which changes limits after the runtime has its answer: it answers no call of a
plugin that it waits for itself. Needs no bus.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.metrics import RuntimePlugin
from berth.node_qos_enforcer.core.inside.findings import Key, Kind
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.host_probe import HostProbe
from berth.node_qos_enforcer.inside import figures
from berth.node_qos_enforcer.inside.folders import Folders
from berth.node_qos_enforcer.inside.handler import EVENTS, NodeHandler
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.inside.pod_files import lift_quota
from berth.node_qos_enforcer.settings import Settings
from berth.nri import Plugin, PluginSettings, Update
from berth.rules.cpus.kubelet import CHECKPOINT, CHECKPOINT_LENGTH_MAX, read_checkpoint
from berth.runtime import Context
from berth.vendors.nvidia import ISOLATION
from berth.vendors.probe import Probe

NAME: Final = "berth"
TICK_S: Final = 1.0
"""How late a change of the node's facts is seen; what the runtime reports is seen at once."""
KUBELET_S: Final = 10.0
DRIVER: Final = "/dev/nvidiactl"


class Keeper:
    """One plugin and what goes on beside its answers."""

    def __init__(self, ctx: Context[Settings], inside: Inside, executor: Executor) -> None:
        """Nothing is connected yet."""
        settings = ctx.settings
        self._ctx = ctx
        self._inside = inside
        self._executor = executor
        self._kubelet = DiskTree(settings.kubelet_root, max_bytes=CHECKPOINT_LENGTH_MAX)
        self._kubelet_at: float | None = None
        self._probe: Probe = HostProbe({"/sys": settings.sys_root, "/dev": settings.dev_root})
        self._folders = Folders(settings.host_root)
        self._handler = NodeHandler(inside, self._probe, self._folders, ctx.log, refuses=settings.nri_refuse)
        self._lifted: set[str] = set()
        self._swept: frozenset[str] | None = None
        self._shared_twice_at: int | None = None
        plugin = PluginSettings(NAME, settings.nri_socket, settings.nri_index, events=EVENTS)
        self.plugin = Plugin(plugin, self._handler, chance=ctx.random.random)

    async def run(self) -> None:
        """Serve and keep until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.plugin.run(), name="nri")
                tasks.create_task(self._keep(), name="keep-containers-right")
        finally:
            self._handler.close()

    def state(self) -> RuntimePlugin:
        """How it stands, for the node's message."""
        status, settings = self.plugin.status, self._ctx.settings
        why_not = ""
        if settings.give_back:
            why_not = "everything is given back"
        elif not status.is_ready:
            why_not = "the container runtime is not connected"
        elif not Path(f"{settings.host_root.rstrip('/')}{settings.vgpu_library}").is_file():
            why_not = f"{settings.vgpu_library} is not there"
        elif self._probe.device(DRIVER) is None:
            why_not = f"{DRIVER} is not there"
        return RuntimePlugin(
            connected=status.is_ready,
            runtime=f"{status.runtime.name} {status.runtime.version}" if status.runtime is not None else "",
            containers=len(self._inside.board),
            isolation="" if why_not else ISOLATION,
            reason=why_not,
        )

    async def _keep(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._inside.changed.wait()
            self._inside.changed.clear()
            await self.round()

    async def round(self) -> None:
        """Put right what is not as it is to be."""
        inside, now = self._inside, self._ctx.clock.monotonic()
        inside.findings.expire(now)
        if self._kubelet_at is None or now - self._kubelet_at >= KUBELET_S:
            self._kubelet_at = now
            self._note("kubelet", await asyncio.to_thread(self._read_kubelet))
        if not inside.board.is_known:
            return
        if inside.begun and inside.inventory.is_known and inside.inventory.inventory is not None:
            await self._handler.check_begun()
        self._tell_shared_twice()
        await self._push()
        await self._write_files()

    async def _push(self) -> None:
        inside, now = self._inside, self._ctx.clock.monotonic()
        facts = inside.facts
        pools = inside.pools(facts)
        inside.keep_exclusive(facts)
        figures.CONTAINERS.set(len(inside.board))
        for name, kind in (("shared", pools.shared), ("best-effort", pools.best_effort)):
            figures.SHARED_CPUS.labels(name).set(sum(len(each.cpus) for each in kind))
        updates = inside.board.updates(facts, pools, now) if facts.layout.all else []
        if not updates or not self.plugin.status.is_ready:
            return
        corrected = {} if facts.gives_back else inside.board.corrected(updates)
        pushed = await self.plugin.update_containers(updates)
        if pushed.fault is not None:
            self._ctx.log.warning("limits of containers could not be changed", reason=pushed.fault.text)
            return
        self._note_refused(updates, inside.board.pushed(updates, pushed.failed, now))
        for container_id, (pod_id, name, problem) in corrected.items():
            if container_id not in pushed.failed and inside.findings.correct(pod_id, name, problem, now):
                figures.FINDINGS.labels("corrected").inc()

    def _note_refused(self, updates: list[Update], refused: list[tuple[str, str]]) -> None:
        inside = self._inside
        done = {update.container_id for update in updates}
        inside.findings.forget(lambda key: key.kind == "update" and inside.board.id_of(key.pod, key.container) in done)
        for pod_id, name in refused:
            if (pod := inside.board.pods.get(pod_id)) is not None:
                message = "the runtime has refused new limits; they are asked for again"
                self._note("update", Problem(field=f"{pod.key}.containers[{name}]", message=message), pod_id, name)

    def _tell_shared_twice(self) -> None:
        board = self._inside.board
        if self._shared_twice_at == board.version:
            return
        found = board.shared_twice()
        for pod_id in board.pods:
            self._note("cpus", found.get(pod_id), pod_id)
        # What was found is told again each time: there may have been too many findings for it.
        self._shared_twice_at = board.version if not found else None

    async def _write_files(self) -> None:
        """Quotas of pods with CPUs of their own; folders of pods that have ended."""
        pods = dict(self._inside.board.pods)
        gives_back = self._ctx.settings.give_back
        self._lifted &= pods.keys()
        for pod in pods.values():
            if gives_back or pod.id in self._lifted or isinstance(pod.status, Problem):
                continue
            if pod.status.cpus:
                problem = await asyncio.to_thread(lift_quota, self._executor, pod)
                self._note("files", problem, pod.id)
                if problem is None:
                    self._lifted.add(pod.id)
        if not self._ctx.settings.vgpu_monitor:
            return
        uids = frozenset(pod.uid for pod in pods.values())
        if uids != self._swept:
            problems = await asyncio.to_thread(self._folders.sweep, uids)
            self._note("files", problems[0] if problems else None)
            self._swept = uids

    def _read_kubelet(self) -> Problem | None:
        """Take up kubelet's checkpoint; what was known stays when it cannot be read."""
        if not self._ctx.settings.kubelet_root:
            return None
        try:
            text = self._kubelet.read(CHECKPOINT)
        except Unreadable as error:
            return Problem(field=CHECKPOINT, message=error.reason)
        read = read_checkpoint(text) if text is not None else None
        if isinstance(read, Problem):
            return read
        if read is not None:
            self._inside.checkpoint = read
        return None

    def _note(self, kind: Kind, problem: Problem | None, pod: str = "", container: str = "") -> None:
        if self._inside.findings.note(Key(kind, pod, container), problem) and problem is not None:
            figures.FINDINGS.labels(kind).inc()
            self._ctx.log.warning("inside the node", field=problem.field, problem=problem.message)
