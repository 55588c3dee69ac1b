"""The wiring of slo-manager: what it reads, decides with and publishes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.node_audit import LendingQuestion
from berth.runtime import Context, Input, Manager, Output
from berth.slo_manager.core.offers.rules import Rules
from berth.slo_manager.reconciler import Reconciler
from berth.slo_manager.settings import SERVICE, Settings
from berth.slo_manager.views import (
    METRIC_KEYS,
    OBJECT_KEYS,
    POD_KEYS,
    PRESSURE_KEYS,
    PodView,
    Pressures,
    Reports,
    SloView,
    StateView,
)
from berth.telemetry import counter, gauge, histogram

TICK_S = 1.0
NODES = gauge("berth_slo_nodes", "Nodes with a published strategy.")
UNUSABLE = gauge("berth_slo_unusable_keys", "Keys of the ConfigMap that cannot be used and keep what they said before.")
PROBLEMS = gauge("berth_slo_problems", "Things that are wrong with the ConfigMap of strategies now.")
UNREADABLE = gauge("berth_slo_unreadable_messages", "Messages that could not be read since the start.")
PUBLISHED = counter("berth_slo_published_total", "Writes to SLO.", ["what"])
APPLIED = counter("berth_slo_objects_total", "Requests to write NodeSLO objects and nodes.")
TO_BE_WRITTEN = gauge("berth_slo_objects_to_be_written", "NodeSLO objects that were requested and are not shown yet.")
TO_BE_ANNOTATED = gauge("berth_slo_nodes_to_be_annotated", "Nodes that do not show the requested annotations yet.")
FAULTY_NODES = gauge("berth_slo_nodes_with_problems", "Nodes about which some strategy says what cannot be used.")
LENDING = gauge("berth_slo_nodes_lending", "Nodes that lend batch or mid resources.")
OFFERS_TO_BE_WRITTEN = gauge("berth_slo_offers_to_be_written", "Nodes that wait for their turn to show what they lend.")
EVICTIONS = gauge("berth_slo_evictions_open", "Pods that were asked to leave for their node's sake and are there.")
DECIDING = histogram("berth_slo_decide_seconds", "Time to decide about the nodes of one batch.")


class Shell(Manager[Settings, Reconciler]):
    """One replica."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        super().__init__(SERVICE, context, lease_ttl_s=settings.lease_ttl_s)
        self.view = StateView(settings.config_map(), self.changed.mark, self.mark_all)
        self.pods = PodView(self.changed.mark, self.mark_all)
        self.reports = Reports(self.changed.mark, self.mark_all)
        self.pressures = Pressures(self.changed.mark)
        self.published = SloView(self.changed.mark)
        reconciler = Reconciler(
            self.view,
            self.pods,
            self.reports,
            self.pressures,
            self.published,
            config_map=settings.config_map(),
            sync_objects=settings.slo_sync_objects,
            sync_nodes=settings.slo_sync_nodes,
            sync_offers=settings.slo_sync_offers,
            mirror_metrics=settings.slo_mirror_metrics,
            evictions_per_hour=settings.slo_evictions_per_hour,
            rules=Rules(mid_formula=settings.slo_mid_formula),
        )
        self.wire(
            reconciler,
            inputs=[
                Input(buckets.STATE, self.view, self.view.keys),
                Input(buckets.STATE, self.pods, POD_KEYS),
                Input(buckets.STATE, self.reports.objects, OBJECT_KEYS),
                Input(buckets.METRICS, self.reports.agents, METRIC_KEYS),
                Input(buckets.METRICS, self.pressures, PRESSURE_KEYS),
            ],
            output=Output(buckets.SLO, self.published, PUBLISHED, written="strategy", deleted="withdrawal"),
            commands=APPLIED,
            deciding=DECIDING,
            window_s=settings.window_s,
            tick_s=TICK_S,
        )

    @property
    def questions(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """See `Replica`."""

        async def lending(payload: bytes) -> bytes:
            return encode(self.reconciler.answer(decode(payload, LendingQuestion).name, self.moment()))

        return {"lending": lending}

    def measure(self) -> None:
        """See `Manager`."""
        NODES.set(len(self.published.messages))
        PROBLEMS.set(len(self.reconciler.config.problems))
        UNUSABLE.set(len(self.reconciler.config.unusable))
        UNREADABLE.set(self.reconciler.unreadable)
        LENDING.set(self.reconciler.lending)
        OFFERS_TO_BE_WRITTEN.set(self.reconciler.offers_to_be_written)
        EVICTIONS.set(self.reconciler.evictions_open)
        TO_BE_WRITTEN.set(self.reconciler.to_be_written)
        TO_BE_ANNOTATED.set(self.reconciler.to_be_annotated)
        FAULTY_NODES.set(len(self.published.faulty))


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()
