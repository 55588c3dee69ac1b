"""A gang of 512 in a network of three layers with 16,384 nodes: from its batch to the answer of the ledger.

Solver, verifier and the writing of decisions are the product's; the ledger is one in memory that judges each batch by
its expected sequences. Each round places a gang, eight a node or one a node (more messages than one batch takes, so
the plan is staged), and gives everything back. Garbage is collected as in the service, which puts it off until a round
is over. Compared within one run: the same gang without a place in the network (the baseline), whose pods are spread
evenly as others are by default: each meets a node of its own, be there room for eight. A part of the cluster is taken
at random. Prints the CPU time of one gang in milliseconds; asserts nothing.

    python tests/bench/bench_gathers.py [--rounds 100] [--nodes 16384] [--taken 0.3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from typing import Any

from told import tell

from berth.bus.port import Committed, Refused, Stored, Write
from berth.contracts import names
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.committing import Committer
from berth.placement_solver.core.decide import Basis, decisions_of
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.verified import VerifiedSolver
from berth.runtime.process import collections_put_off, freeze_garbage_collection, tune_garbage_collection
from berth.testing.builders import GI, pod
from berth.testing.feed import Feed

MEMBERS = 512
NODES_A_BLOCK = 32
BLOCKS_A_SPINE = 32
CPU_MILLI = 64_000
SPEC = {"gatherStrategy": [{"layer": "spine", "strategy": "MustGather"}]}


class Ledger:
    """The server's side, in memory."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def commit(self, writes: Sequence[Write], *, traceparent: str | None = None) -> Any:
        """Judge a batch and store it; its follower reads it later."""
        accepted = self._feed.ledger.commit(writes)
        return Committed(self._feed.ledger.sequence) if accepted else Refused(10071, "wrong last sequence")

    async def read(self, key: str) -> Stored | None:
        """Nothing is looked up here."""
        return None


class Clock:
    """Stands still."""

    def now(self) -> float:
        """Unix time."""
        return 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return 1000.0

    async def sleep(self, seconds: float) -> None:
        """At once."""


def cluster(nodes: int, taken: float, rng: random.Random) -> Feed:
    """Nodes in racks of 32 and spines of 32 racks below zones; some hold a pod that takes a part of them."""
    feed = Feed(ClusterView([names.SCHEDULER_NAME], "s1"))
    feed.network("spine", "block", "rack")
    for number in range(nodes):
        name = f"node-{number:05}"
        block = number // NODES_A_BLOCK
        feed.node(name, cpu=CPU_MILLI, memory=512 * GI)
        feed.lies(name, f"s{block // BLOCKS_A_SPINE:03}", f"b{block // 4:04}", f"r{block:04}")
        if rng.random() < taken:
            part = rng.randrange(1, 8) * CPU_MILLI // 8
            feed.pod(pod(f"there-{number}").requests(cpu=part, memory=GI).set(node=name, phase="Running"))
    feed.complete()
    return feed


async def once(feed: Feed, verifier: Verifier, name: str, cpu_milli: int, *, gathers: bool) -> dict[str, float]:
    """One gang, placed and committed; how long each part took, in milliseconds."""
    view: ClusterView = feed.reader  # type: ignore[assignment]
    notes = {names.ANNOTATION_GANG_TOPOLOGY: json.dumps(SPEC)} if gathers else {}
    feed.pod_group(name, MEMBERS, annotations=notes)
    members = [pod(f"{name}-{at:03}").requests(cpu=cpu_milli, memory=GI).gang(name) for at in range(MEMBERS)]
    feed.pods(members)
    committer = Committer(Ledger(feed), view.book.ledger, Clock(), "s1")  # type: ignore[arg-type]
    with collections_put_off():
        began = time.process_time()
        units, _ = view.batch(MEMBERS)
        trial = Trial(view.capacity)
        solution = VerifiedSolver(view, verifier).solve(units, trial, f"plan-{name}")
        solved = time.process_time()
        basis = Basis(feed.version, feed.version, 0)
        decisions, revisions = decisions_of(solution.placements, f"plan-{name}", basis, view.nodes, view.quotas, {})
        outcome = await committer.commit(f"plan-{name}", decisions, revisions)
        ended = time.process_time()
    if len(solution.placements) != MEMBERS or outcome.status != "committed":
        raise RuntimeError(f"placed {len(solution.placements)}, {outcome}, {solution.refusals[:1]}")
    trial.undo()
    feed.deliver()
    for member in members:
        feed.delete_pod(member.build(0).name)
    return {"solved": 1000 * (solved - began), "all": 1000 * (ended - began)}


def percentile(values: list[float], share: float) -> float:
    """The value that such a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def run(options: argparse.Namespace) -> None:
    """All kinds, one after the other, on one cluster."""
    feed = cluster(options.nodes, options.taken, random.Random(1))
    verifier = Verifier(feed.reader)  # type: ignore[arg-type]
    tune_garbage_collection()
    freeze_garbage_collection()
    print(f"gang of {MEMBERS}, {options.nodes} nodes in three layers, {options.taken:.0%} of them partly taken")
    print(f"{'':<28}{'p50 ms':>9}{'p99 ms':>9}{'solved p50':>12}")
    for title, share, gathers in (
        ("eight a node, anywhere", 8, False),
        ("eight a node, in a spine", 8, True),
        ("one a node, anywhere", 1, False),
        ("one a node, in a spine", 1, True),
    ):
        for warm in range(3):
            await once(feed, verifier, f"warm-{share}-{gathers}-{warm}".lower(), CPU_MILLI // share, gathers=gathers)
        found = [
            await once(feed, verifier, f"g-{share}-{gathers}-{at}".lower(), CPU_MILLI // share, gathers=gathers)
            for at in range(options.rounds)
        ]
        all_ms, solved = [each["all"] for each in found], [each["solved"] for each in found]
        shown = (percentile(all_ms, 0.5), percentile(all_ms, 0.99), percentile(solved, 0.5))
        print("{:<28}{:>9.1f}{:>9.1f}{:>12.1f}".format(title, *shown), flush=True)
        figures = dict(zip(("p50_ms", "p99_ms", "solved_p50_ms"), shown, strict=True))
        tell("gangs", what=title, nodes=options.nodes, members=MEMBERS, **figures)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=16_384)
    parser.add_argument("--taken", type=float, default=0.3)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
