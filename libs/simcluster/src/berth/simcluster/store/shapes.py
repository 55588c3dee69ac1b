"""The types of the fields that the store relies on, per kind.

The API server refuses a body whose types don't fit while it decodes it (400, naming the place); these partial structs
do the same, so that everything behind them may take the types for granted. Fields that are not named here are kept
and not looked at.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.simcluster.store.objects import Json
from berth.simcluster.store.resource import CRDS, NODES, PDBS, PODS, PRIORITY_CLASSES, ResourceType
from berth.simcluster.store.status import bad_request


class _Shape(msgspec.Struct, kw_only=True):
    """All fields may be absent or null."""


class Meta(_Shape):
    """ObjectMeta."""

    name: str | None = None
    generateName: str | None = None  # noqa: N815 - names of the wire
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[Json] | None = None  # noqa: N815


class Plain(_Shape):
    """Any object."""

    metadata: Meta | None = None


class Condition(_Shape):
    """An entry of `status.conditions`."""

    type: str | None = None
    status: str | None = None


class Resources(_Shape):
    """`resources` of a container."""

    requests: Json | None = None
    limits: Json | None = None


class Container(_Shape):
    """A container."""

    name: str | None = None
    image: str | None = None
    resources: Resources | None = None


class PodSpec(_Shape):
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


class ContainerStatus(_Shape):
    """An entry of `status.containerStatuses`."""

    state: Json | None = None


class PodStatus(_Shape):
    """`status` of a pod."""

    phase: str | None = None
    conditions: list[Condition] | None = None
    containerStatuses: list[ContainerStatus] | None = None  # noqa: N815


class Pod(Plain):
    """A pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(_Shape):
    """A taint."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(_Shape):
    """`spec` of a node."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class Address(_Shape):
    """An address of a node."""

    type: str | None = None
    address: str | None = None


class NodeStatus(_Shape):
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


class Expression(_Shape):
    """A requirement of a label selector."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class Selector(_Shape):
    """A label selector."""

    matchLabels: dict[str, str] | None = None  # noqa: N815
    matchExpressions: list[Expression] | None = None  # noqa: N815


class BudgetSpec(_Shape):
    """`spec` of a PodDisruptionBudget."""

    selector: Selector | None = None
    minAvailable: int | str | None = None  # noqa: N815
    maxUnavailable: int | str | None = None  # noqa: N815
    unhealthyPodEvictionPolicy: str | None = None  # noqa: N815


class Budget(Plain):
    """A PodDisruptionBudget."""

    spec: BudgetSpec | None = None
    status: Json | None = None


class SchemaNode(_Shape, rename={"one_of": "oneOf", "any_of": "anyOf", "all_of": "allOf", "not_": "not"}):
    """A node of an `openAPIV3Schema`."""

    type: str | None = None
    format: str | None = None
    pattern: str | None = None
    properties: dict[str, SchemaNode] | None = None
    additionalProperties: bool | SchemaNode | None = None  # noqa: N815
    items: SchemaNode | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    nullable: bool | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusiveMinimum: bool | None = None  # noqa: N815
    exclusiveMaximum: bool | None = None  # noqa: N815
    minLength: int | None = None  # noqa: N815
    maxLength: int | None = None  # noqa: N815
    minItems: int | None = None  # noqa: N815
    maxItems: int | None = None  # noqa: N815
    minProperties: int | None = None  # noqa: N815
    maxProperties: int | None = None  # noqa: N815
    all_of: list[SchemaNode] | None = None
    any_of: list[SchemaNode] | None = None
    one_of: list[SchemaNode] | None = None
    not_: SchemaNode | None = None


class VersionSchema(_Shape):
    """`schema` of a version."""

    openAPIV3Schema: SchemaNode | None = None  # noqa: N815


class Version(_Shape):
    """A version of a CRD."""

    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    subresources: Json | None = None
    schema: VersionSchema | None = None


class Names(_Shape):
    """`names` of a CRD."""

    kind: str | None = None
    plural: str | None = None
    shortNames: list[str] | None = None  # noqa: N815


class CrdSpec(_Shape):
    """`spec` of a CRD."""

    group: str | None = None
    scope: str | None = None
    names: Names | None = None
    versions: list[Version] | None = None


class Crd(Plain):
    """A CustomResourceDefinition."""

    spec: CrdSpec | None = None


class Target(_Shape):
    """What a Binding points to."""

    kind: str | None = None
    name: str | None = None


class Binding(Plain):
    """A Binding."""

    target: Target | None = None


class Preconditions(_Shape):
    """Of a `DeleteOptions`."""

    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815


class DeleteOptions(_Shape):
    """A DeleteOptions."""

    gracePeriodSeconds: int | None = None  # noqa: N815
    preconditions: Preconditions | None = None
    dryRun: list[str] | None = None  # noqa: N815


class Eviction(Plain):
    """An Eviction."""

    deleteOptions: DeleteOptions | None = None  # noqa: N815


_BY_RESOURCE: dict[tuple[str, str], type[_Shape]] = {
    PODS.id: Pod,
    NODES.id: Node,
    PRIORITY_CLASSES.id: PriorityClass,
    PDBS.id: Budget,
    CRDS.id: Crd,
}


def check_shape(resource: ResourceType, data: Any) -> None:
    """Raise 400 if a field of an object has a type that its kind does not allow."""
    check(data, _BY_RESOURCE.get(resource.id, Plain), resource.kind)


def check(data: Any, shape: type[_Shape], kind: str) -> None:
    """Raise 400 if the data don't fit a shape; the text names the place, such as `$.spec.nodeName`."""
    try:
        msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body cannot be handled as a {kind}: {error}") from error
