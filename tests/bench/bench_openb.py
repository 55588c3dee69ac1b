"""The solver's core alone on the openb trace: decisions a CPU-second, time of one decision, and a digest of them all.

The trace's pods are solved in batches against the trace's nodes, each as often as `--times` says (41: 50,000 of them),
without a bus, garbage collected as in the service; pods as often, shuffled, up to `--load` times the GPUs that there
are (in the order of the list, and once each, where it is 0). Every decision stays charged. Apart from each other are
decisions, refusals, and the first sight of a class, for which all nodes are looked at; rates are by how many of the
GPUs had been asked for. The digest says whether two states of the code decide alike.

    python tests/bench/bench_openb.py [FOLDER] [--trace default] [--batch 80] [--times 1,41] [--load 1.3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from mixes import pods_of
from openb import Driven, add_folder, gpu_milli, gpus_milli, has_folder
from told import tell

from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.runtime.process import collections_put_off, freeze_garbage_collection, tune_garbage_collection
from berth.simcluster.openb import TraceNode, TracePod, read_nodes

BANDS: Final = ((0, 20), (20, 60), (60, 90), (90, 130))
"""Percent of all GPUs that had been asked for."""
FIRST, PLACED, REFUSED = "first sight", "placed", "refused"


class Took(NamedTuple):
    """One decision: of what kind, how many seconds of CPU, and how many percent of the GPUs had been asked for."""

    kind: str
    seconds: float
    load: float


class Run(NamedTuple):
    """One run; `verifying` is in seconds of CPU."""

    took: list[Took]
    verifying: float
    digest: str


def made(folder: Path, trace: str, times: int, load: float) -> tuple[list[TraceNode], list[TracePod]]:
    """The nodes, each as often as asked, and the pods as they arrive."""
    nodes, pods = read_nodes(folder), pods_of(folder, trace)
    copies = [each._replace(name=f"{each.name}-{copy}") for copy in range(times) for each in nodes]
    if not load:
        return copies, pods
    rng, most = np.random.default_rng(1), load * gpus_milli(copies)
    arriving: list[TracePod] = []
    asked = 0
    while asked < most:
        for at in rng.permutation(len(pods)).tolist():
            asked += gpu_milli(pods[at])
            arriving.append(pods[at]._replace(name=f"p{len(arriving):07}"))
            if asked >= most:
                break
    return copies, arriving


def run(nodes: Sequence[TraceNode], pods: Sequence[TracePod], batch: int) -> Run:
    """All of them, in batches."""
    driven = Driven(nodes)
    verifier = Verifier(driven.cluster)
    found = hashlib.sha256()
    verifying, asked, whole = 0.0, 0, gpus_milli(nodes)
    known: set[int] = set()
    took: list[Took] = []
    tune_garbage_collection()
    freeze_garbage_collection()
    for start in range(0, len(pods), batch):
        some = pods[start : start + batch]
        asked += sum(map(gpu_milli, some))
        driven.add(some)
        while driven.cluster.queue.has_ready(driven.cluster.now):
            units, _ = driven.cluster.batch(batch)
            trial = Trial(driven.cluster.capacity)
            claims = []
            with collections_put_off():
                for unit in units:
                    cls = id(unit.candidates[0].cls)
                    began = time.process_time()
                    solution = driven.cluster.solver.solve([unit], trial, "plan")
                    seconds = time.process_time() - began
                    kind = PLACED if solution.placements else REFUSED
                    took.append(Took(kind if cls in known else FIRST, seconds, 100 * asked / whole))
                    known.add(cls)
                    for each in solution.placements:
                        claims.append(each.claim)
                        minors = [grant.minor for grant in each.claim.grants]
                        found.update(f"{each.candidate.name[1]} {each.claim.node} {minors}\n".encode())
            began = time.process_time()
            verifier.check(claims)
            verifying += time.process_time() - began
    return Run(took, verifying, found.hexdigest()[:16])


def show(nodes: int, runs: Sequence[Run]) -> None:
    """Medians of the runs."""
    pods, digest = len(runs[0].took), runs[0].digest
    rate = statistics.median(len(each.took) / sum(took.seconds for took in each.took) for each in runs)
    whole = statistics.median(
        len(each.took) / (sum(took.seconds for took in each.took) + each.verifying) for each in runs
    )
    counts = {kind: sum(took.kind == kind for took in runs[0].took) for kind in (FIRST, PLACED, REFUSED)}
    print(
        f"{nodes} nodes, {pods} pods, medians of {len(runs)}: {rate:.0f} decisions a CPU-second, "
        f"{whole:.0f} with the verifier; digest {digest}"
    )
    tell("rates", nodes=nodes, pods=pods, runs=len(runs), decisions_a_s=rate, with_verifier_a_s=whole, digest=digest)
    for kind in (PLACED, REFUSED, FIRST):
        times = [[took.seconds for took in each.took if took.kind == kind] for each in runs]
        if not times[0]:
            continue
        ms = {
            name: 1e3 * statistics.median(float(np.quantile(each, part)) for each in times) for name, part in QUANTILES
        }
        print(f"  {kind:<12}{counts[kind]:>8}  " + "  ".join(f"{name} {value:.2f} ms" for name, value in ms.items()))
        tell(
            "latency", nodes=nodes, kind=kind, count=counts[kind], **{f"{name}_ms": value for name, value in ms.items()}
        )
    for least, most in BANDS:
        rates = []
        for each in runs:
            seconds = [took.seconds for took in each.took if least <= took.load < most and took.kind != FIRST]
            if seconds:
                rates.append(len(seconds) / sum(seconds))
        if rates:
            print(f"  {least} to {most} % asked for: {statistics.median(rates):.0f} a CPU-second")
            tell("bands", nodes=nodes, least=least, most=most, decisions_a_s=statistics.median(rates))


QUANTILES: Final = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folder(parser)
    parser.add_argument("--trace", default="default")
    parser.add_argument("--batch", type=int, default=80)
    parser.add_argument("--times", default="1", help="comma between them")
    parser.add_argument("--load", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not has_folder(options.folder):
        return
    for times in map(int, options.times.split(",")):
        nodes, pods = made(options.folder, options.trace, times, options.load)
        show(len(nodes), [run(nodes, pods, options.batch) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
