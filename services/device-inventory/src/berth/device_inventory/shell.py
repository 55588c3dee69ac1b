"""The wiring of device-inventory: what it reads, decides with and publishes."""

from __future__ import annotations

from berth.contracts import buckets
from berth.device_inventory.reconciler import Reconciler, Rules
from berth.device_inventory.settings import SERVICE, Settings
from berth.device_inventory.views import (
    AGENT_KEYS,
    KEYS,
    NETWORK_KEYS,
    OFFER_KEYS,
    POD_KEYS,
    RUNTIME_KEYS,
    AgentView,
    InventoryView,
    NetworkView,
    OfferView,
    PodView,
    RuntimeView,
    StateView,
)
from berth.runtime import Context, Input, Manager, Output
from berth.telemetry import counter, gauge, histogram

TICK_S = 1.0

NODES = gauge("berth_devices_nodes", "Nodes with a published inventory.")
COUNTED = gauge("berth_devices_counted", "Devices by kind and health.", ["kind", "health"])
FAULTY = gauge("berth_devices_faulty_nodes", "Nodes whose Device object has problems.")
FAULTY_TOPOLOGIES = gauge("berth_devices_faulty_topologies", "Nodes whose NodeResourceTopology object has problems.")
UNREADABLE = gauge("berth_devices_unreadable_messages", "Messages that could not be read since the start.")
HELD_BACK = gauge("berth_devices_reports_held_back", "Reports about pods that were too many of a node at a time.")
PUBLISHED = counter("berth_devices_published_total", "Writes to INVENTORY.", ["what"])
REQUESTS = counter("berth_devices_requests_total", "Patches of nodes and objects that were requested.")
DECIDING = histogram("berth_devices_decide_seconds", "Time to decide about the nodes of one batch.")


class Shell(Manager[Settings, Reconciler]):
    """One replica."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        super().__init__(SERVICE, context, lease_ttl_s=settings.lease_ttl_s)
        self.view = StateView(self.changed.mark, self.mark_all)
        self.published = InventoryView(self.changed.mark)
        self.agents = AgentView(self.changed.mark)
        self.runtimes = RuntimeView(self.changed.mark)
        self.pods = PodView(self.changed.mark, self.mark_all)
        self.network = NetworkView(self.changed.mark)
        self.offers = OfferView(self.changed.mark)
        rules = Rules(
            sync_nodes=settings.device_sync_nodes,
            sync_objects=settings.device_sync_objects,
            publish_shared=settings.device_publish_shared,
            threshold=settings.device_diff_threshold,
            retry_s=settings.device_retry_s,
        )
        self.wire(
            Reconciler(
                rules,
                self.view,
                self.published,
                self.agents,
                self.pods,
                self.runtimes,
                self.network,
                self.offers,
                self.mark_all,
            ),
            inputs=[
                Input(buckets.STATE, self.view, KEYS),
                Input(buckets.STATE, self.network, NETWORK_KEYS),
                Input(buckets.STATE, self.pods, POD_KEYS),
                Input(buckets.METRICS, self.agents, AGENT_KEYS),
                Input(buckets.METRICS, self.runtimes, RUNTIME_KEYS),
                Input(buckets.SLO, self.offers, OFFER_KEYS),
            ],
            output=Output(buckets.INVENTORY, self.published, PUBLISHED, written="inventory", deleted="withdrawal"),
            commands=REQUESTS,
            deciding=DECIDING,
            window_s=settings.window_s,
            tick_s=TICK_S,
        )

    def measure(self) -> None:
        """See `Manager`."""
        NODES.set(len(self.published.messages))
        FAULTY.set(self.published.faulty)
        FAULTY_TOPOLOGIES.set(self.published.faulty_topologies)
        UNREADABLE.set(self.reconciler.unreadable)
        HELD_BACK.set(self.reconciler.held_back)
        for (kind, healthy), count in self.published.devices.items():
            COUNTED.labels(kind, "healthy" if healthy else "unhealthy").set(count)


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()
