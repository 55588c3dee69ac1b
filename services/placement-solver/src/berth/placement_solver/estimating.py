"""When who waits will start: worked out now and then in a copy of the process, and judged by what came of it.

What was said is kept in memory; so are the lifetimes that it rests on. After a start nothing is said until enough
pods have ended.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import numpy as np

from berth.bus.port import Clock
from berth.contracts.question import WhyAnswer
from berth.placement_solver import metrics
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.estimates.bands import Band, Bands
from berth.placement_solver.core.estimates.lifetimes import ENOUGH
from berth.placement_solver.core.estimates.playing import played
from berth.placement_solver.estimating_ground import Gathering, unit_of
from berth.placement_solver.readiness import Readiness
from berth.runtime.snapshot import SnapshotFailed
from berth.telemetry import get_logger
from berth.transaction.claims import Name

log = get_logger(__name__)

Copies = Callable[[Callable[[], bytes], float], Awaitable[bytes]]

PLAYED: Final = 40
"""So often it is played through."""
LIMIT_S: Final = 5.0
GRACE_S: Final = 3.0
LOOK_S: Final = 1.0
"""Between two looks at who has started: so exactly it is known when."""
SHARE: Final = 20.0
"""It is worked out again after this many times what it took at least."""
STALE_S: Final = 600.0
"""What is older is not shown."""
SEED: Final = 1


class Estimating:
    """Estimates of one solver. Times are unix seconds."""

    def __init__(
        self, cluster: ClusterView, readiness: Readiness, clock: Clock, every_s: float, copies: Copies
    ) -> None:
        """`every_s`: how often they are worked out at most; 0: never. `copies` does work in a copy of the process."""
        self._cluster = cluster
        self._readiness = readiness
        self._clock = clock
        self._every_s = every_s
        self._copies = copies
        self.bands = Bands()
        self._now_said: dict[str, Band] = {}

    async def run(self) -> None:
        """For ever."""
        rests_until = 0.0
        while True:
            await self._clock.sleep(LOOK_S)
            self.follow()
            if not self._every_s or self._clock.monotonic() < rests_until or not self._may_look():
                continue
            began = time.monotonic()
            await self.look()
            rests_until = self._clock.monotonic() + max(self._every_s, SHARE * (time.monotonic() - began))

    def _may_look(self) -> bool:
        waiting, lifetimes = self._cluster.queue.waiting, self._cluster.stays.lifetimes
        return bool(waiting) and lifetimes.seen >= ENOUGH and self._readiness.may_plan()

    async def look(self) -> None:
        """Work out when who waits will start."""
        now_s = self._clock.now()
        ends = time.monotonic() + LIMIT_S

        def work() -> bytes:
            starts = starts_of(self._cluster, now_s, lambda: time.monotonic() > ends)
            return msgspec.msgpack.encode(starts)

        try:
            found = msgspec.msgpack.decode(await self._copies(work, LIMIT_S + GRACE_S), type=dict[str, list[float]])
        except (SnapshotFailed, OSError, msgspec.MsgspecError) as error:
            log.warning("no estimates of starts", error=str(error))
            return
        said: dict[str, Band] = {}
        for unit, starts in found.items():
            band = self.bands.band(starts, now_s)
            if band is not None:
                said[unit] = band
                self.bands.say(unit, band)
        self._now_said = said

    def follow(self) -> None:
        """See who has started, or is gone, of those about whom something was said."""
        cluster, now_s = self._cluster, self._clock.now()
        for unit in list(self.bands.open()):
            group = cluster.gangs.members_of_group(unit)
            name = _name_of(unit)
            if group or "," in unit:
                if any(gang.placed for gang in group):
                    self.bands.started(unit, now_s)
                elif not group:
                    self.bands.forget(unit)
            elif name in cluster.queue.waiting:
                continue
            elif _has_place(cluster, name):
                self.bands.started(unit, now_s)
            elif name not in cluster.book.pods:
                self.bands.forget(unit)
        self.bands.tick(now_s)
        record = self.bands.record
        metrics.ESTIMATES_RIGHT.labels("50").set(record.half)
        metrics.ESTIMATES_RIGHT.labels("90").set(record.most)
        metrics.ESTIMATES_KNOWN.set(record.known)

    def beside(self, answer: WhyAnswer) -> WhyAnswer:
        """An answer about a pod or gang that waits, with when it will start, as far as that can be said."""
        if answer.outcome not in ("waiting", "refused") or answer.kind not in ("pod", "gang"):
            return answer
        text = self.text(f"{answer.namespace}/{answer.name}")
        return msgspec.structs.replace(answer, facts={**answer.facts, "start": text}) if text else answer

    def text(self, name: str) -> str:
        """For people: when it will start; empty: that cannot be said."""
        waiting = self._cluster.queue.waiting.get(_name_of(name))
        band = self._now_said.get(name) or (self._now_said.get(unit_of(waiting)) if waiting is not None else None)
        now_s = self._clock.now()
        if band is None or now_s - band.said_at > STALE_S:
            return ""
        half, most = max(band.half_at - now_s, 0.0), max(band.most_at - now_s, 0.0)
        record = self.bands.record
        past = "no word like it has been put to the test yet"
        if record.known:
            past = f"of {record.known} such words {100 * record.half:.0f} and {100 * record.most:.0f} % came true"
        return f"in {span(half)} at even odds, within {span(most)} nine times in ten; {past}"


def starts_of(cluster: ClusterView, now_s: float, is_over: Callable[[], bool]) -> dict[str, list[float]]:
    """When each that waits starts, in seconds from now, each time that it is played; without those of whom too little
    is known. The view is not changed but for what classes keep."""
    ground = Gathering(cluster, now_s).ground()
    runs = ((each.kind, each.age_s) for each in ground.runs)
    come = [*(each.kind for each in ground.waits), *(each.kind for each in ground.arrives)]
    curves = cluster.stays.lifetimes.curves(runs, come)
    found = played(ground, curves, SEED, PLAYED, is_over)
    return {unit: starts for unit, starts in found.items() if np.isfinite(starts).sum() * 10 >= len(starts) * 9}


def span(seconds: float) -> str:
    """`40 s`, `12 min`, `5 h`, `3 days`."""
    for size, unit, until in ((1, "s", 90), (60, "min", 90 * 60), (3600, "h", 48 * 3600)):
        if seconds < until:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def _has_place(cluster: ClusterView, name: Name) -> bool:
    pod, decision = cluster.book.pods.get(name), cluster.book.open_decision(name)
    return pod is not None and (bool(pod.node) or (decision is not None and not decision.nominates))


def _name_of(unit: str) -> Name:
    namespace, _, name = unit.partition("/")
    return namespace, name
