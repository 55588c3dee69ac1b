"""The cases: each rule taken away, and all rules under faults.

A case without a part of a rule must find something, one with all rules nothing. A new rule needs both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.growing import Growing
from tests.model.protocol import Protocol
from tests.model.quota import QuotaAccounts
from tests.model.quota_line import QuotaLine
from tests.model.rules import Rules, missing, without
from tests.model.search import Result, System, explore, walk
from tests.model.take_overs import TakeOvers
from tests.model.unreadable import UnreadableEntry
from tests.model.volumes import VolumeSteps
from tests.model.world import World


@dataclass(frozen=True)
class Case:
    """One search. `commits`: also a decision that overlaps another counts; between a loss and the new epoch it may.

    `world` None: the quota accounts; a text: a line of groups whose limit `appears`, or of which one `moves` or
    `crosses` over to another tree; or a decision that becomes `unreadable`; or `volumes` and their steps;
    or a Reservation that is `growing`, LEDGER kept or lost; or `take-overs` by Reservations.
    `fair_every`: from one state in how many a fair run starts; 0: from none.
    """

    name: str
    world: World | str | None
    rules: Rules
    commits: bool = True
    fair_every: int = 40
    is_walk: bool = False

    @property
    def expects_violation(self) -> bool:
        """A rule is taken away, so something must be found."""
        return bool(missing(self.rules))

    def system(self) -> System:
        """What is searched."""
        if self.world is None:
            return QuotaAccounts(self.rules)
        if self.world == "unreadable":
            return UnreadableEntry(self.rules)
        if self.world == "volumes":
            return VolumeSteps(self.rules)
        if self.world in ("growing", "growing, ledger lost"):
            return Growing(self.rules, is_lost=self.world != "growing")
        if self.world == "take-overs":
            return TakeOvers(self.rules)
        if isinstance(self.world, str):
            return QuotaLine(self.rules, self.world)
        return Protocol(replace(self.world, rules=self.rules), commits=self.commits)

    def run(self, seconds: float, walks: int = 10**9) -> Result:
        """Search for so long."""
        if self.is_walk:
            return walk(self.system(), seconds=seconds, walks=walks)
        return explore(self.system(), seconds=seconds, fair_every=self.fair_every)

    def is_surprise(self, result: Result) -> bool:
        """It found what it should not, or not what it should."""
        return bool(result.verdict) != self.expects_violation


ONE = World()
PAIR = World(nodes=(0, 1))
TRIO = World(nodes=(0, 0), pods=3)
GANG = World(nodes=(0, 1), pods=3, is_gang=True)
STAGED = replace(GANG, is_staged=True, forget=1, aborts=1)


CROWD = World(
    nodes=(0, 0, 1),
    pods=3,
    late=1,
    writers=2,
    decisions=12,
    half_read=True,
    skipping=True,
    create=2,
    delete=2,
    touch=2,
    crash=2,
    timeout=2,
    takeover=2,
    rejects=1,
    tidies=2,
    prunes=1,
)
"""For walks: everything at once, apart from losses."""

LOSSES = World(nodes=(0, 0), pods=3, decisions=12, crash=1, timeout=1, tail=2, vanish=True)


def lacking(name: str, switches: str, world: World | str | None, *, commits: bool = True, fair_every: int = 0) -> Case:
    """A part of a rule taken away; of two `switches` (with a space between) each does the other's work here."""
    rules = without(*switches.split())
    (rule,) = missing(rules)
    return Case(f"without {rule}: {name}", world, rules, commits=commits, fair_every=fair_every)


def holding(name: str, world: World | str | None, *, commits: bool = True, fair_every: int = 40) -> Case:
    """All rules."""
    return Case(f"rules: {name}", world, Rules(), commits=commits, fair_every=fair_every)


def walking(name: str, world: World, *switches: str, commits: bool = True) -> Case:
    """Random walks, with all rules or without some."""
    return Case(f"walk: {name}", world, without(*switches), commits=commits, is_walk=True)


