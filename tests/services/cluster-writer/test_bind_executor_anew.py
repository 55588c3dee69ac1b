"""Binds while STATE is written anew: pods and Reservations are complete one before the other (R13)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.writer.bind_bench import BindBench
from tests.services.worlds.writer.objects import device_of

from berth.contracts import state, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision
from berth.simcluster.store import Path
from berth.testing.views import eventually


class Anew:
    """A writer that has just begun to read a STATE that is written anew, after a device has changed hands."""

    def __init__(self, desk: BindBench) -> None:
        self.desk = desk

    def decide(self, obj: Any, plan: str, **more: Any) -> Decision:
        """For minor 0, by a solver that has seen all there is."""
        now = self.desk.api.store.version
        return self.desk.decide(obj, plan, minors=[0], basis=now, other_basis=now, **more)

    def decide_reservation(self, obj: Any, plan: str) -> Decision:
        return self.decide(obj, plan, namespace="", kind="reservation")

    def begins(self) -> None:
        nodes = list(self.desk.cluster.nodes.values())
        self.desk.cluster.reset_state()
        for node in nodes:
            self._write(subjects.named_key("node", node.name), node)
            self._write(subjects.named_key("device", node.name), device_of(node.name, 1))
        self.listed("nodes")

    def holds_pod(self, name: str) -> None:
        self._write(subjects.pod_key("default", name), self.desk.api.seen(name))

    def holds_reservation(self, name: str) -> None:
        self._write(subjects.named_key("reservation", name), self.desk.api.seen_reservation(name))

    def listed(self, kind: str, *, complete: bool = True) -> None:
        """The marker of a kind: its list has been written, or is being written."""
        marker = state.Synced(kind=kind, version=self.desk.api.store.version, complete=complete)
        self._write(subjects.synced_key(kind), marker)

    def _write(self, key: str, message: Any) -> None:
        self.desk.cluster.read_state(key, encode(message), deleted=False, gap=False)

    async def ends(self) -> None:
        """The end of what is written so far, three times: what was doubted once is believed by then."""
        for _ in range(3):
            self.desk.cluster.end_of_state()
            self.desk.binds.at_end()
            await eventually(lambda: not self.desk.binds.under_way(), what="what can be judged is judged")


@pytest.fixture
def anew(desk: BindBench) -> Anew:
    return Anew(desk)


async def test_a_reservation_gets_what_a_pod_held_once_pods_are_read(desk, api, anew):
    former = api.pod("former")
    desk.show("former")
    anew.decide(former, "p")
    api.remove("former")
    desk.vanish("former")
    decision = anew.decide_reservation(api.reservation("r"), "q")
    anew.begins()
    anew.holds_reservation("r")
    anew.listed("reservations")
    anew.listed("pods", complete=False)
    desk.binds.begin(decision)
    await anew.ends()
    assert (desk.lost, api.seen_reservation("r").node) == ([], ""), "the decision for the pod still stands"
    anew.listed("pods")
    await anew.ends()
    assert (desk.lost, api.seen_reservation("r").node) == ([], "n")


async def test_a_pod_gets_what_a_reservation_held_once_reservations_are_read(desk, api, anew):
    former = api.reservation("former")
    desk.put(subjects.named_key("reservation", "former"), former)
    anew.decide_reservation(former, "p")
    api.store.delete(Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "former"))
    decision = anew.decide(api.pod("a"), "q")
    anew.begins()
    anew.holds_pod("a")
    anew.listed("pods")
    anew.listed("reservations", complete=False)
    desk.binds.begin(decision)
    await anew.ends()
    assert (desk.lost, desk.node_of("a")) == ([], ""), "the decision for the Reservation still stands"
    anew.listed("reservations")
    await anew.ends()
    await desk.over()
    assert (desk.lost, desk.node_of("a")) == ([], "n")
