"""Binds against the simulated API without HTTP, with a view that the test moves on."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.services.worlds.writer.decisions import make_decision
from tests.services.worlds.writer.objects import device_of
from tests.services.worlds.writer.store_api import StoreApi

from berth.bus.port import Entry
from berth.cluster_writer.bind_executor import BindExecutor
from berth.cluster_writer.cluster_view import ClusterView
from berth.contracts import state, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision, Epoch, Plan, PlanStatus
from berth.testing.views import eventually

KINDS = ("pods", "nodes", "reservations")


class FastClock:
    """Pauses are short."""

    def now(self) -> float:
        return 1_700_000_000.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.005))


class BindBench:
    """Binds with a view that the test moves on: `show()` brings it up to date with the API."""

    def __init__(self, api: StoreApi, *, cards: int = 4, **settings: Any) -> None:
        self.api = api
        self.lost: list[str] = []
        self.withdrawn: list[tuple[str, str]] = []
        self.landed: list[str] = []
        self.reported: list[str] = []
        self.cluster = ClusterView(lambda obj, decision, news: self.reported.append(obj.name))
        self.binds = BindExecutor(
            self.cluster,
            api,
            FastClock(),
            random.Random(1),
            concurrency=4,
            on_loss=self.lost.append,
            on_withdrawn=lambda decision, reason: self.withdrawn.append((decision.name, reason)),
            on_landed=lambda decision: self.landed.append(decision.name),
            **settings,
        )
        self.sequence = 0
        self.ledger(subjects.EPOCH_KEY, Epoch(epoch=1))
        self.put(subjects.named_key("node", "n"), api.node("n"))
        if cards:
            self.put(subjects.named_key("device", "n"), device_of("n", cards))

    def ledger(self, key: str, message: Any) -> None:
        self.sequence += 1
        self.cluster.read_ledger(key, encode(message), False, self.sequence)

    def put(self, key: str, message: Any, *, end: bool = True) -> None:
        name = self.cluster.read_state(key, encode(message), deleted=False, gap=False)
        if name:
            self.binds.moved(name)
        if end:
            self.end()

    def end(self) -> None:
        for kind in KINDS:
            marker = state.Synced(kind=kind, version=self.api.store.version, complete=True)
            self.cluster.read_state(subjects.synced_key(kind), encode(marker), deleted=False, gap=False)
        self.cluster.end_of_state()
        self.binds.at_end()

    def show(self, name: str) -> None:
        self.put(subjects.pod_key("default", name), self.api.seen(name))

    def vanish(self, name: str) -> None:
        version = str(self.api.store.version).encode()
        entry = Entry(subjects.pod_key("default", name), version, True, 0, 0, False, None)
        self.cluster.read_state(entry.key, entry.value, deleted=True, gap=False)
        self.binds.moved(("default", name))
        self.end()

    def decide(self, obj: Any, plan: str = "p", node: str = "n", **more: Any) -> Decision:
        decision = make_decision(obj, plan, node, **more)
        self.ledger(subjects.decision_key(1, decision.namespace, decision.name), decision)
        self.ledger(subjects.plan_key(1, plan), Plan(id=plan, status=PlanStatus.COMMITTED))
        return decision

    def begin(self, name: str = "a", **more: Any) -> Decision:
        pod = self.api.pod(name)
        self.show(name)
        decision = self.decide(pod, **more)
        self.binds.begin(decision)
        return decision

    def node_of(self, name: str = "a") -> str:
        pod = self.api.raw(name)
        assert pod is not None
        return pod["spec"].get("nodeName", "")

    async def over(self) -> None:
        await eventually(lambda: not len(self.binds), what="every decision is over")