LACKING = [
    lacking("sequences of accounts", "account_sequences", ONE),
    lacking("sequences of decisions", "decision_sequences", PAIR),
    lacking("a later stage looks only when it is sent", "stage_sequences", replace(STAGED, nodes=(0, 0), forget=0)),
    lacking("accounts before decisions", "decisions_first", replace(ONE, half_read=True)),
    lacking("deleted when bound", "held_until_settled", replace(TRIO, decisions=3, tidies=1)),
    lacking(
        "replaced by another uid",
        "any_uid",
        replace(ONE, nodes=(0, 0), create=1, delete=1, decisions=3),
    ),
    lacking("absent is gone", "gone_needs_completeness", replace(ONE, pods=1, late=1, create=1)),
    lacking("bind without version", "bind_version", replace(ONE, rejects=1, timeout=1)),
    lacking("bind without uid", "bind_uid", replace(ONE, pods=1, create=1, delete=1, decisions=2)),
    lacking("a failure by event", "only_the_pod_gives_up", replace(ONE, timeout=1)),
    lacking("members before the last word", "last_word", replace(ONE, tail=1, aborts=1), commits=False),
    lacking("a plan goes on that was given up", "plan_chain", STAGED),
    lacking("a plan given up by the clock", "abort_is_written", STAGED),
    lacking("a committed plan given up", "ended_stays", replace(ONE, aborts=1, decisions=2)),
    lacking(
        "members as they come", "gangs_whole", replace(STAGED, pods=2, forget=0, tail=1), commits=False, fair_every=40
    ),
    lacking("no Lease", "recorded", replace(ONE, writers=2, tail=1), commits=False),
    lacking(
        "the leader is not asked",
        "leader_look",
        replace(ONE, solvers=1, tail=1, crash=1, decisions=2),
        commits=False,
    ),
    lacking(
        "older plans taken for carried out",
        "older_under_way",
        replace(ONE, nodes=(0, 1), solvers=1, crash=1, decisions=2),
        fair_every=1,
    ),
    lacking(
        "no last check", "last_check", replace(TRIO, tail=1, vanish=True, decisions=3), commits=False, fair_every=40
    ),
    lacking(
        "planned on any view",
        "epoch_view",
        replace(ONE, solvers=1, full=1, touch=1, skipping=True, decisions=2),
        commits=False,
    ),
    lacking("judged on any view", "basis late_member", replace(GANG, pods=2, rejects=1)),
    lacking("a member to come", "late_member", replace(GANG, pods=2, create=1, delete=1, touch=1, skipping=True)),
    lacking("a clash on a late view", "clash_at_end", replace(ONE, delete=1, decisions=2)),
    lacking(
        "what LEDGER lost is kept",
        "leader_compared",
        replace(ONE, tail=1, decisions=3),
        commits=False,
        fair_every=1,
    ),
    lacking("own group alone", "ancestors", None),
    lacking("accounts without revision", "revisions", None),
    lacking("quota without sequences", "account_sequences", None),
    lacking("a max appears on an account that has no stamp", "whole_line", "appears"),
    lacking("a group moves, and its new line does not say so", "tree_revision", "moves"),
    lacking("a group moves, old and new line share no account", "joined", "moves"),
    lacking("a group crosses over, and its former account is not stamped", "former_account", "crosses"),
    lacking("a max appears, without sequences", "account_sequences", "appears"),
    lacking("planned beside an entry that cannot be read", "unreadable_blocks", "unreadable"),
    lacking("an entry that cannot be read stays", "unreadable_is_loss", "unreadable", fair_every=1),
    lacking("a step without version", "step_version", "volumes"),
    lacking("bound once its step is asked for", "steps_seen", "volumes"),
    lacking("what a step has done is forgotten", "steps_stay", "volumes", fair_every=1),
    lacking("a growth is carried out that another one has followed", "growth_follows", "growing"),
    lacking("a growth is written over one that is carried out", "growth_shown", "growing", fair_every=1),
    lacking("a growth holds nothing before it is shown", "growth_held", "growing"),
    lacking("the plan is shown before the amounts", "amounts_first", "growing"),
    lacking("a growth that is not asked for any more", "growth_asked", "growing, ledger lost"),
    lacking("an epoch that does not fence who grows", "growth_fenced", "growing, ledger lost"),
    lacking("taken over once it is noted", "taken_at_once", "take-overs"),
    lacking("Available before its pod notes it", "noted_first", "take-overs"),
    lacking("a note of a Reservation that has no node", "note_powerless", "take-overs"),
    lacking("a note without version", "step_version", "take-overs"),
]

