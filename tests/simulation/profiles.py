"""What kind of a run a seed is: mostly an ordinary one; every fourth dwells on one kind of situation.

Situations are those in which planted bugs are found. With none planted every promise has to be kept in them, too,
for as long as in an ordinary run. Situations that are of one kind make up a profile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.simulation.planted import run_profiles
from tests.simulation.run_profile import ORDINARY, RunProfile

EVERY: Final = 4
UNHEARD: Final = (run_profiles.LOWERED, run_profiles.APPEARING, run_profiles.MOVED, run_profiles.JOINED)
"""A solver does not hear of a new limit: what it takes before anybody has used that limit depends on whose the first
pods are, so these do not hold in every seed."""
SPECIAL: Final = {
    name.lower().replace("_", " "): replace(
        each,
        end_s=max(each.end_s, ORDINARY.end_s),
        whole_s=max(each.whole_s, ORDINARY.whole_s),
        settle_s=max(each.settle_s, ORDINARY.settle_s),
    )
    for name, each in sorted(vars(run_profiles).items())
    if isinstance(each, RunProfile) and each not in UNHEARD
}
"""Situations by name."""
PROFILES: Final[dict[str, tuple[str, ...]]] = {
    "ordinary": ("",),
    "loss": ("losses", "losses later", "losses of two", "halves", "halves and loss", "quotas lost", "garbled"),
    "bus": ("eras", "full", "late ledger", "late state", "leaders move", "led anew", "state remade"),
    "API": (
        "api trouble",
        "binds and loss",
        "late writer",
        "lost binds",
        "slow writer",
        "turned away",
        "writers killed",
    ),
    "gangs": (
        "barred",
        "gathered",
        "reserved members",
        "shrunk gangs",
        "stages",
        "stages contended",
        "stages of many",
        "stages stopped",
    ),
    "names": ("forgers", "short", "solvers come and go", "strangers", "successors", "successors late"),
    "shares": (
        "capped",
        "groups made anew",
        "pooled",
        "seated",
        "switched",
        "two groups",
        "wandering",
        "wear",
        "wear and loss",
    ),
    "prices": ("priced", "priced and killed"),
    "reservations": (
        "bookings",
        "borrowed",
        "busy booking",
        "displacing",
        "grown",
        "grown and loss",
        "handed over",
        "lent and loss",
        "restricted",
        "taken over",
        "windows",
    ),
    "lending": ("lent", "let go", "silent", "zoned"),
    "admission": ("profiled",),
    "pressure": ("pressed",),
    "yarn": ("divided", "yarn away"),
    "recorder": ("recorded", "recorded and killed", "recorded answers", "recorded thinking"),
    "neighbours": ("mates", "mates leaving", "mates of four"),
    "storage": ("volumes", "volumes local"),
    "inside": ("changing cards", "changing nodes", "changing nodes and loss", "changing nodes held up", "picked cards"),
    "preemption": (
        "evictions",
        "evictions and loss",
        "evictions held up",
        "gang evictions",
        "gathered evictions",
        "halved gangs",
        "lent back",
    ),
}
"""Which situations each profile draws from, in turn; an ordinary seed has none."""


def kind_of(seed: int) -> tuple[str, RunProfile]:
    """The profile of a seed, and its name; an ordinary one has none."""
    if seed % EVERY < EVERY - 1:
        return "", ORDINARY
    name = list(SPECIAL)[seed // EVERY % len(SPECIAL)]
    return name, SPECIAL[name]
