"""How large a modelled cluster is, and which faults may happen how often. Numbers are small: every order is tried."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.model.rules import Rules

FAULTS = (
    "create",
    "delete",
    "touch",
    "crash",
    "timeout",
    "takeover",
    "tail",
    "full",
    "stateloss",
    "forget",
    "aborts",
    "tidies",
    "prunes",
    "rejects",
)
"""What happens a limited number of times, in the order of `State.budget`."""


@dataclass(frozen=True)
class World:
    """One capacity: `nodes` names the node of each device minor (a *slot*), and a pod takes one slot.

    Pods 0 to `pods` - 1 are there from the start, `late` more names can be created. The fields that `FAULTS` names say
    how often each may happen; the others are about size and about what readers may do.
    """

    rules: Rules = field(default_factory=Rules)
    nodes: tuple[int, ...] = (0,)
    pods: int = 2
    late: int = 0
    is_gang: bool = False
    """Pods 0 and 1 are a strict gang."""
    is_staged: bool = False
    """A gang is committed in two stages and a last word."""
    reservations: tuple[int, ...] = ()
    """Names that are Reservations: their bind is two patches, one after the other."""
    quota: int = 0
    """Units of an account that every pod charges; 0: no such account."""
    solvers: int = 2
    writers: int = 1
    decisions: int = 4
    """How many decisions are taken in all, apart from fair runs."""
    half_read: bool = False
    """Solvers may stop reading LEDGER in the middle of a batch."""
    skipping: bool = False
    """Followers of STATE may miss messages that newer ones have replaced."""
    vanish: bool = False
    """A lost tail takes along what it had replaced."""

    create: int = 0
    delete: int = 0
    touch: int = 0
    """Somebody else updates a pod."""
    crash: int = 0
    """A writer starts anew, without memory."""
    timeout: int = 0
    """A bind gets no answer; it lands later, or never."""
    takeover: int = 0
    """Another writer takes the Lease, with or without reason."""
    tail: int = 0
    """LEDGER loses its newest messages, and uses their sequences again."""
    full: int = 0
    """LEDGER is lost."""
    stateloss: int = 0
    """STATE is lost, and listed again in any order."""
    forget: int = 0
    """A solver starts anew in the middle of a staged plan."""
    aborts: int = 0
    """A plan without its last word is taken for abandoned."""
    tidies: int = 0
    """A solver deletes a settled decision."""
    prunes: int = 0
    """The writer deletes the entry of a plan without decisions."""
    rejects: int = 0
    """A bind is refused for good, or its node is gone."""

    @property
    def names(self) -> range:
        """Every name that a pod may have."""
        return range(self.pods + self.late)

    @property
    def loses(self) -> bool:
        """LEDGER may lose something."""
        return bool(self.tail or self.full)
