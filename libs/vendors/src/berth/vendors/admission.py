"""What admission makes of a container's device requests, as Koordinator's webhook does.

Requests and limits are as written, quantities by resource name. `koordinator.sh/gpu` becomes compute and memory in
percent, and a container that takes parts of cards says over how many (`koordinator.sh/gpu.shared`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.gpu_request import FAMILY, GPU_SHARED_ALIAS, request_field
from berth.vendors.registry import REGISTRY, Registry
from berth.vendors.vendor import WHOLE

_SHARES: Final = (names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO)


class Resources(NamedTuple):
    """A container's requests and limits."""

    requests: dict[str, str]
    limits: dict[str, str]


def mutate(
    requests: Mapping[str, str] | None, limits: Mapping[str, str] | None, registry: Registry = REGISTRY
) -> Resources | Problem:
    """The container's resources after admission; limits get the values of the requests. None counts as empty.

    The older spelling `koordinator.sh/gpu-shared` is rewritten as well. Beside names of vendors whose whole devices are
    asked for without it, `gpu.shared` is not added: no request of that set is accepted.
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
    kept = {name for vendor in registry for name in vendor.keeps_whole}
    if names.GPU_SHARED not in amounts and any(amounts.get(name) for name in _SHARES) and kept.isdisjoint(asked):
        written[names.GPU_SHARED] = str(_cards(amounts))
    if not written:
        return Resources(before, limits)
    gone = {names.KOORD_GPU, GPU_SHARED_ALIAS}
    return Resources(*({n: t for n, t in each.items() if n not in gone} | written for each in (before, limits)))


def validate(requests: Mapping[str, str] | None, *, enabled: bool = True) -> Problem | None:
    """What of a container's device requests is forbidden, after mutation; None: nothing, or validation is off."""
    if not enabled:
        return None
    amounts, problems = parse_amounts({n: t for n, t in (requests or {}).items() if n in FAMILY}, "resources.requests")
    if problems:
        return Problem(field=problems[0][0], message=problems[0][1])
    gpu, shared = amounts.get(names.KOORD_GPU), amounts.get(names.GPU_SHARED)
    if gpu is not None and shared is not None:
        return _forbidden(names.KOORD_GPU, "declare GPU and GPU share at same time")
    if gpu is not None and (gpu == 0 or (gpu > WHOLE and gpu % WHOLE)):
        return _forbidden(names.KOORD_GPU, "the requested gpu must be above 0, and at most 100 or a multiple of 100")
    if shared is None:
        return None
    if shared == 0:
        return _forbidden(names.GPU_SHARED, "the requested shared must be above 0")
    if names.NPU_CORE in amounts:
        return None
    memory, ratio = names.GPU_MEMORY in amounts, names.GPU_MEMORY_RATIO in amounts
    if memory and ratio:
        return _forbidden(names.GPU_MEMORY, "declare GPU memory and GPU memory ratio at same time")
    if not memory and not ratio:
        return _forbidden(names.GPU_SHARED, "declare none of GPU memory and GPU memory ratio")
    for name, called in ((names.GPU_CORE, "gpuCore"), (names.GPU_MEMORY_RATIO, "gpuMemoryRatio")):
        amount = amounts.get(name, 0)
        if amount % shared or amount // shared > WHOLE:
            return _forbidden(name, f"the requested {called} must multiple of shared, at most 100 of each card")
    return None


def _cards(amounts: Mapping[str, int]) -> int:
    ratio, core = amounts.get(names.GPU_MEMORY_RATIO, 0), amounts.get(names.GPU_CORE, 0)
    percent = ratio or core
    return percent // WHOLE if percent > WHOLE and percent % WHOLE == 0 else 1


def _forbidden(name: str, message: str) -> Problem:
    return Problem(field=request_field(name), message=message)
