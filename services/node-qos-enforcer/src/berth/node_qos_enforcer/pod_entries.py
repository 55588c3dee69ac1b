"""What SLO says of this node's pods: classes, priorities, requests, limits. Each is read by its name, since agents may
follow nothing; which pods there are is seen from their control groups.

A pod that is new is asked for at once and every other second until it is there; others every half minute. What is known
is kept on disk, so that a start without a bus knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from berth.bus.errors import BusError
from berth.bus.port import Stored
from berth.contracts import buckets
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodePod
from berth.contracts.subjects import node_pod_key
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.store import PodsFile
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic

TICK_S: Final = 1.0
AGAIN_S: Final = 30.0
SOON_S: Final = 2.0
SOON_FOR_S: Final = 60.0
"""For so long a pod without an entry counts as new."""
READS_MAX: Final = 20
"""In one tick."""
SAVE_S: Final = 10.0


class PodEntries:
    """The entries of the pods that are there. Used by one event loop; `told` is a copy."""

    def __init__(self, node: str) -> None:
        """Nothing is known yet."""
        self._node = node
        self._entries: dict[str, NodePod] = {}
        self._due_s: dict[str, float] = {}
        self._since_s: dict[str, float] = {}
        self._problems: dict[str, Problem] = {}
        self.version = 0

    def told(self) -> Mapping[str, NodePod]:
        """What is known, by uid."""
        return dict(self._entries)

    def problems(self) -> tuple[Problem, ...]:
        """Entries that cannot be read."""
        return tuple(self._problems.values())

    def restore(self, pods: Iterable[NodePod]) -> None:
        """What a former process knew."""
        self._entries = {each.uid: each for each in pods}

    def due(self, uids: Iterable[str], now_s: float) -> list[str]:
        """Whose entry is to be read now; pods that are gone are forgotten. `now_s` is monotonic."""
        there = set(uids)
        for known in (self._due_s, self._since_s):
            for uid in known.keys() - there:
                del known[uid]
        for uid in (self._entries.keys() | self._problems.keys()) - there:
            self._entries.pop(uid, None)
            self._problems.pop(uid, None)
            self.version += 1
        for uid in there - self._due_s.keys():
            self._due_s[uid] = self._since_s[uid] = now_s
        found = sorted((at_s, uid) for uid, at_s in self._due_s.items() if at_s <= now_s)
        return [uid for _, uid in found[:READS_MAX]]

    def ask_soon(self, uid: str) -> None:
        """Something new is expected of a pod."""
        if uid in self._due_s:
            self._due_s[uid] = 0.0

    def put(self, uid: str, stored: Stored | None, now_s: float) -> None:
        """What was read of a pod. An entry that cannot be read leaves what was known."""
        is_there = stored is not None and not stored.deleted
        is_new = now_s - self._since_s.get(uid, now_s) < SOON_FOR_S
        self._due_s[uid] = now_s + (AGAIN_S if is_there or not is_new else SOON_S)
        if stored is None or not is_there:
            if self._entries.pop(uid, None) is not None:
                self.version += 1
            return
        try:
            entry = decode(stored.value, NodePod)
        except InvalidMessage as error:
            self._problems[uid] = Problem(field=f"slo.{node_pod_key(self._node, uid)}", message=str(error)[:200])
            return
        if (entry.node, entry.uid) != (self._node, uid):
            message = f"is of pod {entry.uid[:64]!r} on node {entry.node[:64]!r}"
            self._problems[uid] = Problem(field=f"slo.{node_pod_key(self._node, uid)}", message=message)
            return
        self._problems.pop(uid, None)
        if entry != self._entries.get(uid):
            self._entries[uid] = entry
            self.version += 1


async def read_for_ever(ctx: Context[Settings], known: KnownNode, entries: PodEntries, file: PodsFile) -> None:
    """Read entries until cancelled. While the bus is away what is known stays."""
    saved, saved_at_s, failed = entries.version, 0.0, ""
    async for _ in Periodic(ctx.clock, TICK_S).ticks(at_once=True):
        now_s = ctx.clock.monotonic()
        for uid in entries.due(known.uids, now_s) if known.uids is not None else ():
            try:
                stored = await ctx.bus.newest(buckets.SLO, node_pod_key(known.node, uid))
            except (BusError, ValueError):
                break
            entries.put(uid, stored, ctx.clock.monotonic())
        if entries.version == saved or now_s - saved_at_s < SAVE_S:
            continue
        saved, saved_at_s = entries.version, now_s
        try:
            await asyncio.to_thread(file.save, list(entries.told().values()))
            failed = ""
        except OSError as error:
            if str(error) != failed:
                ctx.log.warning("cannot keep what is known of pods", file=ctx.settings.pods_file, error=str(error))
            failed = str(error)
