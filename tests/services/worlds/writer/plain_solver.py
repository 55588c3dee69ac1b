"""A solver that only knows cpu and whole GPUs, by the rules of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable

from tests.services.worlds.writer.decisions import make_decision

from berth.bus import Bus
from berth.bus.port import Committed, Entry
from berth.bus.port import Write as BusWrite
from berth.contracts import buckets, names, state, subjects
from berth.contracts.codec import decode
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.transaction.batch import plan_batch
from berth.transaction.book import FINISHED_PHASES, Book


class PlainSolver:
    """Decides every pending pod by first fit, by the rules of the protocol. `nodes`: name -> (milli cores, GPUs)."""

    def __init__(self, bus: Bus, nodes: dict[str, tuple[int, int]], seed: int = 1, *, window: int = 8) -> None:
        self.book = Book()
        self.nodes = nodes
        self.plans: list[str] = []
        self.stopped = False
        self._bus = bus
        self._random = random.Random(seed)
        self._window = window
        self._wake = asyncio.Event()
        self._needs = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._bus.follow(buckets.STATE, _StateSink(self)).run())
            group.create_task(self._bus.follow(buckets.LEDGER, _LedgerSink(self)).run())
            group.create_task(self._rounds())

    def may_plan(self) -> bool:
        epoch, pods = self.book.ledger.epoch, self.book.complete["pods"]
        read = pods.is_known and pods.version >= epoch.pods_version and self.book.ledger.sequence >= self._needs
        return epoch.epoch > 0 and read and not self.stopped

    async def _rounds(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self._wake.wait()
            self._wake.clear()
            if self.may_plan() and (decisions := self._decide()):
                await self._commit(decisions)
            await self._tidy()

    def _decide(self) -> list[Decision]:
        plan = f"{self._random.getrandbits(96):024x}"
        taken: list[Decision] = []
        for name, pod in sorted(self.book.pods.items()):
            ended = pod.phase in FINISHED_PHASES
            if pod.node or pod.deleting or ended or self.book.open_decision(name) or len(taken) == self._window:
                continue
            if pod.template.scheduler != names.SCHEDULER_NAME:
                continue
            if found := self._place(pod, plan, taken):
                taken.append(found)
        return taken

    def _place(self, pod: state.Pod, plan: str, taken: Iterable[Decision]) -> Decision | None:
        gpus = pod.template.requests.get(names.GPU_CORE, 0) // 100
        for node, (cpu, devices) in self.nodes.items():
            claims = list(self.book.claims_on(node))
            mine = [each for each in taken if each.node == node]
            used = sum(c.amounts.get("cpu", 0) for c in claims) + sum(d.allocation.amounts["cpu"] for d in mine)
            minors = {g.minor for c in claims for g in c.grants} | {g.minor for d in mine for g in d.allocation.devices}
            free = [minor for minor in range(devices) if minor not in minors][:gpus]
            if used + pod.template.requests["cpu"] > cpu or len(free) < gpus:
                continue
            return make_decision(pod, plan, node, minors=free, basis=self.book.complete["pods"].version)
        return None

    async def _commit(self, decisions: list[Decision]) -> None:
        entry = Plan(id=decisions[0].plan, status=PlanStatus.COMMITTED, decisions=len(decisions))
        writes = plan_batch(self.book.ledger, entry, decisions, {})
        result = await self._bus.ledger().commit([BusWrite(*write) for write in writes])
        if isinstance(result, Committed):
            self.plans.append(entry.id)
            self._needs = result.sequence
            return
        with contextlib.suppress(Exception):
            for key in [write.key for write in writes]:
                expected = self.book.ledger.expected(key)
                if await self._bus.ledger().read(key) is None:
                    self.book.ledger.learn_absent(key, expected)

    async def _tidy(self) -> None:
        """Every second settled decision is deleted, so that both kinds are met."""
        names_ = [n for n, held in self.book.ledger.decisions.items() if self.book.is_settled(held.decision)][::2]
        if self.may_plan() and names_:
            epoch = self.book.ledger.epoch.epoch
            keys = [subjects.decision_key(epoch, *name) for name in names_[:50]]
            await self._bus.ledger().commit([BusWrite(key, None, self.book.ledger.expected(key)) for key in keys])


class _StateSink:
    def __init__(self, solver: PlainSolver) -> None:
        self._solver = solver

    def reset(self) -> None:
        self._solver.book.reset_state()

    def apply(self, entry: Entry) -> None:
        book = self._solver.book
        if entry.gap:
            for tracker in book.complete.values():
                tracker.gap()
        kind, _, rest = entry.key.partition(".")
        if kind == "synced":
            marker = decode(entry.value, state.Synced)
            if marker.kind in book.complete:
                book.complete[marker.kind].marked(marker.version, marker.complete)
        elif kind == "pod":
            name = subjects.parts(rest)
            pod = None if entry.deleted else decode(entry.value, state.Pod)
            book.complete["pods"].seen(pod.version if pod else int(entry.value))
            book.see_pod((name[0], name[1]), pod)
        self._solver._wake.set()

    def end(self, sequence: int) -> None:
        for tracker in self._solver.book.complete.values():
            tracker.end()
        self._solver.book.settle_waiting()
        self._solver._wake.set()


class _LedgerSink:
    def __init__(self, solver: PlainSolver) -> None:
        self._solver = solver

    def reset(self) -> None:
        self._solver._needs = 0
        self._solver.book.reset_ledger()

    def apply(self, entry: Entry) -> None:
        self._solver.book.read_ledger(entry.key, entry.value, entry.deleted, entry.sequence)
        self._solver._wake.set()

    def end(self, sequence: int) -> None:
        self._solver._wake.set()
