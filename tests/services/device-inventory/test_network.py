"""The layers of the network and the place of each node in it, from the ClusterNetworkTopology and labels."""

from __future__ import annotations

from typing import Any

from tests.services.worlds.inventory import Bench, node

from berth.contracts.codec import encode
from berth.contracts.command import PatchObject
from berth.contracts.event import ObjectRefused
from berth.contracts.network import NetworkLayers, NodeDomains
from berth.contracts.state import ClusterNetworkTopology, NetworkLayer, Synced
from berth.contracts.subjects import synced_key
from berth.device_inventory.views import NETWORK
from berth.rules.network_topology.status import digest
from berth.runtime import Moment

LAYERS = [
    NetworkLayer(name="Spine", label_keys=["spine"]),
    NetworkLayer(name="Block", parent="Spine", label_keys=["block"]),
    NetworkLayer(name="NodeTopologyLayer", parent="Block"),
]


class Cluster(Bench):
    """A bench that looks at what is marked, and keeps what is written, asked and told."""

    def __init__(self) -> None:
        super().__init__(retry_s=30.0)
        self.asked: list[Any] = []
        self.told: list[Any] = []
        self.complete()
        self.entry(
            synced_key("clusternetworktopologies"),
            encode(Synced(kind="clusternetworktopologies", version=1, complete=True)),
            self.network,
        )
        self.network.end(1)

    def layers(self, layers: list[NetworkLayer] | None, **more: Any) -> None:
        key = "clusternetworktopology.default"
        shown = ClusterNetworkTopology(name="default", uid="t", version=3, layers=layers or [], **more)
        self.entry(key, b"" if layers is None else encode(shown), self.network)

    def look(self, now: float) -> None:
        """Decide about all that is marked or due, until nothing is."""
        names = {*self.marked, *self.reconciler.due(Moment(now, now))}
        while names:
            self.marked.clear()
            for name in sorted(names, key=lambda each: each == NETWORK):
                outcome = self.reconciler.reconcile(name, Moment(now, now))
                for write in outcome.writes:
                    self.published.wrote(write.key, write.message)
                    self.told += [event.message for event in write.events]
                self.asked += [each.message for each in outcome.commands if isinstance(each.message, PatchObject)]
            names = set(self.marked)

    @property
    def paths(self) -> dict[str, list[str]]:
        return {name: each.path for name, each in self.published.domains.messages.items()}


def cluster() -> Cluster:
    made = Cluster()
    made.show(node("n1", labels={"spine": "s1", "block": "b1"}))
    made.show(node("n2", labels={"spine": "s1"}))
    made.show(node("n3", labels={"block": "b1"}))
    made.layers(LAYERS)
    made.look(10.0)
    return made


def test_each_node_has_its_path() -> None:
    made = cluster()
    layers = made.published.layers.messages["default"]
    assert [(each.name, each.label_keys) for each in layers.layers] == [("Spine", ["spine"]), ("Block", ["block"])]
    assert made.paths == {"n1": ["s1", "b1"], "n2": ["s1", "n2"]}
    assert {each.digest for each in made.published.domains.messages.values()} == {layers.digest}
    assert made.reconciler.facts["nodes outside of the network"] == "n3"


def test_the_status_is_asked_for_until_it_is_shown() -> None:
    made = cluster()
    made.look(13.0)
    (asked,) = made.asked
    assert [each["topologyInfo"]["topologyName"] for each in asked.status["detailStatus"]] == ["", "s1", "b1", "n2"]
    made.look(16.0)
    assert len(made.asked) == 1
    made.look(50.0)
    assert len(made.asked) == 2
    made.layers(LAYERS, status=digest(asked.status["detailStatus"]))
    made.look(90.0)
    assert len(made.asked) == 2


def test_many_changes_make_one_status() -> None:
    made = cluster()
    made.look(13.0)
    for at in range(20):
        made.show(node(f"m{at}", labels={"spine": "s2", "block": "b9"}))
        made.look(13.0 + at / 20)
    assert len(made.asked) == 1
    made.look(16.0)
    assert made.asked[-1].status["detailStatus"][-1]["nodeNum"] == 20


def test_a_label_moves_a_node() -> None:
    made = cluster()
    made.show(node("n1", labels={"spine": "s2", "block": "b1"}))
    made.look(11.0)
    assert made.paths["n1"] == ["s2", "b1"]
    made.drop("node", "n1")
    made.look(12.0)
    assert set(made.paths) == {"n2"}


def test_a_broken_chain_leaves_the_layers_as_they_were() -> None:
    made = cluster()
    made.layers([LAYERS[0], LAYERS[2]])
    made.look(11.0)
    layers = made.published.layers.messages["default"]
    assert [each.name for each in layers.layers] == ["Spine", "Block"]
    assert [each.field for each in layers.problems] == ["spec.networkTopologySpec"]
    assert made.paths == {"n1": ["s1", "b1"], "n2": ["s1", "n2"]}
    assert [type(each) for each in made.told] == [ObjectRefused]


def test_without_the_object_nothing_is_published() -> None:
    made = cluster()
    made.layers(None)
    made.look(11.0)
    assert (made.published.layers.messages, made.paths) == ({}, {})


def test_other_layers_move_every_node() -> None:
    made = cluster()
    made.layers([LAYERS[0], NetworkLayer(name="NodeTopologyLayer", parent="Spine")])
    made.look(11.0)
    assert made.paths == {"n1": ["s1"], "n2": ["s1"], "n3": ["n3"]}


def test_a_new_replica_goes_on_with_what_is_published() -> None:
    made = cluster()
    other = Cluster()
    for key, name in made.published.layers.keys.items():
        other.published.wrote(key, made.published.layers.messages[name])
    for key, name in made.published.domains.keys.items():
        other.published.wrote(key, made.published.domains.messages[name])
    assert isinstance(other.published.get("network.default"), NetworkLayers)
    assert isinstance(other.published.get("domains.n1"), NodeDomains)
    other.layers([LAYERS[0], LAYERS[2]])
    for each in ("n1", "n2"):
        other.show(node(each, labels={"spine": "s1", "block": "b1"}))
    other.look(10.0)
    assert other.paths == {"n1": ["s1", "b1"], "n2": ["s1", "b1"]}
