"""What would happen, beside what then does: one world is asked, another one like it lives through it."""

from __future__ import annotations

import os
import random
from typing import Any, Final

from tests.services.worlds.solver.bench import SolverBench

from berth.contracts import names, subjects
from berth.contracts.codec import decode, encode
from berth.contracts.grants import as_devices
from berth.contracts.state import Pod
from berth.contracts.what_if import SupposedPods, WhatIfAnswer, WhatIfQuestion
from berth.placement_solver.what_if.asking import supposing
from berth.placement_solver.what_if.changing import ARRIVAL_S
from berth.placement_solver.what_if.running import Limits
from berth.runtime.snapshot import wait_for_snapshot
from berth.testing.builders import PodBuilder, gpu_slots, pod

CASES: Final = int(os.environ.get("WHAT_IF_WORLDS", "30"))
EQUAL: Final = 0.99
LIMITS: Final = Limits(100, 1000, True)
Fate = tuple[str, tuple[tuple[str, int], ...], tuple[str, ...]]
"""Where a pod ends, with which devices, and who had to leave."""


class World:
    """A small cluster that is nearly full, and what comes to it: the same for one seed."""

    def __init__(self, solving: type[Any], seed: int) -> None:
        draw = random.Random(seed)
        self.run = run = solving()
        self.bench = SolverBench(run, preempts=True)
        run.cluster.now, run.cluster.now_ms = 1000.0, 1_000_000
        self.quotas = draw.random() < 0.5
        if self.quotas:
            limit = {names.CPU: draw.randrange(4, 20) * 1000}
            run.quota("team", limits=[names.CPU], max=limit, runtime=limit, min=limit)
        for index in range(draw.randrange(2, 6)):
            gpus = draw.choice((0, 0, 2, 4))
            extended = {names.NVIDIA_GPU: gpus} if gpus else {}
            run.node(f"n{index}", cpu=draw.choice((4000, 8000, 16000)), extended=extended)
            if gpus:
                run.devices(f"n{index}", gpu_slots(gpus))
        self.gone = [f"n{draw.randrange(2)}"] if draw.random() < 0.3 else []
        self.waiting = [self._any(draw, f"old-{index}") for index in range(draw.randrange(4, 24))]
        for each in self.waiting:
            run.pod(each)
        self.coming: list[PodBuilder] = []
        for index in range(draw.randrange(1, 8)):
            self.coming.append(self._any(draw, f"new-{index}", priority=draw.choice((0, 0, 100, 1000))))
        size = draw.choice((0, 0, 2, 3))
        for index in range(size):
            self.coming.append(pod(f"gang-{index}").requests(cpu=draw.choice((2000, 3000))).gang("g", size))

    def _any(self, draw: random.Random, name: str, priority: int = 0) -> PodBuilder:
        made = pod(name).requests(cpu=draw.choice((500, 1000, 2000, 3000))).template(priority=priority)
        if self.quotas and draw.random() < 0.4:
            made.quota("team")
        kind = draw.random()
        if kind < 0.2:
            made.gpus(draw.choice((1, 2)))
        elif kind < 0.35:
            made.share(draw.choice((30, 50)))
        return made

    async def settle(self) -> dict[str, set[str]]:
        """Rounds, binds and departures, until nothing moves; who left, by whom for."""
        left: dict[str, set[str]] = {}
        book = self.run.cluster.book
        for _ in range(40):
            await self.bench.until_idle()
            moved = False
            for (namespace, name), held in list(book.ledger.decisions.items()):
                decision, shown = held.decision, book.pods.get((namespace, name))
                if decision.nominates or shown is None or shown.node or shown.uid != decision.uid:
                    continue
                self._show_bound(shown, decision.node, decision.plan, decision.annotations)
                moved = True
            leaving = [(each.name[1], book.remaining_victims(each)) for each in book.nominations]
            for name, victims in leaving:
                left.setdefault(name, set()).update(victim.name for victim in victims)
            for victim in {victim.name for _, victims in leaving for victim in victims}:
                self.run.delete_pod(victim)
                moved = True
            self.bench.clock.time += 1.0
            if not moved and not self.bench.rounds.has_work():
                return left
        raise AssertionError("it never comes to rest")

    def _show_bound(self, shown: Pod, node: str, plan: str, written: dict[str, str]) -> None:
        self.run.version += 1
        fields = {each: getattr(shown, each) for each in shown.__struct_fields__}
        template = {each: getattr(shown.template, each) for each in shown.template.__struct_fields__}
        template["annotations"] = {**shown.template.annotations, **written}
        fields |= {"node": node, "plan": plan, "phase": "Running", "version": self.run.version}
        fields["template"] = type(shown.template)(**template)
        self.run.state(subjects.pod_key(shown.namespace, shown.name), Pod(**fields))

    def question(self) -> WhatIfQuestion:
        return WhatIfQuestion(pods=[SupposedPods(pod=each.build(0)) for each in self.coming], without_nodes=self.gone)

    async def happen(self) -> dict[str, Fate]:
        """It happens: nodes go, their pods are made anew, and pods come."""
        run, book = self.run, self.run.cluster.book
        again = [each for name in self.gone for each in book.pods.values() if each.node == name]
        for name in self.gone:
            run.delete(subjects.named_key("node", name))
        for each in sorted(again, key=lambda p: p.name):
            run.delete_pod(each.name)
        for each in sorted(again, key=lambda p: p.name):
            run.cluster.now += ARRIVAL_S
            builder = next(old for old in self.waiting if old.build(0).name == each.name)
            run.pod(builder.set(uid=f"again-{each.name}", node="", phase="Pending", plan=""))
        for each in self.coming:
            run.cluster.now += ARRIVAL_S
            run.pod(each)
        left = await self.settle()
        return {
            name: self._fate(("default", name), left.get(name, set()))
            for name in [*(p.name for p in again), *(each.build(0).name for each in self.coming)]
        }

    def _fate(self, name: tuple[str, str], left: set[str]) -> Fate:
        shown = self.run.cluster.book.pods.get(name)
        if shown is None or not shown.node:
            return ("", (), ())
        (claim,) = self.run.cluster.book.claims_of(name)
        devices = tuple((each.kind, each.minor) for each in as_devices(claim.grants))
        return (shown.node, devices, tuple(sorted(left)))


