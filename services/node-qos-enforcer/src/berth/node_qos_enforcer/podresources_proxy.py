"""Serves kubelet's PodResources with the devices of pods' records, for as long as the process runs.

A socket that is taken away, or that another process serves, is tried again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from berth.contracts.base import Problem
from berth.contracts.inventory import NodeInventory
from berth.kubelet.client import PodResourcesClient
from berth.kubelet.core.allocated import AllocatedDevice
from berth.kubelet.core.merging import Description, by_kind
from berth.kubelet.proxy import PodResourcesProxy
from berth.kubelet.sockets import SocketUnusable
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.inside.known import InventoryView
from berth.node_qos_enforcer.pods_of_node import PodsOfNode
from berth.node_qos_enforcer.settings import Settings
from berth.runtime import Context

FIELD: Final = "podresources_proxy"
LOOK_S: Final = 1.0
RETRY_S: Final = 5.0
PROBLEMS_MAX: Final = 10


class ProxyServing:
    """One proxy. `problems` are those of the last answer, and why it does not serve."""

    def __init__(self, ctx: Context[Settings], pods: PodsOfNode, inventory: InventoryView) -> None:
        """Nothing is opened yet."""
        self._ctx = ctx
        self._pods = pods
        self._inventory = inventory
        self._answered: tuple[Problem, ...] = ()
        self._unusable = ""

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now."""
        settings = self._ctx.settings
        if not settings.podresources_socket:
            return (Problem(field=FIELD, message="BERTH_PODRESOURCES_SOCKET is not set: kubelet has to be asked"),)
        if not (settings.nri_socket or settings.kubelet_url):
            nobody = "nobody knows the node's pods: BERTH_NRI_SOCKET or BERTH_KUBELET_URL has to be set"
            return (Problem(field=FIELD, message=nobody),)
        own = (Problem(field=FIELD, message=self._unusable),) if self._unusable else ()
        return (*own, *self._pods.problems(), *self._answered[:PROBLEMS_MAX])

    async def run(self) -> None:
        """Serve until cancelled."""
        settings = self._ctx.settings
        if not settings.podresources_socket:
            return
        async with PodResourcesClient(Path(settings.podresources_socket)) as upstream:
            while True:
                proxy = PodResourcesProxy(
                    Path(settings.podresources_proxy),
                    upstream,
                    self._pods.annotations,
                    devices=self._devices,
                    describe=self._describe,
                    report=self._report,
                )
                try:
                    async with proxy:
                        self._unusable = ""
                        self._ctx.log.info("PodResources are served", socket=settings.podresources_proxy)
                        while proxy.is_listening:
                            await self._ctx.clock.sleep(LOOK_S)
                    self._ctx.log.warning("the socket of PodResources is gone", socket=settings.podresources_proxy)
                except (SocketUnusable, OSError) as error:
                    if str(error) != self._unusable:
                        self._ctx.log.warning("PodResources cannot be served", reason=str(error))
                    self._unusable = str(error)[:200]
                    await self._ctx.clock.sleep(RETRY_S)

    def _devices(self) -> list[AllocatedDevice]:
        """Those that are well. A NIC with virtual functions is given out as these."""
        inventory = self._inventory.inventory
        return [
            AllocatedDevice(slot.kind, slot.minor, slot.uuid, tuple(each.bus for each in slot.functions))
            for slot in (inventory.devices if inventory is not None else ())
            if slot.healthy
        ]

    def _report(self, problems: tuple[Problem, ...]) -> None:
        figures.PROXY_ANSWERS.labels("with problems" if problems else "whole").inc()
        self._answered = problems

    def _describe(self, device: AllocatedDevice) -> Description:
        """As Koordinator shows devices, with the NUMA node that the inventory says."""
        shown = by_kind(device)
        numa_node = _numa_node(self._inventory.inventory, device)
        return shown._replace(numa_node=numa_node if numa_node >= 0 else None)


def _numa_node(inventory: NodeInventory | None, device: AllocatedDevice) -> int:
    slots = inventory.devices if inventory is not None else ()
    return next((slot.numa_node for slot in slots if (slot.kind, slot.minor) == (device.kind, device.minor)), -1)
