"""A simulated Kubernetes API over HTTP with kubelets, controllers, clusters, workloads and trace replays."""

from berth.simcluster.controllers import Controllers, ControllerSettings
from berth.simcluster.faults import Fault, Faults
from berth.simcluster.kubelet import Kubelets, KubeletSettings
from berth.simcluster.server import SimCluster, serve
from berth.simcluster.settings import SimSettings
from berth.simcluster.store import ListOptions, Path, Reply, Store

__all__ = [
    "ControllerSettings",
    "Controllers",
    "Fault",
    "Faults",
    "KubeletSettings",
    "Kubelets",
    "ListOptions",
    "Path",
    "Reply",
    "SimCluster",
    "SimSettings",
    "Store",
    "serve",
]
