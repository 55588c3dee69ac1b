"""cpu and memory of batch and mid pods become the resources that nodes lend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from berth.contracts.base import Problem
from berth.contracts.names import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from berth.resources.amounts import format_amount
from berth.resources.quantity import QuantityError, parse_milli, parse_units
from berth.rules.admission.draft import Draft, Path, list_in, mapping_in
from berth.rules.cpus.qos import BATCH, MID

LENT_AS: Final[Mapping[str, Mapping[str, str]]] = {
    BATCH: {CPU: BATCH_CPU, MEMORY: BATCH_MEMORY},
    MID: {CPU: MID_CPU, MEMORY: MID_MEMORY},
}
"""By priority class: what cpu and memory are called. The other classes keep theirs."""
_PARTS: Final = ("requests", "limits")


def convert(
    draft: Draft,
    lent_as: Mapping[str, str],
    *,
    spec: Path = ("spec",),
    is_again: bool = False,
    converts_overhead: bool = False,
) -> tuple[Counter[str], list[Problem]]:
    """Converts all containers and init containers: what was done, and amounts that could not be read and stay.

    cpu becomes whole thousandths of a core, rounded up. A request that is missing then is filled from its limit.

    Args:
        draft: the object.
        lent_as: one of `LENT_AS`.
        spec: where the specification of the pod is.
        is_again: it was converted before. Native amounts of a container that asks for the lent resource were put back
            by a LimitRange since then: they are taken off. Containers that were added are converted.
        converts_overhead: `spec.overhead`, too. API servers refuse a pod whose overhead is not its RuntimeClass's, so
            that converting it keeps such pods out.
    """
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    for path, resources in _resources(draft, spec):
        putting_back = is_again and any(name in part for part in resources.values() for name in lent_as.values())
        changed = {
            field: _converted(amounts, lent_as, (*path, field), counts, problems, only_off=putting_back)
            for field, amounts in resources.items()
        }
        limits, requests = changed.get("limits", {}), changed.get("requests", {})
        missing = {lent: limits[lent] for lent in lent_as.values() if lent in limits and lent not in requests}
        if missing:
            changed["requests"] = {**requests, **missing}
            counts["filled"] += len(missing)
        for field, amounts in changed.items():
            draft.put((*path, field), amounts)
    if converts_overhead:
        path = (*spec, "overhead")
        overhead = mapping_in(_at(draft.now, path))
        if overhead:
            draft.put(path, _converted(overhead, lent_as, path, counts, problems))
    return counts, problems


def _resources(draft: Draft, spec: Path) -> Iterator[tuple[Path, dict[str, Mapping[str, Any]]]]:
    held = _at(draft.now, spec)
    for field in ("initContainers", "containers"):
        for place, container in enumerate(list_in(held, field)):
            resources = mapping_in(container, "resources")
            found = {part: mapping_in(resources, part) for part in _PARTS if mapping_in(resources, part)}
            if found:
                yield (*spec, field, place, "resources"), found


def _converted(
    amounts: Mapping[str, Any],
    lent_as: Mapping[str, str],
    path: Path,
    counts: Counter[str],
    problems: list[Problem],
    *,
    only_off: bool = False,
) -> Mapping[str, Any]:
    """The amounts at a path under their new names; the same object where there is nothing to convert."""
    now: dict[str, Any] | None = None
    for native, lent in lent_as.items():
        if native not in amounts:
            continue
        try:
            text = "" if only_off else _text(native, lent, amounts[native])
        except QuantityError as error:
            problems.append(Problem(field=f"{_field(path)}[{native}]", message=str(error)))
            continue
        now = dict(amounts) if now is None else now
        del now[native]
        if only_off:
            counts["defaults taken off"] += 1
        else:
            now[lent] = text
            counts["converted"] += 1
    return amounts if now is None else now


def _text(native: str, lent: str, amount: Any) -> str:
    return str(parse_milli(amount)) if native == CPU else format_amount(lent, parse_units(amount))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, int):
            value = value[step]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _field(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text[1:]
