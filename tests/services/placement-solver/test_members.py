"""Who shares the work: leases seen, silence, and names of any shape."""

from __future__ import annotations

from berth.contracts import subjects
from berth.placement_solver.core.shards import owner
from berth.placement_solver.members import FAMILY, Members


class Clock:
    time = 0.0

    def monotonic(self):
        return self.time


def test_silence_means_gone():
    clock = Clock()
    members = Members("me", clock, 6)
    assert members.alive() == ("me",)
    for name in ("host.one-7", "zwei/drei", "ü"):
        members.seen(subjects.key(FAMILY, name), False)
    members.seen("quota-manager", False)
    assert members.alive() == tuple(sorted(["me", "host.one-7", "zwei/drei", "ü"]))
    clock.time = 5.0
    members.seen(subjects.key(FAMILY, "ü"), False)
    clock.time = 7.0
    assert members.alive() == ("me", "ü")
    members.seen(subjects.key(FAMILY, "ü"), True)
    assert members.alive() == ("me",)
    members.seen(subjects.key(FAMILY, "ü"), False)
    members.reset()
    assert members.alive() == ("me",)


def test_a_solver_that_leaves_moves_only_its_own_share():
    units = [f"unit-{index}" for index in range(300)]
    three = {unit: owner(unit, ["a", "b", "c"]) for unit in units}
    two = {unit: owner(unit, ["a", "b"]) for unit in units}
    assert all(two[unit] == three[unit] for unit in units if three[unit] != "c")
    assert {two[unit] for unit in units if three[unit] == "c"} == {"a", "b"}
    assert min(list(three.values()).count(name) for name in "abc") > 60
