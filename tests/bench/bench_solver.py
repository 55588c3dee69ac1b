"""The solver's core alone: microseconds per pod, driven message by message without a bus.

Compared within one run: the solver, which rates a node again only when it was touched, and the same solver rating all
nodes for every pod (the baseline); and the solver with no Reservations and with many that are meant for other pods.
Prints medians over rounds and ratios; asserts nothing.

    python tests/bench/bench_solver.py [--pods 2000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from told import tell

from berth.contracts import names
from berth.contracts.inventory import DeviceSlot
from berth.contracts.kube import LabelSelector, ObjectReference, ReservationOwner
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import PodTemplate, Reservation
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.classes import PodClass
from berth.placement_solver.core.cost import Costs, Floats
from berth.placement_solver.core.plan import Solution
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.simcluster.generate.shares import NODE_CLASSES, POD_CLASSES
from berth.testing.builders import GI, PodBuilder, gpu_slots, pod
from berth.testing.feed import Feed

MI = 1 << 20
BATCH = 200
GPU_MEMORY = {"G3": 80 * GI}
FOREIGN = 2_000


def cluster(feed: Feed, nodes: int, rng: random.Random) -> None:
    """Nodes of the openb trace's mix, with their GPUs."""
    chosen = rng.choices(NODE_CLASSES, [each.weight for each in NODE_CLASSES], k=nodes)
    for number, each in enumerate(chosen):
        name = f"node-{number}"
        labels = {names.LABEL_GPU_MODEL: each.model}
        feed.node(name, cpu=each.cpu_milli, memory=each.memory_mib * MI, labels=labels)
        if each.gpus:
            slots: list[DeviceSlot] = gpu_slots(each.gpus, GPU_MEMORY.get(each.model, 16 * GI))
            feed.devices(name, slots)


def workload(kind: str, count: int, rng: random.Random) -> list[PodBuilder]:
    """`plain`: one class of small pods. `mixed`: the trace's classes. `gangs`: eight members with a GPU each."""
    if kind == "plain":
        return [pod(f"p{i}").requests(cpu=500, memory=GI) for i in range(count)]
    if kind == "gangs":
        return [
            pod(f"p{i}").requests(cpu=4000, memory=8 * GI).gpus(1).gang(f"g{i // 8}", 8) for i in range(count // 8 * 8)
        ]
    made = []
    chosen = rng.choices(POD_CLASSES, [each.weight for each in POD_CLASSES], k=count)
    for number, each in enumerate(chosen):
        builder = pod(f"p{number}").requests(cpu=each.cpu_milli, memory=each.memory_mib * MI)
        if each.gpus:
            builder.share(each.gpu_milli // 10 if each.gpus == 1 else 100 * each.gpus)
        made.append(builder)
    return made


def foreign_reservations(feed: Feed, count: int, nodes: int) -> None:
    """Reservations with capacity on their nodes, half of them for one pod by name, half for pods with a label."""
    amounts = {names.CPU: 1}
    for number in range(count):
        named, node = f"foreign-{number}", f"node-{number % nodes}"
        wanted = LabelSelector(match_labels={"team": "other", "job": named})
        owner = (
            ReservationOwner(object=ObjectReference(namespace="other", name=named))
            if number % 2
            else ReservationOwner(label_selector=wanted)
        )
        fields = {"name": named, "uid": named, "node": node, "phase": "Available", "owners": [owner]}
        feed.reservation(
            Reservation(**fields, version=1, allocatable=amounts, template=PodTemplate(requests=amounts)),
            ReservedCapacity(**fields, revision=1, usable=True, amounts=amounts),
        )


class Forgetful(Costs):
    """The baseline: rates every node again for every pod."""

    def of(self, cls: PodClass) -> Floats:
        cls.cost = np.zeros(0)
        return super().of(cls)


class Driven(Feed):
    """A view and its verifier, fed by hand."""

    def __init__(self) -> None:
        self.cluster = ClusterView([names.SCHEDULER_NAME], "s1")
        self.verifier = Verifier(self.cluster)
        super().__init__(self.cluster)

    def batch(self) -> Solution:
        """Solve one batch; its claims stay charged."""
        units, _ = self.cluster.batch(BATCH)
        return self.cluster.solver.solve(units, Trial(self.cluster.capacity), "plan")


def measure(nodes: int, kind: str, count: int, *, forgets: bool, foreign: int = 0) -> tuple[float, float, int]:
    """Microseconds per pod of solving and of verifying, and how many were placed."""
    rng = random.Random(nodes)
    driven = Driven()
    if forgets:
        driven.cluster.solver.costs = Forgetful(driven.cluster.nodes, driven.cluster.solver.policy)
    cluster(driven, nodes, rng)
    foreign_reservations(driven, foreign, nodes)
    driven.pods(workload(kind, count, rng))
    solving = verifying = 0.0
    placed = 0
    while driven.cluster.queue.has_ready(driven.cluster.now):
        began = time.perf_counter()
        solution = driven.batch()
        middle = time.perf_counter()
        driven.verifier.check([each.claim for each in solution.placements])
        solving += middle - began
        verifying += time.perf_counter() - middle
        placed += len(solution.placements)
    return 1e6 * solving / count, 1e6 * verifying / count, placed


def median(run: Callable[[], tuple[float, float, int]], rounds: int) -> tuple[float, float, int]:
    """Medians over the rounds."""
    found: Sequence[tuple[float, float, int]] = [run() for _ in range(rounds)]
    return statistics.median(f[0] for f in found), statistics.median(f[1] for f in found), found[0][2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"medians of {options.rounds} rounds, {options.pods} pods, batches of {BATCH}")
    print(f"{'nodes':>6} {'pods':>7} {'placed':>7} {'solve':>8} {'verify':>8} {'rating all nodes':>17} {'ratio':>6}")
    for nodes in (1_200, 5_000):
        for kind in ("plain", "mixed", "gangs"):
            count = options.pods
            solve_us, verify_us, placed = median(
                lambda n=nodes, k=kind, c=count: measure(n, k, c, forgets=False), options.rounds
            )
            few = max(200, count // 5)  # slow: fewer pods tell as much
            base_us, _, _ = median(lambda n=nodes, k=kind, c=few: measure(n, k, c, forgets=True), options.rounds)
            print(
                f"{nodes:>6} {kind:>7} {placed:>7} {solve_us:>5.0f} us {verify_us:>5.0f} us {base_us:>14.0f} us "
                f"{base_us / solve_us:>6.1f}"
            )
            times = {"solve_us": solve_us, "verify_us": verify_us, "base_us": base_us}
            tell("pods", nodes=nodes, kind=kind, placed=placed, ratio=base_us / solve_us, **times)
    print(f"{'nodes':>6} {'pods':>7} {'foreign Reservations':>21} {'solve':>8} {'verify':>8}")
    for kind in ("plain", "mixed"):
        for foreign in (0, FOREIGN):
            solve_us, verify_us, _ = median(
                lambda k=kind, f=foreign: measure(1_200, k, options.pods, forgets=False, foreign=f), options.rounds
            )
            print(f"{1_200:>6} {kind:>7} {foreign:>21} {solve_us:>5.0f} us {verify_us:>5.0f} us")
            tell("foreign", nodes=1_200, kind=kind, foreign=foreign, solve_us=solve_us, verify_us=verify_us)


if __name__ == "__main__":
    main()
