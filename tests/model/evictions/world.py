"""How large the modelled cluster is, who waits and who is there, and which faults may happen how often."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.model.evictions.rules import Rules

FAULTS = (
    "delete",
    "create",
    "touch",
    "protect",
    "breaks",
    "shrinks",
    "skips",
    "crash",
    "takeover",
    "tail",
    "full",
    "patience",
    "tidies",
)
"""What happens a limited number of times, in the order of `State.budget`."""


@dataclass(frozen=True)
class World:
    """`nodes` names the node of each device minor (a *slot*). A *place* is a bit mask of slots, and a pod takes `width`
    slots of one node. Fields by name of a pod are indexed by it."""

    rules: Rules = field(default_factory=Rules)
    nodes: tuple[int, ...] = (0,)
    prio: tuple[int, ...] = (2, 0)
    start: tuple[int, ...] = (0, 1)
    """The place at the start; 0: it waits, -1: it is not there."""
    width: tuple[int, ...] = ()
    fits: tuple[int, ...] = ()
    """The slots that it can use."""
    gang: tuple[int, ...] = ()
    """Names that are placed together, or not at all."""
    victim_gang: tuple[int, ...] = ()
    """Names of a running gang that needs all its members."""
    quota: int = 0
    """Slots that all pods together may use; 0: any number."""
    budgeted: tuple[int, ...] = ()
    """Names under a disruption budget."""
    pdb: int = 9
    """Disruptions that it allows."""
    polite: bool = False
    """Victims are evicted through the eviction API, not deleted."""
    policed: tuple[int, ...] = ()
    """Names whose deletion a policy of the API server refuses. Only its answer says so."""
    stuck: tuple[int, ...] = ()
    """Names that never end by themselves."""
    apart: tuple[int, ...] = ()
    """Names that are of another kind, Reservations, which followers read at a pace of its own."""
    reborn: bool = False
    """Evicted pods are created again."""
    solvers: int = 2
    writers: int = 1
    plans: int = 2
    """How many plans are committed, apart from fair runs."""
    answers: bool = False
    """A writer may go by the answer to its mark, before STATE shows it."""
    once: bool = False
    """Nothing but one plan's victims is ever evicted for one beneficiary."""
    vanish: bool = False
    """A lost tail takes along what it had replaced."""

    delete: int = 0
    """By users, of `deletable`."""
    deletable: tuple[int, ...] = ()
    create: int = 0
    touch: int = 0
    """Somebody updates a victim."""
    protect: int = 0
    """Somebody forbids to evict a pod."""
    breaks: int = 0
    """A slot becomes unfit."""
    shrinks: int = 0
    """The disruption budget loses one."""
    skips: int = 0
    """A follower misses a message that a newer one of its pod has replaced."""
    crash: int = 0
    takeover: int = 0
    tail: int = 0
    full: int = 0
    patience: int = 0
    """How often a writer gives up waiting for a victim."""
    tidies: int = 0

    @property
    def names(self) -> range:
        return range(len(self.prio))
