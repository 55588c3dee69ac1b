"""The cases of evictions: each part of a rule taken away, and all rules under faults."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.cases import Case
from tests.model.evictions.migration import Migration
from tests.model.evictions.protocol import Evictions
from tests.model.evictions.revocation import Revocation
from tests.model.evictions.rules import SWITCHES, Rules, missing, without
from tests.model.evictions.world import World
from tests.model.search import System


@dataclass(frozen=True)
class EvictionCase(Case):
    """One search; `world` None is a migration, a text the revocation of what a group has too much, and what
    goes wrong."""

    world: World | str | None
    rules: Rules

    @property
    def expects_violation(self) -> bool:
        """A rule is taken away, so something must be found."""
        return bool(missing(self.rules))

    def system(self) -> System:
        """What is searched."""
        if self.world is None:
            return Migration(self.rules)
        if isinstance(self.world, str):
            return Revocation(self.rules, self.world)
        return Evictions(replace(self.world, rules=self.rules))


ONE = World()
"""One slot, a pod on it, one of higher priority waits."""
THIEF = World(prio=(2, 0, 1), start=(0, 1, 0), once=True)
"""And one in between."""
HIGHER = World(prio=(2, 0, 3), start=(0, 1, 0))
"""And one above both."""
TWO = World(nodes=(0, 1), prio=(2, 0, 0), start=(0, 1, 2), once=True)
FREED = replace(TWO, delete=1, deletable=(2,))
"""The other slot is freed meanwhile."""
BREAKS = replace(FREED, breaks=1, once=False)
"""And one breaks."""
STAYS = replace(TWO, stuck=(1,), patience=1, once=False)
"""A victim never ends."""
POLICED = replace(TWO, policed=(1,), once=False)
"""A policy of the API server forbids to delete a victim."""
BESIDE = World(nodes=(0, 0), prio=(2, 0, 0), start=(0, 1, 2), width=(2, 1, 1), policed=(2,))
"""And another one would have to leave as well."""
WIDE = World(nodes=(0, 0), prio=(2, 0, 0, 3), start=(0, 1, 2, 0), width=(2, 1, 1, 1))
GANG = World(nodes=(0, 1), prio=(2, 2, 0, 0), start=(0, 0, 1, 2), gang=(0, 1))
BUDGET = replace(GANG, polite=True, budgeted=(2, 3), pdb=2, shrinks=1, patience=1, solvers=1)
TEAM = World(nodes=(0, 1), prio=(2, 0, 0), start=(0, 1, 2), fits=(1, 3, 3), victim_gang=(1, 2))
LATE_TEAM = replace(TEAM, start=(0, 1, 0), fits=(1, 3, 2))
QUOTA = World(nodes=(0, 1), prio=(2, 0, 1), start=(0, 1, 0), quota=1)
REBORN = World(nodes=(0, 1), prio=(2, 0, 1), start=(0, 1, 2), reborn=True, once=True)
STALE = World(
    nodes=(0, 0),
    prio=(2, 0, 0, 1),
    start=(0, 1, 2, 0),
    width=(2, 1, 1, 1),
    full=1,
    protect=1,
    delete=1,
    deletable=(1,),
    solvers=1,
)
NAMESAKE = World(nodes=(0, 1), prio=(2, 0), start=(0, 1), fits=(1, 3), delete=1, deletable=(1,), create=1)
LATE = replace(TWO, start=(0, -1, 2), create=1, plans=3)
RESERVED = World(nodes=(0, 1), prio=(2, 0, 0), start=(0, 1, 2), breaks=1, apart=(0,))
"""The beneficiary is a Reservation."""
EQUALS = World(nodes=(0, 1), prio=(2, 2, 0, 0), start=(0, 0, 1, 2), solvers=1)

CROWD = World(
    nodes=(0, 0, 1),
    prio=(2, 1, 0, 0, 3),
    start=(0, 0, 1, 2, -1),
    plans=12,
    writers=2,
    delete=2,
    deletable=(0, 1, 2, 3, 4),
    create=2,
    touch=2,
    protect=1,
    breaks=1,
    skips=2,
    crash=2,
    takeover=2,
    patience=2,
    tidies=2,
)
"""For walks: everything at once, apart from losses."""
GANGS = replace(CROWD, prio=(2, 2, 0, 0, 3, 1), start=(0, 0, 1, 4, -1, 2), gang=(0, 1))


def lacking(name: str, switch: str, world: World | str | None, *, fair_every: int = 0) -> EvictionCase:
    """A part of a rule taken away."""
    return EvictionCase(f"without {SWITCHES[switch]}: {name}", world, without(switch), fair_every=fair_every)


def holding(name: str, world: World | str | None, *, fair_every: int = 40) -> EvictionCase:
    """All rules."""
    return EvictionCase(f"rules: evictions, {name}", world, Rules(), fair_every=fair_every)


def walking(name: str, world: World) -> EvictionCase:
    """Random walks with all rules."""
    return EvictionCase(f"walk: evictions, {name}", world, Rules(), is_walk=True)


LACKING = [
    lacking("nominations under keys of their own", "one_key", FREED),
    lacking("planned anew while victims stay", "kept", FREED),
    lacking("a victim that was not seen yet", "victims_basis", LATE),
    lacking("capacity", "holds", THIEF),
    lacking("accounts", "stamps", replace(THIEF, delete=1, deletable=(1,))),
    lacking("displacing lower nominations", "displaced", HIGHER),
    lacking("displacing lower nominations for quota", "displaced", QUOTA),
    lacking("its own place last", "own_first", REBORN, fair_every=40),
    lacking("quota", "quota_held", QUOTA),
    lacking("the note on the beneficiary", "noted", replace(THIEF, full=1, solvers=1)),
    lacking("a note that counts for ever", "noted_ends", STALE, fair_every=40),
    lacking("marks", "marked", BREAKS),
    lacking("the look", "look", replace(ONE, delete=1, deletable=(0,))),
    lacking("first marked, first deleted", "all_marked", replace(GANG, protect=1)),
    lacking("a question before the deletions", "asked", BESIDE),
    lacking("the version in a deletion", "version", BREAKS),
    lacking("the uid in a deletion", "uid", NAMESAKE),
    lacking("planned anew before victims are spared", "spared", BREAKS),
    lacking("marks left behind", "unmarked", replace(ONE, delete=1, deletable=(0,)), fair_every=40),
    lacking("letting go", "let_go", STAYS, fair_every=40),
    lacking("letting go of what STATE alone shows", "state_let_go", replace(STAYS, full=1, solvers=1), fair_every=40),
    lacking("letting go of victims of others", "plan_let_go", replace(STAYS, delete=1, deletable=(1,)), fair_every=40),
    lacking("the second patch of a Reservation", "other_kind", RESERVED),
    lacking("a memory of refusals", "refused", POLICED, fair_every=1),
    lacking("half a gang", "whole", replace(GANG, delete=1, deletable=(0,))),
    lacking("unfit places", "works", replace(TWO, breaks=1, once=False)),
    lacking("budgets", "budgets", BUDGET),
    lacking("half a victim gang", "gang_whole", TEAM),
    lacking("the account of a victim gang", "gang_stamp", LATE_TEAM),
    lacking("equal priority", "strict", World(prio=(1, 1), start=(0, 1), reborn=True), fair_every=40),
    lacking("the Lease", "lease", replace(REBORN, tail=1, solvers=1, once=False)),
    lacking("a migration open to all", "closed", None, fair_every=1),
    lacking("a migration that expires", "no_clock", None, fair_every=1),
    lacking("the mark of a migration", "migration_marked", None, fair_every=1),
    lacking("the look of a migration", "migration_look", None, fair_every=1),
    lacking("a migration given up first", "migration_spared", None, fair_every=1),
    lacking("a second revocation beside the first", "kept", "deletions"),
    lacking("a revocation without marks", "marked", "protections"),
    lacking("the look at a revocation", "look", "protections"),
    lacking("the version in a deletion for a group", "version", "protections"),
    lacking("marks of a revocation left behind", "unmarked", "deletions", fair_every=1),
    lacking("new victims of a group while others are marked", "one_set", "losses"),
    lacking("a revocation that stands for ever", "let_go", "protections", fair_every=1),
]

HOLDING = [
    holding("two slots", TWO),
    holding("a thief", replace(THIEF, delete=1, deletable=(1,))),
    holding("a higher pod", HIGHER),
    holding("a wide pod and a higher one", WIDE),
    holding("the same, one solver", replace(WIDE, solvers=1)),
    holding("the other slot is freed", FREED),
    holding("and one breaks", BREAKS),
    holding("a message missed", replace(TWO, breaks=1, skips=1, touch=1, once=False)),
    holding("the beneficiary is deleted", replace(ONE, delete=1, deletable=(0,))),
    holding("and created again", replace(ONE, delete=1, deletable=(0,), create=1)),
    holding("the writer goes by answers", replace(ONE, delete=1, deletable=(0,), create=1, answers=True, touch=1)),
    holding("a victim's namesake", NAMESAKE),
    holding("a victim that is late to be seen", LATE),
    holding("tidying", replace(ONE, tidies=1, delete=1, deletable=(0,), create=1)),
    holding("a victim stays", STAYS),
    holding("a victim stays that its user deleted", replace(STAYS, delete=1, deletable=(1,))),
    holding("evicted pods come back", REBORN),
    holding("quota", QUOTA),
    holding("quota, two equals", replace(QUOTA, nodes=(0, 1, 2), prio=(2, 0, 1, 2), start=(0, 1, 0, 0))),
    holding("a gang, a member is deleted", replace(GANG, delete=1, deletable=(0,))),
    holding("a gang, a member comes again", replace(GANG, delete=1, deletable=(0,), create=1, solvers=1)),
    holding("a gang, a victim is protected", replace(GANG, protect=1)),
    holding("a gang, a budget shrinks", BUDGET),
    holding(
        "a gang and a higher pod",
        World(nodes=(0, 1), prio=(2, 2, 0, 0, 3), start=(0, 0, 1, 2, 0), gang=(0, 1), solvers=1),
    ),
    holding("a gang, the writer restarts", replace(GANG, crash=1, solvers=1)),
    holding("a gang, two writers", replace(GANG, writers=2, takeover=1, protect=1, solvers=1)),
    holding("a victim gang", TEAM),
    holding("a victim gang that grows", LATE_TEAM),
    holding("a Reservation", RESERVED),
    holding("a Reservation, one solver", replace(RESERVED, solvers=1)),
    holding("a Reservation, ledger lost", replace(RESERVED, breaks=0, full=1, solvers=1)),
    holding("two writers", replace(ONE, writers=2, takeover=1, delete=1, deletable=(0,))),
    holding("two writers, a slot breaks", replace(TWO, writers=2, takeover=1, breaks=1, solvers=1, once=False)),
    holding("ledger lost", replace(TWO, full=1, solvers=1, once=False)),
    holding("ledger lost, two solvers", replace(TWO, full=1, plans=1, once=False)),
    holding("ledger lost, a thief", replace(THIEF, full=1, solvers=1, once=False)),
    holding("ledger lost, a message missed", replace(TWO, full=1, skips=1, solvers=1, once=False)),
    holding("ledger lost, two equals", replace(EQUALS, full=1)),
    holding("ledger lost, a victim stays", replace(STAYS, full=1, solvers=1)),
    holding("ledger lost, a place that is of no use", STALE),
    holding("ledger lost, a gang", replace(GANG, full=1, solvers=1)),
    holding("ledger lost, quota", replace(QUOTA, full=1, solvers=1)),
    holding("tail lost", replace(TWO, tail=1, solvers=1, once=False)),
    holding("tail lost, two solvers", replace(TWO, tail=1, once=False)),
    holding("tail lost, a thief", replace(THIEF, tail=1, solvers=1, once=False)),
    holding("tail lost, older entries too", replace(THIEF, tail=1, vanish=True, solvers=1, once=False)),
    holding("tail lost, the writer restarts", replace(TWO, tail=1, crash=1, solvers=1, once=False)),
    holding("tail lost, two equals", replace(EQUALS, tail=1, plans=3)),
    holding("tail lost, a gang, a restart", replace(GANG, tail=1, crash=1, solvers=1)),
    holding("migration", None, fair_every=1),
    holding("revocation, a pod protected", "protections"),
    holding("revocation, a pod deleted", "deletions", fair_every=4),
    holding("revocation, ledger lost", "losses"),
]

WALKS = [
    walking("everything but losses", CROWD),
    walking("everything, tail lost", replace(CROWD, tail=2, vanish=True)),
    walking("everything, all lost", replace(CROWD, tail=1, full=1)),
    walking(
        "everything, wide pods, evicted ones come back",
        replace(CROWD, nodes=(0, 0, 1, 1), width=(2, 1, 1, 1, 2), reborn=True, delete=1),
    ),
    walking("everything, gang", GANGS),
    walking("everything, gang, all lost", replace(GANGS, tail=1, full=1)),
    walking("everything, quota, answers", replace(CROWD, quota=2, start=(0, 0, 1, 4, -1), answers=True)),
    walking("everything, budgets", replace(GANGS, polite=True, budgeted=(2, 3, 5), pdb=2, shrinks=1, stuck=(2,))),
]

TWINS = [
    replace(case, name=case.name.replace("without", "rules: with", 1), rules=Rules(), fair_every=40)
    for case in LACKING
    if all(case.world != other.world for other in HOLDING)
]
"""All rules in the worlds where the lack of one is found, unless such a case is there already."""

CASES = LACKING + HOLDING + TWINS + WALKS
