"""What constraints and scores look at, made once for a solver and shared by all profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from berth.contracts.state import Pod
from berth.placement_solver.core.groups import Gangs
from berth.placement_solver.core.images import Images
from berth.placement_solver.core.network import Network
from berth.placement_solver.core.node_labels import NodeLabels
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.npu_templates import NpuTemplates
from berth.placement_solver.core.pod_selectors import PodSelectors
from berth.placement_solver.core.pools import Pools
from berth.placement_solver.core.tallies.affine_pods import AffinePods
from berth.placement_solver.core.tallies.charges import Charges
from berth.placement_solver.core.tallies.domains import LabelDomains
from berth.placement_solver.core.tallies.loads import Loads
from berth.placement_solver.core.tallies.peers import Peers
from berth.placement_solver.core.tallies.relatives import Relatives
from berth.placement_solver.core.tallies.scored import ScoredTally
from berth.placement_solver.core.tallies.volumes import VolumesTally
from berth.placement_solver.core.volume_fits import FreeVolumes
from berth.placement_solver.core.volumes import Volumes
from berth.transaction.claims import Name


class Facts(NamedTuple):
    """Nodes as columns, and what is kept beside them."""

    nodes: Nodes
    charges: Charges
    pools: Pools
    images: Images
    scored: ScoredTally
    domains: LabelDomains
    peers: Peers
    affine_pods: AffinePods
    labels: NodeLabels
    volumes: Volumes
    used_volumes: VolumesTally
    free_volumes: FreeVolumes
    selectors: PodSelectors
    loads: Loads
    npu_templates: NpuTemplates
    network: Network
    relatives: Relatives

    def see_pod(self, name: Name, pod: Pod | None) -> None:
        """A pod is shown, shown otherwise, or (None) gone: what its claim was charged for may be another thing now."""
        self.peers.see(name, pod)
        self.used_volumes.see(name, pod)
        self.charges.see(name, pod)


def facts_of(
    nodes: Nodes,
    objects: Callable[[Name], Pod | None],
    gangs: Gangs | None = None,
    place_of: Callable[[Name], str] = lambda name: "",
) -> Facts:
    """All facts over these nodes; `objects` shows the pod of a name, as it is now, and `place_of` its node, decided or
    bound."""
    volumes = Volumes()
    domains, peers = LabelDomains(nodes), Peers()
    labels, used_volumes = NodeLabels(nodes), VolumesTally(nodes, volumes, objects)
    charges, scored, relatives = Charges(objects), ScoredTally(nodes), Relatives(nodes)
    loads = Loads(nodes, charges)
    charges.tell(scored, peers, used_volumes, loads, relatives)
    return Facts(
        nodes,
        charges,
        Pools(),
        Images(),
        scored,
        domains,
        peers,
        AffinePods(nodes, domains, peers),
        labels,
        volumes,
        used_volumes,
        FreeVolumes(volumes, labels, used_volumes),
        PodSelectors(),
        loads,
        NpuTemplates(),
        Network(nodes, gangs or Gangs(), place_of),
        relatives,
    )
