"""What of a pod's specification decides where it can run: the part that pods and Reservations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from berth.cluster_watcher.core.findings import Found
from berth.cluster_watcher.core.pod_affinity import affinity_of
from berth.cluster_watcher.core.topology_spread import topology_spread_of
from berth.cluster_watcher.core.volumes import volumes_of
from berth.contracts.kube import Container, PodSpec, PodStatus
from berth.contracts.state import PodTemplate
from berth.resources.amounts import parse_amounts
from berth.resources.pod_request import CONTAINERS_MAX, request_of, scored_of
from berth.rules.ports import host_ports

PORT_MAX: Final = 65_535
PRIORITY_MAX: Final = 2**31 - 1
IMAGE_LENGTH_MAX: Final = 1024


def template_of(
    spec: PodSpec,
    labels: dict[str, str] | None,
    annotations: dict[str, str],
    found: Found,
    *,
    path: str = "spec",
    default_priority: int = 0,
    status: PodStatus | None = None,
) -> PodTemplate:
    """The template of a specification; `annotations` are those to carry, `path` is where the specification stands.

    `status` is given for a bound pod: while it is being resized it counts with the largest of what it asks for, was
    granted and has.
    """
    requests, problems = request_of(spec, path, status=status)
    found += problems
    if len(spec.containers) > 1 or spec.init_containers:
        _check_names(spec, path, found)
    containers, init = spec.containers, spec.init_containers or ()
    has_ports = any(each.ports for each in containers) or any(each.ports for each in init)
    if has_ports:
        _check_ports(containers, f"{path}.containers", found)
        _check_ports(init, f"{path}.initContainers", found)
    spread = spec.topology_spread_constraints
    volumes, unknown = volumes_of(spec.volumes, f"{path}.volumes", found) if spec.volumes else ([], [])
    return PodTemplate(
        requests=requests,
        overhead=parse_amounts(spec.overhead, "")[0] if spec.overhead else {},
        scored=scored_of(spec, requests, status=status),
        scheduler=spec.scheduler_name,
        priority=default_priority if spec.priority is None else _priority(spec.priority, path, found),
        priority_class=spec.priority_class_name,
        preemption_policy=spec.preemption_policy,
        node_selector=spec.node_selector or {},
        affinity=affinity_of(spec.affinity, f"{path}.affinity", found) if spec.affinity is not None else None,
        topology_spread=topology_spread_of(spread, f"{path}.topologySpreadConstraints", found) if spread else [],
        tolerations=spec.tolerations or [],
        host_ports=host_ports(containers, init) if has_ports else [],
        volumes=volumes,
        images=_images(spec),
        gates=[gate.name for gate in spec.scheduling_gates] if spec.scheduling_gates else [],
        constraints=[*unknown, *constraints_of(spec, path)],
        labels=labels or {},
        annotations=annotations,
    )


def constraints_of(spec: PodSpec, path: str = "spec") -> list[str]:
    """Paths of the fields that limit where the pod can run and that the template does not carry, volumes apart.

    Preferences count too: a pod must not be placed as if a field were not there.
    """
    constraints: list[str] = []
    if spec.resource_claims:
        constraints.append(f"{path}.resourceClaims")
    if spec.resources is not None and spec.resources.claims:
        constraints.append(f"{path}.resources.claims")
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers or ())):
        constraints += [
            f"{path}.{field}[{position}].resources.claims"
            for position, container in enumerate(containers)
            if container.resources.claims
        ]
    return constraints


def _images(spec: PodSpec) -> list[str]:
    """The images in order; one that no registry could name counts as an image that no node has."""
    containers, init = spec.containers, spec.init_containers or ()
    if len(containers) > CONTAINERS_MAX or len(init) > CONTAINERS_MAX:
        return []
    images = [each.image if len(each.image) <= IMAGE_LENGTH_MAX else "" for each in (*containers, *init)]
    return images if any(images) else []


def _priority(value: int, path: str, found: Found) -> int:
    if -PRIORITY_MAX - 1 <= value <= PRIORITY_MAX:
        return value
    found.append((f"{path}.priority", "is not a 32-bit integer"))
    return 0


def _check_names(spec: PodSpec, path: str, found: Found) -> None:
    """Containers and init containers share one space of names."""
    names: set[str] = set()
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers or ())):
        for position, container in enumerate(containers):
            if container.name and container.name in names:
                message = f"{container.name[:80]!r} is the name of another container too"
                found.append((f"{path}.{field}[{position}].name", message))
            names.add(container.name)


def _check_ports(containers: Sequence[Container], path: str, found: Found) -> None:
    for position, container in enumerate(containers):
        for index, port in enumerate(container.ports or ()):
            if not 0 <= port.host_port <= PORT_MAX:
                message = f"{port.host_port} is not between 0 and {PORT_MAX}"
                found.append((f"{path}[{position}].ports[{index}].hostPort", message))
