"""What the choice of several kinds of devices costs beside that of GPUs alone, in one run on the same nodes.

The nodes have eight GPUs and eight RDMA devices with virtual functions, one of each on a PCIe root. Printed are
medians: the choice on one node, and the mask over all of them, for GPUs alone and for both kinds side by side.

    python tests/bench/bench_devices.py [--nodes 5000] [--rounds 200]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

from berth.contracts import names
from berth.contracts.inventory import NodeInventory
from berth.contracts.state import Node
from berth.placement_solver.core.allocators.devices import DeviceAllocator
from berth.placement_solver.core.constraints.device_share import DeviceShare
from berth.placement_solver.core.devices.asked import DeviceQuery
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.npu_templates import NpuTemplates
from berth.placement_solver.core.seams import Spec, Target
from berth.testing.builders import PodBuilder, gpu_slots, nic_slots, pod, with_places


def medians(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """Microseconds of each call, taken in turns."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, spent, strict=True):
            before = time.perf_counter()
            call()
            times.append((time.perf_counter() - before) * 1e6)
    return [statistics.median(times) for times in spent]


def query_of(share: DeviceShare, builder: PodBuilder) -> DeviceQuery:
    """What such a pod asks."""
    query = share.prefilter(Spec(("default", "p"), "default", "u", builder.build(1).template))
    assert isinstance(query, DeviceQuery)
    return query


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    nodes = Nodes(args.nodes)
    slots = [*with_places(gpu_slots(8)), *nic_slots(8)]
    for number in range(args.nodes):
        name = f"n{number}"
        nodes.see_node(name, Node(name=name, uid=name, version=1))
        nodes.see_inventory(name, NodeInventory(node=name, version=1, devices=slots))
    share = DeviceShare(nodes, NpuTemplates())
    allocator = DeviceAllocator(share)
    plain = query_of(share, pod("p").gpus(8))
    joint = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
    both = query_of(
        share,
        pod("p")
        .gpus(8)
        .requests({names.RDMA: 1})
        .annotation(names.ANNOTATION_DEVICE_JOINT, json.dumps(joint))
        .annotation(names.ANNOTATION_DEVICE_HINT, '{"rdma":{"vfSelector":{}}}'),
    )

    def choose_both() -> object:
        both.known.clear()
        return allocator.choose(both, Target(0))

    everywhere = slice(0, args.nodes)
    one, two = medians(args.rounds, lambda: allocator.choose(plain, Target(0)), choose_both)
    print(f"choice on a node: GPUs {one:.0f} us, GPUs beside RDMA devices {two:.0f} us, ratio {two / one:.1f}")
    one, two = medians(args.rounds, lambda: share.mask(plain, everywhere), lambda: share.mask(both, everywhere))
    print(f"mask of {args.nodes} nodes: GPUs {one:.0f} us, with RDMA devices {two:.0f} us, ratio {two / one:.1f}")


if __name__ == "__main__":
    main()
