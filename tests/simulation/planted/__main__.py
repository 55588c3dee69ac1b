"""In how many seeds each planted bug is found: `make simulate-planted`.

    python -m tests.simulation.planted [NAME ...] [--seeds 40] [--held 0]

Each bug runs with the profile that it names, until a promise is broken. `--held 5` runs the first five seeds of each
profile without the bug as well: they must break nothing. The table goes to build/planted.json, too, which keeps what
other calls have found. The exit status is 1 when a bug was found by no seed, or something broke without one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

if __name__ == "__main__" and os.environ.get("PYTHONHASHSEED") != "0":
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.planted", *sys.argv[1:]])

import msgspec
from tests.simulation.planted import PLANTED
from tests.simulation.run import run_seed

RESULTS = Path(__file__).parents[3] / "build" / "planted.json"


class Found(msgspec.Struct, kw_only=True):
    """What is known of one bug. `seeds`: those that found it, of `tried`. `median`: seeds until it is found."""

    what: str
    tried: int
    seeds: list[int] = []
    median: float | None = None
    promises: dict[str, int] = {}
    seconds_a_seed: float = 0.0


def seeds_to_detection(hits: list[int], tried: int) -> float | None:
    """The median, over every seed as the first, of how many have to be run until one finds the bug."""
    found = set(hits)
    if not found:
        return None
    counts = []
    for first in range(tried):
        ahead = (at for at in range(first, first + tried) if at % tried in found)
        counts.append(next(ahead) - first + 1)
    return statistics.median(counts)


def measure(name: str, seeds: int) -> Found:
    """Plant it in each seed."""
    bug, began = PLANTED[name], time.process_time()
    found = Found(what=bug.what, tried=seeds)
    for seed in range(seeds):
        outcome = run_seed(seed, planted=name)
        if outcome.violations:
            found.seeds.append(seed)
            promise = outcome.violations[0].split(" ")[0].rstrip(":")
            found.promises[promise] = found.promises.get(promise, 0) + 1
    found.median = seeds_to_detection(found.seeds, seeds)
    found.seconds_a_seed = round((time.process_time() - began) / max(1, seeds), 2)
    return found


def broken_without(name: str, seeds: int) -> list[str]:
    """What the profile breaks without the bug."""
    bug = PLANTED[name]
    broken = []
    for seed in range(seeds):
        outcome = run_seed(seed, profile=bug.profile)
        broken += [f"{name}, seed {seed}, no bug: {text}" for text in outcome.violations[:3]]
    return broken


def line(name: str, found: Found) -> str:
    """A row of the table."""
    median = "" if found.median is None else f"{found.median:g}"
    promises = ", ".join(f"{promise} {count}" for promise, count in sorted(found.promises.items()))
    return f"| {name} | {found.what} | {len(found.seeds)} of {found.tried} | {median} | {promises} |"


def keep(results: dict[str, Found]) -> None:
    """Beside what is there of other bugs."""
    try:
        known = msgspec.json.decode(RESULTS.read_bytes(), type=dict[str, Found])
    except (OSError, msgspec.MsgspecError):
        known = {}
    merged = {name: found for name, found in {**known, **results}.items() if name in PLANTED}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(merged)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs; all of them by default")
    parser.add_argument("--seeds", type=int, default=40, help="of each")
    parser.add_argument("--held", type=int, default=0, help="seeds of each profile without its bug")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PLANTED]
    if unknown:
        parser.error(f"no bug is called {unknown[0]!r}; there are: {', '.join(PLANTED)}")
    print("| bug | what is wrong | found by | median seeds | promises broken |", flush=True)
    print("| --- | --- | --- | --- | --- |", flush=True)
    results: dict[str, Found] = {}
    broken: list[str] = []
    for name in options.names or PLANTED:
        results[name] = measure(name, options.seeds)
        keep(results)
        print(line(name, results[name]), flush=True)
        broken += broken_without(name, options.held)
    print("\n".join(broken))
    return 1 if broken or not all(found.seeds for found in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
