"""Each planted bug is found, by a seed that is known to find it; `make simulate-planted` tells how many do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.simulation.planted import PLANTED
from tests.simulation.planted.__main__ import line, measure, seeds_to_detection
from tests.simulation.run import Outcome, run_seed

FOUND_BY: dict[str, tuple[int, str]] = {
    "R1 accounts": (2, "I1"),
    "R1 decisions": (2, "I6"),
    "R1 stages": (8, "I1"),
    "R2": (0, "I1"),
    "R3 bound": (0, "I6"),
    "R3 uid": (3, "I6"),
    "R4": (0, "I1 I6"),
    "R5 version": (0, "I1 I4"),
    "R5 uid": (0, "I1 I5 L1"),
    "R6": (0, "I6"),
    "a page believed": (0, "failure"),
    "notes left": (0, "I5"),
    "R7": (2, "I1 I3 I5"),
    "R8 chain": (1, "I12"),
    "R8 abort": (1, "I6"),
    "R8 ended": (8, "I12"),
    "R9": (1, "I3"),
    "R10 record": (3, "I1"),
    "R10 leader": (4, "I1 I5 I12"),
    "R10 older": (0, "L1"),
    "R11": (3, "I1b"),
    "R12": (1, "I1"),
    "R13": (2, "L1"),
    "R14 ancestors": (0, "I2"),
    "R14 line": (0, "I2"),
    "R14 revisions": (0, "I2"),
    "R14 moves": (0, "I2"),
    "R14 joined": (0, "I2"),
    "quota unread": (0, "I2"),
    "surcharge uncounted": (0, "I2"),
    "surcharge unwritten": (0, "I5"),
    "another stream": (0, "I1 I1b I5 I6"),
    "leader unwatched": (0, "L1 I8"),
    "eras unread": (2, "L1 I1 I6 I8"),
    "R15": (4, "I1 I12 L1"),
    "held once": (0, "L1"),
    "left behind": (0, "I38"),
    "grown blindly": (0, "I10b"),
    "growth unclaimed": (1, "I10b"),
    "growth named first": (0, "I30c"),
    "ack first": (2, "L1"),
    "timer": (0, "I6"),
    "standby": (1, "I1 I5"),
    "follower read": (2, "I1 I12 L1"),
    "terminating": (0, "I1 L1"),
    "staged gang": (2, "I3 I5"),
    "health": (0, "I1e"),
    "old inventory": (0, "I1e"),
    "cordon": (0, "I1f"),
    "swallowed": (0, "I8"),
    "never retried": (0, "L2"),
    "reserved half": (0, "I5"),
    "reserved elsewhere": (0, "I5"),
    "restricted": (0, "I29"),
    "taken over again": (0, "I30b"),
    "taken over unnoted": (0, "I30b"),
    "handed to anybody": (0, "I30b"),
    "lent": (0, "I29b"),
    "displaced for nobody": (0, "I11b"),
    "loans unwritten": (0, "I5"),
    "loans forgotten": (0, "I8"),
    "told at once": (0, "told"),
    "never expires": (0, "L1"),
    "expires early": (0, "L1"),
    "window named anew": (0, "I30"),
    "rewritten": (0, "I1c I1d"),
    "ended": (0, "untimely"),
    "fence": (0, "I1 I12 I5"),
    "peers tried": (0, "I17 I18"),
    "peers terminating": (0, "I17"),
    "peers guarded": (0, "I18"),
    "peers first": (0, "I18"),
    "peers relabelled": (0, "I17 I18"),
    "peers account": (0, "I17 I18"),
    "volumes shared": (0, "I19"),
    "volumes kept twice": (0, "I19b"),
    "volumes elsewhere": (0, "I20"),
    "volumes unlimited": (0, "I21"),
    "volumes unbound": (0, "I22"),
    "CPUs twice": (0, "I23"),
    "functions twice": (0, "I24"),
    "NUMA nodes": (0, "I25"),
    "reserved CPUs": (0, "I23b"),
    "partitions": (3, "I26"),
    "needs evict twice": (0, "I37"),
    "offers ignored": (0, "I36"),
    "zone offers ignored": (0, "I36"),
    "old reports": (0, "I42"),
    "clocks of nodes": (0, "I42"),
    "any write": (0, "I42"),
    "profiles every call": (0, "I41"),
    "pods blocked": (0, "I41"),
    "converted in part": (0, "I41"),
    "missed untold": (0, "I41"),
    "YARN at once": (0, "I40"),
    "charged and offered": (0, "I40"),
    "YARN away": (0, "I40"),
    "unlisted": (0, "I40"),
    "scattered": (0, "I33"),
    "reserved alone": (0, "I3"),
    "beyond the min": (0, "I35"),
    "given by anybody": (1, "I35"),
    "pool ignored": (0, "I32"),
    "share unread": (0, "I31"),
    "moved alone": (0, "I31 I2 L2"),
    "parents unchecked": (0, "I31"),
    "unread": (1, "I23 I1"),
    "swapped": (1, "I1g"),
    "old topology": (1, "I23b"),
    "locks kept": (0, "L1"),
    "cards picked": (1, "I1 kubelet"),
    "numbers unseen": (0, "I1"),
    "numbers given": (0, "I1 kubelet"),
    "gap unsaid": (1, "I44"),
    "one run": (0, "I44"),
    "missed unsaid": (1, "I44"),
    "never recorded again": (0, "I44"),
    "kept untold": (1, "I44"),
    "answers untold": (0, "I44"),
    "grounds forgotten": (0, "I44"),
    "absurd prices": (0, "prices failed"),
    "absurd bounds": (0, "bounds failed"),
    "prices lost": (0, "prices"),
    "prices named anew": (0, "prices"),
    "E2": (1, "I11d"),
    "E4 look": (0, "I11h"),
    "E4 version": (0, "I11"),
    "E5": (2, "I11 I11c"),
    "E6": (0, "I11g"),
    "E8": (0, "I34"),
    "E9": (7, "I34"),
    "E10 equals": (0, "I11b"),
    "E10 protected": (0, "I11e"),
}
"""Bug: a seed that finds it, and promises that it breaks (L1: all settles, and no epoch is raised for nothing)."""
SIGNS = {"R13": "L1 an epoch for nothing"}
"""It only saves work, so what it is for has to be seen, not just something."""
TRIES = 12
"""A change of the code draws another run from a seed: then one of those behind it has to find the bug."""


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_planted_bug_is_found(name: str) -> None:
    first, promises = FOUND_BY[name]
    found = next((each for each in _outcomes(name, first) if each.violations), None)
    assert found, f"{TRIES} seeds keep every promise although {PLANTED[name].what}"
    assert {text.split(" ")[0].rstrip(":") for text in found.violations} & set(promises.split()), found.violations
    assert any(text.startswith(SIGNS.get(name, "")) for text in found.violations), found.violations


def test_the_last_check_alone_stops_what_solver_and_verifier_do_not_see() -> None:
    """Cards that nobody knows to be free are decided, and given to nobody."""
    bug = PLANTED["numbers unseen"]
    with bug.plant():
        outcome = run_seed(0, profile=replace(bug.profile, settle_s=0.0))
    assert any(text.startswith("I1 ") for text in outcome.violations)
    assert outcome.applied.judged["kubelet"]
    assert not [text for text in outcome.violations if text.startswith("kubelet ")]


def _outcomes(name: str, first: int) -> Iterator[Outcome]:
    return (run_seed(seed, planted=name) for seed in range(first, first + TRIES))


def test_every_bug_has_a_seed() -> None:
    assert FOUND_BY.keys() == PLANTED.keys()


@pytest.mark.parametrize("name", ["terminating", "timer"])
def test_nothing_is_found_where_nothing_is_planted(name: str) -> None:
    seed, _ = FOUND_BY[name]
    assert not run_seed(seed, profile=PLANTED[name].profile).violations


def test_the_table_counts_seeds_from_every_one_of_them_to_the_next_that_finds_it() -> None:
    assert seeds_to_detection([], 5) is None
    assert seeds_to_detection([0, 1, 2], 3) == 1
    assert seeds_to_detection([3], 4) == 2.5
    found = measure("terminating", 1)
    assert line("terminating", found).startswith(
        "| terminating | a pod that is terminating holds nothing | 1 of 1 | 1 |"
    )
