"""Figures of single containers and pods, named as Koordinator's agent names them. They go with the pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from berth.node_qos_enforcer.core.laws.counters import Counts
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.pressure import Stall, StallPair, parse_pressure
from berth.telemetry.metrics import REGISTRY

_WHOSE = ("container_id", "container_name", "pod_uid", "pod_name", "pod_namespace")
_POD = _WHOSE[2:]
_RESOURCES = {"cpu": "cpu", "memory": "mem", "io": "io"}
_STALL = ("psi_resource_type", "psi_precision", "psi_degree", "cpu_full_supported")


class InterferenceFigures(Collector):
    """What was seen last, by control group: whose it is (`interference.whose`), and the figures."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self.node = ""
        self.counts: dict[str, tuple[str, Counts]] = {}
        self.stalls: dict[str, tuple[str, Mapping[str, str]]] = {}
        """As files of pressure have it, by resource: figures are made of it when somebody asks for them."""

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The names, without figures."""
        yield from (self._cycles({}), *self._pressure({}))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The figures; what is shown is a copy, since they change in another thread."""
        yield self._cycles(dict(self.counts))
        yield from self._pressure(dict(self.stalls))

    def _cycles(self, seen: Mapping[str, tuple[str, Counts]]) -> GaugeMetricFamily:
        labels = ("node", *_WHOSE, "cpi_field")
        shown = GaugeMetricFamily("koordlet_container_cpi", "Cycles and instructions of a container.", labels=labels)
        for whose, counts in seen.values():
            for field, value in counts._asdict().items():
                shown.add_metric((self.node, *whose.split("/"), field), value)
        return shown

    def _pressure(self, seen: Mapping[str, tuple[str, Mapping[str, str]]]) -> Iterator[GaugeMetricFamily]:
        text = "Share of the time in which some or all tasks waited, in percent."
        pods = GaugeMetricFamily("koordlet_pod_psi", text, labels=("node", *_POD, *_STALL))
        containers = GaugeMetricFamily("koordlet_container_psi", text, labels=("node", *_WHOSE, *_STALL))
        for whose, texts in seen.values():
            stalls = _read(texts)
            words = tuple(whose.split("/"))
            has_full = str("cpu" in stalls and stalls["cpu"].full is not None).lower()
            shown, names = (containers, words) if words[0] else (pods, words[2:])
            for resource, pair in stalls.items():
                for degree, stall in (("some", pair.some), ("full", pair.full)):
                    for precision, value in _averages(stall):
                        labels = (self.node, *names, _RESOURCES[resource], precision, degree, has_full)
                        shown.add_metric(labels, value)
        yield pods
        yield containers


@contextmanager
def shown(figures: InterferenceFigures, *, is_on: bool) -> Iterator[None]:
    """Show them meanwhile, among those of the process."""
    if is_on:
        REGISTRY.register(figures)
    try:
        yield
    finally:
        if is_on:
            REGISTRY.unregister(figures)


def _read(texts: Mapping[str, str]) -> dict[str, StallPair]:
    """By resource; of what has no such form nothing is shown."""
    found: dict[str, StallPair] = {}
    for resource, text in texts.items():
        with suppress(Malformed):
            found[resource] = parse_pressure(text)
    return found


def _averages(stall: Stall | None) -> Iterator[tuple[str, float]]:
    if stall is not None:
        yield from (("avg10", stall.avg10), ("avg60", stall.avg60), ("avg300", stall.avg300))
