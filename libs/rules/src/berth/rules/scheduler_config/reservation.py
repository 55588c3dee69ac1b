"""Koordinator's ReservationArgs: shape, defaults, and what is refused in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from berth.contracts.base import Integer, Problem
from berth.contracts.names import ANNOTATION_PRE_ALLOCATABLE_PRIORITY, LABEL_PRE_ALLOCATABLE, READ_PREFIXES
from berth.rules.node_fit import is_extended_resource
from berth.rules.reservation_ignored_resources import IgnoredResources
from berth.rules.scheduler_config.shapes import Args, Strict

PERCENT_MAX: Final = 100
GC_DURATION_S: Final = 86_400
GC_INTERVAL_S: Final = 60
KUBERNETES: Final = "kubernetes.io"


class PreAllocationConfig(Strict, frozen=True, kw_only=True):
    """Take-over of running pods: whether the mode Cluster may be used, which label and priority it goes by, and
    whether a place without a take-over comes first."""

    enable_cluster_mode: bool = False
    cluster_label_key: str = LABEL_PRE_ALLOCATABLE
    cluster_priority_annotation_key: str = ANNOTATION_PRE_ALLOCATABLE_PRIORITY
    prefer_no_pre_allocated_pods: bool = False


class SelectorIndex(Strict, frozen=True, kw_only=True):
    """An index of the peer's; Berth finds Reservations by what their owners name, so it changes nothing."""

    enabled: bool = False
    key_prefixes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class ReservationArgs(Args, frozen=True, kw_only=True):
    """ReservationArgs: extended resources of which Reservations are not asked, by full name or by domain.

    Workers, intervals and the index are the peer's own and change nothing here. How long finished Reservations stay is
    a setting of reservation-manager.
    """

    enable_preemption: bool = False
    min_candidate_nodes_percentage: Integer = 10
    min_candidate_nodes_absolute: Integer = 100
    controller_workers: Integer = 1
    gc_duration_seconds: Integer = GC_DURATION_S
    gc_interval_seconds: Integer = GC_INTERVAL_S
    disable_garbage_collection: bool = False
    resync_interval_seconds: Integer = 60
    pre_allocation_config: PreAllocationConfig = PreAllocationConfig()
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    reservation_selector_index: SelectorIndex = SelectorIndex()

    @property
    def ignored(self) -> IgnoredResources:
        """What is left out of the amounts."""
        return IgnoredResources(self.ignored_resources, self.ignored_resource_groups)


def problems_of(args: ReservationArgs, path: str) -> Iterator[Problem]:
    """What is wrong with the arguments. `path` is where they stand."""
    if args.enable_preemption:
        message = "is not built: whether pods leave for others is DefaultPreemption's"
        yield Problem(field=f"{path}.enablePreemption", message=message)
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if not 0 <= percentage <= PERCENT_MAX:
        message = f"{percentage} is not between 0 and {PERCENT_MAX}"
        yield Problem(field=f"{path}.minCandidateNodesPercentage", message=message)
    if absolute < 0:
        yield Problem(field=f"{path}.minCandidateNodesAbsolute", message="must not be negative")
    for field, value in (
        ("controllerWorkers", args.controller_workers),
        ("resyncIntervalSeconds", args.resync_interval_seconds),
        ("gcIntervalSeconds", args.gc_interval_seconds),
    ):
        if value <= 0:
            yield Problem(field=f"{path}.{field}", message="must be greater than 0")
    if args.gc_duration_seconds != GC_DURATION_S or args.disable_garbage_collection:
        field = "gcDurationSeconds" if not args.disable_garbage_collection else "disableGarbageCollection"
        message = "is not taken from here: BERTH_COLLECT_AFTER_S of reservation-manager says it"
        yield Problem(field=f"{path}.{field}", message=message)
    for field, key in (
        ("clusterLabelKey", args.pre_allocation_config.cluster_label_key),
        ("clusterPriorityAnnotationKey", args.pre_allocation_config.cluster_priority_annotation_key),
    ):
        if not key:
            yield Problem(field=f"{path}.preAllocationConfig.{field}", message="must name a key")
    if not args.pre_allocation_config.cluster_priority_annotation_key.startswith(READ_PREFIXES):
        field = f"{path}.preAllocationConfig.clusterPriorityAnnotationKey"
        yield Problem(field=field, message=f"is not read: only those that begin with {', '.join(READ_PREFIXES)}")
    for at, name in enumerate(args.ignored_resources):
        if not is_extended_resource(name):
            message = f"{name[:80]!r} is no extended resource: those of Kubernetes are always looked at"
            yield Problem(field=f"{path}.ignoredResources[{at}]", message=message)
    for at, group in enumerate(args.ignored_resource_groups):
        field = f"{path}.ignoredResourceGroups[{at}]"
        if not group or "/" in group:
            yield Problem(field=field, message="must be a domain without a slash")
        elif group == KUBERNETES or group.endswith(f".{KUBERNETES}"):
            yield Problem(field=field, message="is Kubernetes' own: its resources are always looked at")
