"""What the kernel holds pods to, by its own files: limits that a container begins with, burst, disks, network; and
again after agent, container runtime and containers were killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.cluster import groups
from tests.cluster.cluster import MANIFESTS, Cluster
from tests.cluster.inside import AGENT
from tests.cluster.inside import OVERLAY as INSIDE
from tests.cluster.installing import NODES, until_ready
from tests.cluster.lending import ASKED_MIB, ASKED_MILLI, amounts_of, lendable
from tests.cluster.listening import Outside
from tests.cluster.placing import HOME, done
from tests.cluster.pods import BATCH, configure, create, run
from tests.cluster.requirements import CGROUPS
from tests.e2e.container_runtime import processes_with

from berth.contracts import names

OVERLAY = MANIFESTS / "holding"
LIMIT_MILLI = 200
SERVICE_AMOUNTS = {"cpu": f"{LIMIT_MILLI}m", "memory": "32Mi"}
DISK_BPS = 4 << 20
WATCH_S = 4.0
BANDWIDTH_MBIT = 1000
MBIT = {"": 1e-6, "K": 1e-3, "M": 1, "G": 1000}
LEVELS = {"ls": (400, 800), "be": (100, 300)}
"""Mbit a second that a class has in any case, and at most."""


class Value(NamedTuple):
    """A value that a group's file should have."""

    what: str
    controller: str
    version_1: str
    version_2: str
    wanted: Callable[[str], bool]
    told: str

    def root(self) -> str | None:
        """What the file is called here, if the kernel has it; None: it has none."""
        name = self.version_2 if groups.VERSION_2 else self.version_1
        folder = CGROUPS if groups.VERSION_2 else CGROUPS / self.controller
        return name if any(folder.glob(f"kubepods/**/{name}")) else None


def hold(cluster: Cluster, outside: Outside) -> None:
    """Values as they are to be, and again after everything that holds them was killed at once."""
    cluster.kubectl("apply", "--server-side", "-k", str(OVERLAY))
    until_ready(cluster)
    configure(
        cluster,
        resource_threshold={"clusterStrategy": {"enable": False}},
        cpu_burst={"clusterStrategy": {"policy": "cpuBurstOnly", "cpuBurstPercent": 1000}},
        resource_qos={"clusterStrategy": {"policies": {"netQOSPolicy": "tc"}, **_classes()}},
        system={"clusterStrategy": {"totalNetworkBandwidth": f"{BANDWIDTH_MBIT}M"}},
    )
    cluster.report.step("the agent has the rights of enforce, inside and enforce-network; burst, blkio and tc are on")
    folder = cluster.space.home / "data"
    folder.mkdir()
    folder.chmod(0o777)
    amounts = amounts_of(lendable(cluster))
    batch = run(cluster, "limited", "write", "/data/file", **_batch(amounts), folder=str(folder))
    service = run(cluster, "service", "burn", "1", requests=SERVICE_AMOUNTS, limits=SERVICE_AMOUNTS)
    if amounts:
        _begun(cluster, batch)
    _right(cluster, batch, service)
    _disk(cluster, batch)
    _network(cluster, batch, service)
    _amid(cluster, batch, service, amounts)
    done(cluster, "limited", "service", "late")
    configure(cluster, colocation=None, cpu_burst=None, resource_qos=None, system=None)
    cluster.until(lambda: "htb" not in _qdisc(cluster), "the tree of the device to be gone")
    cluster.until(lambda: not _disk_limit(_number()), "the best-effort group to have no limit of the disk")
    cluster.report.step("strategies taken away: neither tree nor limit of the disk, as before")
    cluster.kubectl("apply", "--server-side", "-k", str(INSIDE))
    until_ready(cluster)


def _batch(amounts: dict[str, str]) -> dict[str, Any]:
    return {"labels": BATCH, "requests": amounts, "limits": amounts}


def _classes() -> dict[str, Any]:
    found: dict[str, Any] = {
        f"{name}Class": {
            "networkQOS": {"enable": True, "egressRequest": f"{least}M", "egressLimit": f"{most}M"},
        }
        for name, (least, most) in LEVELS.items()
    }
    block = {"type": "device", "name": _device(), "ioCfg": {"readBPS": DISK_BPS, "writeBPS": DISK_BPS}}
    found["beClass"]["blkioQOS"] = {"enable": True, "blocks": [block]}
    return found


# --- control groups ---------------------------------------------------------------------------------------------------


def _begun(cluster: Cluster, batch: dict[str, Any]) -> None:
    """What the runtime created the container with: that is the plugin's doing, before the agent wrote anything."""
    info = json.loads(cluster.node.ctr("containers", "info", _container(batch)))
    limits = info["Spec"]["linux"]["resources"]
    if _limit(batch, names.BATCH_CPU):
        assert limits["cpu"]["quota"] == ASKED_MILLI * 100, limits
        assert limits["cpu"]["shares"] == ASKED_MILLI * 1024 // 1000, limits
    assert limits["memory"]["limit"] == ASKED_MIB << 20, limits
    cluster.report.step(
        f"batch pod of {_limit(batch, names.BATCH_CPU) or 'no'} batch CPU and {ASKED_MIB} MiB: containerd created its "
        f"container with quota {limits['cpu'].get('quota')}, shares {limits['cpu'].get('shares')} and memory "
        f"{limits['memory']['limit']}"
    )


