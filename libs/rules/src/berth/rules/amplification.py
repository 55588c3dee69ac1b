"""Resource amplification: a node shows more cpu and memory than it has, by a ratio for each resource.

The ratios are an annotation of the node; what it had before is another one. A pod with CPUs of its own really owns
them, so its request is amplified before it is compared with what an amplified node shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_AMPLIFICATION_RATIO, ANNOTATION_CPU_NORMALIZATION_RATIO, CPU
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpu_normalization import ratio_of

RESOURCES_MAX: Final = 64


class Strategy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a configuration says; None: nothing."""

    enable: bool | None = None
    resource_amplification_ratio: dict[str, float] | None = None


def read_ratios(annotations: Mapping[str, str]) -> Mapping[str, float] | Problem:
    """The ratios of a node by resource; empty where it is not amplified."""
    found = read_annotation(annotations, ANNOTATION_AMPLIFICATION_RATIO, dict[str, float])
    if found is None or isinstance(found, Problem):
        return found or {}
    return _checked(found, annotation_field(ANNOTATION_AMPLIFICATION_RATIO))


def ratios_text(ratios: Mapping[str, float]) -> str:
    """As the annotation has them: two decimals, by name."""
    return "{" + ",".join(f'"{name}":{ratio:.2f}' for name, ratio in sorted(ratios.items())) + "}"


def needs_write(old: str | None, new: str | None) -> bool:
    """Whether the annotation is written: it has other ratios, whatever its notation. One that is no JSON gives way.

    Args:
        old: what the node shows; None where it has no annotation.
        new: what it is to show; None: it is to have none.
    """
    if old is None or new is None:
        return old is not new
    shown, wanted = (read_ratios({ANNOTATION_AMPLIFICATION_RATIO: text}) for text in (old, new))
    return isinstance(shown, Problem) or shown != wanted


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
    if normalisation is not None and normalisation <= 0:
        return Problem(field=annotation_field(ANNOTATION_CPU_NORMALIZATION_RATIO), message="has to be above 0")
    cpu = ratios.get(CPU, 1.0) * (1.0 if normalisation is None else normalisation)
    if cpu > 1 or CPU in ratios:
        ratios[CPU] = cpu
    checked = _checked(ratios, "resourceAmplificationRatio")
    if isinstance(checked, Problem):
        return checked
    for name, ratio in checked.items():
        if ratio < 1:
            return Problem(field=f"resourceAmplificationRatio[{name}]", message=f"{ratio:g} is less than 1")
    return {name: float(f"{ratio:.2f}") for name, ratio in checked.items()}


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
