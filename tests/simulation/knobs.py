"""Faults that last a while: knobs of the bus and of the API server, turned, and turned back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import WATCH_LIFE_S, Fault
from tests.simulation.harness import QUIET, Harness, no_faults

from berth.testing.simulation.services import Replica

if TYPE_CHECKING:
    from berth.testing.simulation.nats.subscription import Subscription

WATCHED_ONLY = ("nodes", "devices", "podgroups", "elasticquotas", "namespaces")
"""Kinds that cluster-watcher lists and cluster-writer does not. Of pods and Reservations cluster-writer needs the
consistent list to raise an epoch: with a stale one there is no promise to keep."""


class Knobs:
    """What is turned at present; several faults may turn different knobs at once."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._rng = harness.world.chance("strikes")
        self._delays = harness.world.chance("delays under faults")
        self._api: dict[int, dict[str, Any]] = {}
        self._bus: dict[int, dict[str, Any]] = {}
        self._numbers = 0
        self._calm = False

    def _turn_back(self) -> None:
        """All of them, for good."""
        self._calm = True
        self._api.clear()
        self._bus.clear()
        self._set_api()
        self._set_bus()

    def _replica(self, fault: Fault) -> Replica:
        return self._rng.choice([each for each in self._harness.host.of(fault.target) if each.wanted])

    def _later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> None:
        self._harness.world.later(delay_s, None, callback, *args)

    # --- the bus ------------------------------------------------------------------------------------------------------

    def _bus_slow(self, fault: Fault) -> None:
        rng, most_s = self._delays, fault.amount
        up, down = (lambda _: rng.uniform(0.0, most_s / 4)), (lambda _: rng.uniform(0.0, most_s))
        self._on_bus(fault, up_s=up, down_s=down, store_s=lambda _: rng.uniform(0.0, most_s / 10))

    def _deliveries_stuck(self, fault: Fault) -> None:
        """Now and then a burst, and all behind it, is on its way for longer than its sender waits, twice over."""
        process, rng, usual = self._replica(fault).process, self._delays, no_faults(self._delays)

        def down_s(subscription: Subscription) -> float:
            is_stuck = subscription.client.owner is process and rng.random() < 0.1
            return fault.amount if is_stuck else usual.down_s(subscription)

        self._on_bus(fault, down_s=down_s)

    def _acks_lost(self, fault: Fault) -> None:
        self._on_bus(fault, drop_ack=lambda _stream, _subject: self._delays.random() < fault.amount)

    def _twice(self, fault: Fault) -> None:
        self._on_bus(fault, duplicate=lambda _stream, _consumer: self._delays.random() < fault.amount)

    def _bucket_full(self, fault: Fault) -> None:
        self._on_bus(fault, full=lambda stream: stream == f"KV_{fault.target}")

    def _on_bus(self, fault: Fault, **knobs: Any) -> None:
        self._for_a_while(self._bus, knobs, fault.for_s, self._set_bus)

    def _set_bus(self) -> None:
        faults = no_faults(self._delays)
        for knobs in self._bus.values():
            faults = dataclasses.replace(faults, **knobs)
        self._harness.nats.faults = faults

    # --- the API server -----------------------------------------------------------------------------------------------

    def _api_errors(self, fault: Fault) -> None:
        if fault.target == "429":
            self._on_api(fault, throttled=fault.amount)
        else:
            self._on_api(fault, failed=fault.amount * 0.7, failed_after=fault.amount * 0.3)

    def _api_turns_away(self, fault: Fault) -> None:
        self._on_api(fault, turned_away=fault.amount)

    def _api_lost_answers(self, fault: Fault) -> None:
        self._on_api(fault, **{"lost" if fault.target == "before" else "lost_after": fault.amount})

    def _api_slow(self, fault: Fault) -> None:
        self._on_api(fault, slow=0.5, slow_s=(fault.amount / 2, fault.amount * 1.5))

    def _api_away(self, fault: Fault) -> None:
        self._harness.kube.go_away(fault.for_s, self._rng.choice(("refused", "silent", "answers")))

    def _api_cut(self, fault: Fault) -> None:
        process = self._replica(fault).process
        if process is not None:
            self._harness.kube.go_away(fault.for_s, self._rng.choice(("refused", "silent", "answers")), process.name)

    def _watches_fail(self, fault: Fault) -> None:
        life_s = (0.0, WATCH_LIFE_S if fault.target == "silent" else 2.0)
        self._on_api(fault, **{f"watches_{fault.target}": fault.amount}, watch_life_s=life_s)
        self._harness.kube.cut_watches()
        if fault.target == "late":
            self._later(fault.for_s, self._harness.kube.cut_watches)

    def _pages_expired(self, fault: Fault) -> None:
        # Lists are made where watches are refused.
        self._on_api(fault, tokens_expired=fault.amount, watches_gone=0.5)
        self._harness.kube.cut_watches()

    def _watches_closed(self, fault: Fault) -> None:
        self._harness.kube.cut_watches()

    def _history_gone(self, fault: Fault) -> None:
        self._harness.kube.forget_history()
        self._harness.kube.cut_watches()

    def _stale_lists(self, fault: Fault) -> None:
        # Our lists ask for a consistent read, which Kubernetes keeps. The watcher has to come through even so; the
        # auditor, which looks at nothing else, cannot.
        self._on_api(
            fault,
            stale_lists=0.7,
            stale_s=(fault.amount / 2, fault.amount),
            stale_anyway=True,
            stale_to="cluster-watcher",
            resources=WATCHED_ONLY,
            watches_gone=0.3,
        )
        self._harness.kube.cut_watches()

    def _conflicts(self, fault: Fault) -> None:
        self._on_api(fault, conflicts=fault.amount)

    def _on_api(self, fault: Fault, **knobs: Any) -> None:
        self._for_a_while(self._api, knobs, fault.for_s, self._set_api)

    def _set_api(self) -> None:
        faults = QUIET
        for knobs in self._api.values():
            faults = dataclasses.replace(faults, **knobs)
        self._harness.kube.faults = faults

    def _for_a_while(
        self, active: dict[int, dict[str, Any]], knobs: dict[str, Any], for_s: float, settle: Callable[[], None]
    ) -> None:
        if self._calm:
            return
        self._numbers += 1
        number = self._numbers
        active[number] = knobs
        settle()

        def over() -> None:
            active.pop(number, None)
            settle()

        self._later(for_s, over)
