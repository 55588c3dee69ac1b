"""Nodes, pods on them, and one object that waits, out of everything that may be there."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from hypothesis import strategies as st
from tests.services.worlds.solver.conformance.asked import WAITING, Asking
from tests.services.worlds.solver.conformance.nodes import (
    NODES,
    NOW_S,
    POOLS,
    ROWS,
    TABLES,
    THRESHOLDS,
    TOPOLOGIES,
    tell_load,
)
from tests.services.worlds.solver.conformance.storage import tell_storage

from berth.contracts import names, subjects
from berth.contracts.grants import device, function
from berth.contracts.ledger import Grant
from berth.contracts.state import Device, Reservation
from berth.placement_solver.core.devices import NoCapacity, slots_of_inventory
from berth.placement_solver.core.devices.asked import DeviceQuery
from berth.placement_solver.core.devices.node_rules import node_rules
from berth.placement_solver.core.devices.record import all_grants
from berth.placement_solver.core.plan import Candidate
from berth.placement_solver.core.seams import Rejection, Target
from berth.rules.devices.choose import choose_devices
from berth.rules.devices.node import NodeDevices
from berth.rules.ports import write_port
from berth.rules.scheduler_config import SchedulerConfig, read_scheduler_config
from berth.rules.times import text_of
from berth.testing.builders import gpu_grant, gpu_slots, nic_slots, pod, with_places
from berth.transaction.claims import Claim


def configuration_with(parts: dict[str, Any]) -> SchedulerConfig:
    """A configuration with one profile, for our scheduler name."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profiles = [{"schedulerName": names.SCHEDULER_NAME, **parts}]
    found = read_scheduler_config(json.dumps({**head, "profiles": profiles}))
    assert isinstance(found, SchedulerConfig)
    return found


LOAD_ARGS: Final = {
    "usageThresholds": {"cpu": 60},
    "prodUsageThresholds": {"cpu": 40},
    "aggregated": {"usageThresholds": {"memory": 50}, "usageAggregationType": "p95", "usageAggregatedDuration": "5m"},
    "allowCustomizeEstimation": True,
}
UNSHARED: Final = {"gpuShareUnsupportedModels": [{"vendor": "nvidia", "model": "B"}]}
OPTIONAL: Final = configuration_with(
    {
        "plugins": {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}},
        "pluginConfig": [
            {"name": "LoadAwareScheduling", "args": LOAD_ARGS},
            {"name": "DeviceShare", "args": UNSHARED},
        ],
    }
)
"""A profile with the constraints that no default has; read once, for thousands of worlds."""

HELD: Final[tuple[list[Grant] | None, ...]] = (
    None,
    None,
    [gpu_grant(0, 60)],
    [gpu_grant(1, 60)],
    [gpu_grant(0), device("rdma", 0, {names.RDMA: 1}), function("0000:00:00.1", "rdma", 0)],
    [device("rdma", 1, {names.RDMA: 1}), function("0000:01:00.1", "rdma", 1)],
    [device("rdma", 0, {names.RDMA: 60})],
)
"""What is noted on pods that are there."""

RECORDS: Final = st.sampled_from(
    ["", "", "{", '{"cpuset":"0"}', '{"cpuset":"0-1"}', '{"numaNodeResources":[{"node":1,"resources":{"cpu":"1"}}]}']
)
"""What a holder was given of CPUs and NUMA nodes."""


class World(NamedTuple):
    """A view with one candidate."""

    run: Any
    candidate: Candidate

    def rejections(self, row: int) -> dict[str, Rejection]:
        """What the exact checks say against a node, by constraint."""
        found = {
            constraint.name: constraint.filter(query, Target(row))
            for constraint, query in (*self.candidate.cls.asked, *self.candidate.asked)
        }
        return {name: rejection for name, rejection in found.items() if rejection is not None}

    def rows(self) -> list[int]:
        """The nodes that are there."""
        return np.flatnonzero(self.run.cluster.nodes.alive).tolist()

    def claims(self, row: int) -> list[Claim]:
        """The candidate on a node, with every choice of devices that would serve it if nobody held any."""
        nodes, cls = self.run.cluster.nodes, self.candidate.cls
        choices: list[tuple[Grant, ...]] = [()]
        queries = [query for _, query in cls.chosen if isinstance(query, DeviceQuery)]
        if queries and nodes.inventories[row] is not None:
            rules = node_rules(nodes.states[row], nodes.inventories[row]).partitions
            slots = [(kind, slot) for kind, each in slots_of_inventory(nodes.inventories[row]).items() for slot in each]
            for size in range(1, len(slots) + 1):
                for some in combinations(slots, size):
                    by_kind = {kind: [slot for other, slot in some if other == kind] for kind, _ in some}
                    found = choose_devices(NodeDevices(by_kind, rules), queries[0].request)
                    if not isinstance(found, NoCapacity):
                        choices.append(all_grants(found))
            choices = list({str(each): each for each in choices}.values())
        return [
            Claim(
                name=self.candidate.name,
                uid=self.candidate.object.uid,
                node=nodes.names[row],
                amounts=dict(cls.requests),
                grants=grants,
                ports=tuple(map(write_port, cls.template.host_ports)),
                plan="plan",
                is_reservation=self.candidate.is_reservation,
                quota="/".join(self.candidate.quota or ()),
            )
            for grants in choices
        ]


