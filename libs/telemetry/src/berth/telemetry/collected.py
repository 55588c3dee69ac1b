"""Gauges under names that others know them by, worked out when they are asked for.

What stands in for a known component shows its figures as that did, so that dashboards go on: such a name is not under
the rule of `metrics`, and its labels may name objects, which go with them. The caller bounds how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

Rows = Callable[[], Iterable[tuple[Sequence[str], float]]]
"""The values of the labels of each series, and its value."""

_KNOWN: dict[tuple[int, str], _Collected] = {}


class _Collected(Collector):
    def __init__(self, name: str, help_text: str, labels: Sequence[str], rows: Rows) -> None:
        self._name, self._help, self._labels = name, help_text, tuple(labels)
        self.rows = rows

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Its name, without asking for values."""
        yield GaugeMetricFamily(self._name, self._help, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The series there are now."""
        family = GaugeMetricFamily(self._name, self._help, labels=self._labels)
        for values, amount in self.rows():
            family.add_metric(values, amount)
        yield family


def collected_gauge(
    name: str, help_text: str, labels: Sequence[str], rows: Rows, *, registry: CollectorRegistry = REGISTRY
) -> None:
    """Show these series from now on, in place of those that were shown under the name before."""
    known = _KNOWN.get((id(registry), name))
    if known is not None:
        known.rows = rows
        return
    made = _KNOWN[id(registry), name] = _Collected(name, help_text, labels, rows)
    registry.register(made)
