"""What admission makes of a container's device requests.

Requests and limits are as written, quantities by resource name. `koordinator.sh/gpu` becomes compute and memory in
percent, and a container that takes parts of cards says over how many (`koordinator.sh/gpu.shared`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.admission.draft import Draft, list_in, mapping_in
from berth.rules.admission.seam import Case, Refusal
from berth.rules.gpu_request import FAMILY, GPU_SHARED_ALIAS, is_percent, request_field

WHOLE: Final = 100
"""Percent of one card."""
_SHARES: Final = (names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO)


class Resources(NamedTuple):
    """A container's requests and limits."""

    requests: dict[str, str]
    limits: dict[str, str]


def mutate(
    requests: Mapping[str, str] | None, limits: Mapping[str, str] | None, kept_whole: Iterable[str] = ()
) -> Resources | Problem:
    """The container's resources after admission; limits get the values of the requests. None counts as empty.

    The older spelling `koordinator.sh/gpu-shared` is rewritten as well.

    Args:
        requests: as written.
        limits: as written.
        kept_whole: names of vendors whose whole devices are asked for without `gpu.shared`: it is not added beside
            them, since no request of that set is accepted.
    """
    before, limits = dict(requests or {}), dict(limits or {})
    # What limits alone name is requested, too, when the API server fills in defaults.
    asked = {name: text for name, text in limits.items() if name in FAMILY} | before
    amounts, problems = parse_amounts(
        {name: text for name, text in asked.items() if name in FAMILY}, "resources.requests"
    )
    if problems:
        return Problem(field=problems[0][0], message=problems[0][1])
    written: dict[str, str] = {}
    if GPU_SHARED_ALIAS in asked:
        if amounts.get(names.GPU_SHARED, amounts[GPU_SHARED_ALIAS]) != amounts[GPU_SHARED_ALIAS]:
            return Problem(field=request_field(names.GPU_SHARED), message=f"contradicts {GPU_SHARED_ALIAS}")
        written[names.GPU_SHARED] = asked[GPU_SHARED_ALIAS]
        amounts[names.GPU_SHARED] = amounts[GPU_SHARED_ALIAS]
    if names.KOORD_GPU in asked:
        for name in (names.GPU_CORE, names.GPU_MEMORY_RATIO):
            written[name], amounts[name] = asked[names.KOORD_GPU], amounts[names.KOORD_GPU]
    is_whole = not asked.keys().isdisjoint(kept_whole)
    if names.GPU_SHARED not in amounts and any(amounts.get(name) for name in _SHARES) and not is_whole:
        written[names.GPU_SHARED] = str(_cards(amounts))
    if not written:
        return Resources(before, limits)
    gone = {names.KOORD_GPU, GPU_SHARED_ALIAS}
    return Resources(*({n: t for n, t in each.items() if n not in gone} | written for each in (before, limits)))


def validate(requests: Mapping[str, str] | None) -> Refusal | None:
    """What of a container's device requests is forbidden, after mutation; None: nothing."""
    amounts, problems = parse_amounts({n: t for n, t in (requests or {}).items() if n in FAMILY}, "resources.requests")
    if problems:
        return Refusal("badQuantity", *problems[0])
    gpu, shared = amounts.get(names.KOORD_GPU), amounts.get(names.GPU_SHARED)
    if gpu is not None and shared is not None:
        return _forbidden("gpuAndShared", names.KOORD_GPU, "declare GPU and GPU share at same time")
    if gpu is not None and not is_percent(gpu):
        rule = "gpuNotPercentage" if gpu else "gpuZero"
        return _forbidden(
            rule, names.KOORD_GPU, "the requested gpu must be above 0, and at most 100 or a multiple of 100"
        )
    if shared is None:
        return None
    if shared == 0:
        return _forbidden("sharedZero", names.GPU_SHARED, "the requested shared must be above 0")
    if names.NPU_CORE in amounts:
        return None
    memory, ratio = amounts.get(names.GPU_MEMORY), amounts.get(names.GPU_MEMORY_RATIO)
    if memory and ratio:
        return _forbidden("memoryAndRatio", names.GPU_MEMORY, "declare GPU memory and GPU memory ratio at same time")
    if not memory and not ratio:
        return _forbidden("noMemory", names.GPU_SHARED, "declare none of GPU memory and GPU memory ratio")
    for rule, name, called in (
        ("coreNotMultiple", names.GPU_CORE, "gpuCore"),
        ("ratioNotMultiple", names.GPU_MEMORY_RATIO, "gpuMemoryRatio"),
    ):
        amount = amounts.get(name, 0)
        if amount % shared or amount // shared > WHOLE:
            return _forbidden(rule, name, f"the requested {called} must multiple of shared, at most 100 of each card")
    return None


def expand(draft: Draft, kept_whole: Iterable[str]) -> tuple[int, list[Problem]]:
    """Expands the requests of every container and init container; how many changed, and what could not be read."""
    changed, problems = 0, list[Problem]()
    for path, resources in _containers(draft.now):
        requests, limits = (_texts(mapping_in(resources, part)) for part in ("requests", "limits"))
        if FAMILY.isdisjoint(requests) and FAMILY.isdisjoint(limits):
            continue
        found = mutate(requests, limits, kept_whole)
        if isinstance(found, Problem):
            problems.append(Problem(field=f"{_field(path)}.{found.field}", message=found.message))
            continue
        if found != (requests, limits):
            changed += 1
            for part, amounts in zip(("requests", "limits"), found, strict=True):
                if amounts:
                    draft.put((*path, "resources", part), amounts)
    return changed, problems


def device_refusals(pod: Mapping[str, Any]) -> Iterator[Refusal]:
    """What is forbidden of all containers and init containers of a pod."""
    for path, resources in _containers(pod):
        requests = _texts(mapping_in(resources, "requests"))
        refusal = validate(requests) if not FAMILY.isdisjoint(requests) else None
        if refusal is not None:
            yield Refusal(refusal.rule, f"{_field(path)}.{refusal.field}", refusal.message)


def mutating(case: Case) -> None:
    """The rule of mutation."""
    changed, problems = expand(case.draft, case.views.kept_whole)
    for problem in problems:
        case.note(problem)
    if changed:
        case.counts["devices expanded"] += changed


def validating(case: Case) -> None:
    """The rule of validation."""
    for refusal in device_refusals(case.draft.now):
        case.refuse(*refusal)


def _cards(amounts: Mapping[str, int]) -> int:
    ratio, core = amounts.get(names.GPU_MEMORY_RATIO, 0), amounts.get(names.GPU_CORE, 0)
    percent = ratio or core
    return percent // WHOLE if percent > WHOLE and percent % WHOLE == 0 else 1


def _forbidden(rule: str, name: str, message: str) -> Refusal:
    return Refusal(rule, request_field(name), message)


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, int], Mapping[str, Any]]]:
    for field in ("initContainers", "containers"):
        for place, container in enumerate(list_in(pod, "spec", field)):
            yield ("spec", field, place), mapping_in(container, "resources")


def _texts(amounts: Mapping[str, Any]) -> dict[str, str]:
    """Amounts as text; JSON numbers are amounts as well."""
    return {name: value if isinstance(value, str) else str(value) for name, value in amounts.items()}


def _field(path: tuple[str, str, int]) -> str:
    return f"{path[0]}.{path[1]}[{path[2]}]"
