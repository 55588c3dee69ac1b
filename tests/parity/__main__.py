"""Compare Berth with kube-scheduler in random worlds: `make parity`.

    python -m tests.parity [--worlds 100] [--seed 1] [--features taints,affinity] [--without volumes]
    python -m tests.parity --world 1.17                     one world again, with every answer
    python -m tests.parity --world 1.17 --manifests         print it as manifests, run nothing
    python -m tests.parity --worlds 500 --save traces.json  keep what kube-scheduler did
    python -m tests.parity --replay traces.json more.json   Berth alone against that, in seconds
    python -m tests.parity --replay traces.json --only 1.17,1.19 --save few.json.xz

A difference that docs/parity.md does not explain is run again with more patience, made as small as possible, printed
as manifests, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.parity.comparing import Difference, NotYet, compare
from tests.parity.explained import explanation
from tests.parity.generator import FEATURES, world_of
from tests.parity.reference import Reference
from tests.parity.report import Report, manifests, told
from tests.parity.shrinking import pinned, shrink
from tests.parity.traces import read_traces, write_traces
from tests.parity.world import Trace, World

PATIENT_S = 0.8
"""Time for kube-scheduler to see a world in which something differed."""
SHRUNK_MAX = 3
"""Differences that are made small in one run."""
STEPS_MAX = 400
PROGRESS_EVERY = 50


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--features", default=",".join(FEATURES), help="only these: " + ", ".join(FEATURES))
    parser.add_argument("--without", default="", help="all but these")
    parser.add_argument("--world", default="", help="SEED.NUMBER: this one alone")
    parser.add_argument("--manifests", action="store_true", help="with --world: print it, run nothing")
    parser.add_argument("--save", type=Path, help="keep the traces of kube-scheduler in this file")
    parser.add_argument("--replay", type=Path, nargs="+", help="compare with these traces; no API server is needed")
    parser.add_argument("--only", default="", help="with --replay: these worlds, SEED.NUMBER, and no other")
    parser.add_argument("--no-shrink", action="store_true", help="print differences as they are found")
    parser.add_argument("--settle", type=float, default=0.1, help="seconds for kube-scheduler to see a world")
    parser.add_argument("--hasty", action="store_true", help="what differs is not asked again with more patience")
    options = parser.parse_args()
    unknown = {*filter(None, [*options.features.split(","), *options.without.split(",")])} - set(FEATURES)
    if unknown:
        parser.error(f"no such feature: {', '.join(sorted(unknown))}")
    return options


def worlds(options: argparse.Namespace) -> Iterator[World]:
    features = tuple(
        each for each in FEATURES if each in options.features.split(",") and each not in options.without.split(",")
    )
    if options.world:
        seed, number = map(int, options.world.split("."))
        yield world_of(seed, number, features)
        return
    for number in range(options.first, options.first + options.worlds):
        yield world_of(options.seed, number, features)


def replayed(options: argparse.Namespace) -> Iterator[Trace]:
    """The traces of the files, one file after the other."""
    only = set(filter(None, options.only.split(",")))
    for path in options.replay:
        yield from (trace for trace in read_traces(path) if not only or trace.world.name in only)


def judge(trace: Trace, report: Report, *, verbose: bool = False) -> list[Difference]:
    """Compare and count; the differences that nothing explains."""
    report.see(trace)
    found = []
    for each in compare(trace):
        if isinstance(each, NotYet):
            report.not_compared(each.fields)
        elif rule := explanation(each, trace):
            report.explained[rule] += 1
        else:
            found.append(each)
    if verbose:
        for step in trace.steps:
            print(step.pod["metadata"]["name"], step.outcome)
    return found


def is_shown(trace: Trace, difference: Difference) -> bool:
    """Whether the trace has this difference, or a part of it, unexplained."""
    return any(
        each.kind == difference.kind and each.signs <= difference.signs and not explanation(each, trace)
        for each in compare(trace)
        if isinstance(each, Difference)
    )


def is_doubtful(trace: Trace) -> bool:
    """Something differs, or was not decided in time."""
    is_late = any(step.outcome.verdict == "none" for step in trace.steps)
    return is_late or any(isinstance(each, Difference) for each in compare(trace))


async def patiently(reference: Reference, world: World) -> Trace:
    """What kube-scheduler does when it has had time to see everything."""
    reference.settle_s, before = PATIENT_S, reference.settle_s
    try:
        return await reference.decide(world)
    finally:
        reference.settle_s = before


async def confirmed(reference: Reference, trace: Trace, difference: Difference) -> World | None:
    """A world that shows the difference whenever it is run; None: it was not there again."""
    for world in (pinned(trace, difference.name), trace.world):
        if is_shown(await patiently(reference, world), difference):
            return world
    return None


async def smallest(reference: Reference, world: World, difference: Difference) -> World:
    """The smallest world with this difference."""
    steps = 0

    async def shows(smaller: World) -> bool:
        nonlocal steps
        steps += 1
        if steps > STEPS_MAX:
            return False
        trace = await reference.decide(smaller)
        return not trace.refused and is_shown(trace, difference)

    return await shrink(world, shows)


async def run(options: argparse.Namespace, report: Report, traces: list[Trace]) -> None:
    shrunk: set[str] = set()
    async with Reference(options.settle) as reference:
        for world in worlds(options):
            began = time.monotonic()
            trace = await reference.decide(world)
            if not options.hasty and is_doubtful(trace):
                trace = await patiently(reference, world)
            report.seconds += time.monotonic() - began
            traces.append(trace)
            for difference in judge(trace, report, verbose=bool(options.world)):
                print(told(world, difference), flush=True)
                again = None if options.no_shrink else await confirmed(reference, trace, difference)
                if again is None and not options.no_shrink:
                    print("  not there when it was run again", flush=True)
                    report.explained["not repeatable"] += 1
                    continue
                report.differs(world, difference)
                if again is not None and len(shrunk) < SHRUNK_MAX and difference.kind not in shrunk:
                    shrunk.add(difference.kind)
                    print(manifests(await smallest(reference, again, difference)), flush=True)
            if report.worlds % PROGRESS_EVERY == 0:
                print(f"{report.worlds} worlds", file=sys.stderr, flush=True)


def main() -> int:
    options = arguments()
    report = Report()
    traces: list[Trace] = []
    if options.world and options.manifests:
        print(manifests(next(worlds(options))))
        return 0
    if options.replay:
        for trace in replayed(options):
            if options.save:
                traces.append(trace)
            for difference in judge(trace, report, verbose=bool(options.only)):
                print(told(trace.world, difference))
                report.differs(trace.world, difference)
    else:
        asyncio.run(run(options, report, traces))
    if options.save:
        write_traces(options.save, traces)
    print(report.text())
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
