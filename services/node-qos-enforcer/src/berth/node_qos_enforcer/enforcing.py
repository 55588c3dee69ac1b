"""Holds pods to the node's strategies: look, decide, write, more often than figures are published.

Needs no bus: it acts on the last specification that was received, from the bus or from the file of a former life.
Without one it changes nothing. When it ends, everything is given back, unless a successor waits for the node.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.node_pressure import EvictionAsk
from berth.contracts.slo import NodePod
from berth.node_qos_enforcer import cgroups
from berth.node_qos_enforcer.core.cgroup_paths import Driver
from berth.node_qos_enforcer.core.compose import asked
from berth.node_qos_enforcer.core.composing import Composing
from berth.node_qos_enforcer.core.evicting.asking import Asking
from berth.node_qos_enforcer.core.inside.running import PodNow
from berth.node_qos_enforcer.core.laws.host_applications import HostApplication
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.core.peaks.reclaimable import Rule
from berth.node_qos_enforcer.core.sample import NodeSample
from berth.node_qos_enforcer.core.strategies.block_io import asks_for_disks
from berth.node_qos_enforcer.core.strategies.caches import groups_of
from berth.node_qos_enforcer.core.strategies.outside import applications_of
from berth.node_qos_enforcer.core.strategies.registry import STRATEGIES
from berth.node_qos_enforcer.core.strategies.round import Answer, Round
from berth.node_qos_enforcer.core.strategies.seam import Component, Snapshot, Spec
from berth.node_qos_enforcer.disk_reading import DiskReader
from berth.node_qos_enforcer.doers import Doers
from berth.node_qos_enforcer.executor.applying import Applied, Applier
from berth.node_qos_enforcer.executor.node_lock import NodeLock
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.kept_files import KeptFiles
from berth.node_qos_enforcer.predicting import Predicting
from berth.node_qos_enforcer.sampler import Trees, take_sample
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.snapshots import GroupsBelow, snapshot_of
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic

ENFORCING: Final = "holding pods to their classes"
STUCK_S: Final = 60.0
EVICTIONS: Final = "evictions"
NO_STRATEGY: Final = "no strategy is known yet"
NO_KUBELET: Final = "no kubelet here"


class Enforcer:
    """One node's enforcement. Blocking: it reads and writes files."""

    def __init__(
        self,
        applier: Applier,
        meter: Meter,
        known: KnownNode,
        *,
        strategies: Round | None = None,
        doers: Doers | None = None,
        disks: DiskReader | None = None,
        predicting: Predicting | None = None,
    ) -> None:
        """Take who writes, a meter of its own (its looks are closer), what is known, who does what is no file, who
        knows the disks, and who predicts."""
        self._applier = applier
        self._meter = meter
        self._known = known
        self._asking: Asking | None = None
        self._predicting = predicting
        self._round = strategies if strategies is not None else Round(STRATEGIES)
        self._doers = doers if doers is not None else Doers()
        self._disks = disks
        self._groups = GroupsBelow()
        self._composing = Composing(self._doers.knobs)
        self._tools = tools_lacking()
        self._ended = False
        self._before_s: float | None = None
        self._lock = Lock()

    def step(
        self,
        sample: NodeSample,
        *,
        now: float,
        now_s: float,
        chance: float = 0.0,
        runtime: Mapping[str, PodNow] | None = None,
        told: Mapping[str, NodePod] | None = None,
    ) -> str:
        """Take one look to its end: measure it, decide, write. Returns why nothing was decided, if so.

        Args:
            sample: the look.
            now: unix seconds, for people.
            now_s: monotonic.
            chance: a number from 0 up to 1.
            runtime: pods as the container runtime has them, by uid.
            told: the same as SLO has them.
        """
        known = self._known
        strategy, spec = known.strategies.strategy, known.strategies.spec
        if strategy is None:
            return NO_STRATEGY
        if sample.driver is None:
            known.asks = []
            return NO_KUBELET
        with self._lock:
            if self._ended:
                return ""
            try:
                layout = cgroups.detect_layout(self._applier.executor.tree)
            except Unreadable as error:
                known.refused = (Problem(field="cgroup_version", message=str(error)[:300]),)
                return ""
            snapshot = snapshot_of(
                self._applier.executor.tree,
                sample,
                self._meter.cores(sample),
                known,
                runtime or {},
                told or {},
                now_s,
                self._groups,
                layout,
            )
            snapshot = snapshot._replace(chance=chance, elapsed_s=now_s - (self._before_s or now_s))
            self._before_s = now_s
            self._decide(layout, snapshot, spec, now_s)
            self._press(snapshot, spec, told or {}, now)
        return ""

    def applications(self, driver: Driver) -> tuple[HostApplication, ...]:
        """The applications that run outside of pods, by the specification in force."""
        return applications_of(self._known.strategies.spec, driver)[0]

    def end(self, *, leaves: bool = False) -> tuple[Problem, ...]:
        """Give everything back for good. Returns what could not be written.

        `leaves`: a successor waits, which takes everything over as it is. A step that is still under way in its thread
        writes nothing after this.
        """
        with self._lock:
            self._ended = True
            if leaves:
                return ()
            # The runtime refuses a container whose group has been taken away.
            self._known.cache_groups = frozenset()
            return (*self._doers.clear(), *give_back(self._applier.executor))

    def _press(self, snapshot: Snapshot, spec: Spec, told: Mapping[str, NodePod], now: float) -> None:
        """Whom the node asks to have evicted, and what it is going to need."""
        known = self._known
        if self._asking is None:
            self._asking = Asking(snapshot.now_s)
        try:
            known.asks, problem = self._asking.decide(snapshot, spec, told, int(now * 1000))
        except Exception as error:  # nobody leaves for what nobody has thought of, and pods are held all the same
            known.asks, problem = [], Problem(field=EVICTIONS, message=f"{type(error).__name__}: {error}"[:200])
        known.standing = {**known.standing, EVICTIONS: _asked(known.asks)}
        if problem is not None:
            known.refused = (*known.refused, problem)
        if self._predicting is not None:
            self._predicting.step(snapshot, told, now)
            known.prod_reclaimable = self._predicting.reclaimable
            if self._predicting.problem is not None:
                known.refused = (*known.refused, self._predicting.problem)

    def _decide(self, layout: cgroups.Layout, snapshot: Snapshot, spec: Spec, now_s: float) -> None:
        known = self._known
        snapshot = snapshot._replace(found=self._applier.found(layout, self._round.reads(snapshot, spec)))
        known.cache_groups = groups_of(snapshot.found)
        if self._disks is not None and asks_for_disks(spec, snapshot.pods):
            snapshot = snapshot._replace(disks=self._disks.disks(now_s))
        answer = self._round.decide(snapshot, spec)
        change = self._composing.compose(snapshot, answer.parts)
        done = self._doers.bring(change.done, undecided=answer.undecided)
        applied = self._applier.apply(
            layout,
            change.files,
            asked=lambda ref: asked(snapshot, ref),
            undecided=answer.undecided,
            now_s=now_s,
            touched=change.touched,
        )
        known.refused = (*answer.reports, *applied.problems, *done.problems)
        lacking = applied.lacking | done.lacking
        known.standing = standing_of(answer, applied._replace(lacking=lacking), self._tools)


