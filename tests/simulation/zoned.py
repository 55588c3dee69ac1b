"""Nodes whose NUMA nodes lend: batch pods that have to lie within one, while topologies show what was lent before.

Those follow offers late, or are another agent's, so that who counts by them alone is seen to.
"""

from __future__ import annotations

import json
import random
from typing import Final

from tests.simulation import lending
from tests.simulation.workload import CPU_MILLI, MEMORY_MIB, Change, Create, Json, Size, Timed

from berth.contracts import names

KIND: Final = "NodeResourceTopology"
ZONES: Final = 2
SHOWN_S: Final = 12.0
SINGLE: Final = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """Nodes that lend, each with two NUMA nodes."""
    made = lending.cluster(rng, size)
    for number in range(size.nodes):
        cpus = [{"id": cpu, "core": cpu, "socket": 0, "node": cpu * ZONES * 1000 // CPU_MILLI} for cpu in _cpus()]
        made.append(
            {
                "apiVersion": "topology.node.k8s.io/v1alpha1",
                "kind": KIND,
                "metadata": {
                    "name": f"node-{number}",
                    "annotations": {names.ANNOTATION_CPU_TOPOLOGY: json.dumps({"detail": cpus})},
                },
                "topologyPolicies": ["None"],
                "zones": _zones(rng),
            }
        )
    return made


def crowd(rng: random.Random, size: Size) -> list[Timed]:
    """What happens to nodes that lend; most batch pods have to lie within a NUMA node."""
    done = lending.crowd(rng, size)
    for timed in done:
        if isinstance(timed.action, Create) and rng.random() < 0.8:
            notes = timed.action.manifest["metadata"].setdefault("annotations", {})
            notes[names.ANNOTATION_NUMA_SPEC] = SINGLE
    for number in range(size.nodes):
        at_s = rng.uniform(0.0, SHOWN_S)
        while at_s < size.end_s:
            done.append(Timed(at_s, Change(KIND, f"node-{number}", {"zones": _zones(rng)})))
            at_s += rng.uniform(SHOWN_S / 2, 3 * SHOWN_S / 2)
    return sorted(done, key=lambda timed: timed.at_s)


def _cpus() -> range:
    return range(CPU_MILLI // 1000)


def _zones(rng: random.Random) -> list[Json]:
    """What NUMA nodes show: mostly that they lend all they have."""
    found: list[Json] = []
    for zone in range(ZONES):
        lent = CPU_MILLI // ZONES if rng.random() < 0.8 else rng.randrange(0, CPU_MILLI // ZONES)
        amounts = {
            "cpu": f"{CPU_MILLI // ZONES}m",
            "memory": f"{MEMORY_MIB // ZONES}Mi",
            names.BATCH_CPU: str(lent),
            names.BATCH_MEMORY: f"{MEMORY_MIB // ZONES}Mi",
        }
        resources = [
            {"name": name, **dict.fromkeys(("capacity", "allocatable", "available"), text)}
            for name, text in amounts.items()
        ]
        found.append({"name": f"node-{zone}", "type": "Node", "resources": resources})
    return found
