"""Faults of the schedule, carried out: on processes, on the bus, on the API server."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.simulation.faults import Fault
from tests.simulation.stand import QUIET, Stand, no_faults

from berth.testing.simulation.process import Process
from berth.testing.simulation.services import Replica

DOWNTIME_S = 1.0
AFTERMATH_S = 12.0
"""What a fault costs when it is over: a start, a Lease to be waited for, and a pause between two tries."""
BYSTANDERS = (
    "cluster-watcher",
    "device-inventory",
    "quota-manager",
    "reservation-manager",
    "placement-solver",
    "node-qos-enforcer",
)
"""What befalls them keeps nobody from carrying out what is decided."""
WATCHED_ONLY = ("nodes", "devices", "podgroups", "elasticquotas", "namespaces")
"""Kinds that only cluster-watcher lists. Of pods and Reservations cluster-writer needs the consistent list to raise an
epoch: with a stale one there is no promise to keep."""


class Striker:
    """Sets timers for faults; `calm` ends all that is under way."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._rng = stand.world.chance("strikes")
        self._delays = stand.world.chance("delays under faults")
        self._paused: dict[Process, None] = {}
        self._api: dict[int, dict[str, Any]] = {}
        self._bus: dict[int, dict[str, Any]] = {}
        self._numbers = 0
        self._calm = False
        self.struck = 0
        self.troubles: list[tuple[float, float]] = []
        """When something went wrong that keeps decisions from being carried out, and until when."""

    def plan(self, faults: list[Fault]) -> None:
        """Set a timer for each."""
        for fault in faults:
            self._stand.world.later(fault.at_s - self._stand.world.now, None, self._strike, fault)

    def calm(self) -> None:
        """From now on nothing goes wrong."""
        stand = self._stand
        self._calm = True
        self._api.clear()
        self._bus.clear()
        self._set_api()
        self._set_bus()
        stand.kube.come_back()
        if stand.machine is not None:
            stand.machine.make_group()
        for process in list(self._paused):
            self._resume(process)
        if not stand.nats.running:
            stand.nats.start()

    def _strike(self, fault: Fault) -> None:
        self._stand.journal.note("fault", what=str(fault))
        self.struck += 1
        if fault.target not in BYSTANDERS:
            now_s = self._stand.world.now
            self._stand.observer.at(now_s)
            self._stand.observer.trouble(fault.for_s + AFTERMATH_S)
            self.troubles.append((now_s, now_s + fault.for_s + AFTERMATH_S))
        getattr(self, "_" + fault.kind.replace(" ", "_"))(fault)

    def _replica(self, fault: Fault) -> Replica:
        return self._rng.choice(self._stand.host.of(fault.target))

    def _later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> None:
        self._stand.world.later(delay_s, None, callback, *args)

    # --- processes ----------------------------------------------------------------------------------------------------

    def _kill(self, fault: Fault) -> None:
        self._replica(fault).kill(after_callbacks=int(fault.amount))

    def _pause(self, fault: Fault) -> None:
        process = self._replica(fault).process
        if process is not None and process.alive and process not in self._paused:
            process.pause()
            self._paused[process] = None
            self._later(fault.for_s, self._resume, process)

    def _resume(self, process: Process) -> None:
        if self._paused.pop(process, False) is None and process.alive:
            process.resume()

    def _clock(self, fault: Fault) -> None:
        process = self._replica(fault).process
        if process is not None:
            process.clock.jump(fault.amount)

    def _cut(self, fault: Fault) -> None:
        process = self._replica(fault).process
        if process is None:
            return
        if fault.for_s < 1.0:
            self._stand.nats.cut(process, self._rng.choice((0, 0, 1, 5)))
        else:
            self._stand.nats.partition(process, fault.for_s)

    def _late_reader(self, fault: Fault) -> None:
        process = self._replica(fault).process
        if process is not None:
            self._stand.nats.stall(process, fault.for_s)

    def _group_gone(self, fault: Fault) -> None:
        machine = self._stand.machine
        if machine is not None and not self._calm:
            machine.lose_group()
            self._later(fault.for_s, machine.make_group)

    # --- the bus ------------------------------------------------------------------------------------------------------

    def _bus_restart(self, fault: Fault) -> None:
        self._down(fault.for_s, None)

    def _tail_lost(self, fault: Fault) -> None:
        def damage(nats: Any) -> None:
            names = [f"KV_{fault.target}"] if fault.target else sorted(nats.streams)
            for name in names:
                nats.lose_tail(name, int(fault.amount))

        self._down(DOWNTIME_S, damage)

    def _bucket_lost(self, fault: Fault) -> None:
        self._down(DOWNTIME_S, lambda nats: nats.lose_stream(f"KV_{fault.target}"))

    def _bucket_remade(self, fault: Fault) -> None:
        nats = self._stand.nats
        if nats.running:
            nats.remake(f"KV_{fault.target}")
            nats.lost()

    def _bus_empty(self, fault: Fault) -> None:
        self._down(DOWNTIME_S, lambda nats: nats.empty())

    def _down(self, for_s: float, damage: Callable[[Any], None] | None) -> None:
        nats = self._stand.nats
        if not nats.running:
            return

        def broken(server: Any) -> None:
            if damage is not None:
                damage(server)
                nats.lost()

        nats.restart(for_s, broken)

    def _bus_slow(self, fault: Fault) -> None:
        rng, most_s = self._delays, fault.amount
        up, down = (lambda _: rng.uniform(0.0, most_s / 4)), (lambda _: rng.uniform(0.0, most_s))
        self._on_bus(fault, up_s=up, down_s=down, store_s=lambda _: rng.uniform(0.0, most_s / 10))

    def _acks_lost(self, fault: Fault) -> None:
        self._on_bus(fault, drop_ack=lambda _stream, _subject: self._delays.random() < fault.amount)

    def _twice(self, fault: Fault) -> None:
        self._on_bus(fault, duplicate=lambda _stream, _consumer: self._delays.random() < fault.amount)

    def _on_bus(self, fault: Fault, **knobs: Any) -> None:
        self._for_a_while(self._bus, knobs, fault.for_s, self._set_bus)

    def _set_bus(self) -> None:
        faults = no_faults(self._delays)
        for knobs in self._bus.values():
            faults = dataclasses.replace(faults, **knobs)
        self._stand.nats.faults = faults

    # --- the API server -----------------------------------------------------------------------------------------------

    def _api_errors(self, fault: Fault) -> None:
        if fault.target == "429":
            self._on_api(fault, throttled=fault.amount)
        else:
            self._on_api(fault, failed=fault.amount * 0.7, failed_after=fault.amount * 0.3)

    def _api_lost_answers(self, fault: Fault) -> None:
        self._on_api(fault, **{"lost" if fault.target == "before" else "lost_after": fault.amount})

    def _api_slow(self, fault: Fault) -> None:
        self._on_api(fault, slow=0.5, slow_s=(fault.amount / 2, fault.amount * 1.5))

    def _api_away(self, fault: Fault) -> None:
        self._stand.kube.go_away(fault.for_s, self._rng.choice(("refused", "silent", "answers")))

    def _watches_closed(self, fault: Fault) -> None:
        self._stand.kube.cut_watches()

    def _history_gone(self, fault: Fault) -> None:
        self._stand.kube.forget_history()
        self._stand.kube.cut_watches()

    def _stale_lists(self, fault: Fault) -> None:
        # Our lists ask for a consistent read, which Kubernetes keeps. The watcher has to come through even so.
        self._on_api(
            fault,
            stale_lists=0.7,
            stale_s=(fault.amount / 2, fault.amount),
            stale_anyway=True,
            resources=WATCHED_ONLY,
            watches_gone=0.3,
        )
        self._stand.kube.cut_watches()

    def _conflicts(self, fault: Fault) -> None:
        self._on_api(fault, conflicts=fault.amount)

    def _on_api(self, fault: Fault, **knobs: Any) -> None:
        self._for_a_while(self._api, knobs, fault.for_s, self._set_api)

    def _set_api(self) -> None:
        faults = QUIET
        for knobs in self._api.values():
            faults = dataclasses.replace(faults, **knobs)
        self._stand.kube.faults = faults

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
