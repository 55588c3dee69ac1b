"""Faults beside the ordinary ones, each aimed at one place: a view, a batch, a verb, a kind of object."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.fault_injection import FaultInjector
from tests.simulation.faults import Fault
from tests.simulation.harness import no_faults

from berth.bus.client import Delivery
from berth.testing.simulation.nats.push import PushConsumer
from berth.testing.simulation.process import Process

if TYPE_CHECKING:
    from berth.testing.simulation.nats.subscription import Subscription


class Saboteur(FaultInjector):
    """An injector that knows where it hurts."""

    AIMED = frozenset(
        {"late view", "half batches", "leases fail", "binds slow", "binds lost", "deletions slow", "deletions lost"}
    )

    def _late_view(self, fault: Fault) -> None:
        """Target `service:bucket`: each burst of this bucket comes to a replica up to `amount` seconds late."""
        process, is_meant = self._aim(fault.target)
        if process is None:
            return
        rng, usual = self._delays, no_faults(self._delays)

        def down_s(subscription: Subscription) -> float:
            return rng.uniform(0.2, 1.0) * fault.amount if is_meant(subscription) else usual.down_s(subscription)

        self._on_bus(fault, down_s=down_s)

    def _half_batches(self, fault: Fault) -> None:
        """Target as above: with chance `amount` a burst comes in part, and the rest, with what follows it, later."""
        process, is_meant = self._aim(fault.target)
        if process is None:
            return
        rng, nats = self._delays, self._harness.nats
        behind: dict[Subscription, list[Delivery]] = {}

        def comes(subscription: Subscription) -> None:
            for delivery in behind.pop(subscription):
                subscription.push(delivery)

        def chunk(subscription: Subscription) -> int:
            way = subscription._way
            if subscription in behind:
                behind[subscription] += way
                way.clear()
            elif len(way) > 1 and is_meant(subscription) and rng.random() < fault.amount:
                come = rng.randrange(1, len(way))
                behind[subscription] = [way.pop() for _ in range(len(way) - come)][::-1]
                nats.later(rng.uniform(0.2, 2.0), comes, subscription)
            return 0

        self._on_bus(fault, chunk=chunk)

    def _aim(self, target: str) -> tuple[Process | None, Callable[[Subscription], bool]]:
        service, _, bucket = target.partition(":")
        process, nats = self._rng.choice(self._harness.host.of(service)).process, self._harness.nats

        def is_meant(subscription: Subscription) -> bool:
            if subscription.client.owner is not process:
                return False
            stream = nats.streams.get(f"KV_{bucket}")
            followers = stream.consumers.values() if stream is not None else ()
            return any(isinstance(each, PushConsumer) and each.subject == subscription.subject for each in followers)

        return process, is_meant

    def _leases_fail(self, fault: Fault) -> None:
        """Nobody can write a Kubernetes Lease."""
        self._on_api(fault, failed=1.0, resources=("leases",))

    def _binds_slow(self, fault: Fault) -> None:
        """Binds arrive up to `amount` seconds late."""
        self._on_api(fault, slow=0.7, slow_s=(fault.amount / 4, fault.amount), verbs=("bind",))

    def _binds_lost(self, fault: Fault) -> None:
        """Answers of binds are lost, and of some the bind itself."""
        self._on_api(fault, lost=fault.amount / 2, lost_after=fault.amount / 2, verbs=("bind",))

    def _deletions_slow(self, fault: Fault) -> None:
        """Deletions of pods arrive up to `amount` seconds late."""
        self._on_api(fault, slow=0.5, slow_s=(fault.amount / 2, fault.amount), verbs=("delete",), resources=("pods",))

    def _deletions_lost(self, fault: Fault) -> None:
        """Deletions of pods do not arrive."""
        self._on_api(fault, lost=1.0, verbs=("delete",), resources=("pods",))

    def _all_killed(self, fault: Fault) -> None:
        """Every replica of a service at once."""
        for replica in self._harness.host.of(fault.target):
            replica.kill(after_callbacks=int(fault.amount))
