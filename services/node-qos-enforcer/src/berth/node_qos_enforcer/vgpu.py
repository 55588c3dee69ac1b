"""Figures of shared GPUs, from the files that HAMi-core keeps of its containers, under the names of HAMi's monitor.

Looked at now and then, in a thread; what is asked for metrics gets what was found last. Only containers of pods that
are known are shown, so that their labels go when they go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from berth.contracts.base import Problem
from berth.contracts.node_report import HeldByContainer
from berth.kubelet.core.vgpu_metrics import (
    FAMILIES,
    ContainerRegion,
    MigDevice,
    Sample,
    samples_of_containers,
    samples_of_mig,
    samples_of_node,
)
from berth.kubelet.region_files import CONTAINERS, Look, look
from berth.node_qos_enforcer.gpu_use import GpuUse, Instance
from berth.node_qos_enforcer.pods_of_node import PodsOfNode
from berth.node_qos_enforcer.settings import Settings
from berth.runtime import Context, Periodic
from berth.telemetry.metrics import REGISTRY

LOOK_S: Final = 5.0
PROBLEMS_MAX: Final = 10


class VgpuFigures(Collector):
    """What was found last, as metrics."""

    def __init__(self, *, old_names: bool) -> None:
        """Take whether the names of before HAMi 2.10 are shown as well."""
        self.samples: tuple[Sample, ...] = ()
        self._old_names = old_names

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing is promised."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Each family that has samples, under each of its names. Of two with the same labels the last counts."""
        samples = self.samples
        for family in FAMILIES:
            found = [each for each in samples if each.family is family]
            if found:
                yield _family(family.name, family.help, family.labels, {each.labels: each.value for each in found})
            if found and family.old_name and self._old_names:
                values = {each.old_labels: each.value for each in found}
                yield _family(family.old_name, family.help, family.old_labels, values)


class VgpuWatching:
    """One node's shared GPUs."""

    def __init__(
        self,
        ctx: Context[Settings],
        node: str,
        pods: PodsOfNode,
        holders: Callable[[], Iterable[HeldByContainer]] = tuple,
    ) -> None:
        """Nothing is looked at yet. `holders` say which containers hold which MIG instances."""
        settings = ctx.settings
        self._ctx = ctx
        self._node = node
        self._pods = pods
        self._holders = holders
        self._root = Path(f"{settings.host_root.rstrip('/')}{CONTAINERS}")
        self._gpus = GpuUse()
        self.figures = VgpuFigures(old_names=settings.vgpu_old_names)
        self._problems: tuple[Problem, ...] = ()

    def problems(self) -> tuple[Problem, ...]:
        """Files that could not be read in the last look."""
        return self._problems[:PROBLEMS_MAX]

    async def run(self) -> None:
        """Look until cancelled."""
        REGISTRY.register(self.figures)
        try:
            async for _ in Periodic(self._ctx.clock, LOOK_S).ticks(at_once=True):
                await self.look()
        finally:
            REGISTRY.unregister(self.figures)
            self._gpus.close()

    async def look(self) -> None:
        """Look once."""
        found = await asyncio.to_thread(look, self._root)
        names = await self._pods.names()
        known = _named(found, names)
        containers = samples_of_containers(known, self._ctx.clock.now())
        gpus, instances = await asyncio.to_thread(self._gpus.read)
        held = samples_of_mig(_held(instances, self._holders()))
        self.figures.samples = (*containers, *samples_of_node(self._node, gpus), *held)
        self._problems = found.problems


def _named(found: Look, names: dict[str, tuple[str, str]]) -> list[ContainerRegion]:
    return [
        ContainerRegion(*names[each.pod_uid], each.container, each.region)
        for each in found.found
        if each.pod_uid in names
    ]


def _held(instances: Iterable[Instance], holders: Iterable[HeldByContainer]) -> Iterator[MigDevice]:
    """The MIG instances that containers hold by kubelet's word."""
    known = {each.mig_uuid: each for each in instances}
    for holder in holders if known else ():
        for uuid in {each for ids in holder.devices.values() for each in ids} & known.keys():
            found = known[uuid]
            yield MigDevice(
                holder.namespace,
                holder.pod,
                holder.container,
                found.place,
                found.uuid,
                uuid,
                found.profile,
                found.gpu_instance,
                found.compute_instance,
            )


def _family(name: str, text: str, labels: tuple[str, ...], values: dict[tuple[str, ...], float]) -> GaugeMetricFamily:
    shown = GaugeMetricFamily(name, text, labels=labels)
    for each, value in values.items():
        shown.add_metric(each, value)
    return shown
