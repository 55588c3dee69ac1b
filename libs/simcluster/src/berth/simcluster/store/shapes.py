"""The types of the fields that the store relies on, per kind.

The API server refuses a body whose types don't fit while it decodes it (400, naming the place); these partial structs
do the same, so that everything behind them may take the types for granted. Fields that are not named here are kept
and not looked at.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from berth.simcluster.store.crd_shape import Crd
from berth.simcluster.store.objects import Json
from berth.simcluster.store.resource import CRDS, LEASES, NODES, PDBS, PODS, PRIORITY_CLASSES, ResourceType
from berth.simcluster.store.shape_base import Plain, Shape
from berth.simcluster.store.status import bad_request


class Condition(Shape):
    """An entry of `status.conditions`."""

    type: str | None = None
    status: str | None = None


class Resources(Shape):
    """`resources` of a container."""

    requests: Json | None = None
    limits: Json | None = None


class Container(Shape):
    """A container."""

    name: str | None = None
    image: str | None = None
    resources: Resources | None = None


class PodSpec(Shape):
    """`spec` of a pod."""

    containers: list[Container] | None = None
    initContainers: list[Container] | None = None  # noqa: N815
    overhead: Json | None = None
    tolerations: list[Json] | None = None
    schedulingGates: list[Json] | None = None  # noqa: N815
    topologySpreadConstraints: list[Json] | None = None  # noqa: N815
    volumes: list[Json] | None = None
    affinity: Json | None = None
    nodeSelector: dict[str, str] | None = None  # noqa: N815
    nodeName: str | None = None  # noqa: N815
    schedulerName: str | None = None  # noqa: N815
    restartPolicy: str | None = None  # noqa: N815
    priorityClassName: str | None = None  # noqa: N815
    priority: int | None = None
    preemptionPolicy: str | None = None  # noqa: N815
    terminationGracePeriodSeconds: int | None = None  # noqa: N815


class ContainerStatus(Shape):
    """An entry of `status.containerStatuses`."""

    state: Json | None = None


class PodStatus(Shape):
    """`status` of a pod."""

    phase: str | None = None
    conditions: list[Condition] | None = None
    containerStatuses: list[ContainerStatus] | None = None  # noqa: N815


class Pod(Plain):
    """A pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(Shape):
    """A taint."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(Shape):
    """`spec` of a node."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class Address(Shape):
    """An address of a node."""

    type: str | None = None
    address: str | None = None


class NodeStatus(Shape):
    """`status` of a node."""

    capacity: Json | None = None
    allocatable: Json | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None


class Node(Plain):
    """A node."""

    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class PriorityClass(Plain):
    """A PriorityClass."""

    value: int | None = None
    globalDefault: bool | None = None  # noqa: N815
    preemptionPolicy: str | None = None  # noqa: N815


class Expression(Shape):
    """A requirement of a label selector."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class Selector(Shape):
    """A label selector."""

    matchLabels: dict[str, str] | None = None  # noqa: N815
    matchExpressions: list[Expression] | None = None  # noqa: N815


class BudgetSpec(Shape):
    """`spec` of a PodDisruptionBudget."""

    selector: Selector | None = None
    minAvailable: int | str | None = None  # noqa: N815
    maxUnavailable: int | str | None = None  # noqa: N815
    unhealthyPodEvictionPolicy: str | None = None  # noqa: N815


class Budget(Plain):
    """A PodDisruptionBudget."""

    spec: BudgetSpec | None = None
    status: Json | None = None


class LeaseSpec(Shape):
    """`spec` of a Lease."""

    holderIdentity: str | None = None  # noqa: N815
    leaseDurationSeconds: int | None = None  # noqa: N815
    leaseTransitions: int | None = None  # noqa: N815
    acquireTime: datetime | None = None  # noqa: N815
    renewTime: datetime | None = None  # noqa: N815


class Lease(Plain):
    """A Lease."""

    spec: LeaseSpec | None = None


class Target(Shape):
    """What a Binding points to."""

    kind: str | None = None
    name: str | None = None


class Binding(Plain):
    """A Binding."""

    target: Target | None = None


class Preconditions(Shape):
    """Of a `DeleteOptions`."""

    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815


class DeleteOptions(Shape):
    """A DeleteOptions."""

    gracePeriodSeconds: int | None = None  # noqa: N815
    preconditions: Preconditions | None = None
    dryRun: list[str] | None = None  # noqa: N815


class Eviction(Plain):
    """An Eviction."""

    deleteOptions: DeleteOptions | None = None  # noqa: N815


_BY_RESOURCE: dict[tuple[str, str], type[Shape]] = {
    PODS.id: Pod,
    NODES.id: Node,
    PRIORITY_CLASSES.id: PriorityClass,
    PDBS.id: Budget,
    LEASES.id: Lease,
    CRDS.id: Crd,
}


def check_shape(resource: ResourceType, data: Any) -> None:
    """Raise 400 if a field of an object has a type that its kind does not allow."""
    check(data, _BY_RESOURCE.get(resource.id, Plain), resource.kind)


def check(data: Any, shape: type[Shape], kind: str) -> None:
    """Raise 400 if the data don't fit a shape; the text names the place, such as `$.spec.nodeName`."""
    try:
        msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body cannot be handled as a {kind}: {error}") from error
