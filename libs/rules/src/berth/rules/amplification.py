"""Resource amplification: a node shows more cpu and memory than it has, by a ratio for each resource.

The ratios are an annotation of the node; what it had before is another one. A pod with CPUs of its own really owns
them, so its request is amplified before it is compared with what an amplified node shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_AMPLIFICATION_RATIO, CPU, MEMORY
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpu_normalization import ratio_of

RESOURCES_MAX: Final = 64
AMPLIFIABLE: Final = (CPU, MEMORY)
"""The resources of a node's allocatable that its ratios change."""


def read_ratios(annotations: Mapping[str, str]) -> Mapping[str, float] | Problem:
    """The ratios of a node by resource; empty where it is not amplified."""
    found = read_annotation(annotations, ANNOTATION_AMPLIFICATION_RATIO, dict[str, float])
    if found is None or isinstance(found, Problem):
        return found or {}
    return _checked(found, annotation_field(ANNOTATION_AMPLIFICATION_RATIO))


def ratios_text(ratios: Mapping[str, float]) -> str:
    """As the annotation has them: two decimals, by name."""
    return "{" + ",".join(f'"{name}":{ratio:.2f}' for name, ratio in sorted(ratios.items())) + "}"


def with_ratio(annotations: Mapping[str, str], resource: str, ratio: float) -> str | Problem:
    """The text of the annotation once a resource has this ratio."""
    found = read_ratios(annotations)
    return found if isinstance(found, Problem) else ratios_text({**found, resource: ratio})


def ratios_for(
    configured: Mapping[str, float], annotations: Mapping[str, str], *, is_enabled: bool
) -> Mapping[str, float] | Problem:
    """The ratios that a node is to have, in two decimals; empty: none, and the annotation goes.

    Args:
        configured: those that the configuration has for the node.
        annotations: the node's, of which the ratio of CPU normalisation multiplies that of cpu.
        is_enabled: whether the configuration counts.
    """
    ratios = dict(configured) if is_enabled else {}
    normalisation = ratio_of(annotations)
    if isinstance(normalisation, Problem):
        return normalisation
    cpu = ratios.get(CPU, 1.0) * (normalisation if normalisation is not None and normalisation > 0 else 1.0)
    if cpu > 1 or CPU in ratios:
        ratios[CPU] = cpu
    checked = _checked(ratios, "resourceAmplificationRatio")
    if isinstance(checked, Problem):
        return checked
    for name, ratio in checked.items():
        if ratio < 1:
            return Problem(field=f"resourceAmplificationRatio[{name}]", message=f"{ratio:g} is less than 1")
    return {name: float(f"{ratio:.2f}") for name, ratio in checked.items()}


def changes_amplifiable(old: Mapping[str, int] | None, new: Mapping[str, int] | None) -> bool:
    """Whether an update of a node's allocatable changes what is amplified. Of an object that is not there nothing."""
    if old is None or new is None:
        return False
    return any(old.get(name) != new.get(name) for name in AMPLIFIABLE)


def amplify(amount: int, ratio: float | None) -> int:
    """An amount in what an amplified node shows, rounded up; ratios up to 1 change nothing."""
    return amount if ratio is None or ratio <= 1 else math.ceil(amount * ratio)


def _checked(ratios: Mapping[str, float], field: str) -> Mapping[str, float] | Problem:
    if len(ratios) > RESOURCES_MAX:
        return Problem(field=field, message=f"has more than {RESOURCES_MAX} entries")
    for name, ratio in ratios.items():
        if not math.isfinite(ratio):
            return Problem(field=f"{field}[{name[:80]}]", message="is no finite number")
    return ratios
