"""The race: Berth and kube-scheduler on one real kube-apiserver and etcd, one after the other, under the same load.

    python tests/bench/cluster [--nodes 1000] [--pods 5000] [--rate 200] [--seconds 20] [--only berth]
                               [--order kube-scheduler,berth] [--rounds 1] [--no-rush] [--no-backlog] [--first-start]
                               [--kills] [--spans] [--shape plain|spread|anti-affinity] [--preemptors 500]
                               [--json FILE]

The programs come from `$KUBEBUILDER_ASSETS`, or as `make e2e-assets` has built them. Prints tables with ratios and
writes JSON; asserts nothing. What is measured and how is said in `course.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
from pathlib import Path

import course
import fixtures
import msgspec
from contenders import Berth, Contender, KubeScheduler
from figures import Course, Race
from report import lines

from berth.testing.kube_server import KubeMissingError, find_binary

CONTENDERS = ("kube-scheduler", "berth")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--rate", type=float, default=200.0, help="pods a second of the steady course; 0 leaves it out")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the steady course")
    parser.add_argument("--order", default=",".join(CONTENDERS), help="who races, in this order")
    parser.add_argument("--only", choices=CONTENDERS, help="one contender alone")
    parser.add_argument("--rounds", type=int, default=1, help="how often; the middle one is shown")
    parser.add_argument("--no-rush", action="store_true", help="leave the second course out")
    parser.add_argument("--no-backlog", action="store_true", help="leave the first course out")
    parser.add_argument("--spans", action="store_true", help="Berth's steady course by step; its reader costs CPU, too")
    parser.add_argument("--first-start", action="store_true", help="run the fourth course as well")
    parser.add_argument("--kills", action="store_true", help="run the fifth course as well")
    parser.add_argument("--shape", choices=fixtures.SHAPES, default=fixtures.PLAIN, help="what all pods carry")
    parser.add_argument(
        "--preemptors", type=int, default=0, help="run the sixth course alone, with so many pods of high priority"
    )
    parser.add_argument("--solvers", type=int, default=1, help="Berth's placement-solvers")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for a course before it is given up")
    parser.add_argument("--json", type=Path, default=Path("build/race.json"))
    parser.add_argument("--logs", type=Path, help="folder to keep Berth's logs in")
    return parser.parse_args()


def contender(name: str, options: argparse.Namespace) -> Contender:
    return KubeScheduler() if name == "kube-scheduler" else Berth(options.solvers, options.logs)


async def race(options: argparse.Namespace) -> Race:
    order = [options.only] if options.only else options.order.split(",")
    if unknown := set(order) - set(CONTENDERS):
        raise SystemExit(f"--order: {', '.join(sorted(unknown))}: not among {', '.join(CONTENDERS)}")
    planned = course.RaceOptions(
        nodes=options.nodes,
        pods=options.pods,
        rate=options.rate,
        seconds=options.seconds,
        timeout_s=options.timeout,
        rush=not options.no_rush,
        first_start=options.first_start,
        kills=options.kills,
        shape=options.shape,
        preemptors=options.preemptors,
        backlog=not options.no_backlog,
        spans=options.spans,
    )
    found = Race(
        machine=machine(),
        kubernetes=version(),
        nodes=options.nodes,
        pods=options.preemptors or options.pods,
        rate=options.rate,
        seconds=options.seconds,
        order=order,
        shape=options.shape,
        courses={name: [] for name in order},
    )
    for number in range(options.rounds):
        for name in order:
            print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
            found.courses[name] += await courses(name, options, planned)
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    return found


async def courses(name: str, options: argparse.Namespace, planned: course.RaceOptions) -> list[Course]:
    """What one contender runs in one round."""
    if planned.preemptors:
        return [await course.preemption(contender(name, options), planned)]
    found = await course.on_warm(contender(name, options), planned)
    if planned.first_start:
        found.append(await course.first_start(contender(name, options), planned))
    return found


def machine() -> str:
    return f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, Python {platform.python_version()}"


def version() -> str:
    answer = subprocess.run([find_binary("kube-apiserver"), "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.strip().removeprefix("Kubernetes ")


def main() -> None:
    options = arguments()
    try:
        found = asyncio.run(race(options))
    except KubeMissingError as error:
        raise SystemExit(str(error)) from error
    except course.BrokenError as error:
        raise SystemExit(f"the race was broken off: {error}") from error
    for line in lines(found):
        print(line)
    print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
