"""The scheduling request of a pod: what a node must have for it, from its containers, init containers, sidecars, pod
level and overhead.

Kubernetes' rule, per resource: containers and sidecars run together; an ordinary init container runs alone beside the
sidecars declared before it; the larger of the two counts. Pod-level cpu, memory and hugepages replace that result,
and the overhead comes on top. During an in-place resize a container counts with the largest of what it asks for, was
granted and has.

Limits follow the same rule; a container without one contributes nothing. Whether the request fits anywhere is not
asked here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from berth.contracts.kube import Container, ContainerStatus, PodSpec, PodStatus
from berth.contracts.names import CPU, MEMORY
from berth.resources.amounts import Amounts, FieldProblem, add_into, clamped, maximum, parse_amounts

CONTAINERS_MAX: Final = 1024

RESIZE_PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"

SCORED_DEFAULTS: Final[Mapping[str, int]] = {CPU: 100, MEMORY: 200 << 20}
"""What a container without a request counts for in scores: thousandths of a core, bytes (kube-scheduler's
`DefaultMilliCPURequest`, `DefaultMemoryRequest`)."""

_NOTHING: Final[Mapping[str, int]] = {}


class ContainerAmounts(NamedTuple):
    """One container. `sidecar`: an init container that is restarted and so runs beside the others.

    `allocated` and `actuated` come from the container's status and are None where it says nothing: what the kubelet
    has granted and what is in force.
    """

    requests: Mapping[str, int] = _NOTHING
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
    overhead: Mapping[str, int] = _NOTHING
    resize_infeasible: bool = False


def pod_requests(pod: PodAmounts, *, with_status: bool = False, defaults: Mapping[str, int] = _NOTHING) -> Amounts:
    """The effective request. `with_status` takes a resize in progress into account, as the scheduler does for running
    pods; `defaults` is what a container counts with where it names no amount.
    """
    infeasible = pod.resize_infeasible

    def of(container: ContainerAmounts) -> Mapping[str, int]:
        amounts = _during_resize(container, infeasible=infeasible) if with_status else container.requests
        return {**defaults, **amounts} if defaults else amounts

    total = _combined([of(each) for each in pod.containers], [(of(each), each.sidecar) for each in pod.init_containers])
    _set_pod_level(total, pod.level_requests)
    add_into(total, pod.overhead)
    return total


def request_of(
    spec: PodSpec, field: str = "spec", *, status: PodStatus | None = None
) -> tuple[Amounts, list[FieldProblem]]:
    """The effective request of a pod's specification, and (field, message) for everything in it that could not be read.

    `status` is given for a pod that is bound: it shows whether the pod is being resized. An unreadable amount is left
    out of the sum, so a request with problems is too small: refuse the pod.
    """
    problems: list[FieldProblem] = []
    reported = _reported(spec, status) if status is not None else None
    if status is not None and reported:
        infeasible = any(
            each.type == RESIZE_PENDING and each.reason == INFEASIBLE and each.status == "True"
            for each in status.conditions or ()
        )
        pod = read_pod(spec, problems, field, reported)._replace(resize_infeasible=infeasible)
        return clamped(pod_requests(pod, with_status=True)), problems
    if len(spec.containers) == 1 and not spec.init_containers and not spec.resources and not spec.overhead:
        only = spec.containers[0].resources.requests
        return _read(only, f"{field}.containers[0].resources.requests", problems), problems
    return clamped(pod_requests(read_pod(spec, problems, field))), problems


def limits_of(spec: PodSpec, field: str = "spec") -> tuple[Amounts, list[FieldProblem]]:
    """The effective limits of a pod's specification, and what of them could not be read, which is left out.

    The overhead raises a limit that there is, and makes none.
    """
    problems: list[FieldProblem] = []
    level, init = spec.resources, spec.init_containers or []
    pod = PodAmounts(
        containers=_limits(spec.containers, f"{field}.containers", problems),
        init_containers=_limits(init, f"{field}.initContainers", problems),
        level_requests=_read(level.limits if level else None, f"{field}.resources.limits", problems),
    )
    total = pod_requests(pod)
    overhead = _read(spec.overhead, f"{field}.overhead", problems)
    add_into(total, {name: amount for name, amount in overhead.items() if total.get(name, 0)})
    return clamped(total), problems


def scored_of(spec: PodSpec, requests: Mapping[str, int], *, status: PodStatus | None = None) -> Amounts:
    """What cpu and memory of a pod count for in scores, where that is not what they are in `requests`, its effective
    request.

    Kubernetes' rule: a container or init container without a request counts as `SCORED_DEFAULTS`, an explicit 0 stays
    0. Requests of the pod level do not count in the pod's own score, and do in the sums of its node: with a `status`,
    which is as in `request_of`.
    """
    if _names_defaults(spec):
        return {}
    reported = _reported(spec, status) if status is not None else {}
    if len(spec.containers) == 1 and not spec.init_containers and not spec.resources and not spec.overhead:
        named = spec.containers[0].resources.requests or _NOTHING
        if not reported:
            return {name: default for name, default in SCORED_DEFAULTS.items() if name not in named}
    pod = read_pod(spec, [], reported=reported)
    if status is None:
        pod = pod._replace(level_requests=_NOTHING)
    scored = clamped(pod_requests(pod, with_status=bool(reported), defaults=SCORED_DEFAULTS))
    return {name: scored.get(name, 0) for name in SCORED_DEFAULTS if scored.get(name, 0) != requests.get(name, 0)}


def _names_defaults(spec: PodSpec) -> bool:
    """Whether every container says what it wants of each, and the pod level does not."""
    if spec.resources is not None and spec.resources.requests:
        return False
    for container in (*spec.containers, *(spec.init_containers or ())):
        requests = container.resources.requests
        if requests is None or CPU not in requests or MEMORY not in requests:
            return False
    return True


def read_pod(
    spec: PodSpec,
    problems: list[FieldProblem],
    field: str = "spec",
    reported: Mapping[str, ContainerStatus] | None = None,
) -> PodAmounts:
    """Every request of the specification as integers, with what the kubelet reports of containers by name; what could
    not be read is appended to `problems` and left out.
    """
    level, init = spec.resources, spec.init_containers or []
    return PodAmounts(
        containers=_read_containers(spec.containers, f"{field}.containers", problems, reported or {}),
        init_containers=_read_containers(init, f"{field}.initContainers", problems, reported or {}),
        level_requests=_read(level.requests if level else None, f"{field}.resources.requests", problems),
        overhead=_read(spec.overhead, f"{field}.overhead", problems),
    )


def _reported(spec: PodSpec, status: PodStatus) -> dict[str, ContainerStatus]:
    """What the kubelet says of containers, where it differs from the specification: those are being resized.

    Text is compared with text, since nearly all pods are not resized and the API server writes amounts in one way.
    An ordinary init container cannot be resized.
    """
    statuses = status.container_statuses or ()
    if status.init_container_statuses:
        statuses = [*statuses, *status.init_container_statuses]
    known = {each.name: each for each in statuses if each.allocated_resources is not None or each.resources is not None}
    if not known:
        return {}
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    found = {}
    for container in (*spec.containers, *sidecars):
        each = known.get(container.name)
        if each is not None:
            wanted = container.resources.requests or {}
            actuated = each.resources.requests if each.resources is not None else None
            if any(amounts != wanted for amounts in (each.allocated_resources, actuated) if amounts is not None):
                found[container.name] = each
    return found


def _read_containers(
    containers: Sequence[Container],
    field: str,
    problems: list[FieldProblem],
    reported: Mapping[str, ContainerStatus],
) -> list[ContainerAmounts]:
    if len(containers) > CONTAINERS_MAX:
        problems.append((field, f"has {len(containers)} entries, at most {CONTAINERS_MAX} are accepted"))
        return []
    return [
        _with_status(
            ContainerAmounts(
                requests=_read(each.resources.requests, f"{field}[{position}].resources.requests", problems),
                sidecar=each.restart_policy == "Always",
            ),
            reported.get(each.name),
            problems,
        )
        for position, each in enumerate(containers)
    ]


def _limits(containers: Sequence[Container], field: str, problems: list[FieldProblem]) -> list[ContainerAmounts]:
    if len(containers) > CONTAINERS_MAX:
        problems.append((field, f"has {len(containers)} entries, at most {CONTAINERS_MAX} are accepted"))
        return []
    return [
        ContainerAmounts(
            requests=_read(each.resources.limits, f"{field}[{place}].resources.limits", problems),
            sidecar=each.restart_policy == "Always",
        )
        for place, each in enumerate(containers)
    ]


def _with_status(
    container: ContainerAmounts, status: ContainerStatus | None, problems: list[FieldProblem]
) -> ContainerAmounts:
    if status is None:
        return container
    allocated, actuated = status.allocated_resources, status.resources.requests if status.resources else None
    field = f"status.containerStatuses[{status.name}]"
    return container._replace(
        allocated=None if allocated is None else _read(allocated, f"{field}.allocatedResources", problems),
        actuated=None if actuated is None else _read(actuated, f"{field}.resources.requests", problems),
    )


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
