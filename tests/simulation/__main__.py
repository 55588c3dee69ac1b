"""Run seeds: `make simulate SEEDS=200`.

    python -m tests.simulation [--seeds 100] [--jobs N]     the next seeds that this code has not been run with
    python -m tests.simulation --profile all [--seeds 200]  fresh seeds of each profile; nothing is counted
    python -m tests.simulation --seed 17 [--verbose]        one seed again, with its faults and the trace of what broke
    python -m tests.simulation --planted NAME [--seeds 100] a planted bug, in its profile; --planted list names them
    python -m tests.simulation --record                     keep in record.json what was counted, for other checkouts

May be stopped at any time: each seed is counted when it has ended, and the next call goes on. The exit status is 0 when
no promise was broken, 1 when one was, or when 200 seeds never applied one of the laws, 2 when the code was edited
meanwhile, 130 when it was stopped.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__" and os.environ.get("PYTHONHASHSEED") != "0":
    # What iterates over a set of texts must do so in the same order everywhere.
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])

from tests.simulation import tally as tallies
from tests.simulation.counted import run_counted
from tests.simulation.laws import Applied
from tests.simulation.planted import PLANTED
from tests.simulation.profiles import PROFILES, SPECIAL, kind_of
from tests.simulation.run import Outcome, run_seed, run_task

PROGRESS_EVERY_S = 5.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="how many more")
    parser.add_argument("--first", type=int, default=0, help="where a new tally begins: other seeds draw other runs")
    parser.add_argument("--seed", type=int, help="this one alone; nothing is counted")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    parser.add_argument("--planted", default="", help="plant this bug; nothing is counted")
    parser.add_argument(
        "--profile",
        default="",
        help="fresh seeds of this profile or situation, or of `all` profiles; nothing is counted",
    )
    parser.add_argument("--keep-going", action="store_true", help="go on after a seed that broke a promise")
    parser.add_argument("--record", action="store_true", help="run nothing; keep the tally beside the code")
    parser.add_argument("--verbose", action="store_true", help="with --seed: every fault, and what was logged")
    return parser.parse_args()


class CodeChangedError(Exception):
    """The sources are not those any more that the tally counts for."""


def outcomes(seeds: Sequence[int], planted: str, jobs: int, code: str) -> Iterator[Outcome]:
    """Results in the order of the seeds. Raises CodeChangedError at the first that another state of the code gave."""
    work = ((seed, planted) for seed in seeds)
    if jobs <= 1:
        for task in work:
            found = run_task(task)
            if (
                not planted and (found_on := tallies.code_under_test()) != code
            ):  # this process goes on with what it read
                raise CodeChangedError(f"seed {found.seed} ended on {found_on[:12]}")
            yield found
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, maxtasksperchild=100) as pool:
        for found_on, found in pool.imap(run_counted, work):
            if found_on != code and not planted:
                raise CodeChangedError(f"seed {found.seed} ran on {found_on[:12]}")
            yield found


def one(options: argparse.Namespace) -> int:
    found = run_seed(options.seed, planted=options.planted, verbose=options.verbose)
    if options.verbose:
        print("\n".join(found.story))
    print(found.summary())
    for line in found.violations:
        print(f"  {line}")
    if found.violations and not options.verbose:
        print("\n".join(found.trace))
    return 1 if found.violations else 0


def many(options: argparse.Namespace) -> int:
    tally = tallies.load(tallies.code_under_test(), first_seed=options.first)
    if options.first and tally.first_seed != options.first and not options.planted:
        print(f"the tally of this code began with seed {tally.first_seed} and goes on with {tally.next_seed}")
    first, began, told = (0 if options.planted else tally.next_seed), time.monotonic(), time.monotonic()
    bad: list[Outcome] = []
    done = 0
    for found in outcomes(range(first, first + options.seeds), options.planted, options.jobs, tally.code):
        done += 1
        if not options.planted:
            broke = bool(found.violations)
            tally.add(
                found.seed, found.digest, found.simulated_s, found.real_s, found.facts, broke, applied=found.applied
            )
            tallies.save(tally)
        if found.violations:
            bad.append(found)
            _tell_of(found, options.planted)
            if not options.keep_going:
                break
        if time.monotonic() - told >= PROGRESS_EVERY_S or done == options.seeds:
            told = time.monotonic()
            rate = done / (told - began)
            print(f"  {done}/{options.seeds} seeds, {rate:.2f}/s, {len(bad)} broke a promise", flush=True)
    if not options.planted:
        _tell_tally(tally)
    elif bad:
        print(f"{options.planted}: found by {len(bad)} of {done} seeds, first by seed {bad[0].seed}")
    else:
        print(f"{options.planted}: not found by {done} seeds")
    if options.planted:
        return 1 if bad else 0
    return 1 if tally.failed or tally.applied.never(tally.count) else 0


def of_profiles(options: argparse.Namespace) -> int:
    """So many fresh seeds of each profile that was asked for; the exit status is 1 when one broke a promise."""
    known = PROFILES | {name: (name,) for name in SPECIAL}
    names = list(PROFILES) if options.profile == "all" else [options.profile]
    if unknown := [name for name in names if name not in known]:
        print(f"no profile is called {unknown[0]!r}: all, {', '.join(known)}", file=sys.stderr)
        return 2
    code, broken, count, applied = tallies.code_under_test(), 0, 0, Applied()
    first = options.first or tallies.fresh(code)
    for name in names:
        seeds = list(
            itertools.islice((s for s in itertools.count(first) if kind_of(s)[0] in known[name]), options.seeds)
        )
        began, bad = time.monotonic(), 0
        for found in outcomes(seeds, "", options.jobs, code):
            count += 1
            applied.add(found.applied)
            if found.violations:
                bad += 1
                _tell_of(found, "")
        broken += bad
        took_s = time.monotonic() - began
        print(f"{name}: {len(seeds)} seeds from {seeds[0]}, {bad} broke a promise; {took_s:.0f} s", flush=True)
    _tell_applied(applied, count)
    return 1 if broken or applied.never(count) else 0


def record(options: argparse.Namespace) -> int:
    tally = tallies.load(tallies.code_under_test(), first_seed=options.first)
    if tally.count:
        tallies.write(tally, tallies.RECORD)
    _tell_tally(tally)
    return 1 if tally.failed or not tally.count or tally.applied.never(tally.count) else 0


def _tell_of(found: Outcome, planted: str) -> None:
    print(found.summary())
    for line in found.violations[:5]:
        print(f"    {line}")
    print(f"  again: {again(found.seed, planted)}", flush=True)
    if not planted:
        print("\n".join(f"    {line}" for line in found.trace[-40:]), flush=True)


def again(seed: int, planted: str) -> str:
    """The line for a shell that runs this seed once more, and tells all of it."""
    words = [".venv/bin/python", "-m", "tests.simulation", "--seed", str(seed)]
    words += ["--planted", planted] if planted else []
    return shlex.join([*words, "--verbose"])


def _tell_tally(tally: tallies.Tally) -> None:
    minutes = tally.simulated_s / 60
    speed = tally.simulated_s / tally.real_s if tally.real_s else 0.0
    print(f"this code ({tally.code[:12]}): {tally.count} seeds from {tally.first_seed} on, ", end="")
    print(f"{minutes:.0f} simulated minutes")
    print(f"  {len(tally.failed)} seeds broke a promise{': ' + str(tally.failed[:20]) if tally.failed else ''}")
    print(f"  {speed:.0f} simulated minutes a minute on one core; digest of all runs {tally.digest}")
    print("  " + ", ".join(f"{count} {name}" for name, count in sorted(tally.facts.items())))
    _tell_applied(tally.applied, tally.count)


def _tell_applied(applied: Applied, seeds: int) -> None:
    for line in applied.table():
        print(f"  {line}")
    for law in applied.never(seeds):
        print(f"  {law} was never judged in {seeds} seeds: nothing is known of it")


def main() -> int:
    options = arguments()
    if options.planted and options.planted not in PLANTED:
        for name, bug in PLANTED.items():
            print(f"{name:<28} {bug.what}")
        return 0 if options.planted == "list" else 2
    os.chdir(Path(__file__).parents[2])
    if options.record:
        return record(options)
    try:
        if options.seed is not None:
            return one(options)
        return of_profiles(options) if options.profile else many(options)
    except KeyboardInterrupt:
        print("stopped; what has ended is counted")
        return 130
    except CodeChangedError as error:
        print(f"the code under test was edited meanwhile ({error}): what ran before is counted. Start again")
        return 2


if __name__ == "__main__":
    sys.exit(main())
