"""The network as the cluster's ClusterNetworkTopology describes it: its layers, and where each node lies."""

from __future__ import annotations

import hashlib

import msgspec

from berth.contracts.base import Problem
from berth.contracts.command import PatchObject
from berth.contracts.network import LayerLabels, NetworkLayers, NodeDomains
from berth.contracts.state import ClusterNetworkTopology, Node
from berth.rules.network_topology.layers import Layer, layers_of
from berth.rules.network_topology.status import Domains, digest

NAME = "default"
"""The one object that counts."""
STATUS_EVERY_S = 2.0
"""The status is asked for at most so often: a change of many nodes is told at once."""
API = "scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"


class Network:
    """The layers in use, and the domains of the nodes that were seen since they hold."""

    def __init__(self, retry_s: float) -> None:
        """`retry_s`: how long the object may take to show the status that was asked for."""
        self.digest = ""
        """That of the layers in use; empty: there are none."""
        self.domains = Domains(())
        self._seen: set[str] = set()
        self._retry_s = retry_s
        self._is_stale = True
        self._looked_at_s = float("-inf")
        self._asked: tuple[str, float] | None = None

    def begin(self) -> None:
        """Another replica was active meanwhile: what it asked for is unknown."""
        self._asked = None
        self._is_stale = True

    def layers(self, topology: ClusterNetworkTopology | None, before: NetworkLayers | None) -> NetworkLayers | None:
        """What to publish of the object. What cannot be used leaves the layers `before` it as they were."""
        if topology is None:
            return None
        found = topology.problems[0] if topology.problems else layers_of(topology.layers)
        if isinstance(found, Problem):
            kept = before or NetworkLayers(name=NAME)
            return msgspec.structs.replace(kept, problems=list(topology.problems) or [found])
        layers = [LayerLabels(name=each.name, label_keys=list(each.label_keys)) for each in found]
        return NetworkLayers(name=NAME, layers=layers, digest=_digest(layers))

    def use(self, layers: NetworkLayers | None) -> bool:
        """These layers hold from now on; whether they are others than before, so that all nodes have to be seen."""
        digest = layers.digest if layers is not None else ""
        if digest == self.digest:
            return False
        self.digest = digest
        listed = layers.layers if layers is not None else []
        self.domains = Domains(Layer(each.name, tuple(each.label_keys)) for each in listed)
        self._seen.clear()
        self._is_stale = True
        return True

    def see(self, name: str, node: Node | None, before: NodeDomains | None) -> NodeDomains | None:
        """Take in a node, or with None its deletion; what to publish of it. `before` is what is published."""
        if not self.digest:
            return None
        (self._seen.discard if node is None else self._seen.add)(name)
        path = self.domains.see(name, node.labels if node is not None else None)
        wanted = None if path is None else NodeDomains(node=name, digest=self.digest, path=list(path))
        self._is_stale |= wanted != before
        return wanted

    def is_due(self, now_s: float) -> bool:
        """Whether the status has to be looked at. `now_s` is monotonic, in seconds."""
        is_open = bool(self.digest) and (self._is_stale or self._asked is not None)
        return is_open and now_s - self._looked_at_s >= STATUS_EVERY_S

    def status(self, topology: ClusterNetworkTopology | None, nodes: int, now_s: float) -> PatchObject | None:
        """What to ask for so that the object's status shows the domains. Of so many `nodes` all have to be seen."""
        if topology is None or not self.digest or len(self._seen) != nodes:
            return None
        if now_s - self._looked_at_s < STATUS_EVERY_S:
            self._is_stale = True
            return None
        self._looked_at_s, self._is_stale = now_s, False
        status = self.domains.detail_status()
        text = digest(status)
        if text == topology.status:
            self._asked = None
            return None
        if self._asked is not None and self._asked[0] == text and now_s - self._asked[1] < self._retry_s:
            return None
        self._asked = (text, now_s)
        return PatchObject(api=API, name=NAME, uid=topology.uid, status={"detailStatus": status})


def _digest(layers: list[LayerLabels]) -> str:
    return hashlib.sha256(msgspec.json.encode(layers)).hexdigest()[:16]
