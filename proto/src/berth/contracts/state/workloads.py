"""What pods belong to: gangs, owners, disruption budgets, services."""

from __future__ import annotations

from berth.contracts.base import Integer, Message, Problem
from berth.contracts.kube import LabelSelector


class PodDisruptionBudget(Message, frozen=True, kw_only=True, tag="poddisruptionbudget.seen.v1"):
    """A PodDisruptionBudget. Counts are numbers, percentages text; `disrupted` names pods whose eviction it has counted
    already."""

    namespace: str
    name: str
    version: Integer
    selector: LabelSelector | None = None
    min_available: Integer | str | None = None
    max_unavailable: Integer | str | None = None
    disruptions_allowed: Integer = 0
    disrupted: list[str] = []


class Service(Message, frozen=True, kw_only=True, tag="service.seen.v1"):
    """A Service: it selects the pods of its namespace that have all labels of `selector`; an empty one selects none.

    Of this kind and of the controllers below, changes that leave the message as it was are not written: `version` is
    that of the last one that counted.
    """

    namespace: str
    name: str
    version: Integer
    selector: dict[str, str] = {}


class ReplicationController(Message, frozen=True, kw_only=True, tag="replicationcontroller.seen.v1"):
    """A ReplicationController, with the labels that its pods have."""

    namespace: str
    name: str
    version: Integer
    selector: dict[str, str] = {}


class ReplicaSet(Message, frozen=True, kw_only=True, tag="replicaset.seen.v1"):
    """A ReplicaSet; `selector` None: it has none that could be carried."""

    namespace: str
    name: str
    version: Integer
    selector: LabelSelector | None = None


class StatefulSet(Message, frozen=True, kw_only=True, tag="statefulset.seen.v1"):
    """A StatefulSet; `selector` as of a ReplicaSet."""

    namespace: str
    name: str
    version: Integer
    selector: LabelSelector | None = None


class PodGroup(Message, frozen=True, kw_only=True, tag="podgroup.seen.v1"):
    """A PodGroup: a gang by object. `phase` and the counts repeat its status."""

    namespace: str
    name: str
    uid: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    min_member: Integer = 0
    schedule_timeout_s: Integer | None = None
    created: str = ""
    phase: str = ""
    occupied_by: str = ""
    scheduled: Integer = 0
    running: Integer = 0
    succeeded: Integer = 0
    failed: Integer = 0
    schedule_start_time: str = ""
    problems: list[Problem] = []
