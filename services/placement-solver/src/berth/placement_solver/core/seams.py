"""The seams by which the solver takes on features: what a constraint, a score, a tally and an allocator are.

A *constraint* says of one pod and one node whether the pod may go there: exactly, under a hypothesis (`filter`), and
for all nodes at once (`mask`). A *tally* is a running sum that masks need, charged with each claim that comes or goes.
A *score* rates the nodes that are left. `core.registry` lists what there is; nothing else of the solver knows one of
them by name. Names are kube-scheduler's where it has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Flag, auto
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from berth.contracts.base import Problem
from berth.contracts.kube import OwnerReference
from berth.contracts.ledger import Grant, Step
from berth.contracts.state import Pod, PodTemplate
from berth.resources.amounts import Amounts
from berth.rules.numa.hints import Hints
from berth.rules.numa.zone_sets import ZoneSet
from berth.transaction.claims import Claim, Name

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
RowArray: TypeAlias = npt.NDArray[np.intp]
Rows: TypeAlias = slice | RowArray
"""Rows of `Nodes`: a slice of all of them, or an array of some."""

Q = TypeVar("Q")
Asked = TypeVar("Asked", contravariant=True)


class Depends(Flag):
    """What a mask is worked out from, and so which changes make it out of date."""

    NODE = auto()
    """Labels, taints and marks of the nodes, and whether they are there."""
    CAPACITY = auto()
    """What is free on the nodes."""
    PEERS = auto()
    """The pods of the cluster: where they are, their labels and terms."""
    VOLUMES = auto()
    """Claims, volumes and what drivers report."""
    IMAGES = auto()
    """Which images are on which nodes."""
    LOAD = auto()
    """What the nodes really use, and what time it is."""


BEYOND_NODE = Depends.PEERS | Depends.VOLUMES | Depends.IMAGES | Depends.LOAD
"""A mask that depends on these is worked out at each pick; the others are kept for each class of pods."""


class Spec(NamedTuple):
    """What constraints and scores read of who waits.

    `required_node` is the node that a Reservation's template or a pod names, empty for any.
    A Reservation has the namespace of its template, and no owners.
    """

    name: Name
    namespace: str
    uid: str
    template: PodTemplate
    required_node: str = ""
    owners: Sequence[OwnerReference] = ()


class Hypothesis(NamedTuple):
    """What if, on one node, these claims were gone and those were there, beside what is charged?

    `gone`: the remainder of a reservation, victims, a pod's own former place. `there`: nominated pods.
    """

    gone: tuple[Claim, ...] = ()
    there: tuple[Claim, ...] = ()


NOTHING = Hypothesis()


class Target(NamedTuple):
    """A node, by its row, seen under a hypothesis.

    `reservation` is the uid of the one that is drawn on, `held` all that it is granted, its users included, and
    `restricted` the resources that the pod gets from it or not at all. `zones` are the NUMA nodes that what is chosen
    has to lie on; None: any.
    """

    row: int
    hypothesis: Hypothesis = NOTHING
    reservation: str = ""
    held: tuple[Grant, ...] = ()
    restricted: frozenset[str] = frozenset()
    zones: ZoneSet | None = None


class Rejection(NamedTuple):
    """Why a node, or every node, does not take a pod: one text for each reason, worded as users know it.

    `resolvable`: it may help that other pods leave the node (kube-scheduler's Unschedulable; else
    UnschedulableAndUnresolvable). `lacking` says how much is missing, where amounts are.
    """

    reasons: tuple[str, ...]
    resolvable: bool = True
    lacking: Amounts = {}


class Unusable(NamedTuple):
    """What a pod says that cannot be used, whatever changes around it."""

    problems: tuple[Problem, ...]


class Rejected(NamedTuple):
    """One reason and the rows, of those that were asked about, that it rules out.

    `repair` says in words what would help the pod, where the constraint knows it. Where the constraint depends on
    capacity, it helps where every other one takes the pod.
    """

    reason: str
    rows: Mask
    resolvable: bool = True
    repair: str = ""


class Constraint(Protocol[Q]):
    """One rule of placement, in one file of `core/constraints`.

    `name` is that of kube-scheduler's plugin where there is one; it is also the key of the configuration, the law's and
    the `code` of reasons. `exact`: the mask says what `filter` says; else it lets through more, never less.
    """

    name: str
    depends: Depends
    exact: bool

    def prefilter(self, spec: Spec) -> Q | Rejection | Unusable | None:
        """What has to be asked about nodes for this pod.

        None: it does not concern the pod. A Rejection: no node will do as things are now.
        """

    def mask(self, query: Q, rows: Rows) -> Mask:
        """Which of the rows may take the pod, with all that is charged."""

    def admits(self, query: Q, row: int) -> bool:
        """What the mask says of one row; after each placement one row is asked about, by every class."""

    def filter(self, query: Q, target: Target) -> Rejection | None:
        """Whether this node takes the pod under the hypothesis, exactly; None: it does."""

    def rejections(self, query: Q, rows: RowArray) -> list[Rejected]:
        """Why which of the rows do not take the pod; a row may be ruled out by several reasons."""


class Lacking(NamedTuple):
    """What has to become free on a node so that one constraint lets pods in: amounts, and in words other things.

    `less` is what a pod may ask for instead, in words; empty: asking for less does not help.
    """

    amounts: Amounts = {}
    things: tuple[str, ...] = ()
    less: str = ""


@runtime_checkable
class Freeable(Protocol[Asked]):
    """A constraint that lets pods in once something becomes free on a node, and knows what."""

    def distance(self, query: Asked, rows: RowArray, counts: RowArray) -> Floats:
        """The part of what so many pods take on each of the rows that is missing there; inf where it is more than the
        node has."""

    def lacking(self, query: Asked, row: int, count: int) -> Lacking | None:
        """What is missing there for so many pods. None: it cannot be made to do."""

    def shares_node(self, query: Asked) -> bool:
        """Whether two such pods may be on one node."""


@runtime_checkable
class Reducible(Protocol[Asked]):
    """A constraint that a pod fits once it asks for less, whatever becomes free."""

    def part(self, query: Asked, rows: RowArray) -> Floats:
        """Which part of what the pod asks for is free on each of the rows, at most 1."""

    def at_most(self, query: Asked, row: int) -> str:
        """What is free there of all that it asks too much of, in words; empty: it asks too much of nothing."""


@runtime_checkable
class Summed(Protocol[Asked]):
    """A constraint whose things a model that only counts pods on nodes knows as sums. Whether each pod really gets some
    is asked afterwards."""

    def pods_at_most(self, query: Asked, rows: RowArray) -> RowArray:
        """More such pods than this none of the rows takes, were there no others."""

    def units(self, query: Asked) -> int:
        """How many of the things that `units_left` counts each such pod takes, wherever it goes."""

    def units_left(self, rows: RowArray) -> RowArray:
        """How many of them are free on each of the rows."""


@runtime_checkable
class Narrows(Protocol):
    """A constraint that may know the only nodes worth asking by name, before any other looks at one."""

    def only(self, query: Any) -> frozenset[str] | None:
        """The names; None: all nodes are."""


class Score(Protocol[Q]):
    """One preference among nodes, in one file of `core/scores`. Scores are 0 to 100 after `normalise`."""

    name: str
    depends: Depends

    def prescore(self, spec: Spec) -> Q | None:
        """What is to be rated for this pod; None: nothing, it contributes 0 to every node."""

    def raw(self, query: Q, rows: RowArray) -> Floats:
        """The rating of each of the rows, all of which are feasible."""

    def normalise(self, query: Q, raw: Floats, rows: RowArray) -> Floats:
        """The ratings among the feasible rows as scores."""


class Charge:
    """The claim of a pod on the row of its node. `pod` None: nobody shows it, and what it takes is all that is known.

    `is_kept`: it is kept for a plan that may yet be made.
    """

    __slots__ = ("claim", "is_kept", "pod", "row", "uid")

    def __init__(self, claim: Claim, row: int, pod: Pod | None = None, *, is_kept: bool = False) -> None:
        self.claim = claim
        self.uid = claim.uid
        self.row = row
        self.pod = pod
        self.is_kept = is_kept

    @property
    def template(self) -> PodTemplate:
        """What is known of what it asks for."""
        return PodTemplate(requests=self.claim.amounts) if self.pod is None else self.pod.template


class Tally(Protocol):
    """A running sum over the claims of pods. `counts_kept`: what is kept for a plan that may yet be made counts as
    well."""

    counts_kept: bool

    def apply(self, charge: Charge, sign: int) -> None:
        """Charge (1) or give back (-1) a claim. Called for what holds and for what is tried."""


@runtime_checkable
class PodTally(Tally, Protocol):
    """A tally to which it matters what the pod says: it is given back, and charged anew, when that changes."""

    def tells_apart(self, before: Pod | None, now: Pod | None) -> bool:
        """Whether the pod counts for something else than it did before. None: nobody shows it."""


class GrantTally(Protocol):
    """What is held within nodes of one kind of record (`berth.rules.records`), in one file of `core/tallies`.

    Charged with the pods that hold something, and with what is left of a reservation; blocked by either.
    """

    name: str

    def take(self, row: int, grants: tuple[Grant, ...], sign: int) -> None:
        """Charge (1) or give back (-1) those grants that are of its kinds."""

    def block(self, row: int, sign: int) -> None:
        """There is a holder, or (-1) no longer, of whom nobody knows what it holds."""


@runtime_checkable
class BesideAmounts(Protocol):
    """A `GrantTally` that has to know all that a holder takes of the node, to say where on the node that lies."""

    def take_with(self, row: int, amounts: Mapping[str, int], grants: tuple[Grant, ...], sign: int) -> None:
        """Instead of `take`, with what the holder takes in all."""


class Choice(NamedTuple):
    """What a pod is granted of one kind, and the NUMA nodes that whatever is chosen after it has to lie on (None: it
    does not say)."""

    grants: tuple[Grant, ...] = ()
    zones: ZoneSet | None = None


class Allocator(Protocol[Asked]):
    """The exact choice within a node of what one constraint asks for, in one file of `core/allocators`.

    `constraint` is the name of the one whose query it takes: where that takes a pod, it finds something for it.
    """

    constraint: str

    def choose(self, query: Asked, target: Target) -> Choice | Rejection:
        """What the pod is granted there; of the reservation that is drawn on first. A Rejection: nothing serves it."""


class ZoneHinter(Protocol):
    """A constraint whose things lie on NUMA nodes, so that they can lie together with a pod's CPUs and memory."""

    name: str

    def prefilter(self, spec: Spec) -> Any:
        """See `Constraint`."""

    def hints(self, query: Any, target: Target, *, only_smallest: bool) -> Hints:
        """Which sets of NUMA nodes could hold what is asked for, by what it is; empty where the node does not take the
        pod in any case. `only_smallest`: larger sets than those that are preferred are not looked at."""

    def version(self, row: int) -> object:
        """Equal as long as what it says of the node is."""

    def lacking_on(self, query: Any, row: int, zone: int) -> list[str] | None:
        """What has to become free of one NUMA node so that it holds what is asked for, in words; None: never."""


@runtime_checkable
class Contended(Protocol[Asked]):
    """A constraint by which plans of two solvers may be at odds although they share no node."""

    def accounts(self, query: Asked, claim: Claim) -> tuple[str, ...]:
        """The accounts that plans share which need, or rule out, the same."""


@runtime_checkable
class Reserver(Protocol[Asked]):
    """A constraint that chooses something on the node that was picked, which has to happen before the bind."""

    def reserve(self, query: Asked, target: Target) -> tuple[Step, ...] | Rejection:
        """What has to happen on the API before the pod is bound to this node, in order; a Rejection where it cannot."""


def contends(constraint: Constraint[Any]) -> TypeGuard[Contended[Any]]:
    """Whether it is `Contended`."""
    return _is_of(type(constraint), Contended)


def reserves(constraint: Constraint[Any]) -> TypeGuard[Reserver[Any]]:
    """Whether it is a `Reserver`."""
    return _is_of(type(constraint), Reserver)


@cache
def _is_of(kind: type, seam: type) -> bool:
    """`isinstance` with a protocol looks at every attribute of it, each time; this is asked for each pod."""
    return issubclass(kind, seam)