def installed_of(settings: Settings) -> frozenset[Component]:
    """The components whose rights this agent has."""
    found: dict[Component, bool] = {
        "enforce": True,
        "enforce-network": settings.enforce_network,
        "enforce-cores": settings.enforce_cores,
        "enforce-kernel": settings.enforce_kernel,
        "enforce-perf": settings.enforce_perf,
    }
    return frozenset(component for component, is_there in found.items() if is_there)


def _asked(asks: Sequence[EvictionAsk]) -> str:
    """Whom the node asks to have evicted, in words."""
    return "; ".join(f"{each.uid}: {each.message} ({each.feature})" for each in asks[:3]) or "nobody is asked to leave"


def tools_lacking(which: Callable[[str], str | None] = shutil.which) -> frozenset[str]:
    """The programs that strategies call and this image does not have."""
    return frozenset(tool for each in STRATEGIES for tool in each.needs.tools if which(tool) is None)


def standing_of(answer: Answer, applied: Applied, tools: frozenset[str] = frozenset()) -> dict[str, str]:
    """How each strategy stands, in words. `tools` are the programs that this image lacks."""
    called = {each.name: each.needs.tools for each in STRATEGIES}
    lacking = {knob: each for each in STRATEGIES for knob in each.needs.knobs if knob in applied.lacking}
    found = {}
    for each in answer.standings:
        missing = sorted(knob for knob, strategy in lacking.items() if strategy.name == each.name)
        words = "off" if not each.is_on else f"skipped: {each.skipped}" if each.skipped else f"{each.wanted} values"
        words = f"{words}; the kernel lacks {', '.join(missing)}" if missing else words
        is_asked = each.is_on and (each.wanted or each.skipped)
        absent = [tool for tool in called.get(each.name, ()) if tool in tools] if is_asked else []
        found[each.name] = f"{words}; the image lacks {', '.join(absent)}" if absent else words
    return found


