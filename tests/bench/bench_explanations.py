"""A thousand random refusals, explained: each set held against brute force, each repair done and solved again.

    python -m tests.bench.bench_explanations [--cases 1000] [--from 0]

Prints what is wrong with which seed, then how many were right, how large the sets are, and which repairs were found.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.services.worlds.solver.explained import judged
from told import tell

CONFTEST = Path(__file__).parents[1] / "services/placement-solver/conftest.py"


def solving() -> type[Any]:
    """The solver without a bus that its tests use."""
    spec = importlib.util.spec_from_file_location("solving", CONFTEST)
    if spec is None or spec.loader is None:
        raise ImportError(str(CONFTEST))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: type[Any] = module.Solving
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    options = parser.parse_args()
    new_run = solving()
    sizes: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    right = gangs = unproven = 0
    began = time.process_time()
    for seed in range(options.first, options.first + options.cases):
        case = judged(seed, new_run)
        right += not case.wrong
        gangs += bool(case.world.wanted.minimum)
        for each in case.wrong:
            print(f"seed {seed}: {each}")
        if case.explanation is not None:
            sizes[len(case.explanation.forbidden_by)] += 1
            unproven += not case.explanation.is_smallest
            kinds.update("+".join(each.kinds) for each in case.explanation.repairs)
    took_ms = 1e3 * (time.process_time() - began) / options.cases
    print(f"{right} of {options.cases} right, {gangs} of them gangs; {unproven} sets not known to be the smallest")
    print(f"sizes {dict(sorted(sizes.items()))}; repairs that help {dict(kinds)}; {took_ms:.0f} ms a case, judged")
    tell("cases", cases=options.cases, right=right, gangs=gangs, unproven=unproven, ms_a_case=took_ms)
    return 0 if right == options.cases else 1


if __name__ == "__main__":
    sys.exit(main())