def _values(pod: dict[str, Any]) -> list[tuple[str, Value]]:
    """Group and value of each limit of a pod."""
    group = _group(pod)
    if pod["metadata"]["labels"]["app"] == "service":
        burst = Value(
            "burst",
            "cpu",
            "cpu.cfs_burst_us",
            "cpu.max.burst",
            lambda text: text == str(LIMIT_MILLI * 100),
            f"{LIMIT_MILLI * 100} us",
        )
        return [(group, burst)]
    quota = Value(
        "quota",
        "cpu",
        "cpu.cfs_quota_us",
        "cpu.max",
        lambda text: text.split()[0] == str(ASKED_MILLI * 100),
        f"{ASKED_MILLI * 100} us",
    )
    memory = Value(
        "memory",
        "memory",
        "memory.limit_in_bytes",
        "memory.max",
        lambda text: text == str(ASKED_MIB << 20),
        f"{ASKED_MIB << 20} bytes",
    )
    pod_group = group.rpartition("/")[0]
    wanted = [value for name, value in ((names.BATCH_CPU, quota), (names.BATCH_MEMORY, memory)) if _limit(pod, name)]
    return [(each, value) for each in (group, pod_group) for value in wanted]


def _limit(pod: dict[str, Any], name: str) -> str:
    """What a pod's container may use at most, of this; nothing: it does not say."""
    return str(pod["spec"]["containers"][0]["resources"].get("limits", {}).get(name, ""))


def _right(cluster: Cluster, *pods: dict[str, Any], again: str = "") -> None:
    """Return once the kernel shows the values of pods, in the groups that their containers have now."""
    shown: list[str] = []
    for pod in pods:
        name = pod["metadata"]["name"]
        for position, (_, value) in enumerate(_values(_now(cluster, pod))):
            if value.root() is None:
                shown.append(f"skipped: the kernel has no {value.version_2 if groups.VERSION_2 else value.version_1}")
                continue
            cluster.until(
                lambda pod=pod, position=position: _is_right(cluster, pod, position),
                f"{value.what} of {name} to be {value.told}",
                timeout_s=90,
            )
            shown.append(f"{value.what} of {name} {value.told}")
    cluster.report.step(f"{again}the kernel shows {', '.join(dict.fromkeys(shown))}")


def _is_right(cluster: Cluster, pod: dict[str, Any], position: int) -> bool:
    now = _now(cluster, pod)
    if not _container(now):
        return False
    group, value = _values(now)[position]
    text = groups.value(group, value.controller, value.version_1, value.version_2)
    return text is not None and value.wanted(text)


def _now(cluster: Cluster, pod: dict[str, Any]) -> dict[str, Any]:
    return cluster.get(f"/api/v1/namespaces/{HOME}/pods/{pod['metadata']['name']}")


def _container(pod: dict[str, Any]) -> str:
    """The id of its container, while that runs."""
    (status,) = pod["status"].get("containerStatuses") or [{}]
    is_running = "running" in status.get("state", {})
    return str(status.get("containerID", "")).removeprefix("containerd://") if is_running else ""


def _group(pod: dict[str, Any]) -> str:
    qos = {"BestEffort": "besteffort/", "Burstable": "burstable/"}.get(pod["status"]["qosClass"], "")
    return f"kubepods/{qos}pod{pod['metadata']['uid']}/{_container(pod)}"


# --- disks ------------------------------------------------------------------------------------------------------------


def _device() -> str:
    """The disk that the node's folder is on, as users name it."""
    number = os.stat("/").st_dev
    major, minor = os.major(number), os.minor(number)
    block = os.path.realpath(f"/sys/dev/block/{major}:{minor}")
    name = os.path.basename(os.path.dirname(block) if os.path.exists(f"{block}/partition") else block)
    return f"/dev/{name}"


def _number() -> str:
    with open(f"/sys/class/block/{_device().removeprefix('/dev/')}/dev") as file:
        return file.read().strip()


def _disk(cluster: Cluster, batch: dict[str, Any]) -> None:
    """The limit stands in the group of best-effort pods, and what a pod of it writes is said."""
    number, name = _number(), "io.max" if groups.VERSION_2 else "blkio.throttle.write_bps_device"
    cluster.until(
        lambda: _disk_limit(number) == DISK_BPS,
        f"{DISK_BPS} bytes a second in {name}; there is {_disk_limit(number)}",
        timeout_s=90,
    )
    before, began = _written(batch, number), time.monotonic()
    time.sleep(WATCH_S)
    rate = (_written(batch, number) - before) / (time.monotonic() - began)
    cluster.report.step(
        f"{name} of the best-effort group: {number} {DISK_BPS}; its pod that writes without end writes "
        f"{rate / (1 << 20):.1f} MiB a second"
    )


