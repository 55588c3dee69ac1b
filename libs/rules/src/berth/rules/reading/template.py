"""What of a pod's specification decides where it can run: the part that pods and Reservations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from berth.contracts import names
from berth.contracts.kube import Container, PodSpec, PodStatus, Quantity
from berth.contracts.state import BatchContainer, DeviceContainer, PodTemplate
from berth.resources.amounts import parse_amounts
from berth.resources.pod_request import CONTAINERS_MAX, limits_of, request_of, scored_of
from berth.rules.cpus.qos import KUBE_QOS_CLASSES, ContainerSize, kube_qos_class
from berth.rules.device_request import DEVICE_RESOURCES
from berth.rules.ports import host_ports
from berth.rules.reading.findings import Found
from berth.rules.reading.pod_affinity import affinity_of
from berth.rules.reading.topology_spread import topology_spread_of
from berth.rules.reading.volumes import volumes_of

PORT_MAX: Final = 65_535
PRIORITY_MAX: Final = 2**31 - 1
IMAGE_LENGTH_MAX: Final = 1024
NAME_LENGTH_MAX: Final = 63
"""Of a container."""


def template_of(
    spec: PodSpec,
    labels: dict[str, str] | None,
    annotations: dict[str, str],
    found: Found,
    *,
    path: str = "spec",
    default_priority: int = 0,
    status: PodStatus | None = None,
    kube_qos: str = "",
) -> PodTemplate:
    """The template of a specification; `annotations` are those to carry, `path` is where the specification stands.

    `status` is given for a bound pod: while it is being resized it counts with the largest of what it asks for, was
    granted and has. `kube_qos` is the QoS class that the API server says; without it that follows from the containers.
    """
    requests, problems = request_of(spec, path, status=status)
    found += problems
    limits, problems = limits_of(spec, path) if _has_limits(spec) else ({}, [])
    found += (problem for problem in problems if problem not in found)
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
        limits=limits,
        kube_qos=kube_qos if kube_qos in KUBE_QOS_CLASSES else _kube_qos(spec),
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
        device_containers=_device_containers(spec) if len(containers) + len(init) > 1 else [],
        gates=[gate.name for gate in spec.scheduling_gates] if spec.scheduling_gates else [],
        constraints=[*unknown, *constraints_of(spec, path)],
        labels=labels or {},
        annotations=annotations,
        batch_containers=_batch_containers(containers),
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


def _has_limits(spec: PodSpec) -> bool:
    if spec.resources is not None and spec.resources.limits:
        return True
    return any(each.resources.limits for each in (*spec.containers, *(spec.init_containers or ())))


def _kube_qos(spec: PodSpec) -> str:
    """From the containers, as far as they can be read."""
    containers = (*spec.containers, *(spec.init_containers or ()))[:CONTAINERS_MAX]
    return kube_qos_class(
        ContainerSize(parse_amounts(each.resources.requests, "")[0], parse_amounts(each.resources.limits, "")[0])
        for each in containers
    )


def _images(spec: PodSpec) -> list[str]:
    """The images in order; one that no registry could name counts as an image that no node has."""
    containers, init = spec.containers, spec.init_containers or ()
    if len(containers) > CONTAINERS_MAX or len(init) > CONTAINERS_MAX:
        return []
    images = [each.image if len(each.image) <= IMAGE_LENGTH_MAX else "" for each in (*containers, *init)]
    return images if any(images) else []


def _device_containers(spec: PodSpec) -> list[DeviceContainer]:
    """The containers in order, if one of them asks for devices; none where they cannot be told apart by name."""
    containers, init = spec.containers, spec.init_containers or ()
    if len(containers) > CONTAINERS_MAX or len(init) > CONTAINERS_MAX:
        return []
    found = [
        DeviceContainer(
            name=each.name, init=place >= len(containers) and each.restart_policy != "Always", requests=_devices(each)
        )
        for place, each in enumerate((*containers, *init))
    ]
    names = {each.name for each in found if 0 < len(each.name) <= NAME_LENGTH_MAX}
    return found if len(names) == len(found) and any(each.requests for each in found) else []


def _devices(container: Container) -> dict[str, int]:
    asked = {name: text for name, text in (container.resources.requests or {}).items() if name in DEVICE_RESOURCES}
    return {name: amount for name, amount in parse_amounts(asked, "")[0].items() if amount} if asked else {}


def _batch_containers(containers: Sequence[Container]) -> list[BatchContainer]:
    found = [
        BatchContainer(name=each.name, requests=_batch(each.resources.requests), limits=_batch(each.resources.limits))
        for each in containers[:CONTAINERS_MAX]
        if 0 < len(each.name) <= NAME_LENGTH_MAX
    ]
    return [each for each in found if each.requests or each.limits]


def _batch(amounts: dict[str, Quantity] | None) -> dict[str, int]:
    asked = {name: text for name, text in (amounts or {}).items() if name in (names.BATCH_CPU, names.BATCH_MEMORY)}
    return parse_amounts(asked, "")[0] if asked else {}


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
