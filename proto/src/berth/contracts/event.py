"""Events: what happened, for people and programs. Past tense; nobody's input for a decision."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Part, Problem, Reason
from berth.contracts.ledger import DeviceGrant, Grant, Victim


class BatchBound(Part, frozen=True, kw_only=True):
    """How many pods of a batch its plan places, and how many any plan could have placed, by an upper bound.

    `status` is `optimal` (no plan is worth more), `bounded` (none is worth more than the bound) or `unknown`, for the
    reason in `problem`: `late`, `failed` or `not ready` (the optimiser's process), `busy`, `resting` or `off` (it was
    not asked), `too large`, `error`; `below`, `excessive` or `malformed` (its answer cannot be true). `method` is
    `counted` where all were placed that any plan may place, `linear` or `integer` by the program that was solved.

    Of `pods` in the batch, Reservations included, `placed` are placed. Plans are compared by how many pods of each
    priority they place, the highest first: `priority` is the highest at which another plan may place more, 0 where none
    does. `objective` pods of that priority and of higher ones are placed, of all where none does, and no plan that
    places as many of each higher one places more than `bound`. `gap` is (bound - objective) / bound, -1 where it is
    unknown. `took_ms` is the time from the question to the answer. A plan for which others leave, or that waits for
    room, is none of these.
    """

    status: str
    pods: Integer
    placed: Integer
    method: str = ""
    priority: Integer = 0
    objective: Integer = 0
    bound: Integer = 0
    gap: float = -1.0
    took_ms: float = 0.0
    problem: str = ""


class PlacementDecided(Message, frozen=True, kw_only=True, tag="placement.decided.v1"):
    """A plan was committed: `pods` as `namespace/name`, with the node of each at the same position.

    `bound` is there where no plan of the batch could have placed more; else `placement.bounded.v1` follows, for the
    batches of which not all were placed.
    """

    plan: str
    pods: list[str]
    nodes: list[str]
    gang: str = ""
    took_ms: float = 0.0
    solver: str = ""
    bound: BatchBound | None = None


class PlacementBounded(Message, frozen=True, kw_only=True, tag="placement.bounded.v1"):
    """A batch of which not all were placed was decided, and `bound` says how near to the best that was.

    `plan` is the batch's; where nothing was placed, no other message names it.
    """

    plan: str
    bound: BatchBound
    solver: str = ""


class PlacementBound(Message, frozen=True, kw_only=True, tag="placement.bound.v1"):
    """STATE shows a pod bound under a plan of ours. `latency_ms` is from the solver's first sight to that moment.

    What only the decision says is empty, and the latency 0, when the decision is gone by then. `devices` are those of
    the `grants` that have a minor.
    """

    namespace: str
    name: str
    uid: str
    node: str
    plan: str
    devices: list[DeviceGrant] = []
    quota: str = ""
    reservation: str = ""
    gang: str = ""
    latency_ms: float = 0.0
    grants: list[Grant] = []


class PlacementEnded(Message, frozen=True, kw_only=True, tag="placement.ended.v1"):
    """A pod that was bound under a plan of ours has ended, or is gone: what it held is free.

    `reason` is `succeeded`, `failed` or `deleted`; the first of them that became visible counts, so there is one event
    for a placement.
    """

    namespace: str
    name: str
    uid: str
    node: str
    plan: str
    reason: str


class PlacementFailed(Message, frozen=True, kw_only=True, tag="placement.failed.v1"):
    """A decision was withdrawn; the pod is pending again, with `attempt` raised to this. A Reservation likewise."""

    namespace: str
    name: str
    uid: str
    node: str
    plan: str
    attempt: Integer
    reason: str


class PlacementUnschedulable(Message, frozen=True, kw_only=True, tag="placement.unschedulable.v1"):
    """A pod, or a Reservation (with an empty namespace), cannot be placed now: every reason, with its repair.

    `forbidden_by` is the smallest set of constraints that forbid it together, each as its name and what of it
    (`NodeResourcesFit cpu`); empty where it was not worked out. `repair` is the cheapest change with which it was
    found to be placed, empty where none was found. `why.answer.v1` has more of both.
    """

    namespace: str
    name: str
    uid: str
    message: str
    reasons: list[Reason] = []
    gang: str = ""
    forbidden_by: list[str] = []
    repair: str = ""


class PlacementNominated(Message, frozen=True, kw_only=True, tag="placement.nominated.v1"):
    """A plan was committed in which a pod, or a Reservation, waits for a node that `victims` have to leave first."""

    plan: str
    namespace: str
    name: str
    uid: str
    node: str
    reason: str
    victims: list[Victim] = []


class EvictionMarked(Message, frozen=True, kw_only=True, tag="eviction.marked.v1"):
    """A pod on `node` was marked: it is to leave for `beneficiary` (`namespace/name`), for this reason."""

    namespace: str
    name: str
    uid: str
    node: str
    plan: str
    beneficiary: str
    beneficiary_uid: str
    reason: str


class EvictionSent(Message, frozen=True, kw_only=True, tag="eviction.sent.v1"):
    """A marked pod was deleted, or evicted; it ends within its grace period. `message` says why, where more is to be
    said than for whom."""

    namespace: str
    name: str
    uid: str
    node: str
    plan: str
    beneficiary: str
    beneficiary_uid: str
    reason: str
    message: str = ""


class EvictionRefused(Message, frozen=True, kw_only=True, tag="eviction.refused.v1"):
    """The API server refuses to mark or to evict a pod, `message` says why: a policy, or a disruption budget."""

    namespace: str
    name: str
    uid: str
    node: str
    plan: str
    beneficiary: str
    beneficiary_uid: str
    reason: str
    message: str = ""


class EvictionSpared(Message, frozen=True, kw_only=True, tag="eviction.spared.v1"):
    """A mark was taken back: the pod stays, `message` says why."""

    namespace: str
    name: str
    uid: str
    node: str
    plan: str
    beneficiary: str
    beneficiary_uid: str
    reason: str
    message: str = ""


class NominationWithdrawn(Message, frozen=True, kw_only=True, tag="nomination.withdrawn.v1"):
    """A nomination was given up; the pod waits again, with `attempt` raised to this. A Reservation likewise."""

    plan: str
    namespace: str
    name: str
    uid: str
    node: str
    attempt: Integer
    reason: str
    victims: list[Victim] = []


class EpochRaised(Message, frozen=True, kw_only=True, tag="epoch.raised.v1"):
    """The ledger had lost something, or nothing was there yet: a new epoch began."""

    epoch: Integer
    reason: str


class QuotaChanged(Message, frozen=True, kw_only=True, tag="quota.changed.v1"):
    """A group is over its limits (`exceeded`), or no longer (`recovered`)."""

    tree: str
    group: str
    runtime: dict[str, Integer] = {}
    message: str = ""


class ReservationChanged(Message, frozen=True, kw_only=True, tag="reservation.changed.v1"):
    """A reservation entered a phase."""

    name: str
    phase: str
    node: str = ""
    message: str = ""


class ObjectRefused(Message, frozen=True, kw_only=True, tag="object.refused.v1"):
    """An object or message that Berth cannot use, with the fields that are wrong."""

    kind: str
    namespace: str = ""
    name: str = ""
    problems: list[Problem] = []


class NodeChanged(Message, frozen=True, kw_only=True, tag="node.changed.v1"):
    """Something about a node that people may want to know (devices appeared, went bad, ...)."""

    node: str
    message: str


class GangScattered(Message, frozen=True, kw_only=True, tag="gang.scattered.v1"):
    """Members of a gang that run lie in several domains of a layer that it must not leave, or no longer so (`lasts`
    false): labels of nodes, or the layers of the network, have changed. Nobody is evicted for it.

    `domains` counts the members by domain, whose path is written with slashes.
    """

    namespace: str
    name: str
    layer: str
    domains: dict[str, Integer] = {}
    lasts: bool = True


class FindingReported(Message, frozen=True, kw_only=True, tag="finding.reported.v1"):
    """The agent of a node found something wrong with a pod, or finds it no longer (`lasts` false).

    `container` is empty for the pod as a whole; `kind` and `message` are those of `PodFinding`.
    """

    namespace: str
    name: str
    uid: str
    node: str
    kind: str
    message: str
    container: str = ""
    lasts: bool = True


class AuditReported(Message, frozen=True, kw_only=True, tag="audit.reported.v1"):
    """Ledger, cluster and nodes do not tell the same story, or no longer so (`lasts` false).

    `promise` and `title` name what is broken (docs/guarantees.md), `subject` what it is about, the same in both events
    of a difference; `evidence` is for people. `since_ms` is the unix time of the first look that showed it, `at_ms`
    that of the look that made it certain, or no longer showed it.
    """

    promise: str
    title: str
    subject: str
    evidence: str = ""
    lasts: bool = True
    since_ms: Integer = 0
    at_ms: Integer = 0


Event = (
    PlacementDecided
    | PlacementBounded
    | PlacementBound
    | PlacementEnded
    | PlacementFailed
    | PlacementUnschedulable
    | PlacementNominated
    | EvictionMarked
    | EvictionSent
    | EvictionRefused
    | EvictionSpared
    | NominationWithdrawn
    | EpochRaised
    | QuotaChanged
    | ReservationChanged
    | ObjectRefused
    | NodeChanged
    | GangScattered
    | FindingReported
    | AuditReported
)