async def enforce_for_ever(
    ctx: Context[Settings], trees: Trees, known: KnownNode, applier: Applier, lock: NodeLock, doers: Doers
) -> None:
    """Enforce until cancelled, then give back, unless another process waits for the lock that is held."""
    interval_s = ctx.settings.enforce_interval_s
    predicting = Predicting(known.node, ctx.settings.peaks_file, Rule(ctx.settings.peaks_cold_s))
    await asyncio.to_thread(predicting.load, ctx.clock.now())
    meter = Meter(known.node, max_gap_s=2 * interval_s + 1.0)
    disks = DiskReader(trees.sys.root) if isinstance(trees.sys, DiskTree) else None
    strategies = Round(STRATEGIES, installed_of(ctx.settings))
    enforcer = Enforcer(applier, meter, known, strategies=strategies, doers=doers, disks=disks, predicting=predicting)
    ctx.health.watch(ENFORCING, 3 * interval_s + STUCK_S)
    was_refused: tuple[Problem, ...] = ()
    was: Spec | None = None
    try:
        async for _ in Periodic(ctx.clock, interval_s).ticks(at_once=True):
            if known.strategies.strategy is not None and known.strategies.spec != was:
                was = known.strategies.spec
                ctx.log.info("strategies in force", told_by=known.strategies.source)
            await asyncio.to_thread(_look, ctx, trees, enforcer, applier.kept, known.pods_now(), known.told())
            ctx.health.beat(ENFORCING)
            if known.refused and known.refused != was_refused:
                ctx.log.error("not everything can be held", problems=[str(each) for each in known.refused[:20]])
            was_refused = known.refused
    finally:
        predicting.save()
        # A few small writes: done at once, so that nothing can come in between.
        for problem in enforcer.end(leaves=lock.is_awaited()):
            ctx.log.error("not everything could be given back", field=problem.field, problem=problem.message)
        lock.release()
        if applier.kept is not None:
            applier.kept.close()


def _look(
    ctx: Context[Settings],
    trees: Trees,
    enforcer: Enforcer,
    kept: KeptFiles | None,
    runtime: Mapping[str, PodNow],
    told: Mapping[str, NodePod],
) -> None:
    sample = take_sample(
        trees,
        monotonic=ctx.clock.monotonic,
        clock_ticks_per_s=os.sysconf("SC_CLK_TCK"),
        applications=enforcer.applications,
        kept=kept,
        with_pressure=False,
    )
    enforcer.step(
        sample,
        now=ctx.clock.now(),
        now_s=ctx.clock.monotonic(),
        chance=ctx.random.random(),
        runtime=runtime,
        told=told,
    )
    if kept is not None:
        kept.end_round()
