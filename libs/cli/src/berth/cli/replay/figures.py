"""The figures of a replay, from times and fates; nothing here touches the world."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from berth.cli.load.pods import Fate
from berth.cli.replay.processes import Use
from berth.contracts import names
from berth.invariants import Report


class Law(msgspec.Struct, kw_only=True):
    """A promise that was checked, and what breaks it, or what was missing to judge it by."""

    name: str
    sentence: str
    ok: bool
    evidence: list[str] = []
    not_judged: str = ""


def laws_of(report: Report) -> list[Law]:
    """The promises of a report."""
    return [
        Law(name=r.name, sentence=r.sentence, ok=r.ok, evidence=list(r.evidence), not_judged=r.not_judged)
        for r in report.results
    ]


class ShapeFigures(msgspec.Struct, kw_only=True):
    """What became of the pods of one shape; `reason` is what most of the refused ones have for a reason."""

    shape: str
    pods: int
    bound: int
    refused: int
    reason: str = ""


class Figures(msgspec.Struct, kw_only=True):
    """What a replay measured. Rates are in pods a second; `sustained` leaves out the first and last 5 % of binds.

    `allocated` is the share of all GPU compute that bound pods hold by their allocation annotation. `shapes` is empty
    where shapes are not distinguished.
    """

    trace: str
    nodes: int
    gpus: int
    pods: int
    bound: int
    refused: int
    unexplained: int
    seconds: float
    rate: float
    sustained: float
    latency_p50_ms: float
    latency_p99_ms: float
    allocated: float
    kills: int = 0
    violations: list[str] = []
    laws: list[Law] = []
    shapes: list[ShapeFigures] = []
    processes: list[dict[str, Any]] = []

    @property
    def good(self) -> bool:
        """Something was placed, every pod has a node or a reason, and no law is broken."""
        whole = self.bound > 0 and not self.unexplained and not self.violations
        return whole and all(law.ok for law in self.laws)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed; NaN without values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def gpu_percent(annotations: Mapping[str, str]) -> int:
    """Percent of GPU compute in a pod's allocation annotation; 100 is one card."""
    text = annotations.get(names.ANNOTATION_DEVICE_ALLOCATED)
    if not text:
        return 0
    try:
        grants = msgspec.json.decode(text, type=dict[str, list[dict[str, Any]]]).get("gpu", [])
        return sum(int(grant.get("resources", {}).get(names.GPU_CORE, 0)) for grant in grants)
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError):
        return 0


def sustained_rate(bound_at: Iterable[float]) -> float:
    """Binds a second between the 5th and the 95th percentile of the binds."""
    ordered = sorted(bound_at)
    low, high = int(len(ordered) * 0.05), int(len(ordered) * 0.95) - 1
    if high <= low or ordered[high] <= ordered[low]:
        return 0.0
    return (high - low) / (ordered[high] - ordered[low])


def figures_of(fates: Mapping[str, Fate], *, trace: str, nodes: int, gpus: int) -> Figures:
    """Everything but processes and laws."""
    bound = [fate for fate in fates.values() if fate.bound >= 0]
    sent = [fate.sent for fate in fates.values() if fate.sent >= 0]
    waits = [(fate.bound - fate.sent) * 1000 for fate in bound if fate.sent >= 0]
    seconds = max((fate.bound for fate in bound), default=0.0) - min(sent, default=0.0)
    held = sum(gpu_percent(fate.annotations) for fate in bound if not fate.gone)
    return Figures(
        trace=trace,
        nodes=nodes,
        gpus=gpus,
        pods=len(fates),
        bound=len(bound),
        refused=sum(1 for fate in fates.values() if not fate.node and fate.refusal),
        unexplained=sum(1 for fate in fates.values() if not fate.is_settled),
        seconds=seconds,
        rate=len(bound) / seconds if seconds > 0 else 0.0,
        sustained=sustained_rate(fate.bound for fate in bound),
        latency_p50_ms=percentile(waits, 0.5),
        latency_p99_ms=percentile(waits, 0.99),
        allocated=held / (100 * gpus) if gpus else 0.0,
    )


def shapes_of(fates: Mapping[str, Fate], shapes: Mapping[str, str]) -> list[ShapeFigures]:
    """What became of each shape, in the order of their names; `shapes` has the shape of each pod."""
    by_shape: dict[str, list[Fate]] = {}
    for pod, shape in shapes.items():
        if shape and pod in fates:
            by_shape.setdefault(shape, []).append(fates[pod])
    found = []
    for shape, of in sorted(by_shape.items()):
        reasons = Counter(fate.refusal for fate in of if not fate.node and fate.refusal)
        found.append(
            ShapeFigures(
                shape=shape,
                pods=len(of),
                bound=sum(1 for fate in of if fate.bound >= 0),
                refused=reasons.total(),
                reason=reasons.most_common(1)[0][0] if reasons else "",
            )
        )
    return found


def process_rows(uses: Sequence[Use], bound: int) -> list[dict[str, Any]]:
    """Processes for the table and the JSON."""
    return [
        {
            "process": use.name,
            "cpu_s": round(use.cpu_s, 2),
            "cpu_ms_per_pod": round(use.cpu_s * 1000 / bound, 3) if bound else 0.0,
            "rss_mib": round(use.rss_bytes / (1 << 20)),
            "starts": use.starts,
        }
        for use in uses
    ]
