"""Every case, or those whose name contains a word: `python -m tests.model [-v] [--seconds N] [--jobs N] [WORD ...]`.

Prints a line per case. The exit status is the number of surprises: a rule whose absence was not noticed, or something
found although all rules hold. A case that all rules hold in and whose search did not end in time "holds so far".
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.model.cases import CASES, Case
from tests.model.evictions.cases import CASES as EVICTIONS
from tests.model.search import Result

SECONDS = 60.0
FINDING_SECONDS = 600.0
"""A case that lacks a rule gets at least this long: it ends when it has found what is wrong."""


def main() -> int:
    """Run and count surprises."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="run cases whose name contains one of these")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the shortest trace of what is found")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each case in which all rules hold")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    given = parser.parse_args()
    cases = [case for case in (*CASES, *EVICTIONS) if not given.words or any(word in case.name for word in given.words)]
    if not cases:
        parser.error("no case has such a name")
    surprises = 0
    with ProcessPoolExecutor(max_workers=given.jobs) as pool:
        running = {pool.submit(_run, case, given.seconds): case for case in cases}
        for done, future in enumerate(as_completed(running), 1):
            case, result = running[future], future.result()
            is_surprise = case.is_surprise(result)
            surprises += is_surprise
            print(f"[{done:2d}/{len(cases)}] {line(case, result)}", flush=True)
            if result.trace and (given.verbose or is_surprise):
                for number, step in enumerate(result.trace, 1):
                    print(f"         {number:3d} {step}", flush=True)
    print(f"{len(cases)} cases, {surprises} surprises")
    return min(surprises, 100)


def _run(case: Case, seconds: float) -> Result:
    return case.run(max(seconds, FINDING_SECONDS) if case.expects_violation else seconds)


def line(case: Case, result: Result) -> str:
    """One case as a line of the report."""
    outcome = result.verdict or ("holds" if result.is_complete else "holds so far")
    size = (
        f"{result.states} steps, {result.depth} walks"
        if case.is_walk
        else f"{result.states} states, {result.depth} deep"
    )
    mark = "NOT" if case.is_surprise(result) else "ok "
    fair = "" if case.is_walk else f", {result.fair_runs} fair runs"
    return f"{mark} {case.name:56s} {outcome:52s} {size}{fair}, {result.seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
