"""The solver's core alone on the openb trace: decisions a CPU-second, time of one decision, and a digest of them all.

The trace's pods are solved in batches in the order of the list, against the trace's nodes (`--times 41` for 50,000 of
them), without a bus. Every decision stays charged. The digest says whether two states of the code decide alike.

    python tests/bench/bench_openb.py [FOLDER] [--trace default] [--batch 80] [--times 1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import statistics
import time
from pathlib import Path

import numpy as np
from openb import Driven, add_folder, has_folder

from berth.placement_solver.core.solve import Trial
from berth.placement_solver.core.verify import Verifier
from berth.simcluster.openb import TraceNode, TracePod, read_nodes, read_pods


def made(folder: Path, trace: str, times: int) -> tuple[list[TraceNode], list[TracePod]]:
    """The nodes, each as often as asked, and the pods."""
    nodes = read_nodes(folder)
    copies = [each._replace(name=f"{each.name}-{copy}") for copy in range(times) for each in nodes]
    return copies, read_pods(folder, trace)


def run(nodes: list[TraceNode], pods: list[TracePod], batch: int) -> tuple[float, float, float, int, int, str]:
    """Seconds of CPU for solving and verifying, p99 of one pick in seconds, how many were placed, a digest."""
    driven = Driven(nodes)
    verifier = Verifier(driven.cluster)
    found = hashlib.sha256()
    solving = verifying = 0.0
    placed = refused = 0
    times: list[float] = []
    gc.collect()
    for start in range(0, len(pods), batch):
        driven.add(pods[start : start + batch])
        while driven.cluster.queue.has_ready(driven.cluster.now):
            units, _ = driven.cluster.batch(batch)
            trial = Trial(driven.cluster.capacity)
            claims = []
            for unit in units:
                began = time.process_time()
                solution = driven.cluster.solver.solve([unit], trial, "plan")
                took = time.process_time() - began
                solving += took
                for each in solution.placements:
                    times.append(took)
                    claims.append(each.claim)
                    minors = [grant.minor for grant in each.claim.grants]
                    found.update(f"{each.candidate.name[1]} {each.claim.node} {minors}\n".encode())
                placed += len(solution.placements)
                refused += len(solution.refusals)
            began = time.process_time()
            verifier.check(claims)
            verifying += time.process_time() - began
    return solving, verifying, float(np.quantile(times, 0.99)), placed, refused, found.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--trace", default="default")
    parser.add_argument("--batch", type=int, default=80)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not has_folder(options.folder):
        return
    nodes, pods = made(options.folder, options.trace, options.times)
    found = [run(nodes, pods, options.batch) for _ in range(options.rounds)]
    rate = statistics.median(len(pods) / each[0] for each in found)
    whole = statistics.median(len(pods) / (each[0] + each[1]) for each in found)
    p99 = statistics.median(each[2] for each in found)
    _, _, _, placed, refused, digest = found[0]
    print(
        f"{len(nodes)} nodes, {len(pods)} pods, medians of {options.rounds}: {rate:.0f} decisions a CPU-second, "
        f"{whole:.0f} with the verifier; one decision p99 {1000 * p99:.2f} ms; placed {placed}, refused {refused}; "
        f"digest {digest}"
    )


if __name__ == "__main__":
    main()
