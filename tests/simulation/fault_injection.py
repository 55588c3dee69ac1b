"""Faults of the schedule, carried out: on processes, on the bus, on the API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tests.simulation.blinding import blinded, hinders_binds
from tests.simulation.faults import Fault
from tests.simulation.harness import Harness
from tests.simulation.knobs import Knobs

from berth.simcluster.store.resource import NODES
from berth.testing.simulation.process import Process

DOWNTIME_S = 1.0
AFTERMATH_S = 12.0
"""What a fault costs when it is over: a start, a Lease to be waited for, and a pause between two tries."""


class FaultInjector(Knobs):
    """Sets timers for faults; `calm` ends all that is under way."""

    AIMED: ClassVar[frozenset[str]] = frozenset()
    """Kinds of which no promise is excused by what somebody cannot see meanwhile."""

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness)
        self._paused: dict[Process, None] = {}
        self.struck = 0
        self.troubles: list[tuple[float, float]] = []
        """When something went wrong that keeps decisions from being carried out, and until when."""

    def plan(self, faults: list[Fault]) -> None:
        """Set a timer for each."""
        for fault in faults:
            self._harness.world.later(fault.at_s - self._harness.world.now, None, self._strike, fault)

    def calm(self) -> None:
        """From now on nothing goes wrong."""
        harness = self._harness
        self._turn_back()
        harness.kube.come_back()
        harness.kube.barred.clear()
        if harness.machine is not None:
            harness.machine.make_group()
        for process in list(self._paused):
            self._resume(process)
        if not harness.nats.running:
            harness.nats.start()

    def _strike(self, fault: Fault) -> None:
        self._harness.journal.note("fault", what=str(fault))
        self.struck += 1
        self._harness.struck.append(fault)
        now_s = self._harness.world.now
        self._harness.observer.at(now_s)
        if fault.kind not in self.AIMED:
            self._harness.observer.blind(fault.hides_s + AFTERMATH_S, blinded(fault))
        if hinders_binds(fault):
            self._harness.observer.trouble(fault.lasts_s + AFTERMATH_S, hides=False)
            self.troubles.append((now_s, now_s + fault.lasts_s + AFTERMATH_S))
        getattr(self, "_" + fault.kind.replace(" ", "_"))(fault)

    # --- processes ----------------------------------------------------------------------------------------------------

    def _kill(self, fault: Fault) -> None:
        self._replica(fault).kill(after_callbacks=int(fault.amount))

    def _gone(self, fault: Fault) -> None:
        replica = self._replica(fault)
        (replica.stop if fault.amount else replica.down)()

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
            self._harness.nats.cut(process, self._rng.choice((0, 0, 1, 5)))
        else:
            self._harness.nats.partition(process, fault.for_s)

    def _late_reader(self, fault: Fault) -> None:
        process = self._replica(fault).process
        if process is not None:
            self._harness.nats.stall(process, fault.for_s)

    def _group_gone(self, fault: Fault) -> None:
        machine = self._harness.machine
        if machine is not None and not self._calm:
            machine.lose_group()
            self._later(fault.for_s, machine.make_group)

    def _binds_barred(self, fault: Fault) -> None:
        kube = self._harness.kube
        nodes = sorted(kube.store.state.of(NODES).items)
        if nodes and not self._calm:
            node = self._rng.choice(nodes)
            kube.barred.add(node)
            self._harness.observer.bar(node, fault.for_s)
            self._later(fault.for_s, kube.barred.discard, node)

    # --- the bus ------------------------------------------------------------------------------------------------------

    def _bus_restart(self, fault: Fault) -> None:
        self._down(fault.for_s, None)

    def _tail_lost(self, fault: Fault) -> None:
        def damage(nats: Any) -> None:
            names = [f"KV_{fault.target}"] if fault.target else sorted(nats.streams)
            for name in names:
                nats.lose_tail(name, int(fault.amount))

        self._down(DOWNTIME_S, damage)

    def _led_anew(self, fault: Fault) -> None:
        nats = self._harness.nats
        if nats.running:
            with nats.damaged():
                for name in [f"KV_{fault.target}"] if fault.target else sorted(nats.streams):
                    nats.lead_anew(name, int(fault.amount))

    def _bucket_lost(self, fault: Fault) -> None:
        self._down(DOWNTIME_S, lambda nats: nats.lose_stream(f"KV_{fault.target}"))

    def _leader_moved(self, fault: Fault) -> None:
        nats = self._harness.nats
        if nats.running:
            with nats.damaged():
                nats.lead_anew(f"KV_{fault.target}", int(fault.amount), stranded=False)

    def _entry_garbled(self, fault: Fault) -> None:
        self._harness.nats.garble(self._rng, int(fault.amount))

    def _bucket_remade(self, fault: Fault) -> None:
        nats = self._harness.nats
        if nats.running:
            with nats.damaged():
                nats.remake(f"KV_{fault.target}")

    def _bus_empty(self, fault: Fault) -> None:
        self._down(DOWNTIME_S, lambda nats: nats.empty())

    def _down(self, for_s: float, damage: Callable[[Any], None] | None) -> None:
        nats = self._harness.nats
        if not nats.running:
            return

        def broken(server: Any) -> None:
            if damage is not None:
                with nats.damaged():
                    damage(server)

        nats.restart(for_s, broken)
