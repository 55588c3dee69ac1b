"""Ten thousand decisions made again: whether each is the same, how long it takes, and what it costs to record them.

    PYTHONPATH=. python tests/bench/bench_replay.py [--decisions 10000] [--seed 1]

Exit code 1 when one is different or cannot be made again.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
import time

from tests.services.worlds.solver.recorded import Arrivals, RecordedRun, audited
from told import tell

from berth.contracts.codec import encode
from berth.recording.frames import framed
from berth.recording.records import Entered


async def bench(decisions: int, seed: int) -> int:
    run = RecordedRun()
    began = time.process_time()
    await Arrivals(run, seed).some(decisions)
    made_s = time.process_time() - began
    records = run.recorded()
    began = time.process_time()
    size = sum(map(len, framed(records)))
    written_s = time.process_time() - began
    plain = sum(len(each.value) for each in records if isinstance(each, Entered))
    began = time.process_time()
    found = list(audited(records))
    audited_s = time.process_time() - began
    same = [each for each in found if each.outcome == "same"]
    digest = hashlib.blake2b(digest_size=16)
    for verdict in same:
        for decision in verdict.decisions:
            digest.update(encode(decision))
    count = sum(len(each.decisions) for each in same)
    print(f"{count} decisions in {len(same)} of {len(found)} plans are the same, digest {digest.hexdigest()}")
    print(f"decided in {made_s:.1f} s, made again in {audited_s:.1f} s: {count / audited_s:.0f} decisions a second")
    print(f"{len(records)} messages of {plain / 1e6:.1f} MB are {size / 1e6:.1f} MB, written in {written_s:.1f} s")
    tell(
        "replay",
        decisions=count,
        plans=len(found),
        same=len(same),
        made_s=made_s,
        audited_s=audited_s,
        messages=len(records),
        recorded_mb=size / 1e6,
    )
    for verdict in [each for each in found if each.outcome != "same"][:5]:
        print(f"  {verdict.plan} {verdict.outcome}: {'; '.join(verdict.about)[:300]}")
    return int(len(same) < len(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return asyncio.run(bench(options.decisions, options.seed))


if __name__ == "__main__":
    sys.exit(main())
