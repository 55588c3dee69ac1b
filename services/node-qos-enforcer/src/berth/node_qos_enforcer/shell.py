"""Bus in, bus out: follow the node's state and strategy, look at the machine now and then, publish, answer questions.

The first look comes at once and the second a second later, because CPU usage takes two; from then on they come at the
set interval. Looks run in a thread, since files of the kernel can be slow when the machine is in trouble. What holds
best-effort pods (`enforcing`) runs from the start, whether there is a bus or not.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from berth.contracts import buckets
from berth.contracts.errors import InvalidMessage
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.core.strategies.cold_memory import collect_policy
from berth.node_qos_enforcer.core.strategies.outside import applications_of
from berth.node_qos_enforcer.doers import Doers
from berth.node_qos_enforcer.doers.machine import doers_of
from berth.node_qos_enforcer.enforcing import enforce_for_ever
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.applying import Applier
from berth.node_qos_enforcer.executor.node_lock import NodeLock
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.giving_back import give_back_for_ever, let_go_of_before
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.inside.plugin import Keeper
from berth.node_qos_enforcer.inside.publishing import RuntimePublisher
from berth.node_qos_enforcer.interference_figures import InterferenceFigures, shown
from berth.node_qos_enforcer.kept_files import KeptFiles, most_files
from berth.node_qos_enforcer.kubelet_reading import KubeletPods, kubelet_api
from berth.node_qos_enforcer.machine import read_cpu, read_topology
from berth.node_qos_enforcer.pod_entries import PodEntries, keep_for_ever
from berth.node_qos_enforcer.pods_of_node import PodsOfNode
from berth.node_qos_enforcer.pressing import press_for_ever
from berth.node_qos_enforcer.reconciler import Reconciler
from berth.node_qos_enforcer.reporting import Reporting
from berth.node_qos_enforcer.sampler import Trees, take_sample
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.store import InventoryFile, JournalFile, PodsFile, StrategyFile
from berth.node_qos_enforcer.trail_question import answering
from berth.node_qos_enforcer.vgpu import VgpuWatching
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context, Periodic, load_settings, serve_status

SERVICE = "node-qos-enforcer"
SECOND_LOOK_S = 1.0
KEEP_S = 1.0
SWITCH_S = 0.0005
"""Looks and rounds are Python in threads. For no longer than that one keeps the interpreter from the event loop, each
time that this wants it, which is several times for an answer that a container waits for."""
BOOT_ID = "sys/kernel/random/boot_id"
LOOKING = "looking at the node"
RUNS = (
    "an agent of this node runs, and would write everything again. Let it give everything back itself "
    "(BERTH_GIVE_BACK=true), or end it first: take the node out of the DaemonSet's selector, or delete the DaemonSet"
)


class Parts(NamedTuple):
    """What both halves of a process share."""

    trees: Trees
    known: KnownNode
    file: StrategyFile
    inventories: InventoryFile
    executor: Executor
    inside: Inside
    doers: Doers
    entries: PodEntries
    pods_file: PodsFile


class Agent:
    """One process: a half that needs no bus, and one that does."""

    def __init__(self) -> None:
        """Know nothing yet; what to read is in the settings, which come with the context."""
        self._parts: Parts | None = None
        self._interference = InterferenceFigures()
        self.lock = NodeLock("")

    def _shared(self, settings: Settings, now: Callable[[], float] = time.time) -> Parts:
        if self._parts is None:
            known = KnownNode(settings.node_or_default())
            self._interference.node = known.node
            file = StrategyFile(settings.strategy_file, known.node)
            trees, executor, doers = _machine(settings, self._interference, now)
            known.more += [executor.problems, doers.problems]
            inside = Inside(settings, known)
            known.more.append(inside.problems)
            inventories = InventoryFile(settings.inventory_file, known.node)
            entries = PodEntries(known.node)
            known.more.append(entries.problems)
            known.told = entries.told
            pods_file = PodsFile(settings.pods_file, known.node)
            self._parts = Parts(trees, known, file, inventories, executor, inside, doers, entries, pods_file)
        return self._parts

    async def before_bus(self, ctx: Context[Settings]) -> None:
        """Take up the last strategy and act on it, if it is to be enforced, until cancelled."""
        trees, known, file, inventories, executor, inside, doers, entries, pods_file = self._shared(
            ctx.settings, ctx.clock.now
        )
        _restore(ctx, file, known)
        _restore_inventory(ctx, inventories, inside)
        _restore_pods(ctx, pods_file, entries)
        await _describe(ctx, trees, known)
        lock = self.lock = NodeLock(ctx.settings.journal_file)
        # During a roll-out the process before this one still writes: its journal is read when it has ended.
        await lock.wait(ctx.clock.sleep)
        await asyncio.to_thread(executor.load)
        await asyncio.to_thread(doers.load)
        if ctx.settings.nri_socket:
            keeper = Keeper(ctx, inside, executor)
            known.plugin, known.exclusive = keeper.state, lambda: inside.exclusive
            known.pods_now = inside.board.now
            ctx.spawn(keeper.run(), name="runtime-plugin")
        if ctx.settings.give_back:
            await give_back_for_ever(ctx, executor, doers, known)
        elif ctx.settings.enforce:
            applier = Applier(executor, kept=KeptFiles(executor.tree, most_files()))
            with shown(self._interference, is_on=ctx.settings.enforce_perf):
                await enforce_for_ever(ctx, trees, known, applier, lock, doers)
        elif doers.has_done or any(kept.knob for kept in executor.kept):
            await let_go_of_before(ctx, executor, doers)
        if not (ctx.settings.enforce or ctx.settings.give_back or ctx.settings.nri_socket):
            lock.release()

    async def main(self, ctx: Context[Settings]) -> None:
        """Follow, measure, publish and answer until cancelled."""
        trees, known, file, inventories, executor, inside, _, entries, pods_file = self._shared(
            ctx.settings, ctx.clock.now
        )
        ctx.spawn(ctx.bus.follow(buckets.STATE, known.view, keys=known.key).run(), name="follow-node")
        if ctx.settings.nri_socket or ctx.settings.podresources_proxy:
            follower = ctx.bus.follow(buckets.INVENTORY, inside.inventory, keys=known.key)
            ctx.spawn(follower.run(), name="follow-inventory")
        ctx.spawn(ctx.bus.follow(buckets.SLO, known.strategies, keys=known.key).run(), name="follow-strategy")
        reconciler: Reconciler
        bucket = ctx.bus.owned(
            buckets.METRICS,
            keys=known.key,
            on_conflict=lambda conflicted: reconciler.on_conflict(conflicted),
            on_reset=lambda: reconciler.on_reset(),
        )
        meter = Meter(known.node, max_gap_s=2 * ctx.settings.interval_s + SECOND_LOOK_S)
        reconciler = Reconciler(
            known=known,
            meter=meter,
            bucket=bucket,
            enforces=ctx.settings.enforce and not ctx.settings.give_back,
            every_s=ctx.settings.metrics_interval_s,
        )
        ctx.health.add("measured", lambda: _measured(ctx, reconciler))
        kubelet = KubeletPods(kubelet_api(ctx.settings)) if ctx.settings.kubelet_url else None
        pods = PodsOfNode(inside if ctx.settings.nri_socket else None, kubelet, ctx.clock.monotonic)
        reporting = Reporting(ctx, known.node, inside.hold, pods)
        await serve_status(
            ctx,
            lambda: reconciler.facts() | reporting.facts(),
            others={"trail": answering(known.node, executor.trail, ctx.clock.now)},
            node=known.node,
        )
        ctx.spawn(reporting.run(), name="report")
        ctx.spawn(RuntimePublisher(ctx, known, inside).run(), name="publish-runtime")
        if ctx.settings.enforce and not ctx.settings.give_back:
            followed = ctx.bus.follow_by_asking(buckets.SLO, entries, pattern=entries.pattern)
            ctx.spawn(followed.run(), name="follow-pods")
            ctx.spawn(keep_for_ever(ctx, entries, pods_file), name="keep-pods")
            ctx.spawn(press_for_ever(ctx, known), name="press")
        self._serve_who_asks_by_pod(ctx, known, inside, pods)
        ctx.spawn(_keep_for_ever(ctx, file, known), name="keep-strategy")
        if ctx.settings.nri_socket and ctx.settings.inventory_file:
            ctx.spawn(_keep_inventory_for_ever(ctx, inventories, inside), name="keep-inventory")
        await _look_for_ever(ctx, trees, reconciler)

    def _serve_who_asks_by_pod(
        self, ctx: Context[Settings], known: KnownNode, inside: Inside, pods: PodsOfNode
    ) -> None:
        """The proxy of PodResources, and figures of shared GPUs."""
        settings = ctx.settings
        if not (settings.podresources_proxy or settings.vgpu_monitor):
            return
        if settings.podresources_proxy:
            # gRPC is megabytes, which an agent that serves nobody does without.
            from berth.node_qos_enforcer.podresources_proxy import ProxyServing

            proxy = ProxyServing(ctx, pods, inside.inventory)
            known.more.append(proxy.problems)
            ctx.spawn(proxy.run(), name="serve-podresources")
        if settings.vgpu_monitor:
            watching = VgpuWatching(ctx, known.node, pods, lambda: inside.holders)
            known.more.append(watching.problems)
            ctx.spawn(watching.run(), name="watch-shared-gpus")


def _machine(
    settings: Settings, figures: InterferenceFigures, now: Callable[[], float] = time.time
) -> tuple[Trees, Executor, Doers]:
    """The node's files, who writes to them, and who does what is no file."""
    trees = Trees(*map(DiskTree, (settings.proc_root, settings.sys_root, settings.cgroup_or_default())))
    boot = (trees.proc.read(BOOT_ID) or "").strip()
    elsewhere = {
        "proc": DiskTree(settings.proc_root),
        "sys": DiskTree(settings.sys_root),
        "host": DiskTree(settings.host_root or "/"),
    }
    journal = JournalFile(settings.journal_file)
    groups = DiskTree(settings.cgroup_or_default())
    executor = Executor(groups, journal, boot=boot, elsewhere=elsewhere, now=now)
    doers = doers_of(groups, elsewhere["sys"], settings.journal_file, boot, figures)
    return trees, executor, doers


