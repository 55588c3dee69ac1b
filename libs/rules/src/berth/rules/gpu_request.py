"""What a pod asks of GPUs and NPUs, in one form.

Users write whole cards (`nvidia.com/gpu: 2`), percent (`koordinator.sh/gpu: 50`), percent of compute and memory, or
bytes. Here a request is checked against the combinations that Koordinator's scheduler accepts, rewritten to gpu-core,
gpu-memory-ratio or gpu-memory, and divided over cards. Amounts are those of the whole pod, already summed, as
integers in the resource's own unit. What node or card serves it is not decided here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.names import (
    AMD_GPU,
    DCU_GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    KOORD_GPU,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    NVIDIA_GPU,
)

GPU_SHARED_ALIAS: Final = "koordinator.sh/gpu-shared"
"""How older manuals spell `koordinator.sh/gpu.shared`."""

WHOLE_CARDS: Final = frozenset({NVIDIA_GPU, AMD_GPU, DCU_GPU})

FAMILY: Final = frozenset(
    {KOORD_GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, GPU_SHARED_ALIAS, NPU_CORE, NPU_CPU, NPU_DVPP}
    | WHOLE_CARDS
)
"""Every resource name that is a wish for a GPU or NPU."""

AMOUNT_MAX: Final = 2**53

_PERCENT_SETS: Final = (
    frozenset({KOORD_GPU}),
    frozenset({GPU_MEMORY}),
    frozenset({GPU_MEMORY_RATIO}),
    frozenset({GPU_CORE, GPU_MEMORY}),
    frozenset({GPU_CORE, GPU_MEMORY_RATIO}),
    frozenset({NPU_CORE, GPU_MEMORY_RATIO}),
)
_SHARED_SETS: Final = (
    frozenset({GPU_SHARED, GPU_MEMORY}),
    frozenset({GPU_SHARED, GPU_MEMORY_RATIO}),
    frozenset({GPU_SHARED, GPU_CORE, GPU_MEMORY}),
    frozenset({GPU_SHARED, GPU_CORE, GPU_MEMORY_RATIO}),
)
_NPU_SETS: Final = (
    frozenset({GPU_SHARED, NPU_CORE, NPU_CPU, GPU_MEMORY}),
    frozenset({GPU_SHARED, NPU_CORE, NPU_CPU, NPU_DVPP, GPU_MEMORY}),
)
_WHOLE_SETS: Final = tuple(frozenset({name}) for name in sorted(WHOLE_CARDS))
ACCEPTED: Final = (*_WHOLE_SETS, *_PERCENT_SETS, *_SHARED_SETS, *_NPU_SETS)
"""The combinations of names that a request may have."""
_PERCENTS: Final = (KOORD_GPU, GPU_CORE, GPU_MEMORY_RATIO)
_DIVIDED: Final = (GPU_CORE, NPU_CORE, NPU_CPU, NPU_DVPP)


@dataclass(frozen=True, slots=True)
class CardRequest:
    """`each` is taken from every one of `count` cards; `shared`: a card may serve others beside this pod."""

    count: int
    each: dict[str, int]
    shared: bool


def normalise_gpu(requests: Mapping[str, int]) -> dict[str, int] | Problem:
    """The request in canonical names, zeros left out; empty when no GPU is asked for. Names outside the family are
    not looked at.

    Whole cards and `koordinator.sh/gpu` become equal percents of core and memory; everything else stays as it is
    written.
    """
    asked = _family_amounts(requests)
    if isinstance(asked, Problem):
        return asked
    if not asked:
        return {}
    problem = _refusal(asked)
    if problem is not None:
        return problem
    for name, percent in ((KOORD_GPU, 1), *((card, 100) for card in WHOLE_CARDS)):
        if name in asked:
            return {GPU_CORE: asked[name] * percent, GPU_MEMORY_RATIO: asked[name] * percent}
    return asked


def per_card(normalised: Mapping[str, int]) -> CardRequest:
    """A normalised, non-empty request divided over the cards that it is spread over (integer division).

    `gpu.shared` says over how many; without it, a memory ratio of a multiple of 100 above 100 means whole cards; else
    one card.
    """
    count = _card_count(normalised)
    each = {name: normalised[name] // count for name in _DIVIDED if normalised.get(name)}
    memory = GPU_MEMORY_RATIO if normalised.get(GPU_MEMORY_RATIO) else GPU_MEMORY
    if normalised.get(memory):
        each[memory] = normalised[memory] // count
    return CardRequest(count, each, memory == GPU_MEMORY or each[memory] < 100)


def is_percent(amount: int) -> bool:
    """Part of one device, or several whole ones."""
    return 0 < amount <= 100 or (amount > 100 and amount % 100 == 0)


def request_field(name: str) -> str:
    """How problems name a requested resource."""
    return f"resources.requests[{name}]"


def _card_count(normalised: Mapping[str, int]) -> int:
    if normalised.get(GPU_SHARED, 0) > 0:
        return normalised[GPU_SHARED]
    ratio = normalised.get(GPU_MEMORY_RATIO, 0)
    return ratio // 100 if ratio > 100 and ratio % 100 == 0 else 1


def _family_amounts(requests: Mapping[str, int]) -> dict[str, int] | Problem:
    asked: dict[str, int] = {}
    for name, amount in requests.items():
        if name not in FAMILY or amount == 0:
            continue
        if not 0 < amount <= AMOUNT_MAX:
            return Problem(field=request_field(name), message=f"must lie between 0 and {AMOUNT_MAX}")
        canonical = GPU_SHARED if name == GPU_SHARED_ALIAS else name
        if asked.setdefault(canonical, amount) != amount:
            return Problem(field=request_field(GPU_SHARED), message=f"contradicts {GPU_SHARED_ALIAS}")
    return asked


def _refusal(asked: Mapping[str, int]) -> Problem | None:
    names = frozenset(asked)
    if names in _WHOLE_SETS:
        return None
    if names in _PERCENT_SETS:
        return _percent_refusal(asked)
    if names in _SHARED_SETS:
        return _shared_refusal(asked)
    if names in _NPU_SETS:
        return _npu_refusal(asked)
    nearest = min(ACCEPTED, key=lambda accepted: (len(accepted ^ names), sorted(accepted)))
    return Problem(
        field="resources.requests",
        message=f"invalid resource device requests: {_listed(names)} is no accepted combination; "
        f"the nearest is {_listed(nearest)}",
    )


def _percent_refusal(asked: Mapping[str, int]) -> Problem | None:
    for name in _PERCENTS:
        if name in asked and not is_percent(asked[name]):
            return Problem(
                field=request_field(name),
                message=f"invalid resource unit: {asked[name]} is neither at most 100 nor a multiple of 100",
            )
    return None


def _shared_refusal(asked: Mapping[str, int]) -> Problem | None:
    cards = asked[GPU_SHARED]
    for name in (GPU_CORE, GPU_MEMORY_RATIO):
        if asked.get(name, 0) % cards or asked.get(name, 0) // cards > 100:
            return Problem(
                field=request_field(name),
                message=f"invalid resource unit: {asked[name]} is not {cards} equal parts of at most 100",
            )
    return None


def _npu_refusal(asked: Mapping[str, int]) -> Problem | None:
    for name, most in ((GPU_SHARED, 1), (NPU_DVPP, 100)):
        if asked.get(name, 0) > most:
            return Problem(field=request_field(name), message=f"invalid resource unit: at most {most} is accepted")
    return None


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