HOLDING = [
    holding("three decisions, an update", replace(ONE, touch=1, decisions=3)),
    holding("two nodes", replace(PAIR, delete=1, decisions=2)),
    holding("pods come and go", replace(ONE, create=1, delete=1, touch=1)),
    holding("come and go, skipping", replace(ONE, create=1, delete=1, touch=1, skipping=True, decisions=3)),
    holding("deletion, update, skipping", replace(ONE, delete=1, touch=1, skipping=True, decisions=3)),
    holding("STATE lost", replace(ONE, delete=1, stateloss=1, decisions=2)),
    holding("half-read batches", replace(ONE, half_read=True, delete=1)),
    holding("unknown outcomes, rejections", replace(ONE, delete=1, rejects=1, timeout=1)),
    holding("restart, no answer, rejection", replace(ONE, crash=1, rejects=1, timeout=1, decisions=3)),
    holding("tidying, three pods", replace(TRIO, decisions=3, tidies=1, delete=1)),
    holding("tidying, plans forgotten", replace(ONE, decisions=3, tidies=1, prunes=1, delete=1, rejects=1)),
    holding("a successor of the same name", replace(ONE, nodes=(0, 0), create=1, delete=1, decisions=3)),
    holding("a Reservation", replace(ONE, reservations=(0,), touch=1, timeout=1, crash=1, decisions=2)),
    holding("a Reservation, rejection", replace(ONE, reservations=(0,), rejects=1, timeout=1, delete=1, decisions=3)),
    holding("quota", replace(PAIR, quota=1, delete=1, crash=1)),
    holding("quota accounts", None),
    holding("a max appears", "appears", fair_every=1),
    holding("a group moves", "moves", fair_every=1),
    holding("a group crosses over to another tree", "crosses", fair_every=1),
    holding("an entry becomes unreadable", "unreadable", fair_every=1),
    holding("steps before binds", "volumes"),
    holding("a Reservation grows", "growing", fair_every=4),
    holding("a Reservation grows, ledger lost", "growing, ledger lost"),
    holding("take-overs", "take-overs"),
    holding("gang", replace(GANG, delete=1)),
    holding("gang, rejection", replace(GANG, pods=2, rejects=1)),
    holding("staged gang", STAGED),
    holding("staged gang, one node", replace(STAGED, nodes=(0, 0), forget=0, decisions=3)),
    holding("staged gang, restart", replace(STAGED, crash=1, decisions=3)),
    holding("a late view", replace(ONE, delete=1, decisions=2)),
    holding("two writers", replace(ONE, writers=2, takeover=1, timeout=1, delete=1)),
    holding("tail lost", replace(ONE, tail=1, decisions=3), commits=False),
    holding("tail lost, older entries too", replace(ONE, tail=1, vanish=True, decisions=3), commits=False),
    holding("tail lost, restart", replace(ONE, tail=1, crash=1, decisions=2), commits=False),
    holding("tail lost, restart, no answer", replace(ONE, tail=1, crash=1, timeout=1, decisions=2), commits=False),
    holding("tail lost, two writers", replace(ONE, tail=1, writers=2, takeover=1, decisions=2), commits=False),
    holding("tail lost, sequences used again", replace(TRIO, tail=1, vanish=True, decisions=3), commits=False),
    holding("tail lost, gang", replace(GANG, pods=2, tail=1), commits=False),
    holding("tail lost, a cut-off plan given up", replace(ONE, tail=1, aborts=1), commits=False),
    holding("tail lost, staged gang", replace(STAGED, pods=2, forget=0, tail=1), commits=False),
    holding("ledger lost, restart, no answer", replace(ONE, full=1, crash=1, timeout=1, decisions=3), commits=False),
    holding(
        "ledger lost, restart, skipping",
        replace(ONE, solvers=1, full=1, crash=1, touch=1, skipping=True, decisions=2),
        commits=False,
    ),
    holding(
        "ledger lost, a pod created meanwhile",
        replace(ONE, full=1, create=1, pods=1, late=1, crash=1, decisions=2),
        commits=False,
    ),
    holding("ledger lost, two writers", replace(ONE, full=1, writers=2, takeover=1, decisions=2), commits=False),
]

WALKS = [
    walking("everything but losses", CROWD),
    walking("everything, tail and STATE lost", replace(CROWD, tail=2, vanish=True, stateloss=1), commits=False),
    walking("everything, all lost", replace(CROWD, tail=1, full=1, stateloss=1), commits=False),
    walking("everything, quota, tail lost", replace(CROWD, quota=2, tail=1), commits=False),
    walking("everything, Reservations, tail lost", replace(CROWD, reservations=(0, 3), tail=1), commits=False),
    walking(
        "everything, staged gang", replace(CROWD, nodes=(0, 1, 1), is_gang=True, is_staged=True, forget=1, aborts=2)
    ),
    walking("without R3", CROWD, "held_until_settled"),
    walking("without R5", CROWD, "bind_version"),
    walking("without R10", replace(CROWD, tail=2, vanish=True), "recorded", commits=False),
    walking("three pods, tail lost twice", LOSSES, commits=False),
    walking("without R11", LOSSES, "last_check", commits=False),
]

TWINS = [
    replace(case, name=case.name.replace("without", "rules: with", 1), rules=Rules(), fair_every=40)
    for case in LACKING
    if all(case.world != other.world for other in HOLDING)
]
"""All rules in the worlds where the lack of one is found, unless such a case is there already."""

CASES = LACKING + HOLDING + TWINS + WALKS
