"""Metrics of a service under one naming rule, in the one registry of the process.

Names are `berth_<noun>_<what>[_<unit>]`: counters end in `_total`, histograms in their unit. Labels are few and
bounded: a pod, a uid or a key never is one, since every value of a label is a time series for ever.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

__all__ = [
    "LATENCY_BUCKETS_S",
    "REGISTRY",
    "Counter",
    "Gauge",
    "Histogram",
    "counter",
    "gauge",
    "histogram",
]

LATENCY_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_NAME: Final = re.compile(r"berth(_[a-z0-9]+){2,}")
_KNOWN: Final = re.compile(r"(scheduler|koord_[a-z]+)(_[a-z0-9]+){2,}")
"""Under which Koordinator shows the same: dashboards for it go on."""
_LABEL: Final = re.compile(r"[a-z][a-z0-9_]*")
_UNITS: Final = ("_seconds", "_bytes", "_ratio", "_size", "_pods", "_messages", "_writes", "_nodes")
_UNBOUNDED: Final = frozenset({"pod", "pod_name", "uid", "key", "name", "trace_id", "message", "error"})

_Metric = TypeVar("_Metric", bound=MetricWrapperBase)


def counter(
    name: str, help_text: str, labels: Sequence[str] = (), *, registry: CollectorRegistry = REGISTRY
) -> Counter:
    """A count that only grows; the name ends in `_total`. Asking again for the same name gives the same counter."""
    if not name.endswith("_total"):
        raise ValueError(f"metric {name}: a counter ends in _total")
    return _get_or_make(Counter, name, help_text, labels, registry)


def gauge(name: str, help_text: str, labels: Sequence[str] = (), *, registry: CollectorRegistry = REGISTRY) -> Gauge:
    """A value that goes up and down. Asking again for the same name gives the same gauge."""
    if name.endswith("_total"):
        raise ValueError(f"metric {name}: only counters end in _total")
    return _get_or_make(Gauge, name, help_text, labels, registry)


def histogram(
    name: str,
    help_text: str,
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float] = LATENCY_BUCKETS_S,
    registry: CollectorRegistry = REGISTRY,
) -> Histogram:
    """A distribution; the name ends in its unit. Asking again for the same name gives the same histogram."""
    if not name.endswith(_UNITS):
        raise ValueError(f"metric {name}: a histogram ends in its unit, one of {', '.join(_UNITS)}")
    return _get_or_make(Histogram, name, help_text, labels, registry, buckets=tuple(buckets))


def _get_or_make(
    kind: type[_Metric],
    name: str,
    help_text: str,
    labels: Sequence[str],
    registry: CollectorRegistry,
    **options: tuple[float, ...],
) -> _Metric:
    _check(name, labels)
    known = registry._names_to_collectors.get(name)
    if known is None:
        return kind(name, help_text, tuple(labels), registry=registry, **options)  # type: ignore[arg-type]
    if type(known) is not kind or tuple(known._labelnames) != tuple(labels):
        raise ValueError(f"metric {name}: defined twice, with another type or other labels")
    return known


def _check(name: str, labels: Sequence[str]) -> None:
    if _NAME.fullmatch(name) is None and _KNOWN.fullmatch(name) is None:
        raise ValueError(f"metric {name}: the name must look like berth_<noun>_<what>, or be one of Koordinator's")
    for label in labels:
        if _LABEL.fullmatch(label) is None:
            raise ValueError(f"metric {name}: {label!r} is not a label name")
        if label in _UNBOUNDED:
            raise ValueError(f"metric {name}: label {label} has no bound on its values")
