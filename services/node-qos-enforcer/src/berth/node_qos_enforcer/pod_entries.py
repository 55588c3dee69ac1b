"""What SLO says of this node's pods: classes, priorities, requests, limits, answers to what the node asks for.

What is known is kept on disk, so that a start without a bus knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from berth.bus.port import Entry
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.slo import NodePod
from berth.contracts.subjects import named_key, node_pod_key
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.store import PodsFile
from berth.runtime import Context, Periodic

SAVE_S: Final = 10.0
FORGET_ENDS: Final = 60
"""A bucket that is read from its start may have been lost: whoever fills it anew has so many beats for it."""


class PodEntries:
    """The entries of this node's pods, whether they have a control group yet or not: a sink of SLO that sees the keys
    of `pattern` alone. What was known stays while the bucket is read anew. `told` is another object when something is
    new, and never changes itself."""

    def __init__(self, node: str) -> None:
        """Nothing is known yet."""
        self.pattern = f"{named_key('pod', node)}.*"
        self._node = node
        self._known: dict[str, NodePod] = {}
        self._unseen: set[str] = set()
        self._ends = 0
        self._problems: dict[str, Problem] = {}
        self._told: Mapping[str, NodePod] = {}
        self._is_new = False

    def told(self) -> Mapping[str, NodePod]:
        """What is known, by uid."""
        return self._told

    def problems(self) -> tuple[Problem, ...]:
        """Entries that cannot be read."""
        return tuple(self._problems.values())

    def restore(self, pods: Iterable[NodePod]) -> None:
        """What a former process knew."""
        self._known = {node_pod_key(self._node, each.uid): each for each in pods}
        self._told = {each.uid: each for each in self._known.values()}
        self.reset()

    def reset(self) -> None:
        """The bucket is read from its start: what it does not come to have is forgotten after a while."""
        self._unseen = set(self._known) | set(self._problems)
        self._ends = 0

    def apply(self, entry: Entry) -> None:
        """Take an entry. One that cannot be read leaves what was known."""
        key = entry.key
        self._unseen.discard(key)
        if entry.deleted:
            self._drop(key)
            return
        try:
            pod = decode(entry.value, NodePod)
        except InvalidMessage as error:
            self._problems[key] = Problem(field=f"slo.{key}", message=str(error)[:200])
            return
        if pod.node != self._node or node_pod_key(pod.node, pod.uid) != key:
            message = f"is of pod {pod.uid[:64]!r} on node {pod.node[:64]!r}"
            self._problems[key] = Problem(field=f"slo.{key}", message=message)
            return
        self._problems.pop(key, None)
        if pod != self._known.get(key):
            self._known[key] = pod
            self._is_new = True

    def end(self, sequence: int) -> None:
        """Everything was shown."""
        self._ends += 1
        if self._ends >= FORGET_ENDS:
            for key in self._unseen:
                self._drop(key)
            self._unseen.clear()
        if self._is_new:
            self._told = {each.uid: each for each in self._known.values()}
            self._is_new = False

    def _drop(self, key: str) -> None:
        self._problems.pop(key, None)
        self._is_new |= self._known.pop(key, None) is not None


async def keep_for_ever(ctx: Context[Settings], entries: PodEntries, file: PodsFile) -> None:
    """Keep what is known until cancelled."""
    saved, failed = entries.told(), ""
    async for _ in Periodic(ctx.clock, SAVE_S).ticks():
        told = entries.told()
        if told is saved:
            continue
        saved = told
        try:
            await asyncio.to_thread(file.save, list(told.values()))
            failed = ""
        except OSError as error:
            if str(error) != failed:
                ctx.log.warning("cannot keep what is known of pods", file=ctx.settings.pods_file, error=str(error))
            failed = str(error)
