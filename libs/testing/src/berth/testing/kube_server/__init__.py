"""A real kube-apiserver with its etcd for tests and benchmarks: ready in seconds, killed and restarted at will.

    with KubeServer() as server:
        server.url, server.tls, server.admin_token      # for a client of your own
        server.kubeconfig("berth-system/cluster-writer")   # a service account's identity; RBAC is on
        server.api.kill(); server.api.start()           # the same port and data
        server.compact()                                # etcd forgets every revision but the newest

There is no controller-manager, scheduler or kubelet: nothing sets disruption budgets' status, deletes what belongs to a
deleted namespace, or runs pods.
"""

from berth.testing.kube_server.binaries import KUBE_VERSION, KubeMissingError, find_binary
from berth.testing.kube_server.daemon import Daemon
from berth.testing.kube_server.server import KubectlError, KubeServer

__all__ = ["KUBE_VERSION", "Daemon", "KubeMissingError", "KubeServer", "KubectlError", "find_binary"]
