"""CPU normalisation: how much work a CPU of a node does, where 1 is that of the reference.

The ratio follows from a table of CPU models and is an annotation of the node. It raises what the node offers
(`amplification`), and containers that share CPUs get a quota that is so much smaller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_CPU_NORMALIZATION_RATIO, LABEL_CPU_NORMALIZATION_ENABLED
from berth.rules.bounded_json import annotation_field, label_field, read_json
from berth.rules.cpus.qos import LS

RATIO_MIN: Final = 1.0
RATIO_MAX: Final = 5.0
DIFFERENCE: Final = 0.01
"""Ratios no further apart than this are the same."""
OFF: Final = "1.00"
CPU_BASIC_INFO: Final = "node.koordinator.sh/cpu-basic-info"
"""The annotation of a NodeResourceTopology that has a `CpuInfo`."""

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,32}(?:\.[0-9]{0,32})?|\.[0-9]{1,32})(?:[eE][+-]?[0-9]{1,3})?")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
"""What Go reads as a boolean."""


class CpuInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What CPUs a node has."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False


class ModelRatios(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ratios of one model, by what is switched on."""

    base_ratio: float | None = None
    hyper_thread_enabled_ratio: float | None = None
    turbo_enabled_ratio: float | None = None
    hyper_thread_turbo_enabled_ratio: float | None = None

    def of(self, info: CpuInfo) -> float | None:
        """The one for this state; no other stands in for it."""
        if info.hyper_thread_enabled:
            return self.hyper_thread_turbo_enabled_ratio if info.turbo_enabled else self.hyper_thread_enabled_ratio
        return self.turbo_enabled_ratio if info.turbo_enabled else self.base_ratio


class Strategy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a configuration says; None: nothing. Models go by their exact text."""

    enable: bool | None = None
    default_ratio: float | None = None
    ratio_model: dict[str, ModelRatios] | None = None


def select_ratio(info: CpuInfo | None, strategy: Strategy) -> float | Problem:
    """The ratio of a node's CPUs, whatever its range; the default where the table has none for their state."""
    ratios = (strategy.ratio_model or {}).get(info.cpu_model) if info is not None else None
    found = ratios.of(info) if ratios is not None and info is not None else None
    if found is None:
        found = strategy.default_ratio
    if found is None:
        model = info.cpu_model[:80] if info is not None else ""
        return Problem(
            field="ratioModel", message=f"has no ratio for {model!r} as it is set up, and there is no default"
        )
    return found


def annotation_for(strategy: Strategy, labels: Mapping[str, str], basic_info: str | None) -> str | Problem:
    """The text that a node's annotation is to have; a Problem: it stays as it is.

    Args:
        strategy: what holds for the node; a label of the node switches it on or off.
        labels: the node's.
        basic_info: the annotation of its NodeResourceTopology, None where there is none.
    """
    is_enabled = enabled_by(labels)
    if isinstance(is_enabled, Problem):
        return is_enabled
    if not (strategy.enable if is_enabled is None else is_enabled):
        return OFF
    field = annotation_field(CPU_BASIC_INFO)
    if not basic_info:
        return Problem(field=field, message="is missing: the node's agent has not said which CPUs it has")
    info = read_json(basic_info, CpuInfo, field)
    if isinstance(info, Problem):
        return info
    ratio = select_ratio(info, strategy)
    if isinstance(ratio, Problem):
        return ratio
    if not RATIO_MIN <= ratio <= RATIO_MAX:
        return Problem(field="ratioModel", message=f"{ratio:g} is not between {RATIO_MIN:g} and {RATIO_MAX:g}")
    return ratio_text(ratio)


def enabled_by(labels: Mapping[str, str]) -> bool | Problem | None:
    """What the node's label says; None where it has none."""
    text = labels.get(LABEL_CPU_NORMALIZATION_ENABLED)
    if text is None:
        return None
    if text not in _TRUE | _FALSE:
        return Problem(field=label_field(LABEL_CPU_NORMALIZATION_ENABLED), message="must be true or false")
    return text in _TRUE


def ratio_of(annotations: Mapping[str, str]) -> float | Problem | None:
    """The ratio that a node's annotation says; None where it has none."""
    text = annotations.get(ANNOTATION_CPU_NORMALIZATION_RATIO)
    if text is None:
        return None
    ratio = _number(text)
    if ratio is None:
        return Problem(field=annotation_field(ANNOTATION_CPU_NORMALIZATION_RATIO), message="is no number")
    return ratio


def ratio_text(ratio: float) -> str:
    """As the annotation has it: two decimals."""
    return f"{ratio:.2f}"


def differ(one: float, other: float) -> bool:
    """Whether two ratios are far enough apart to be written."""
    return abs(one - other) > DIFFERENCE


def needs_write(old: str | None, new: str | None) -> bool:
    """Whether the annotation is written. A new text that is no number never is, an old one always gives way."""
    after = _number(new) if new is not None else None
    before = _number(old) if old is not None else None
    return after is not None and (before is None or differ(before, after))


def normalised_quota(quota_us: int, ratio: float | None, qos: str, *, has_cpuset: bool) -> int | None:
    """The CFS quota of a pod or container on a normalised node; None: it is left as it is.

    Only pods of class LS, or of none, that have no CPUs of their own are concerned, and only a quota that is a limit.

    Args:
        quota_us: microseconds in each period, from the limit.
        ratio: the node's; None where it has none.
        qos: the QoS class, empty for none.
        has_cpuset: whether the pod has CPUs of its own.
    """
    if ratio is None or ratio <= 0 or qos not in ("", LS) or has_cpuset or quota_us <= 0:
        return None
    return math.ceil(quota_us / ratio) if ratio > 1 else quota_us


def _number(text: str) -> float | None:
    if len(text) > 64 or _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None
