"""The list of invariants, and the one function that checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from berth.invariants import amounts, decisions, devices, gangs, quotas, reservations
from berth.invariants.facts import Facts
from berth.invariants.report import Report, result_of
from berth.invariants.world import World


class Invariant(NamedTuple):
    """A promise: `find` yields what breaks it."""

    name: str
    sentence: str
    find: Callable[[Facts], Iterable[str]]


def _unreadable(facts: Facts) -> Iterable[str]:
    return facts.world.unreadable


INVARIANTS: Final = (
    Invariant("I0", "Everything that is checked could be read.", _unreadable),
    Invariant("I1", "No device is given out beyond a whole.", devices.shared_beyond),
    Invariant("I1b", "No node holds more than it offers.", amounts.beyond_node),
    Invariant("I1c", "No node reports a device in use beyond a whole.", devices.reported_beyond),
    Invariant("I2", "No quota group holds more than its max, at any level.", quotas.above_max),
    Invariant("I2b", "Non-preemptible pods of a quota group hold no more than its min.", quotas.firm_above_min),
    Invariant("I3", "A strict gang is on nodes with all members that it needs, or with none.", gangs.half_begun),
    Invariant("I4", "Every decision has come to its end: bound, gone or withdrawn.", decisions.still_open),
    Invariant("I5", "Every pod of Berth is bound as it was decided, and under a plan.", decisions.bound_otherwise),
    Invariant("I10", "Reserved room is given to owners of the reservation only.", reservations.wrong_users),
    Invariant("I10b", "What is reserved and not yet used stays free.", reservations.given_away),
)


def check(world: World) -> Report:
    """Check every invariant. Never raises for anything that the world contains."""
    facts = Facts(world)
    return Report([result_of(each.name, each.sentence, list(each.find(facts))) for each in INVARIANTS])
