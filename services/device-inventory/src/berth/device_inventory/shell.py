"""Bus in, bus out: followers fill the views, one loop takes the nodes that changed and writes what the desk answers.

Both replicas read everything all the time; only the holder of the lease writes. What a former holder might still
write is refused by the sequences that every write expects.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from berth.bus.port import OwnedPort
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.command import PatchNode
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import NodeChanged, ObjectRefused
from berth.contracts.question import StatusAnswer
from berth.contracts.subjects import command_subject, event_subject, named_key, synced_key
from berth.device_inventory.handlers import Desk, Outcome, Rules
from berth.device_inventory.settings import Settings
from berth.device_inventory.views import NODE, Shelf, StateView
from berth.runtime import ActiveStandby, ChangeSet, Context, Periodic
from berth.telemetry import counter, gauge, histogram

SERVICE = "device-inventory"
TICK_S = 1.0
BATCH_MAX = 500
KEYS = ("device.>", "node.>", synced_key("devices"))
"""What of STATE is read: pods, which are most of it, say nothing about devices."""

NODES = gauge("berth_devices_nodes", "Nodes with a published inventory.")
COUNTED = gauge("berth_devices_counted", "Devices by kind and health.", ["kind", "health"])
FAULTY = gauge("berth_devices_faulty_nodes", "Nodes whose Device object has problems.")
UNREADABLE = gauge("berth_devices_unreadable_messages", "Messages of STATE that could not be read since the start.")
PUBLISHED = counter("berth_devices_published_total", "Writes to INVENTORY.", ["what"])
PATCHES = counter("berth_devices_node_patches_total", "Node patches that were asked for.")
DECIDING = histogram("berth_devices_decide_seconds", "Time to decide about the nodes of one batch.")


class Shell:
    """The parts of one replica and how they are wired."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        self.context = context
        self.changed: ChangeSet[str] = ChangeSet(context.clock)
        self.view = StateView(self.changed.mark, self._mark_all)
        self.shelf = Shelf(self.changed.mark)
        rules = Rules(
            sync_nodes=settings.device_sync_nodes,
            publish_shared=settings.device_publish_shared,
            threshold=settings.device_diff_threshold,
            retry_s=settings.device_retry_s,
        )
        self.desk = Desk(rules, self.view, self.shelf)
        self.owned: OwnedPort = context.bus.owned(
            buckets.INVENTORY, sink=self.shelf, on_conflict=self._mark_key, on_reset=self._mark_all
        )
        self.standby = ActiveStandby(context.bus, SERVICE, context.instance, ttl_s=settings.lease_ttl_s)

    async def run(self) -> None:
        """Start everything and work until cancelled."""
        context = self.context
        context.health.add("state", lambda: (self.view.is_at_end, self.view.missing))
        context.health.add("lease", self.standby.check)
        follower = context.bus.follow(buckets.STATE, self.view, keys=KEYS)
        context.spawn(follower.run(), name="follow-state")
        context.spawn(self._tick(), name="tick")
        await context.bus.serve(SERVICE, _version(), {"status": self._status})
        await self.owned.ready()
        try:
            await self.standby.run(self._work)
        finally:
            await self.owned.drain()

    async def _work(self) -> None:
        """Decide and write for as long as this replica is the active one."""
        settings = self.context.settings
        self.context.log.info("active: publishing device inventories")
        self.desk.forget_asked()
        self._mark_all()
        async for names in self.changed.batches(settings.window_s, BATCH_MAX):
            # Before the end of STATE nothing is decided; reaching it marks every node.
            if self.view.is_at_end:
                await self._step(names)

    async def _step(self, names: list[str]) -> None:
        now = self.context.clock.monotonic()
        with DECIDING.time():
            outcomes = [(name, self.desk.decide(name, now)) for name in names]
        # The shelf shows all of them as written: they are, before anything can come in between.
        for name, outcome in outcomes:
            try:
                self._publish(name, outcome)
            except (InvalidMessage, ValueError) as error:  # a name or an inventory too large for the bus
                self.context.log.error("inventory cannot be published", node=name[:253], error=str(error))
        for name, outcome in outcomes:
            try:
                if outcome.patch is not None:
                    await self._ask(outcome.patch)
            except (InvalidMessage, ValueError) as error:
                self.context.log.error("node cannot be patched", node=name[:253], error=str(error))
        await self.owned.wait_while_full()

    def _publish(self, name: str, outcome: Outcome) -> None:
        key = named_key(NODE, name)
        changed = False
        if outcome.inventory is not None:
            changed = self.owned.put(key, encode(outcome.inventory))
        elif outcome.withdraw:
            changed = self.owned.delete(key)
        if changed:  # else the bucket's echo of an earlier write made it look different for a moment
            PUBLISHED.labels("withdrawal" if outcome.withdraw else "inventory").inc()
            for event in outcome.events:
                self._tell(name, event)

    async def _ask(self, patch: PatchNode) -> None:
        await self.context.bus.commands().publish(
            command_subject("patch", "nodes", patch.name),
            encode(patch),
            id=f"{SERVICE}.{patch.uid}.{int(self.context.clock.now() * 1000)}",
            type="node.patch.v1",
        )
        PATCHES.inc()

    def _tell(self, name: str, event: NodeChanged | ObjectRefused) -> None:
        """Events are for people: better one lost than the service held up."""
        if isinstance(event, NodeChanged):
            self.context.log.info("devices changed", node=name, what=event.message)
            subject, kind, about = event_subject("node", "changed", name), "node.changed.v1", event.message
        else:
            problems = [f"{problem.field}: {problem.message}" for problem in event.problems[:5]]
            self.context.log.warning("Device object has problems", node=name, problems=problems)
            subject, kind, about = event_subject("object", "refused", "devices", name), "object.refused.v1", "device"
        identity = f"{SERVICE}.{name}.{about}.{int(self.context.clock.now() * 1000)}"[:500]
        self.context.bus.events().offer(subject, encode(event), id=identity, type=kind)

    async def _tick(self) -> None:
        async for _ in Periodic(self.context.clock, TICK_S).ticks():
            self.changed.mark_all(self.desk.overdue(self.context.clock.monotonic()))
            self._measure()

    def _measure(self) -> None:
        NODES.set(len(self.shelf.inventories))
        FAULTY.set(self.shelf.faulty)
        UNREADABLE.set(self.view.unreadable)
        for (kind, healthy), count in self.shelf.devices.items():
            COUNTED.labels(kind, "healthy" if healthy else "unhealthy").set(count)

    def _mark_all(self) -> None:
        self.changed.mark_all(sorted(self.desk.names()))

    def _mark_key(self, key: str) -> None:
        """A write was refused: another replica wrote this key."""
        name = self.shelf.keys.get(key)
        if name is None:
            self._mark_all()
        else:
            self.changed.mark(name)

    async def _status(self, question: bytes) -> bytes:
        return encode(
            StatusAnswer(
                service=SERVICE,
                instance=self.context.instance,
                active=self.standby.active,
                ready=self.view.is_at_end,
                facts={
                    "nodes": len(self.view.nodes),
                    "nodes with devices": len(self.shelf.inventories),
                    "nodes with problems": self.shelf.faulty,
                    "unreadable messages": self.view.unreadable,
                    "view": self.view.missing,
                    **{
                        f"{kind} {'healthy' if healthy else 'unhealthy'}": count
                        for (kind, healthy), count in sorted(self.shelf.devices.items())
                    },
                },
            )
        )


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()


def _version() -> str:
    try:
        return version(f"berth-{SERVICE}")
    except PackageNotFoundError:
        return "0.0.0"