@st.composite
def worlds(
    draw: st.DrawFn, solving: type[Any], concerned: str = "", *, same_holders: bool = False, alone: bool = False
) -> World:
    """Three nodes, pods on them, and one object that waits, changed by some rows of `WAITING`.

    `same_holders`: those that are there ask for the same as well. `alone`: who waits is changed by no other row.
    """
    run = solving()
    run.cluster.configuration.on_use(OPTIONAL)
    run.cluster.loads.tell_time(NOW_S)
    names_of_changes = sorted(WAITING)
    of_holders = [each for each in names_of_changes if each != "NodeName"]
    chosen = [] if alone else draw(st.lists(st.sampled_from(names_of_changes), max_size=3, unique=True))
    asking = Asking(pod("waiting"))
    for name in dict.fromkeys([*([concerned] if concerned in WAITING else []), *chosen]):
        draw(WAITING[name])(asking)
    for name, nodes in POOLS.items():
        run.quota(name, tree=f"tree-{name}", nodes=nodes)
    for name in ROWS:
        fields = draw(st.fixed_dictionaries(NODES))
        if asking.required_node:
            fields["pods"] = 110  # a Reservation takes no place of a pod, and is given none that is full
        thresholds = draw(st.sampled_from(THRESHOLDS))
        run.node(name, annotations={names.ANNOTATION_USAGE_THRESHOLDS: thresholds} if thresholds else {}, **fields)
        tell_load(draw, run, name)
        topology = draw(TOPOLOGIES)
        if topology is not None:
            run.topology(name, topology)
        devices = draw(st.sampled_from(["none", "counted", "counted", "uncounted"]))
        if devices == "counted":
            cards = gpu_slots(2, unhealthy=draw(st.sampled_from([(), (1,), (0, 1)])))
            interfaces = nic_slots(draw(st.integers(0, 2)), functions=draw(st.integers(0, 1)))
            run.devices(name, [*with_places(cards), *interfaces], **draw(st.sampled_from(TABLES)))
        elif devices == "uncounted":
            run.state(subjects.named_key("device", name), Device(name=name, uid=f"device-{name}", version=run.version))
    run.network("rack")
    for name, rack in zip(ROWS, draw(st.lists(st.sampled_from(["r", "s", ""]), min_size=3, max_size=3)), strict=True):
        if rack:
            run.lies(name, rack)
    for index in range(draw(st.integers(0, 4))):
        holder = Asking(pod(f"holder-{index}").template(scheduler="other"))
        draw(WAITING[concerned if same_holders else draw(st.sampled_from(of_holders))])(holder)
        devices = draw(st.sampled_from(HELD))
        holder.builder.set(scheduled=draw(st.sampled_from(["", text_of(NOW_S - 20), text_of(NOW_S - 10**5)])))
        holder.builder.annotation(names.ANNOTATION_RESOURCE_STATUS, draw(RECORDS))
        run.pod(holder.builder.on(draw(st.sampled_from(ROWS)), devices))
    tell_storage(run, draw(st.lists(st.sampled_from([None, 0, 1]), min_size=3, max_size=3)))
    if asking.required_node:
        template = asking.builder.build(1).template
        run.reservation(
            Reservation(name="r", uid="uid-r", version=1, template=template, required_node=asking.required_node)
        )
    else:
        run.pod(asking.builder)
    units, _ = run.cluster.batch(10)
    ((candidate,),) = [unit.candidates for unit in units]
    return World(run, candidate)


def worlds_about(solving: type[Any], name: str) -> st.SearchStrategy[World]:
    """Mostly those in which it matters, and any other."""
    most = [worlds(solving, name, same_holders=same, alone=True) for same in (True, False)]
    return st.one_of(*most, worlds(solving, name))
