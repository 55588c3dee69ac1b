"""The node agent's process on a node whose devices are files, what it says on the bus, and what the kernel says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.container_runtime import ContainerRuntime, lacking, processes_with, status_of

from berth.bus import Bus, BusSettings
from berth.bus.port import Entry
from berth.contracts import buckets, names
from berth.contracts.codec import decode, encode
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.metrics import NodeMetrics
from berth.contracts.node_report import NodeReport
from berth.contracts.node_runtime import NodeRuntime
from berth.contracts.subjects import named_key
from berth.testing.nats_server import NatsServer

DEADLINE_S = 60.0
NODE = "real-node"
KEY, REPORT, RUNTIME = (named_key(kind, NODE) for kind in ("node", "report", "runtime"))
NIC = "0000:01:00.0"
GPU = "GPU-8c25f7f0-1111-2222-3333-444444444444"
CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
OWN, EVERY = str(CPUS[-1]), set(CPUS)
LSR = {names.LABEL_QOS: "LSR", names.LABEL_PRIORITY_CLASS: "koord-prod"}


@contextlib.contextmanager
def a_container_runtime(*missing: str) -> Iterator[ContainerRuntime]:
    """A containerd that runs. Skips, and says what is missing, where it or `missing` is not there."""
    if everything := [*lacking(), *missing]:
        pytest.skip("no real container runtime, or what is to run beside it; missing:\n" + "\n".join(everything))
    if len(CPUS) < 2:
        pytest.skip("two CPUs: one for a pod of its own, one for the others")
    found = ContainerRuntime()
    try:
        found.start()
        yield found
    finally:
        found.close()


class Agent:
    """The agent's process on a node with a GPU and a NIC, whose device files are made of numbers alone."""

    def __init__(self, folder: Path, socket: Path, bus: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "agent.log"
        self.inventory = folder / "inventory.json"
        for name in ("infiniband", "sys/bus/pci/devices", f"verbs/{NIC}/infiniband_verbs/uverbs7"):
            (folder / name).mkdir(parents=True)
        for number, name in enumerate(("rdma_cm", "uverbs7")):
            os.mknod(folder / "infiniband" / name, stat.S_IFCHR | 0o600, os.makedev(1, 3 + 2 * number))
        (folder / "sys/devices").symlink_to("/sys/devices")
        (folder / f"sys/bus/pci/devices/{NIC}").symlink_to(folder / f"verbs/{NIC}")
        self._environ = {
            **os.environ,
            "BERTH_NATS_URL": bus,
            "BERTH_NODE_NAME": NODE,
            "BERTH_INTERVAL_S": "0.5",
            "BERTH_METRICS_INTERVAL_S": "0",
            "BERTH_NRI_SOCKET": str(socket),
            "BERTH_SYS_ROOT": str(folder / "sys"),
            "BERTH_CGROUP_ROOT": "/sys/fs/cgroup",
            "BERTH_DEV_ROOT": str(folder),
            "BERTH_KUBELET_ROOT": str(folder / "kubelet"),
            "BERTH_HOST_ROOT": str(folder / "host"),
            "BERTH_JOURNAL_FILE": str(folder / "journal.json"),
            "BERTH_INVENTORY_FILE": str(self.inventory),
        }

    def start(self, **told: str) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "berth.node_qos_enforcer"]
            self._process = subprocess.Popen(command, env=self._environ | told, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log(self) -> str:
        return self._log.read_text()[-4000:]


class Reports:
    """What the agent says of its node."""

    def __init__(self) -> None:
        self.metrics: NodeMetrics | None = None
        self.report: NodeReport | None = None
        self.runtime: NodeRuntime | None = None

    def reset(self) -> None:
        self.metrics = self.report = self.runtime = None

    def apply(self, entry: Entry) -> None:
        if entry.deleted:
            return
        if entry.key == KEY:
            self.metrics = decode(entry.value, NodeMetrics)
        elif entry.key == REPORT:
            self.report = decode(entry.value, NodeReport)
        elif entry.key == RUNTIME:
            self.runtime = decode(entry.value, NodeRuntime)

    def end(self, sequence: int) -> None:
        pass

    @property
    def is_connected(self) -> bool:
        plugin = self.metrics.runtime_plugin if self.metrics is not None else None
        return plugin is not None and plugin.connected

    def kinds(self, pod: str) -> set[str]:
        """Of findings about a pod."""
        return {each.kind for each in self.runtime.findings if each.pod == pod} if self.runtime is not None else set()

    def fields(self) -> set[str]:
        assert self.metrics is not None
        return {each.field for each in self.metrics.problems if each.field.startswith("pods[")}


@contextlib.asynccontextmanager
async def reports(server: NatsServer, *gpus: str) -> AsyncIterator[Reports]:
    """A bus that knows the node's devices, one GPU or these, and what its agent reports there."""
    bus = await Bus.connect(BusSettings(url=server.url), service="test")
    await bus.ensure()
    slots = [DeviceSlot(kind="gpu", minor=minor, uuid=uuid) for minor, uuid in enumerate(gpus or (GPU,))]
    slots.append(DeviceSlot(kind="rdma", minor=0, uuid=NIC))
    bus.owned(buckets.INVENTORY).put(
        KEY, encode(NodeInventory(node=NODE, version=1, devices=slots, gpu_vendor="nvidia"))
    )
    found = Reports()
    task = asyncio.create_task(bus.follow(buckets.METRICS, found).run())
    try:
        yield found
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await bus.close()


async def until(holds: Callable[[], Any], what: str, agent: Agent) -> Any:
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not (value := holds()):
                await asyncio.sleep(0.05)
            return value
    except TimeoutError:
        raise AssertionError(f"never: {what}\n{agent.log()}") from None


async def begun(
    containerd: ContainerRuntime, pod: tuple[str, bytes], name: str = "main", **limits: int
) -> tuple[str, Path]:
    """A new container of a pod, and its process."""
    mark = uuid.uuid4().hex
    container = await asyncio.to_thread(containerd.run_container, pod, name, {"MARK": mark}, **limits)
    async with asyncio.timeout(DEADLINE_S):
        while not (found := list(processes_with(f"MARK={mark}"))):
            await asyncio.sleep(0.05)
    return container, found[0]


def cpus(process: Path) -> set[int]:
    found: set[int] = set()
    for part in status_of(process, "Cpus_allowed_list").split(","):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def own_cpus() -> dict[str, str]:
    return {names.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": OWN})}


def devices(minor: int = 0) -> dict[str, str]:
    gpu = {"minor": minor, "id": GPU, "resources": {names.GPU_MEMORY_RATIO: "100"}}
    nic = {"minor": 0, "id": NIC, "resources": {names.RDMA: "1"}}
    return {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [gpu], "rdma": [nic]})}


def environment(process: Path) -> dict[str, str]:
    lines = (process / "environ").read_text().split("\0")
    return dict(each.partition("=")[::2] for each in lines if each)


async def run_pod(
    containerd: ContainerRuntime, name: str, labels: dict[str, str] | None = None, **noted: dict[str, str]
) -> tuple[str, bytes]:
    annotations = {key: value for each in noted.values() for key, value in each.items()}
    return await asyncio.to_thread(containerd.run_pod, name, labels=labels or {}, annotations=annotations)
