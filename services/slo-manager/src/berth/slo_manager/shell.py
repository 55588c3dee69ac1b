"""Bus in, bus out: followers fill the views, one loop takes the nodes that changed and writes what the desk answers.

Both replicas read everything all the time; only the holder of the lease writes. What a former holder might still
write is refused by the sequences that every write expects.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from berth.bus.port import OwnedPort
from berth.contracts import buckets
from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.command import ApplyObject
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import ObjectRefused
from berth.contracts.question import StatusAnswer
from berth.contracts.subjects import command_subject, event_subject, named_key
from berth.runtime import ActiveStandby, ChangeSet, Context
from berth.slo_manager.handlers import Desk, Outcome
from berth.slo_manager.settings import Settings
from berth.slo_manager.views import NODE, Shelf, StateView
from berth.telemetry import counter, gauge, histogram

SERVICE = "slo-manager"
BATCH_MAX = 500

NODES = gauge("berth_slo_nodes", "Nodes with a published strategy.")
BROKEN = gauge("berth_slo_broken_keys", "Keys of the ConfigMap that cannot be used and keep what they said before.")
PROBLEMS = gauge("berth_slo_problems", "Things that are wrong with the ConfigMap of strategies now.")
UNREADABLE = gauge("berth_slo_unreadable_messages", "Messages of STATE that could not be read since the start.")
PUBLISHED = counter("berth_slo_published_total", "Writes to SLO.", ["what"])
APPLIED = counter("berth_slo_objects_total", "NodeSLO objects that were asked to be written.")
DECIDING = histogram("berth_slo_decide_seconds", "Time to decide about the nodes of one batch.")


class Shell:
    """The parts of one replica and how they are wired."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        self.context = context
        self.changed: ChangeSet[str] = ChangeSet(context.clock)
        self.view = StateView(settings.config_map(), self.changed.mark, self._mark_all)
        self.shelf = Shelf(self.changed.mark)
        self.desk = Desk(self.view, self.shelf, sync_objects=settings.slo_sync_objects)
        self.owned: OwnedPort = context.bus.owned(
            buckets.SLO, sink=self.shelf, on_conflict=self._mark_key, on_reset=self._mark_all
        )
        self.standby = ActiveStandby(context.bus, SERVICE, context.instance, ttl_s=settings.lease_ttl_s)

    async def run(self) -> None:
        """Start everything and work until cancelled."""
        context = self.context
        context.health.add("state", lambda: (self.view.is_complete, self.view.missing))
        context.health.add("lease", self.standby.check)
        follower = context.bus.follow(buckets.STATE, self.view, keys=self.view.keys)
        context.spawn(follower.run(), name="follow-state")
        await context.bus.serve(SERVICE, _version(), {"status": self._status})
        await self.owned.ready()
        try:
            await self.standby.run(self._work)
        finally:
            await self.owned.drain()

    async def _work(self) -> None:
        """Decide and write for as long as this replica is the active one."""
        self.context.log.info("active: publishing strategies of nodes", config_map=self.context.settings.slo_config_map)
        self.desk.forget_texts()
        self._mark_all()
        async for names in self.changed.batches(self.context.settings.window_s, BATCH_MAX):
            # Before the view is complete nothing is decided; that it is complete marks every node.
            if self.view.is_complete:
                await self._step(names)

    async def _step(self, names: list[str]) -> None:
        problems = self.desk.refresh()
        if problems:
            self._refuse(problems)
        now_ms = int(self.context.clock.now() * 1000)
        with DECIDING.time():
            outcomes = [(name, self.desk.decide(name, now_ms)) for name in names]
        open_ones = dict(outcomes)
        try:
            for name, outcome in outcomes:
                try:
                    await self._carry_out(name, outcome)
                except (InvalidMessage, ValueError) as error:  # a name or a strategy too large for the bus
                    self.context.log.error("strategy cannot be published", node=name[:253], error=str(error))
                del open_ones[name]
        finally:
            # Interrupted, since another replica is to be active: what was not written is not to pass for written.
            for name, outcome in open_ones.items():
                self.desk.take_back(name, outcome)
        self._measure()
        await self.owned.wait_while_full()

    async def _carry_out(self, name: str, outcome: Outcome) -> None:
        # The object is asked for first: who dies in between asks again, since nothing was published yet.
        if outcome.apply is not None:
            await self._ask(outcome.apply)
        if not self.desk.stands(name, outcome):
            return  # the bucket has shown something else meanwhile, and the node is marked
        key = named_key(NODE, name)
        if outcome.strategy is not None and self.owned.put(key, encode(outcome.strategy)):
            PUBLISHED.labels("strategy").inc()
        elif outcome.withdraw and self.owned.delete(key):
            PUBLISHED.labels("withdrawal").inc()

    async def _ask(self, command: ApplyObject) -> None:
        await self.context.bus.commands().publish(
            command_subject("apply", "nodeslos", command.name),
            encode(command),
            id=f"{SERVICE}.{command.name}.{command.revision}"[:500],
            type="object.apply.v1",
        )
        APPLIED.inc()

    def _refuse(self, problems: list[Problem]) -> None:
        """Tell people what is wrong with the ConfigMap; better an event lost than the service held up."""
        namespace, name = self.context.settings.config_map()
        told = [f"{problem.field}: {problem.message}" for problem in problems[:5]]
        self.context.log.warning("ConfigMap of strategies has problems", namespace=namespace, name=name, problems=told)
        event = ObjectRefused(kind="ConfigMap", namespace=namespace, name=name, problems=problems[:100])
        identity = f"{SERVICE}.{name}.{int(self.context.clock.now() * 1000)}"[:500]
        subject = event_subject("object", "refused", "configmaps", namespace, name)
        self.context.bus.events().offer(subject, encode(event), id=identity, type="object.refused.v1")

    def _measure(self) -> None:
        NODES.set(len(self.shelf.strategies))
        PROBLEMS.set(len(self.desk.config.problems))
        BROKEN.set(len(self.desk.config.broken))
        UNREADABLE.set(self.view.unreadable)

    def _mark_all(self) -> None:
        self.changed.mark_all(sorted(self.desk.names()))

    def _mark_key(self, key: str) -> None:
        """A write was refused: another replica wrote this key."""
        name = self.shelf.names.get(key)
        if name is None:
            self._mark_all()
        else:
            self.changed.mark(name)

    async def _status(self, question: bytes) -> bytes:
        strategies = self.shelf.strategies.values()
        return encode(
            StatusAnswer(
                service=SERVICE,
                instance=self.context.instance,
                active=self.standby.active,
                ready=self.view.is_complete,
                facts={
                    "nodes": len(self.shelf.strategies),
                    "nodes that hold best-effort pods": sum(each.cpu_suppress.enabled for each in strategies),
                    "config map": self.context.settings.slo_config_map
                    + ("" if self.view.texts is not None else " (none)"),
                    "problems": len(self.desk.config.problems),
                    "unusable keys": ", ".join(self.desk.config.broken) or "none",
                    "unreadable messages": self.view.unreadable,
                    "view": self.view.missing,
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
