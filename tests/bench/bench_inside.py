"""What the inside of nodes costs: devices, CPUs and NUMA nodes, beside pods and nodes that have none of it.

The nodes have eight GPUs and eight RDMA devices with virtual functions, one of each on a PCIe root, and 128 CPUs in two
NUMA nodes. Compared within one run, taken in turns, are

- the choice on one node, and the mask over all, for a pod that asks for GPUs alone, and for one that asks for GPUs
  beside virtual functions and for CPUs of its own as well;
- whole rounds of pods that ask for none of it, on such nodes and on nodes that show nothing but cpu and memory.

Prints medians and ratios; asserts nothing.

    python tests/bench/bench_inside.py [--nodes 5000] [--rounds 200] [--turns 100]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace
from told import tell

from berth.contracts import names
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Node
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.policy import Policy
from berth.placement_solver.core.registry import Registry
from berth.placement_solver.core.seams import Mask, Rejection, Spec, Target
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.runtime.process import freeze_garbage_collection, tune_garbage_collection
from berth.testing.builders import GI, PodBuilder, gpu_slots, nic_slots, node_topology, pod, with_places
from berth.testing.feed import Feed

SLOTS = [replace(each, numa_node=each.numa_node // 2) for each in (*with_places(gpu_slots(8)), *nic_slots(8))]
ZONES, CORES = 2, 32
BATCH = 200
WARM = 10


def medians(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """Microseconds of each call, taken in turns."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, spent, strict=True):
            before = time.perf_counter()
            call()
            times.append((time.perf_counter() - before) * 1e6)
    return [statistics.median(times) for times in spent]


def one_node_and_all(count: int, rounds: int) -> None:
    """The choice on one node, and the mask over so many."""
    cluster = ClusterView([names.SCHEDULER_NAME], "s1")
    nodes = cluster.nodes
    topology = node_topology(zones=ZONES, cores=CORES, memory=256 * GI)
    for number in range(count):
        name = f"n{number}"
        allocatable = {names.CPU: 128_000, names.MEMORY: 512 * GI, names.PODS: 110}
        nodes.see_node(name, Node(name=name, uid=name, version=1, ready=True, allocatable=allocatable))
        nodes.see_inventory(name, NodeInventory(node=name, version=1, devices=SLOTS))
        nodes.see_topology(name, topology)
    registry = Registry(cluster.facts)
    joint = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}

    def asking(gpus: int, cpus: int) -> PodBuilder:
        return (
            pod("p")
            .gpus(gpus)
            .requests({names.RDMA: 1}, cpu=1000 * cpus)
            .label(names.LABEL_QOS, "LSR")
            .template(priority=9500)
            .annotation(names.ANNOTATION_DEVICE_JOINT, json.dumps(joint))
            .annotation(names.ANNOTATION_DEVICE_HINT, '{"rdma":{"vfSelector":{}}}')
        )

    within = asking(4, 16).annotation(names.ANNOTATION_NUMA_SPEC, '{"numaTopologyPolicy":"SingleNUMANode"}')
    rows = {
        "GPUs": Pick(registry, pod("p").gpus(8).requests(cpu=32_000), count),
        "functions beside them, 32 CPUs of its own": Pick(registry, asking(8, 32), count),
        "the same by half, on one NUMA node": Pick(registry, within, count),
    }
    choices = medians(rounds, *(each.choose for each in rows.values()))
    masks = medians(rounds, *(each.mask for each in rows.values()))
    print(f"{'':<42} {'one node':>10} {'ratio':>6} {f'{count} nodes':>12} {'ratio':>6}")
    for named, choice, mask in zip(rows, choices, masks, strict=True):
        print(f"{named:<42} {choice:>7.0f} us {choice / choices[0]:>6.1f} {mask:>9.0f} us {mask / masks[0]:>6.1f}")
        tell("choices", what=named, nodes=count, one_node_us=choice, all_nodes_us=mask)


