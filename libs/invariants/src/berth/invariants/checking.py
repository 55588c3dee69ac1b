"""The promises that one moment can be judged by, and the function that judges it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from berth.invariants import amounts, decisions, devices, gangs, numa_nodes, quotas, reservations, snapshots
from berth.invariants.facts import Facts
from berth.invariants.promises import PROMISES
from berth.invariants.report import Finding, Report, result_of
from berth.invariants.world import World


class Invariant(NamedTuple):
    """A promise: `find` yields what breaks it."""

    name: str
    title: str
    sentence: str
    find: Callable[[Facts], Iterable[Finding]]


def _unreadable(facts: Facts) -> Iterable[Finding]:
    return (Finding(text.partition(":")[0], text) for text in facts.world.unreadable)


_FINDERS: Final[dict[str, Callable[[Facts], Iterable[Finding]]]] = {
    "I0": _unreadable,
    "I1": devices.given_beyond("I1"),
    "I1b": amounts.beyond_node,
    "I1c": devices.reported_beyond,
    "I1d": devices.used_otherwise,
    "I2": quotas.above_max,
    "I2b": quotas.non_preemptible_above_min,
    "I3": gangs.half_begun,
    "I4": decisions.still_open,
    "I5": decisions.bound_otherwise,
    "I8": snapshots.believed_otherwise,
    "I10": reservations.wrong_users,
    "I10b": reservations.given_away,
    "I23": devices.given_beyond("I23"),
    "I24": devices.given_beyond("I24"),
    "I25": numa_nodes.beyond_capacity,
    "I27": devices.cut_and_whole,
}
_BY_REPORTS: Final = frozenset({"I1c", "I1d"})
NO_REPORTS: Final = "no node reports devices in use"
INVARIANTS: Final = tuple(Invariant(*PROMISES[name], find) for name, find in _FINDERS.items())


def not_judged(name: str, world: World) -> str:
    """What this world lacks to judge this promise by; empty when it can be judged."""
    return NO_REPORTS if name in _BY_REPORTS and not world.holds else ""


def check(world: World) -> Report:
    """Check every invariant. Never raises for anything that the world contains."""
    facts = Facts.of(world)
    return Report(
        [
            result_of(
                each.name,
                each.sentence,
                [finding.text for finding in each.find(facts)],
                each.title,
                not_judged(each.name, world),
            )
            for each in INVARIANTS
        ]
    )
