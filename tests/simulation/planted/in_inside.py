"""Bugs in what is given out within a node. The verifier and the last check make the solver's mistake: else no such plan
would be committed, or be carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace
from tests.simulation.planted.in_writer import together

from berth.cluster_writer.core import judge, last_check
from berth.cluster_writer.node_locks import NodeLocks
from berth.contracts.grants import CPU, VF
from berth.contracts.inventory import NodeInventory
from berth.contracts.ledger import Decision
from berth.placement_solver.cluster_view import inventory_bucket
from berth.placement_solver.core.constraints import device_share
from berth.placement_solver.core.cores import store
from berth.placement_solver.core.devices import node_rules
from berth.placement_solver.core.devices.kubelet_counts import KubeletCounts
from berth.placement_solver.core.inventories import Inventories
from berth.placement_solver.core.tallies.numbers import NumberTally
from berth.placement_solver.core.verify import node as verify_node
from berth.placement_solver.core.verify.laws import cores, devices
from berth.rules.cpus import node_topology
from berth.rules.cpus.cpuset import NO_CPUS
from berth.rules.cpus.reserved import ReservedCpus
from berth.rules.devices import candidates
from berth.rules.devices.kubelet_counts import NUMBER
from berth.rules.devices.partitions import NO_RULES
from berth.rules.records.evidence import Held
from berth.simcluster import kubelet
from berth.transaction import claims

Planted = AbstractContextManager[object]


def cpus_given_twice() -> Planted:
    """CPUs are free that somebody has as his own."""
    real = store.available_cpus
    return together(
        patch.object(store, "available_cpus", lambda layout, pinned, reserved: real(layout, (), reserved=reserved)),
        _many(cores, "core_capacity", CPU),
        _unchecked(CPU),
        patch.object(cores, "zones_beyond", lambda *_: ()),
        _lawless(),
    )


def functions_given_twice() -> Planted:
    """A virtual function is free that somebody has."""
    real = candidates._functions
    return together(
        patch.object(
            candidates,
            "_functions",
            lambda slots, *rest: real([each._replace(busy=frozenset()) for each in slots], *rest),
        ),
        _many(devices, "device_capacity", VF),
        _unchecked(VF),
    )


def numa_nodes_overfull() -> Planted:
    """What is held of a NUMA node is free."""
    return together(
        patch.object(store, "zone_use", lambda *_, **__: {}),
        patch.object(cores, "zones_beyond", lambda *_: ()),
        _lawless(),
    )


def reserved_given() -> Planted:
    """CPUs are for all that are kept from pods."""
    return together(
        patch.object(node_topology, "reserved_cpus", lambda _: ReservedCpus()),
        patch.object(node_topology, "cpus_of", lambda *_: NO_CPUS),
    )


def partitions_broken() -> Planted:
    """Any cards are given out together, whatever partitions their node has."""
    return together(
        patch.object(node_rules, "partition_rules", lambda *_: NO_RULES),
        patch.object(node_rules, "PartitionRules", lambda *_: NO_RULES),
        patch.object(devices, "_partition_problems", lambda *_: ()),
        _lawless(),
    )


def unread_is_none() -> Planted:
    """A record that cannot be read is taken for none."""
    real = claims.held_by_pod
    return patch.object(claims, "held_by_pod", lambda *args: real(*args)._replace(unreadable=()))


def swaps_unseen() -> Planted:
    """What a device is called is nothing that a solver looks at twice."""
    real = inventory_bucket.same_content

    def same_content(one: Any, other: Any) -> bool:
        return real(_unnamed(one), _unnamed(other))

    return patch.object(inventory_bucket, "same_content", same_content)


def topologies_as_they_come() -> Planted:
    """A topology counts, however old it is."""
    return together(
        patch.object(Inventories, "of", lambda self, node: self._published.get(node)),
        patch.object(Inventories, "waits", lambda self, node: node not in self._published),
    )


def locks_kept() -> Planted:
    """A lock is its pod's for its five minutes: nobody asks whether that still needs it, nor takes it off."""

    async def needs(self: NodeLocks, text: str, node: str) -> bool:
        return True

    async def free(self: NodeLocks, key: Any, decision: Decision, lock: str) -> None:
        self.leave(key, (decision.node, lock))

    return together(
        patch.object(NodeLocks, "_needs", needs),
        patch.object(NodeLocks, "free", free),
        patch.object(kubelet, "LOCKS", ()),
    )


def named_are_free() -> Planted:
    """Cards of which kubelet says that it has picked them are free."""
    real = claims.held_by_pod

    def held(*args: Any) -> Held:
        found = real(*args)
        return found._replace(grants=()) if found.by_kubelet else found

    return patch.object(claims, "held_by_pod", held)


def numbers_unseen() -> Planted:
    """To solver and verifier a number of cards is nothing: only the last check looks at it."""
    return together(
        patch.object(NumberTally, "block", lambda *_: None),
        patch.object(KubeletCounts, "_unknown", lambda self, name, rows: self._held(name, rows) * 0),
        patch.object(KubeletCounts, "_unknown_under", lambda *_: 0),
        patch.object(device_share, "_unknown", device_share._unread),
        *_countless(verify_node),
    )


def numbers_given() -> Planted:
    """Nobody looks at numbers, the last check included."""
    return together(numbers_unseen(), *_countless(last_check))


def _countless(law: Any) -> list[Planted]:
    """This one lets cards go by minor beside numbers."""
    real = law.blocked
    return [
        patch.object(law, "given_both_ways", lambda *_: ""),
        patch.object(
            law, "blocked", lambda grants, unreadable: real(grants, (each for each in unreadable if each != NUMBER))
        ),
    ]


def _unnamed(found: Any) -> Any:
    if not isinstance(found, NodeInventory):
        return found
    return replace(found, devices=[replace(each, uuid="") for each in found.devices])


def _many(law: Any, name: str, kind: str) -> Planted:
    """The verifier takes any number of this kind."""
    real: Callable[[Any], Mapping[tuple[str, ...], int]] = getattr(law, name)
    return patch.object(
        law, name, lambda there: {item: 99 if item[0] == kind else most for item, most in real(there).items()}
    )


def _lawless() -> Planted:
    """The last check looks at no laws of what lies within nodes."""
    return patch.object(judge, "broken_law", lambda *_: "")


def _unchecked(kind: str) -> Planted:
    """The last check does not look at this kind."""
    real = last_check.whole
    return patch.object(last_check, "whole", lambda which, name: None if which == kind else real(which, name))
