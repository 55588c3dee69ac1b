"""Tells of running gangs whose members have come to lie in several domains of a layer that they must not leave."""

from __future__ import annotations

from berth.bus.port import Clock, PublisherPort
from berth.contracts import event, subjects
from berth.contracts.codec import encode
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.groups import Gang
from berth.rules.network_topology.spec import must_gather_layer


class ScatterReports:
    """One pass over the gangs after each change of the network."""

    def __init__(self, cluster: ClusterView, events: PublisherPort, clock: Clock) -> None:
        self._cluster = cluster
        self._events = events
        self._clock = clock
        self._looked_at = -1
        self._scattered: dict[str, dict[str, int]] = {}

    async def tell(self) -> None:
        """Send an event for each gang that is scattered, or no longer so."""
        network = self._cluster.network
        if network.version == self._looked_at or not network.is_known:
            return
        self._looked_at = network.version
        gangs = self._cluster.gangs.gangs
        for gang_id in sorted({*gangs, *self._scattered}):
            gang = gangs.get(gang_id)
            layer, found = self._domains(gang) if gang is not None else ("", {})
            before = self._scattered.get(gang_id)
            if found == before or (not found and before is None):
                continue
            if found:
                self._scattered[gang_id] = found
            else:
                del self._scattered[gang_id]
            if gang is not None and self._cluster.is_mine(self._cluster.gangs.group_of(gang_id)):
                await self._send(gang_id, layer, found)

    def _domains(self, gang: Gang) -> tuple[str, dict[str, int]]:
        """The layer that a gang must not leave, and where its members are if that is in several domains."""
        asked = gang.config.network if gang.config is not None else None
        layers = self._cluster.network.names
        layer = must_gather_layer(asked.rules, layers) if asked is not None else ""
        if not gang.bound or layer not in layers:
            return layer, {}
        homes = self._cluster.network.homes(gang, layers.index(layer) + 1)
        return layer, {"/".join(path): count for path, count in sorted(homes.items())} if len(homes) > 1 else {}

    async def _send(self, gang_id: str, layer: str, domains: dict[str, int]) -> None:
        namespace, _, name = gang_id.partition("/")
        message = event.GangScattered(namespace=namespace, name=name, layer=layer, domains=domains, lasts=bool(domains))
        await self._events.publish(
            subjects.event_subject("gang", "scattered", namespace, name),
            encode(message),
            id=f"scattered-{gang_id}-{int(self._clock.now() * 1000)}",
            type="gang.scattered.v1",
        )