class Pick:
    """A pod with what is asked for it."""

    def __init__(self, registry: Registry, builder: PodBuilder, count: int) -> None:
        spec = Spec(("default", "p"), "default", "u", builder.build(1).template)
        compiled = registry.compile_class(spec)
        assert not compiled.problems
        assert not compiled.rejections
        self._asked = compiled.asked
        queries = {constraint.name: query for constraint, query in compiled.asked}
        self._allocators = [
            (each, queries[each.constraint]) for each in registry.allocators if each.constraint in queries
        ]
        self._everywhere = slice(0, count)
        assert not any(isinstance(each, Rejection) for each in self.choose())
        assert self.mask().all()

    def choose(self) -> list[object]:
        """What it is given of the first node; nothing of it is known from before."""
        for _, query in self._allocators:
            query.known.clear()
        return [allocator.choose(query, Target(0)) for allocator, query in self._allocators]

    def mask(self) -> Mask:
        """Which nodes may take it, by all that is asked of its class."""
        found: Mask = np.logical_and.reduce(
            [constraint.mask(query, self._everywhere) for constraint, query in self._asked]
        )
        return found


class Driven(Feed):
    """A view and its verifier, fed by hand; its nodes have an inside, or not."""

    def __init__(self, nodes: int, *, has_inside: bool, policy: Policy | None = None) -> None:
        self.cluster = ClusterView([names.SCHEDULER_NAME], "s1", policy=policy)
        self.verifier = Verifier(self.cluster)
        super().__init__(self.cluster)
        topology = node_topology(zones=ZONES, cores=CORES, memory=256 * GI)
        for number in range(nodes):
            name = f"n{number}"
            self.node(name, cpu=128_000, memory=512 * GI)
            if has_inside:
                self.devices(name, SLOTS)
                self.topology(name, topology)

    def slice(self, number: int) -> float:
        """Microseconds of CPU a pod, from its arrival until it is verified; a batch of pods, which then leave again."""
        builders = [pod(f"p{number}-{each}").requests(cpu=500, memory=GI) for each in range(BATCH)]
        began = time.process_time_ns()
        self.pods(builders)
        units, _ = self.cluster.batch(BATCH)
        trial = Trial(self.cluster.capacity)
        solution = self.cluster.solver.solve(units, trial, "plan")
        problems = self.verifier.check([each.claim for each in solution.placements])
        spent = time.process_time_ns() - began
        assert not problems
        assert len(solution.placements) == BATCH
        trial.undo()
        for each in builders:
            self.delete_pod(each.build(0).name)
        return spent / 1000 / BATCH


def who_uses_none_of_it(nodes: int, turns: int) -> None:
    """Batches of plain pods on nodes with an inside and on plain ones, in turns.

    Nodes with GPUs are filled one after the other, so a batch meets few of them; the plain ones are filled alike, or,
    as by default, evenly. A turn is short, so that all see the same machine; garbage is collected between turns.
    """
    alike = Driven(nodes, has_inside=False, policy=Policy(cpu_strategy="MostAllocated"))
    fleets = (alike, Driven(nodes, has_inside=False), Driven(nodes, has_inside=True))
    spent: list[list[float]] = []
    tune_garbage_collection()
    freeze_garbage_collection()
    for number in range(-WARM, turns):
        times = [0.0, 0.0, 0.0]
        for place in range(number, number + len(fleets)):
            which = place % len(fleets)
            gc.collect()
            gc.disable()
            times[which] = fleets[which].slice(number)
            gc.enable()
        if number >= 0:
            spent.append(times)
    print(f"\n{BATCH} pods that ask for none of it, {nodes} nodes, {turns} turns; CPU a pod; of the last to each")
    for which, named in enumerate(("plain nodes, one after the other", "plain nodes, evenly", "nodes with an inside")):
        times = [each[which] for each in spent]
        ratios = sorted(each[-1] / each[which] for each in spent)
        middle = f"{ratios[turns // 4]:.3f} to {ratios[3 * turns // 4]:.3f}"
        fastest = min(each[-1] for each in spent) / min(times)
        print(f"{named:<34} {statistics.median(times):>6.1f} us", end=" ")
        print(f"median {statistics.median(ratios):.3f} (half: {middle}), of the fastest {fastest:.3f}")
        tell("beside", nodes=named, us_a_pod=statistics.median(times), ratio=statistics.median(ratios))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--turns", type=int, default=100)
    args = parser.parse_args()
    one_node_and_all(args.nodes, args.rounds)
    who_uses_none_of_it(1_200, args.turns)


if __name__ == "__main__":
    main()
