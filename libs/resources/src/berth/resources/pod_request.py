"""The scheduling request of a pod: what a node must have for it, from its containers, init containers, sidecars, pod
level and overhead.

Kubernetes' rule, per resource: containers and sidecars run together; an ordinary init container runs alone beside the
sidecars declared before it; the larger of the two counts. Pod-level cpu, memory and hugepages replace that result,
and the overhead comes on top. During an in-place resize a container counts with the largest of what it asks for, was
granted and has.

Whether the request fits anywhere is not asked here. Limits follow the same rule, from the specification only.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.kube import Container, PodSpec
from berth.contracts.names import CPU, MEMORY
from berth.resources.amounts import Amounts, FieldProblem, add_into, clamped, maximum, parse_amounts

CONTAINERS_MAX: Final = 1024

_NOTHING: Final[Mapping[str, int]] = {}


class ContainerAmounts(NamedTuple):
    """One container. `sidecar`: an init container that is restarted and so runs beside the others.

    `allocated` and `actuated` come from the container's status and are None where it says nothing: what the kubelet
    has granted and what is in force.
    """

    requests: Mapping[str, int] = _NOTHING
    limits: Mapping[str, int] = _NOTHING
    sidecar: bool = False
    allocated: Mapping[str, int] | None = None
    actuated: Mapping[str, int] | None = None


class PodAmounts(NamedTuple):
    """A pod's amounts as written, before they are combined. `resize_infeasible`: the kubelet refused the new size for
    good.
    """

    containers: Sequence[ContainerAmounts] = ()
    init_containers: Sequence[ContainerAmounts] = ()
    level_requests: Mapping[str, int] = _NOTHING
    level_limits: Mapping[str, int] = _NOTHING
    overhead: Mapping[str, int] = _NOTHING
    resize_infeasible: bool = False


def pod_requests(pod: PodAmounts, *, with_overhead: bool = True, with_status: bool = False) -> Amounts:
    """The effective request. `with_status` takes a resize in progress into account, as the scheduler does for running
    pods.
    """
    infeasible = pod.resize_infeasible

    def of(container: ContainerAmounts) -> Mapping[str, int]:
        return _during_resize(container, infeasible=infeasible) if with_status else container.requests

    total = _combined([of(each) for each in pod.containers], [(of(each), each.sidecar) for each in pod.init_containers])
    _set_pod_level(total, pod.level_requests)
    if with_overhead:
        add_into(total, pod.overhead)
    return total


def pod_limits(pod: PodAmounts, *, with_overhead: bool = True) -> Amounts:
    """The effective limit: no limit adds nothing, and overhead joins only resources that have a limit."""
    total = _combined(
        [each.limits for each in pod.containers], [(each.limits, each.sidecar) for each in pod.init_containers]
    )
    _set_pod_level(total, pod.level_limits)
    if with_overhead:
        add_into(total, {name: amount for name, amount in pod.overhead.items() if total.get(name)})
    return total


def request_of(spec: PodSpec, field: str = "spec") -> tuple[Amounts, list[FieldProblem]]:
    """The effective request of a pod's specification, and (field, message) for everything in it that could not be read.

    An unreadable amount is left out of the sum, so a request with problems is too small: refuse the pod.
    """
    problems: list[FieldProblem] = []
    if len(spec.containers) == 1 and not spec.init_containers and not spec.resources and not spec.overhead:
        only = spec.containers[0].resources.requests
        return _read(only, f"{field}.containers[0].resources.requests", problems), problems
    return clamped(pod_requests(read_pod(spec, problems, field))), problems


def read_pod(spec: PodSpec, problems: list[FieldProblem], field: str = "spec", *, limits: bool = False) -> PodAmounts:
    """Every request of the specification as integers, limits only when asked for; what could not be read is appended
    to `problems` and left out.
    """
    level, init = spec.resources, spec.init_containers or []
    return PodAmounts(
        containers=_read_containers(spec.containers, f"{field}.containers", problems, limits=limits),
        init_containers=_read_containers(init, f"{field}.initContainers", problems, limits=limits),
        level_requests=_read(level.requests if level else None, f"{field}.resources.requests", problems),
        level_limits=_read(level.limits if level and limits else None, f"{field}.resources.limits", problems),
        overhead=_read(spec.overhead, f"{field}.overhead", problems),
    )


def _read_containers(
    containers: Sequence[Container], field: str, problems: list[FieldProblem], *, limits: bool
) -> list[ContainerAmounts]:
    if len(containers) > CONTAINERS_MAX:
        problems.append((field, f"has {len(containers)} entries, at most {CONTAINERS_MAX} are accepted"))
        return []
    return [
        ContainerAmounts(
            requests=_read(each.resources.requests, f"{field}[{position}].resources.requests", problems),
            limits=_read(each.resources.limits if limits else None, f"{field}[{position}].resources.limits", problems),
            sidecar=each.restart_policy == "Always",
        )
        for position, each in enumerate(containers)
    ]


def _read(amounts: object, field: str, problems: list[FieldProblem]) -> Amounts:
    if amounts is None:
        return {}
    read, found = parse_amounts(amounts, field)
    problems.extend(found)
    return read


def _combined(containers: Iterable[Mapping[str, int]], inits: Iterable[tuple[Mapping[str, int], bool]]) -> Amounts:
    """The larger of what runs together in the end and what any start-up step needs."""
    together: Amounts = {}
    for amounts in containers:
        add_into(together, amounts)
    sidecars: Amounts = {}
    peak: Amounts = {}
    for amounts, sidecar in inits:
        if sidecar:
            add_into(sidecars, amounts)
            peak = maximum(peak, sidecars)
        else:
            step = dict(sidecars)
            add_into(step, amounts)
            peak = maximum(peak, step)
    add_into(together, sidecars)
    return maximum(together, peak)


def _during_resize(container: ContainerAmounts, *, infeasible: bool) -> Mapping[str, int]:
    """The largest of wanted, granted and in force; a size that was refused for good is not wanted any more."""
    reported = [amounts for amounts in (container.allocated, container.actuated) if amounts is not None]
    if not reported:
        return container.requests
    largest: Amounts = {} if infeasible else dict(container.requests)
    for amounts in reported:
        largest = maximum(largest, amounts)
    return largest


def _set_pod_level(total: Amounts, level: Mapping[str, int]) -> None:
    for name, amount in level.items():
        if name in {CPU, MEMORY} or name.startswith("hugepages-"):
            total[name] = amount
