"""One node: containerd, kubelet and kube-proxy in namespaces of their own, with real containers and real cgroups."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.control_plane import serves
from tests.cluster.requirements import NODE_ADDRESS, cni_folder
from tests.cluster.space import Space

from berth.testing.kube_server import Daemon, KubeServer, find_binary
from berth.testing.kube_server.daemon import Janitor

NAME = "real-node"
POD_NETWORK = "10.244.0.0/24"
DNS_ADDRESS = "10.96.0.10"
PAUSE_IMAGE = "example.test/pause:1"
COPY_S = 300.0
"""For images: hundreds of megabytes."""
KUBELET_ROOT = "/var/lib/kubelet"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


class Node:
    """What a node has to have, started in the order in which each needs the other."""

    def __init__(self, space: Space, server: KubeServer) -> None:
        self.space = space
        self._server = server
        self._home = space.home
        self._janitor = Janitor(self._home / "nothing")
        self._daemons: list[Daemon] = []

    def start_runtime(self) -> None:
        """containerd, ready for images."""
        (self._home / "cni").mkdir()
        (self._home / "cni" / "10-pods.conflist").write_text(json.dumps(_network()))
        (self._home / "containerd.toml").write_text(_containerd(self._home))
        binary = find_binary("containerd")
        environment = ["env", f"PATH={binary.parent}:{os.environ.get('PATH', '')}"]
        command = [*environment, str(binary), "--config", str(self._home / "containerd.toml")]
        self._daemon("containerd", command, self._runtime_serves).start()

    def start_kubelet(self) -> None:
        """kubelet and kube-proxy; the node registers itself."""
        # At its usual place, where agents look for what it serves, and on the disk: that place is in memory.
        (self._home / "kubelet").mkdir()
        self.space.run("mkdir", "-p", KUBELET_ROOT)
        self.space.run("mount", "--bind", str(self._home / "kubelet"), KUBELET_ROOT)
        (self._home / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (self._home / "kubelet.json").write_text(json.dumps(_kubelet(self._home)))
        (self._home / "kube-proxy.json").write_text(json.dumps(_kube_proxy(self._server.admin_kubeconfig)))
        kubelet = [
            str(find_binary("kubelet")),
            f"--config={self._home / 'kubelet.json'}",
            f"--kubeconfig={self._server.admin_kubeconfig}",
            f"--root-dir={KUBELET_ROOT}",
            f"--hostname-override={NAME}",
            f"--node-ip={NODE_ADDRESS}",
        ]
        proxy = [
            str(find_binary("kube-proxy")),
            f"--config={self._home / 'kube-proxy.json'}",
            f"--hostname-override={NAME}",
        ]
        self._daemon("kubelet", kubelet, serves(f"https://{NODE_ADDRESS}:10250")).start()
        self._daemon("kube-proxy", proxy, self._proxy_serves).start()

    def restart_runtime(self) -> None:
        """Kill containerd at once, and start it again; containers run on meanwhile."""
        config = str(self._home / "containerd.toml").encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/containerd") and config in words:
                    os.kill(int(folder.name), signal.SIGKILL)
        runtime = next(each for each in self._daemons if each.name == "containerd")
        runtime.kill()
        runtime.start()

    def load_image(self, archive: bytes | Path) -> None:
        """Put the images of an archive (as of `docker save`) where kubelet finds them."""
        if isinstance(archive, Path):
            self.ctr("images", "import", "--local", str(archive))
            return
        path = self._home / "image.tar"
        path.write_bytes(archive)
        self.ctr("images", "import", "--local", str(path))
        path.unlink()

    def images(self) -> list[str]:
        """Names of the images that are there."""
        return self.ctr("images", "list", "--quiet").split()

    def ctr(self, *arguments: str) -> str:
        """containerd's own client, among kubelet's containers."""
        client = [str(find_binary("ctr")), "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]
        return self.space.run(*client, *arguments, timeout_s=COPY_S)

    def log(self, name: str) -> str:
        """The end of a component's log."""
        path = self._home / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def keep_logs(self, folder: Path) -> None:
        """Copy all logs, for who looks into a failure."""
        folder.mkdir(parents=True, exist_ok=True)
        for home in (self._home, self._server.home):
            for path in home.glob("*.log"):
                shutil.copy(path, folder)

    def close(self) -> None:
        """End it: the kernel takes down all of the space at once, kubelet and containers."""
        self.space.close()
        for daemon in self._daemons:
            daemon.kill()
        self._janitor.close()

    def _daemon(self, name: str, command: list[str], ready: Callable[[], bool]) -> Daemon:
        found = Daemon(name, self.space.inside(*command), self._home / f"{name}.log", ready, self._janitor)
        self._daemons.append(found)
        return found

    def _runtime_serves(self) -> bool:
        try:
            return bool(self.ctr("version"))
        except RuntimeError:
            time.sleep(0.2)
            return False

    def _proxy_serves(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((NODE_ADDRESS, 10256)) == 0


def _network() -> dict[str, object]:
    """Each pod has a wire to the node, and an address of `POD_NETWORK`."""
    ipam = {"type": "host-local", "ranges": [[{"subnet": POD_NETWORK}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": True, "ipam": ipam}],
    }


def _containerd(home: Path) -> str:
    runtime = "io.containerd.cri.v1.runtime"
    return f"""
version = 3
root = "{home}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."{runtime}"]
restrict_oom_score_adj = true # a container may lack CAP_SYS_RESOURCE, and so may this machine
[plugins."{runtime}".cni]
bin_dirs = ["{cni_folder()}"]
conf_dir = "{home}/cni"
[plugins."{runtime}".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."{runtime}".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _kubelet(home: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        # Nobody but this machine reaches that address.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(home / "resolv.conf"),
        "volumePluginDir": str(home / "volume-plugins"),
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": 250,
    }


def _kube_proxy(kubeconfig: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": POD_NETWORK,
        "healthzBindAddress": f"{NODE_ADDRESS}:10256",
        "mode": "iptables",
        # Tables of connections belong to the machine, not to a network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
