"""What a whole node needs of this machine, and what of it is missing.

`python requirements.py` says so, and exits with 1 when there is something. Python's standard library only, so that it
can be asked before anything is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINIMUM_GO = (1, 24)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "berth" / "kube"
BINARIES = ("kube-apiserver", "kubelet", "kube-proxy", "kube-controller-manager", "kube-scheduler", "etcd", "kubectl")
BINARIES += ("containerd", "containerd-shim-runc-v2", "ctr", "coredns", "pause")
COMMANDS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "iptables": "iptables",
    "iptables-save": "iptables",
    "runc": "runc",
    "openssl": "openssl",
    "docker": "docker.io (with its engine running), or Docker's own packages",
}
"""Command -> Debian package."""
CNI_PLUGINS = ("ptp", "host-local", "loopback")
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CGROUPS = Path("/sys/fs/cgroup")
KUBELET_GROUPS = ("kubepods", "kubepods.slice")
HOST_ADDRESS, NODE_ADDRESS = "198.18.77.1", "198.18.77.2"
"""Both ends of the wire between this machine and its node: from the range for benchmarks, which nobody routes."""
LINK = "berth-node"


def cni_folder() -> Path | None:
    """Where the CNI plugins are."""
    return next((each for each in CNI_FOLDERS if all((each / name).is_file() for name in CNI_PLUGINS)), None)


def kubelet_groups() -> list[Path]:
    """Control groups of a kubelet, in every hierarchy."""
    roots = [CGROUPS, *CGROUPS.glob("*/")]
    return sorted({root / name for root in roots for name in KUBELET_GROUPS if (root / name).is_dir()})


def lacking() -> Iterator[str]:
    """What is missing, a line each, with what to do about it."""
    if sys.platform != "linux":
        yield "Linux: a kubelet runs nowhere else"
        return
    if os.geteuid() != 0:
        yield "root: containers, namespaces and control groups are made here (sudo make e2e-cluster)"
    for command, package in COMMANDS.items():
        if shutil.which(command) is None:
            yield f"{command}: apt-get install {package}"
    if cni_folder() is None:
        folders = " or ".join(map(str, CNI_FOLDERS))
        yield f"CNI plugins {', '.join(CNI_PLUGINS)} in {folders}: apt-get install containernetworking-plugins"
    if shutil.which("docker") and (said := _fails("docker", "info")):
        yield f"a Docker engine, which builds and hands over Berth's images: {said}"
    yield from _no_binaries()
    yield from _no_disk_space()


def _no_binaries() -> Iterator[str]:
    folders = [Path(os.environ["KUBEBUILDER_ASSETS"])] if os.environ.get("KUBEBUILDER_ASSETS") else []
    folders += CACHE.glob("*/bin")
    if any(all(os.access(folder / name, os.X_OK) for name in BINARIES) for folder in folders):
        return
    wanted = ".".join(map(str, MINIMUM_GO))
    if shutil.which("go") is None:
        yield f"Go {wanted} or newer, to build Kubernetes' binaries once: https://go.dev/dl"
        return
    done = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = tuple(map(int, re.findall(r"\d+", done.stdout)[:2]))
    if found < MINIMUM_GO:
        here = done.stdout.strip() or "a broken one"
        yield f"Go {wanted} or newer, to build Kubernetes' binaries once; here is {here}"


def _no_disk_space() -> Iterator[str]:
    busy = [str(group) for group in kubelet_groups() if _processes(group)]
    if busy:
        yield f"a machine without a kubelet: one has containers in {busy[0]}"
    links = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=False).stdout
    if f" {LINK} " in links or f" {HOST_ADDRESS}/" in links:
        yield f"the address {HOST_ADDRESS} and the link {LINK}: another run has them, or ip link delete {LINK}"


def _processes(group: Path) -> bool:
    return any(path.read_text().strip() for path in group.rglob("cgroup.procs"))


def _fails(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else ""


def main() -> int:
    """0 when nothing is missing."""
    missing = list(lacking())
    for each in missing:
        print(f"missing  {each}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