def _disk_limit(number: str, group: str = groups.BEST_EFFORT) -> int:
    text = groups.value(group, "blkio", "blkio.throttle.write_bps_device", "io.max") or ""
    line = next((each for each in text.splitlines() if each.startswith(f"{number} ")), "")
    found = re.search(r"wbps=(\d+)", line) if groups.VERSION_2 else re.search(r" (\d+)$", line)
    return int(found[1]) if found else 0


def _written(pod: dict[str, Any], number: str) -> int:
    """Bytes that a pod has written to a disk."""
    file = "blkio.throttle.io_service_bytes_recursive"
    text = groups.value(_group(pod).rpartition("/")[0], "blkio", file, "io.stat") or ""
    pattern = rf"^{number} .*wbytes=(\d+)" if groups.VERSION_2 else rf"^{number} Write (\d+)"
    found = re.search(pattern, text, re.MULTILINE)
    return int(found[1]) if found else 0


# --- network ----------------------------------------------------------------------------------------------------------


def _qdisc(cluster: Cluster) -> str:
    return cluster.space.run("tc", "qdisc", "show")


def _network(cluster: Cluster, *pods: dict[str, Any]) -> None:
    """The tree of the node's device, and who is in which of its classes."""
    cluster.until(lambda: _classes_there(cluster), "three classes below the device's tree", timeout_s=90)
    wanted = {"1:3": LEVELS["ls"], "1:4": LEVELS["be"]}
    cluster.until(
        lambda: wanted.items() <= _classes_there(cluster).items(),
        f"{wanted}, there is {_classes_there(cluster)}",
        timeout_s=60,
    )
    cluster.until(lambda: _are_marked(cluster, *pods), f"addresses of pods in the map: {_marks(cluster)}", timeout_s=60)
    told = ", ".join(f"{name} {least} to {most} Mbit" for name, (least, most) in sorted(wanted.items()))
    cluster.report.step(f"tc class show: {told}; nft puts the batch pod's address into 1:4, the service's into 1:3")


def _classes_there(cluster: Cluster) -> dict[str, tuple[float, float]]:
    """Rate and ceiling of each class, Mbit a second."""
    shown = cluster.space.run("tc", "class", "show", "dev", "uplink")
    found = re.findall(r"^class htb (\S+) .*\brate (\d+)(K|M|G)?bit ceil (\d+)(K|M|G)?bit", shown, re.MULTILINE)
    return {name: (int(rate) * MBIT[unit], int(most) * MBIT[of]) for name, rate, unit, most, of in found}


def _are_marked(cluster: Cluster, *pods: dict[str, Any]) -> bool:
    text = _marks(cluster)
    classes = {"limited": "1:4", "late": "1:4", "service": "1:3"}
    return all(f"{pod['status']['podIP']} : {classes[pod['metadata']['name']]}" in text for pod in pods)


def _marks(cluster: Cluster) -> str:
    with contextlib.suppress(RuntimeError):
        return cluster.space.run("nft", "list", "map", "inet", "berth_qos", "pods4")
    return ""


# --- killed amid ------------------------------------------------------------------------------------------------------


def _amid(cluster: Cluster, batch: dict[str, Any], service: dict[str, Any], amounts: dict[str, str]) -> None:
    """Agent, runtime and containers go at once, and a pod comes meanwhile."""
    ids = {pod["metadata"]["name"]: _container(_now(cluster, pod)) for pod in (batch, service)}
    agent = cluster.pods(NODES)[0]
    cluster.kubectl("delete", "pod", agent["metadata"]["name"], "-n", NODES, "--wait=false", "--grace-period=1")
    create(cluster, "late", "burn", "1", **_batch(amounts))
    cluster.node.restart_runtime()
    for name in ids:
        for process in processes_with(f"MARK=pod-{name}"):
            os.kill(int(process.name), signal.SIGKILL)
    cluster.until_running(HOME, "app=late", 1)
    cluster.rolled_out(AGENT, NODES)
    for pod in (batch, service):
        name = pod["metadata"]["name"]
        cluster.until(lambda p=pod, was=ids[name]: _container(_now(cluster, p)) not in ("", was), f"{name} to run anew")
    late = cluster.get(f"/api/v1/namespaces/{HOME}/pods/late")
    _right(
        cluster, batch, service, late, again="containerd and both containers killed, the agent deleted, a pod created: "
    )
    if not groups.VERSION_2:  # where each group of processes has it for itself
        number = _number()
        cluster.until(lambda: _disk_limit(number, _group(_now(cluster, batch))) == DISK_BPS, "its limit of the disk")
    assert _disk_limit(_number()) == DISK_BPS
    cluster.until(
        lambda: _are_marked(cluster, *(_now(cluster, pod) for pod in (batch, service, late))), "their addresses again"
    )