def undo(environ: Mapping[str, str]) -> int:
    """Give everything back that agents of this node have written to. The exit code: 1 when something could not be, 2
    when it was refused, since an agent runs that would write it again."""
    settings = load_settings(Settings, environ)
    lock = NodeLock(settings.journal_file)
    try:
        if not lock.take():
            print(f"{settings.journal_file}: {RUNS}")
            return 2
    except OSError as error:
        print(f"{settings.journal_file}: the lock beside it cannot be taken: {error.strerror}")
        return 1
    try:
        _, executor, doers = _machine(settings, InterferenceFigures())
        executor.load()
        doers.load()
        problems = (*executor.problems(), *doers.problems(), *doers.clear(), *give_back(executor))
    finally:
        lock.release()
    for problem in problems:
        print(f"{problem.field}: {problem.message}")
    return 1 if problems else 0


def _restore(ctx: Context[Settings], file: StrategyFile, known: KnownNode) -> None:
    """Take up the strategy of a former life; a file that is of no use is named, and counts as none."""
    try:
        kept = file.load()
        if kept is not None:
            known.strategies.restore(kept)
    except (InvalidMessage, OSError) as error:
        ctx.log.warning("cannot use the strategy of before", file=ctx.settings.strategy_file, error=str(error))


async def _keep_for_ever(ctx: Context[Settings], file: StrategyFile, known: KnownNode) -> None:
    """Keep what the bus shows."""
    failed = ""
    saved: object = file
    async for _ in Periodic(ctx.clock, KEEP_S).ticks():
        message = known.strategies.message
        if message is saved or known.strategies.source not in ("bus", "withdrawn"):
            continue
        try:
            await asyncio.to_thread(file.save, message)
            failed, saved = "", message
        except OSError as error:
            if str(error) != failed:
                ctx.log.warning("cannot keep the strategy", file=ctx.settings.strategy_file, error=str(error))
            failed = str(error)


