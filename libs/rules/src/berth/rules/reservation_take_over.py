"""Pre-allocation: a Reservation takes over pods that run, and with them what they hold.

It counts as placed on their node from then on, and they as its users: when they end, what they held is the
Reservation's and no stranger's. Which pods those are says its mode: `Default`, those that its owners accept, best
filling ones first; `Cluster`, those with a label, by the priority that they note. They have to match it as its users
do, and to fit into it: so it needs the policy Restricted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.reservation import ReservedCapacity
from berth.contracts.state import Pod, Reservation
from berth.resources.amounts import Amounts
from berth.rules.numbers import parse_integer
from berth.rules.reservation_fit import RESTRICTED, Matched, allocated_of, reservation_lacks, tracked_names
from berth.rules.reservation_inner import inner_part_of
from berth.rules.reservation_match import failed_check, reservation_request_of
from berth.rules.reservation_owners import PodIdentity, compile_owners
from berth.rules.reservation_restricted import restricted_options
from berth.rules.reservation_score import reservation_score
from berth.rules.scheduler_config.reservation import PreAllocationConfig

FIELD: Final = "spec.preAllocation"
MODE_FIELD: Final = "spec.preAllocationPolicy.mode"
DEFAULT: Final = "Default"
CLUSTER: Final = "Cluster"
TAKE_OVER: Final = "take-over"
LET_GO: Final = "let-go"
"""Actions of the steps that come before such a Reservation is Available."""
TAKEN_MAX: Final = 64
"""So many pods one Reservation takes over at most: each is a step of its decision."""
LET_GO_MAX: Final = 64
"""So many notes are taken off at most before it is Available."""
ENDED: Final = frozenset({"Succeeded", "Failed"})
NO_NUMBER: Final = 0

NONE_MATCHES: Final = "node(s) no pod match reservation with pre allocation required"
NONE_FITS: Final = "node(s) no pod(s) to meet the pre-allocation requirements"


class TakeOver(NamedTuple):
    """How a Reservation takes over pods.

    `capacity` is what matching looks at, `held` what it is going to hold, `inner` what of that users never get,
    `tracked` of what they get nothing beside it. `accept` says whose pods it may take. `priority_key` is the annotation
    that says which come first; empty: those that fill it best. `most` is how many it may take, `is_required` that
    without one it is not placed.
    """

    capacity: ReservedCapacity
    held: Amounts
    inner: Amounts
    tracked: frozenset[str]
    accept: Callable[[PodIdentity], bool]
    priority_key: str
    most: int
    is_required: bool


def misused(mode: str, policy: str) -> list[tuple[str, str]]:
    """What is wrong with the fields of a Reservation that pre-allocates: field and message."""
    found = []
    if policy != RESTRICTED:
        text = "reservation pre allocation is unsupported with current attributes: it needs spec.allocatePolicy"
        found.append((FIELD, f"{text} {RESTRICTED}"))
    if mode not in ("", DEFAULT, CLUSTER):
        found.append((MODE_FIELD, f"{mode[:40]!r} is neither {DEFAULT} nor {CLUSTER}"))
    return found


def take_over_of(reservation: Reservation, config: PreAllocationConfig) -> TakeOver | Problem:
    """How it takes over pods, by its own word and the profile's; or why it cannot."""
    is_cluster = reservation.pre_allocation_mode == CLUSTER
    if is_cluster and not config.enable_cluster_mode:
        return Problem(
            field=MODE_FIELD, message=f"{CLUSTER} needs preAllocationConfig.enableClusterMode of the profile"
        )
    options = restricted_options(reservation.annotations)
    held = reservation.template.requests
    inner = inner_part_of(reservation.annotations)[0]
    tracked = tracked_names(held, [] if isinstance(options, Problem) else options)
    is_several = reservation.pre_allocation_multiple and not reservation.allocate_once
    label = config.cluster_label_key
    return TakeOver(
        capacity=ReservedCapacity(
            name=reservation.name,
            uid=reservation.uid,
            revision=reservation.version,
            phase="",
            allocate_policy=reservation.allocate_policy,
            taints=reservation.taints,
            labels=reservation.labels,
            unschedulable=reservation.unschedulable,
        ),
        held=held,
        inner=inner,
        tracked=frozenset(tracked | inner.keys()),
        accept=(lambda pod: pod.labels.get(label) == "true")
        if is_cluster
        else compile_owners(reservation.owners).accept,
        priority_key=config.cluster_priority_annotation_key if is_cluster else "",
        most=TAKEN_MAX if is_several else 1,
        is_required=reservation.labels.get(names.LABEL_PRE_ALLOCATION_REQUIRED) == "true",
    )


def why_not_taken(take_over: TakeOver, pod: Pod, node_labels: Mapping[str, str]) -> str:
    """What keeps a pod from being taken over, whatever it holds; empty: nothing does."""
    if not pod.node or pod.deleting or pod.phase in ENDED:
        return "does not run"
    wish = reservation_request_of(pod)
    if wish is None or wish.problem is not None:
        return "draws on no reservation"
    return failed_check(wish, take_over.capacity, take_over.accept, node_labels, take_over.held) or ""


def holds_too(take_over: TakeOver, requests: Mapping[str, int], others: Sequence[Mapping[str, int]]) -> bool:
    """Whether a pod of these requests fits into the Reservation beside others that it takes over."""
    used = allocated_of(others, take_over.held)
    matched = Matched(
        take_over.capacity.name,
        RESTRICTED,
        take_over.tracked,
        take_over.held,
        used,
        take_over.inner,
        len(others),
    )
    return len(others) < take_over.most and next(reservation_lacks(requests, matched), None) is None


def in_order(take_over: TakeOver, pods: Iterable[Pod]) -> list[Pod]:
    """Who is taken over first: by the priority that they note, or who fills the Reservation best; then by uid."""
    if take_over.priority_key:
        return sorted(pods, key=lambda pod: (-_priority(pod, take_over.priority_key), pod.uid))
    return sorted(pods, key=lambda pod: (-reservation_score(pod.template.requests, take_over.held, {}), pod.uid))


def _priority(pod: Pod, key: str) -> int:
    return parse_integer(pod.template.annotations.get(key, "")) or NO_NUMBER