def fates(answer: WhatIfAnswer) -> dict[str, Fate]:
    """What the answer says of those that are asked about, and of those whose node is gone."""
    return {
        each.name.partition("/")[2]: (
            each.node,
            tuple((device.kind, device.minor) for device in as_devices(each.grants)),
            tuple(victim.partition("/")[2] for victim in each.victims),
        )
        for each in answer.pods
        if each.origin != "waiting"
    }


def ask(world: World, question: WhatIfQuestion) -> WhatIfAnswer:
    """In a copy of this process, as a solver does: the world goes on as if nobody had asked."""
    cluster, bench = world.run.cluster, world.bench
    cluster.now = bench.clock.time

    def work() -> bytes:
        return encode(
            supposing(
                cluster,
                world.run.verifier,
                question,
                random=bench.rounds._random,
                limits=LIMITS,
                now_s=bench.clock.time,
                is_over=lambda: False,
            )
        )

    return decode(wait_for_snapshot(work, 20.0), WhatIfAnswer)


async def test_what_if_says_what_then_happens(solving: type[Any]) -> None:
    """Pods of every kind, gangs, quotas, who has to leave, nodes that go: 99 of 100 answers are right in everything."""
    differing = []
    placed = victims = moved = 0
    for seed in range(CASES):
        world = World(solving, seed)
        await world.settle()
        said = fates(answer := ask(world, world.question()))
        happened = await world.happen()
        placed += sum(bool(fate[0]) for fate in said.values())
        victims += len(answer.victims)
        moved += sum(each.origin == "moved" for each in answer.pods)
        if said != happened:
            differing.append(
                (seed, {n: (said.get(n), happened.get(n)) for n in happened if said.get(n) != happened[n]})
            )
    assert len(differing) <= CASES * (1 - EQUAL), (len(differing), differing[:4])
    assert min(placed, victims, moved) > CASES // 4, "worlds in which something happens"