def _restore_inventory(ctx: Context[Settings], file: InventoryFile, inside: Inside) -> None:
    """Take up the inventory of a former life; a file that is of no use is named, and counts as none."""
    try:
        inside.inventory.kept = file.load()
    except (InvalidMessage, OSError) as error:
        ctx.log.warning("cannot use the inventory of before", file=ctx.settings.inventory_file, error=str(error))


def _restore_pods(ctx: Context[Settings], file: PodsFile, entries: PodEntries) -> None:
    """Take up what a former life knew of pods; a file that is of no use is named, and counts as none."""
    try:
        entries.restore(file.load())
    except (InvalidMessage, OSError) as error:
        ctx.log.warning("cannot use what was known of pods", file=ctx.settings.pods_file, error=str(error))


async def _keep_inventory_for_ever(ctx: Context[Settings], file: InventoryFile, inside: Inside) -> None:
    """Keep what the bus shows, once it was read."""
    failed = ""
    saved: object = file
    async for _ in Periodic(ctx.clock, KEEP_S).ticks():
        latest = inside.inventory.latest
        if latest is saved or not inside.inventory.is_known:
            continue
        try:
            await asyncio.to_thread(file.save, latest)
            failed, saved = "", latest
        except OSError as error:
            if str(error) != failed:
                ctx.log.warning("cannot keep the inventory", file=ctx.settings.inventory_file, error=str(error))
            failed = str(error)


