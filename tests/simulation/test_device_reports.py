"""From a node's files to INVENTORY: the agent reports, the Device object is made, devices are counted and withdrawn.

Every service is the real one; time is virtual, so that a clean minute takes none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.simulation.harness import Harness, build
from tests.simulation.inside_machine import InsideMachine
from tests.simulation.node_agent import CORES, NODE, NODE_AGENT
from tests.simulation.services import SPECS
from tests.simulation.unmetered import unmetered

from berth.contracts import buckets, names
from berth.contracts.codec import decode
from berth.contracts.command import MANAGER
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.subjects import named_key
from berth.contracts.topology import NodeTopology
from berth.simcluster.store import Path as ApiPath

TOPOLOGY = ApiPath("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies", "", NODE)
DEVICE = ApiPath("scheduling.koordinator.sh", "v1alpha1", "devices", "", NODE)
NODES = ApiPath("", "v1", "nodes", "", NODE)
FOUND_S = 8.0
"""A look every two seconds, a report, a command, a watch event: what is plugged in shows within five."""
NODE_MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": NODE},
    "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
}


class Bench:
    """The harness, and what stands in it about the node."""

    def __init__(self, machine: InsideMachine, harness: Harness) -> None:
        self.machine, self.harness = machine, harness

    def until(self, holds: Any, within_s: float) -> float:
        """How long it took."""
        began = self.harness.world.now
        assert self.harness.world.run_until(holds, within_s), "never"
        return self.harness.world.now - began

    @property
    def slots(self) -> list[DeviceSlot] | None:
        stream = self.harness.nats.streams.get(f"KV_{buckets.INVENTORY}")
        subject = f"$KV.{buckets.INVENTORY}.{named_key('node', NODE)}"
        told = [each.data for each in stream.messages.values() if each.subject == subject] if stream else []
        return decode(told[-1], NodeInventory).devices if told and told[-1] else None

    @property
    def health(self) -> dict[str, str]:
        """The reason of each device that is ill, empty for the others."""
        return {f"{slot.kind}/{slot.minor}": "" if slot.healthy else slot.reason for slot in self.slots or ()}

    @property
    def device(self) -> dict[str, Any] | None:
        reply = self.harness.kube.store.get(DEVICE)
        return dict(msgspec.json.decode(reply.body)) if reply.status == 200 else None


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    machine = InsideMachine(tmp_path, random.Random(1), 1_000.0)
    wanted = ("cluster-watcher", "cluster-writer", "device-inventory")
    specs = [spec for spec in SPECS if spec.name in wanted]
    harness = build(11, [NODE_MANIFEST], {}, log_level="error", specs=specs, machine=machine)
    with harness.journal, unmetered():
        yield Bench(machine, harness)
    harness.world.close()
    machine.close()


def test_a_card_is_counted_falls_ill_and_comes_back_after_a_clean_minute(bench: Bench) -> None:
    machine = bench.machine
    machine.sys.nic(0, functions=2)
    bench.until(lambda: bench.health == {"rdma/0": ""}, 60.0)
    device = bench.device
    assert device is not None
    assert device["metadata"]["labels"][names.LABEL_MANAGED_BY] == MANAGER
    assert device["metadata"]["ownerReferences"][0]["name"] == NODE
    assert device["spec"]["devices"][0]["vfGroups"][0]["vfs"][0]["busID"] == "0000:10:00.1"

    machine.sys.nic(1)
    assert bench.until(lambda: bench.health == {"rdma/0": "", "rdma/1": ""}, FOUND_S) <= 5.0

    machine.sys.port(1, "1: DOWN")
    bench.until(lambda: bench.health == {"rdma/0": "", "rdma/1": "PortNotActive"}, FOUND_S)
    machine.sys.port(1, "4: ACTIVE")
    bench.harness.world.run(bench.harness.world.now + 30.0)
    (agent,) = bench.harness.host.of(NODE_AGENT)
    agent.kill()
    bench.harness.world.run(bench.harness.world.now + 45.0)
    assert bench.health["rdma/1"] == "PortNotActive", "a restart in the clean minute begins it anew"
    bench.until(lambda: bench.health == {"rdma/0": "", "rdma/1": ""}, 60.0)
    assert bench.harness.host.failures == []


def test_a_cordon_keeps_a_card_out_until_it_is_taken_away(bench: Bench) -> None:
    bench.machine.sys.nic(0)
    bench.until(lambda: bench.health == {"rdma/0": ""}, 60.0)
    store = bench.harness.kube.store
    store.patch(NODES, {"metadata": {"annotations": {names.ANNOTATION_DEVICE_CORDON: "rdma/0"}}})
    bench.until(lambda: bench.health == {"rdma/0": "Cordoned"}, FOUND_S)
    store.patch(NODES, {"metadata": {"annotations": {names.ANNOTATION_DEVICE_CORDON: None}}})
    bench.until(lambda: bench.health == {"rdma/0": ""}, FOUND_S)


def test_the_object_goes_with_its_node_and_comes_back_with_it(bench: Bench) -> None:
    bench.machine.sys.nic(0)
    bench.until(lambda: bench.device is not None, 60.0)
    store = bench.harness.kube.store
    assert store.delete(NODES).status == 200
    bench.until(lambda: bench.device is None and bench.slots is None, FOUND_S)
    assert store.create(NODES._replace(name=""), NODE_MANIFEST).status == 201
    bench.until(lambda: bench.health == {"rdma/0": ""}, 60.0)


def test_the_object_of_another_agent_stays_as_it_is(bench: Bench) -> None:
    entry = {"type": "gpu", "minor": 5, "health": True, "resources": {names.GPU_CORE: "100"}}
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": NODE},
        "spec": {"devices": [entry]},
    }
    assert bench.harness.kube.store.create(DEVICE._replace(name=""), body).status == 201
    bench.machine.sys.nic(0)
    bench.until(lambda: bench.health == {"gpu/5": ""}, 60.0)
    before = bench.device
    bench.harness.world.run(bench.harness.world.now + 60.0)
    assert bench.device == before


def test_cpus_become_a_topology_that_goes_with_its_node(bench: Bench) -> None:
    store = bench.harness.kube.store
    bench.until(lambda: store.get(TOPOLOGY).status == 200, 60.0)
    made = msgspec.json.decode(store.get(TOPOLOGY).body)
    assert made["metadata"]["labels"][names.LABEL_MANAGED_BY] == MANAGER
    assert [zone["name"] for zone in made["zones"]] == ["node-0"]
    stream = bench.harness.nats.streams[f"KV_{buckets.INVENTORY}"]
    subject = f"$KV.{buckets.INVENTORY}.{named_key('topology', NODE)}"

    def topologies() -> list[NodeTopology]:
        told = [each.data for each in stream.messages.values() if each.subject == subject]
        return [decode(data, NodeTopology) for data in told if data]

    bench.until(lambda: bool(topologies()), FOUND_S)
    (topology,) = topologies()
    assert (topology.problems, len(topology.cores)) == ([], CORES // 2)
    assert store.delete(NODES).status == 200
    bench.until(lambda: store.get(TOPOLOGY).status == 404, FOUND_S)
