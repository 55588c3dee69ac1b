"""The node agent and a real containerd: containers begin with what their pods were given, through every restart."""

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

import grpc
import pytest
from tests.e2e.container_runtime import ContainerRuntime, lacking, processes_with, status_of

from berth.bus import Bus, BusSettings
from berth.bus.port import Entry
from berth.contracts import buckets, names
from berth.contracts.codec import decode, encode
from berth.contracts.inventory import DeviceSlot, NodeInventory
from berth.contracts.metrics import NodeMetrics
from berth.contracts.subjects import named_key
from berth.testing.nats_server import NatsServer

pytestmark = pytest.mark.e2e
DEADLINE_S = 60.0
NODE = "real-node"
KEY = named_key("node", NODE)
NIC = "0000:01:00.0"
GPU = "GPU-8c25f7f0-1111-2222-3333-444444444444"
CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
OWN, EVERY = str(CPUS[-1]), set(CPUS)
LSR = {names.LABEL_QOS: "LSR"}


class Agent:
    """The agent's process on a node with a GPU and a NIC, whose device files are made of numbers alone."""

    def __init__(self, folder: Path, socket: Path, bus: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "agent.log"
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
            "BERTH_NRI_SOCKET": str(socket),
            "BERTH_SYS_ROOT": str(folder / "sys"),
            "BERTH_CGROUP_ROOT": "/sys/fs/cgroup",
            "BERTH_DEV_ROOT": str(folder),
            "BERTH_KUBELET_ROOT": str(folder / "kubelet"),
            "BERTH_HOST_ROOT": str(folder / "host"),
            "BERTH_JOURNAL_FILE": str(folder / "journal.json"),
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

    def reset(self) -> None:
        self.metrics = None

    def apply(self, entry: Entry) -> None:
        if entry.key == KEY and not entry.deleted:
            self.metrics = decode(entry.value, NodeMetrics)

    def end(self, sequence: int) -> None:
        pass

    @property
    def is_connected(self) -> bool:
        plugin = self.metrics.runtime_plugin if self.metrics is not None else None
        return plugin is not None and plugin.connected

    def fields(self) -> set[str]:
        assert self.metrics is not None
        return {each.field for each in self.metrics.problems if each.field.startswith("pods[")}


@pytest.fixture
def containerd() -> Iterator[ContainerRuntime]:
    if missing := lacking():
        pytest.skip("no real container runtime here; missing:\n" + "\n".join(missing))
    if len(CPUS) < 2:
        pytest.skip("two CPUs: one for a pod of its own, one for the others")
    found = ContainerRuntime()
    try:
        found.start()
        yield found
    finally:
        found.close()


@pytest.fixture
def agent(containerd: ContainerRuntime, nats_server: NatsServer, tmp_path: Path) -> Iterator[Agent]:
    found = Agent(tmp_path, containerd.nri, nats_server.url)
    try:
        yield found
    finally:
        found.kill()


@contextlib.asynccontextmanager
async def reports(server: NatsServer) -> AsyncIterator[Reports]:
    """A bus that knows the node's devices, and what its agent reports there."""
    bus = await Bus.connect(BusSettings(url=server.url), service="test")
    await bus.ensure()
    slots = [DeviceSlot(kind="gpu", minor=0, uuid=GPU), DeviceSlot(kind="rdma", minor=0, uuid=NIC)]
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


async def test_containers_have_what_their_pods_were_given(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: told.is_connected, "connected", agent)
        plain = await run_pod(containerd, "plain")
        _, shared = await begun(containerd, plain)
        assert cpus(shared) == EVERY

        own = await run_pod(containerd, "own", LSR, cpus=own_cpus(), devices=devices())
        await until(lambda: cpus(shared) == EVERY - {int(OWN)}, "others leave its CPUs before it begins", agent)
        container, process = await begun(containerd, own, cpu_quota_us=50_000)
        assert cpus(process) == {int(OWN)}
        spec = containerd.spec(container)
        assert spec["linux"]["resources"]["cpu"]["quota"] == -1
        assert environment(process)["NVIDIA_VISIBLE_DEVICES"] == GPU
        for name, minor in (("rdma_cm", 3), ("uverbs7", 5)):
            device = (process / "root/dev/infiniband" / name).stat()
            assert stat.S_ISCHR(device.st_mode)
            assert (os.major(device.st_rdev), os.minor(device.st_rdev)) == (1, minor)
            assert stat.S_IMODE(device.st_mode) == 0o666
        late, _ = await begun(containerd, plain, "late")
        assert containerd.spec(late)["linux"]["resources"]["cpu"]["cpus"] == str(CPUS[0])

        await asyncio.to_thread(containerd.remove_pod, own)
        await until(lambda: cpus(shared) == EVERY, "its CPUs are everybody's again", agent)
        assert told.fields() == set()


async def test_what_cannot_be_had_is_refused_and_told(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: told.is_connected, "connected", agent)
        wrong = await run_pod(containerd, "wrong", devices=devices(minor=3))
        field = f"pods[work/wrong].metadata.annotations[{names.ANNOTATION_DEVICE_ALLOCATED}].gpu[minor 3].minor"
        with pytest.raises(grpc.RpcError) as refused:
            await begun(containerd, wrong)
        assert f"{field}: is no device of this node" in str(refused.value)
        await until(lambda: told.fields() == {field}, "a finding", agent)
        bad = await run_pod(containerd, "bad", LSR, cpus={names.ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0-99999999"}'})
        _, process = await begun(containerd, bad)
        assert cpus(process) == EVERY
        cpuset = f"pods[work/bad].metadata.annotations[{names.ANNOTATION_RESOURCE_STATUS}].cpuset"
        await until(lambda: told.fields() == {field, cpuset}, "another finding", agent)
        assert told.is_connected
        await asyncio.to_thread(containerd.remove_pod, wrong)
        await asyncio.to_thread(containerd.remove_pod, bad)
        await until(lambda: told.fields() == set(), "nothing is wrong any more", agent)


async def test_what_began_without_the_agent_is_put_right_and_everything_given_back(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    own = await run_pod(containerd, "own", LSR, cpus=own_cpus(), devices=devices())
    plain = await run_pod(containerd, "plain")
    _, early = await begun(containerd, own, cpu_quota_us=50_000)
    _, shared = await begun(containerd, plain)
    assert cpus(early) == cpus(shared) == EVERY
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: cpus(early) == {int(OWN)}, "its own CPUs", agent)
        await until(lambda: cpus(shared) == EVERY - {int(OWN)}, "those of the others", agent)
        lacks = "pods[work/own].containers[main]"
        await until(lambda: told.metrics is not None and told.fields() == {lacks}, "what it lacks", agent)

        agent.kill()
        assert cpus(early) == {int(OWN)}, "an agent that is killed leaves everything as it is"
        other = await run_pod(containerd, "other")
        _, unseen = await begun(containerd, other)
        assert cpus(unseen) == EVERY
        agent.start()
        await until(lambda: cpus(unseen) == EVERY - {int(OWN)}, "what began meanwhile is put right", agent)
        again, known = await begun(containerd, own, "again", cpu_quota_us=50_000)
        assert cpus(known) == {int(OWN)}

        agent.kill()
        agent.start(BERTH_GIVE_BACK="true")
        for process in (early, shared, unseen, known):
            await until(lambda process=process: cpus(process) == EVERY, "it is given back", agent)
        for root, file, before in (("cpu", "cpu.cfs_quota_us", "50000"), ("", "cpu.max", "50000 100000")):
            quota = Path("/sys/fs/cgroup") / root / containerd.group / again / file
            if quota.parent.is_dir():
                await until(lambda quota=quota, text=before: quota.read_text().strip() == text, "its quota", agent)
                break
        else:
            raise AssertionError("its group is nowhere")


async def test_containerd_is_killed_and_comes_back(
    containerd: ContainerRuntime, nats_server: NatsServer, agent: Agent
) -> None:
    agent.start()
    async with reports(nats_server) as told:
        await until(lambda: told.is_connected, "connected", agent)
        await asyncio.to_thread(containerd.kill)
        await until(lambda: not told.is_connected, "the connection is gone", agent)
        await asyncio.to_thread(containerd.start)
        await until(lambda: told.is_connected, "connected again", agent)
        own = await run_pod(containerd, "own", LSR, cpus=own_cpus())
        _, process = await begun(containerd, own)
        assert cpus(process) == {int(OWN)}