async def _look_for_ever(ctx: Context[Settings], trees: Trees, reconciler: Reconciler) -> None:
    interval_s = ctx.settings.interval_s
    ctx.health.watch(LOOKING, 3 * interval_s + 60)
    await _look(ctx, trees, reconciler)
    await ctx.clock.sleep(min(SECOND_LOOK_S, interval_s))
    async for _ in Periodic(ctx.clock, interval_s).ticks(at_once=True):
        await _look(ctx, trees, reconciler)
        ctx.health.beat(LOOKING)


async def _look(ctx: Context[Settings], trees: Trees, reconciler: Reconciler) -> None:
    """Take one look in a thread and report it."""
    with figures.LOOK_SECONDS.time():
        sample = await asyncio.to_thread(
            take_sample,
            trees,
            monotonic=ctx.clock.monotonic,
            clock_ticks_per_s=os.sysconf("SC_CLK_TCK"),
            applications=lambda driver: applications_of(reconciler.known.strategies.spec, driver)[0],
            memory_policy=collect_policy(reconciler.known.strategies.spec),
        )
    known = set() if reconciler.last is None else {problem.field for problem in reconciler.last.metrics.problems}
    measurement = reconciler.report(sample, now=ctx.clock.now(), now_s=ctx.clock.monotonic())
    for problem in measurement.metrics.problems:
        if problem.field not in known and problem.field != "interval_s":
            ctx.log.warning("cannot measure all of the node", field=problem.field, problem=problem.message)


async def _describe(ctx: Context[Settings], trees: Trees, known: KnownNode) -> None:
    """Read the layout of the CPUs; one that cannot be read stops nothing, but no cpuset is chosen then."""
    try:
        rows = await asyncio.to_thread(read_topology, trees.sys)
    except (Malformed, Unreadable) as error:
        ctx.log.warning("cannot read the CPU layout", node=known.node, error=str(error))
        return
    known.processors = rows
    known.cpu = await asyncio.to_thread(read_cpu, trees.proc)
    ctx.log.info(
        "looking at node",
        node=known.node,
        cpus=len(rows),
        cores=len({(row.socket, row.core) for row in rows}),
        sockets=len({row.socket for row in rows}),
        numa_nodes=len({row.node for row in rows}),
        every_s=ctx.settings.interval_s,
        enforces=ctx.settings.enforce,
    )


def _measured(ctx: Context[Settings], reconciler: Reconciler) -> tuple[bool, str]:
    if reconciler.last is None:
        return False, "the node has not been looked at yet"
    age_s = ctx.clock.now() - reconciler.last.metrics.measured_at
    return True, f"measured {age_s:.0f} s ago, {len(reconciler.last.metrics.problems)} problems"
