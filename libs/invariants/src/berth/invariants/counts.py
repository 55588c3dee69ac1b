"""How often each law was applied, and how often an excuse kept one from judging.

A law that is never applied proves nothing, and an excuse that applies all the time hides everything: so both are
counted.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum


class Excuse(StrEnum):
    """Why an observer holds something against nobody. The values are what is counted and printed."""

    LOSS = "ledger lost"
    """LEDGER has lost something: a decision that is in doubt is not compared with others."""
    UNSEEN = "unseen"
    """A limit, a card, a node, a group or an owner has changed a moment ago: not everybody can have seen it."""
    HIDDEN = "hidden by a fault"
    """The same, longer ago: but a fault was in the way of those who have to see it."""
    STRANGER = "stranger unseen"
    """A pod of another scheduler has come a moment ago."""
    LEFT_OVER = "left over"
    """At the end a quota group holds beyond its limit what it held when the limit came, sank, or was above it."""
    OLDER_POD = "older pod"
    """The solver had read an older version of the pod."""
    MEMBER_GONE = "member gone"
    """A gang has lost a member for good while it was being bound, or after."""
    MEMBER_UNSHOWN = "member unshown"
    """A member of a gang was deleted, and STATE does not show it yet."""
    EPOCH = "withdrawn by an epoch"
    """A member of a gang was withdrawn while an epoch after its decision's was raised."""
    EPOCH_OVER = "epoch over"
    """The Lease names a later epoch: a decision of this one counts for nothing."""
    UNFIT = "withdrawn as unfit"
    """A member of a gang was withdrawn, and its node or its card is no good for it, or has no capacity."""
    WITH_ANOTHER = "withdrawn with another"
    """A member of a gang was withdrawn a moment after another had left it."""
    CAUGHT = "caught by a loss"
    """LEDGER has lost something while a gang was being bound."""
    MORE_ASKED = "more asked"
    """A PodGroup came to ask for more members than there are on nodes."""
    RECOVERY = "recovery"
    """A gang was half there for longer than the limit, but not in undisturbed time."""
    RELABELLED = "relabelled"
    """At the end pods are together that were not when they were decided: one of them, or a node, has other labels."""
    STATE_LOST = "state lost"
    """STATE has lost something: keys are written again, from any version."""
    LENT_LESS = "lent less"
    """A node has come to lend less, and another framework has its part until it has shrunk."""
    REGISTERED = "registered"
    """An agent of another framework has what its configuration says, until it is given its part."""


class Counts:
    """Judgements by law, and excuses by law and name."""

    def __init__(self) -> None:
        self.judgements: Counter[str] = Counter()
        self.excuses: Counter[tuple[str, str]] = Counter()

    def judged(self, law: str, times: int = 1) -> None:
        """A law was applied to something, and could have been broken by it."""
        self.judgements[law] += times

    def excused(self, law: str, excuse: StrEnum, times: int = 1) -> None:
        """An excuse kept a law from being applied to something, or from being broken by it."""
        if times:
            self.excuses[law, excuse.value] += times

    def take(self, other: Counts) -> None:
        """Count what another one has counted as well."""
        self.judgements.update(other.judgements)
        self.excuses.update(other.excuses)
