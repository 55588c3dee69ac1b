"""The agent as a plugin of a container runtime: what it answers, what it puts right, and what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.services.node_qos_builders import FACTS, GPU, container, gpu, inventory, pod

from berth.bus.port import BusPort
from berth.contracts import names
from berth.contracts.node_runtime import PodFinding
from berth.node_qos_enforcer.core.topology import Processor
from berth.node_qos_enforcer.executor import Executor
from berth.node_qos_enforcer.executor.undoing import give_back
from berth.node_qos_enforcer.files import DiskTree
from berth.node_qos_enforcer.inside.folders import CONTAINERS, Folders
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.inside.plugin import Keeper
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import KnownNode
from berth.nri import api_pb2 as api
from berth.runtime import Context
from berth.testing.nri_runtime import FakeRuntime, PluginPeer, StatusError
from berth.vendors.vendor import Edits, Mount

DEADLINE_S = 10.0
HAMI = {names.LABEL_GPU_ISOLATION: "HAMi-core"}
TWO_GPUS = {"gpu": [gpu(0), gpu(1)]}


class Node:
    """A node of files with a runtime, and the agent's part that serves it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        for name in ("host", "dev", "sys", "kubelet", "cgroup"):
            (folder / name).mkdir()
        self.runtime = FakeRuntime(folder / "nri.sock")
        self.settings = Settings(
            node_name="n",
            nri_socket=str(folder / "nri.sock"),
            host_root=str(folder / "host"),
            dev_root=str(folder / "dev"),
            sys_root=str(folder / "sys"),
            kubelet_root=str(folder / "kubelet"),
            **settings,
        )
        known = KnownNode("n")
        known.processors = tuple(
            Processor(cpu.id, cpu.core, cpu.socket, cpu.zone) for cpu in FACTS.layout.cpus.values()
        )
        self.executor = Executor(DiskTree(folder / "cgroup"))
        self.inside = Inside(self.settings, known)
        ctx = Context(service="test", settings=self.settings, bus=cast("BusPort", None), random=random.Random(1))
        self.keeper = Keeper(ctx, self.inside, self.executor)

    def know(self, *minors: int, vendor: str = "nvidia") -> None:
        self.inside.inventory.inventory = inventory(*minors, vendor=vendor)
        self.inside.inventory.is_known = True

    def library(self) -> None:
        file = self.folder / "host/usr/local/vgpu/libvgpu.so"
        file.parent.mkdir(parents=True)
        file.write_text("")

    @property
    def fields(self) -> list[str]:
        return [each.field for each in self.inside.problems()]


@contextlib.asynccontextmanager
async def serving(node: Node) -> AsyncIterator[Node]:
    await node.runtime.start()
    task = asyncio.create_task(node.keeper.run())
    try:
        yield node
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await node.runtime.stop()


async def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := holds()):
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.01)
    return value


async def connected(node: Node, *told: tuple[api.PodSandbox, list[api.Container]]) -> PluginPeer:
    peer = await node.runtime.plugin()
    pods, containers = [each for each, _ in told], [one for _, listed in told for one in listed]
    await peer.ready([api.SynchronizeRequest(pods=pods, containers=containers)])
    await until(lambda: node.keeper.plugin.status.is_ready, "ready")
    return peer


async def created(peer: PluginPeer, of: api.PodSandbox, one: api.Container | None = None) -> api.ContainerAdjustment:
    asked = api.CreateContainerRequest(pod=of, container=one or container(of, state=api.CONTAINER_CREATED))
    answer = await peer.call("CreateContainer", asked, api.CreateContainerResponse)
    assert isinstance(answer, api.CreateContainerResponse)
    return answer.adjust


async def happens(peer: PluginPeer, event: api.Event, of: api.PodSandbox, one: api.Container | None = None) -> None:
    await peer.call("StateChange", api.StateChangeEvent(event=event, pod=of, container=one))


def env(found: api.ContainerAdjustment) -> dict[str, str]:
    return {each.key: each.value for each in found.env if not each.key.startswith("-")}


def cpus(peer: PluginPeer) -> list[str]:
    """Of the updates that it was asked for."""
    return [each.linux.resources.cpu.cpus for each in peer.updates]


def findings(node: Node) -> list[PodFinding]:
    """What is published of the node's pods."""
    return node.inside.findings.of_pods(node.inside.board.pods)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_a_container_begins_with_what_its_pod_was_given(node: Node) -> None:
    node.know(0, 1)
    async with serving(node):
        peer = await connected(node)
        assert (peer.name, peer.index) == ("berth", "00")
        assert peer.events == 0b11011001111, "events that every runtime knows"
        of = pod(qos="LSR", cpus="2-3", devices=TWO_GPUS)
        found = await created(peer, of, container(of, quota_us=200_000, env={"NVIDIA_VISIBLE_DEVICES": "all"}))
        assert env(found) == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0,{GPU}1"}
        assert [each.key for each in found.env] == ["-NVIDIA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"]
        assert (found.linux.resources.cpu.cpus, found.linux.resources.cpu.quota.value) == ("2-3", -1)
        plain = await created(peer, pod("plain"))
        assert plain.linux.resources.cpu.cpus == "0-1,4-7"
        assert not plain.linux.resources.cpu.HasField("quota")
        assert not plain.env
        assert node.inside.problems() == ()


async def test_device_files_of_a_vendor(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.know(0, vendor="kunlun")
    for name in ("xpuctrl", "xpu0"):
        (tmp_path / "dev" / name).symlink_to("/dev/null" if name == "xpu0" else "/dev/zero")
    async with serving(node):
        peer = await connected(node)
        found = await created(peer, pod(devices={"gpu": [gpu(0)]}))
        devices = [(each.path, each.type, each.major, each.minor, each.file_mode.value) for each in found.linux.devices]
        assert devices == [("/dev/xpuctrl", "c", 1, 5, 0o666), ("/dev/xpu0", "c", 1, 3, 0o666)]


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ({"gpu": [gpu(7)]}, "is no device of this node"),
        ({"gpu": [gpu(0, uuid="GPU-x")]}, "the device there is"),
        ("{", "is not readable"),
    ],
)
async def test_a_container_that_cannot_have_its_devices_is_refused(node: Node, devices: Any, reason: str) -> None:
    node.know(0, 1)
    noted = {names.ANNOTATION_DEVICE_ALLOCATED: devices if isinstance(devices, str) else json.dumps(devices)}
    of = pod(annotations=noted)
    async with serving(node):
        peer = await connected(node)
        with pytest.raises(StatusError) as refused:
            await created(peer, of)
        assert refused.value.code == 9
        assert "pods[work/web].metadata.annotations" in str(refused.value)
        assert reason in str(refused.value)
        assert len(node.fields) == 1
        assert (await created(peer, pod("other", devices={"gpu": [gpu(0)]}))).env, "others go on"
        await happens(peer, api.STOP_POD_SANDBOX, of)
        assert node.fields == []
        assert node.keeper.plugin.status.connections == 1


async def test_before_the_inventory_is_known_no_accelerator_is_given(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with serving(node):
        peer = await connected(node)
        with pytest.raises(StatusError, match="is not known"):
            await created(peer, pod(devices={"gpu": [gpu(0)]}))
        node.know(0, vendor="hygon")
        with pytest.raises(StatusError, match=r"/dev/"):
            await created(peer, pod(devices={"gpu": [gpu(0)]}))


async def test_what_began_without_devices_before_the_inventory_is_known_is_told_then(tmp_path: Path) -> None:
    node = Node(tmp_path, nri_refuse=False)
    async with serving(node):
        peer = await connected(node)
        assert not (await created(peer, pod(devices={"gpu": [gpu(0)]}))).env
        assert [each.kind for each in findings(node)] == ["devices"]
        node.know(0)
        node.inside.changed.set()
        found = await until(lambda: [each for each in findings(node) if each.kind == "lacking"], "what is lacking")
        assert "env NVIDIA_VISIBLE_DEVICES" in found[0].message
        assert len(findings(node)) == 1


@pytest.mark.parametrize(("there", "lacks"), [(f"{GPU}0", ""), ("GPU-new", "the device there is 'GPU-new'")])
async def test_the_inventory_of_before_counts_until_the_bus_is_read_and_exchanged_cards_are_told_then(
    node: Node, there: str, lacks: str
) -> None:
    node.inside.inventory.kept = inventory(0)
    async with serving(node):
        peer = await connected(node)
        assert env(await created(peer, pod(devices={"gpu": [gpu(0)]}))) == {"NVIDIA_VISIBLE_DEVICES": f"{GPU}0"}
        with pytest.raises(StatusError, match="is no device of this node"):
            await created(peer, pod("other", devices={"gpu": [gpu(1)]}))
        await happens(peer, api.STOP_POD_SANDBOX, pod("other"))
        assert len(node.inside.begun) == 1
        now = inventory(0)
        node.inside.inventory.inventory = replace(now, devices=[replace(now.devices[0], uuid=there)])
        node.inside.inventory.is_known = True
        node.inside.changed.set()
        await until(lambda: not node.inside.begun, "a look")
        if lacks:
            await until(lambda: findings(node), "a finding")
        assert [each.kind for each in findings(node)] == (["lacking"] if lacks else [])
        assert lacks in "".join(each.message for each in findings(node))


async def test_it_begins_without_its_devices_where_nothing_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path, nri_refuse=False)
    node.know(0)
    async with serving(node):
        peer = await connected(node)
        found = await created(peer, pod(qos="LSR", cpus="1", devices={"gpu": [gpu(7)]}))
        assert not found.env
        assert found.linux.resources.cpu.cpus == "1"
        assert len(node.fields) == 1


async def test_a_bad_record_of_cpus_leaves_the_container_as_it_is(node: Node) -> None:
    async with serving(node):
        peer = await connected(node)
        found = await created(peer, pod(annotations={names.ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0-99999999"}'}))
        assert not found.ByteSize()
        (field,) = node.fields
        assert field.endswith(f"[{names.ANNOTATION_RESOURCE_STATUS}].cpuset")


async def test_cores_of_what_runs_are_put_right_and_what_it_lacks_is_told(node: Node) -> None:
    own, other = pod("own", qos="LSR", cpus="2-3", devices=TWO_GPUS), pod("other")
    async with serving(node):
        peer = await connected(node, (own, [container(own, quota_us=200_000)]), (other, [container(other)]))
        await until(lambda: len(peer.updates) == 2, "two updates")
        changed = {each.container_id: each.linux.resources.cpu for each in peer.updates}
        assert (changed["own-main"].cpus, changed["own-main"].quota.value) == ("2-3", -1)
        assert changed["other-main"].cpus == "0-1,4-7"
        assert node.fields == [], "what the node has is not known yet"
        node.know(0, 1)
        await until(lambda: node.fields == ["pods[work/own].containers[main]"], "what is lacking")
        found = node.inside.problems()[0]
        assert "env NVIDIA_VISIBLE_DEVICES" in found.message
        corrected, lacking = findings(node)
        assert (corrected.namespace, corrected.pod, corrected.uid, corrected.container) == (
            "work",
            "own",
            "uid-own",
            "main",
        )
        assert corrected.message == "began with all CPUs, and has its own, 2-3, now"
        assert (lacking.kind, lacking.message) == ("lacking", found.message)
        await created(peer, own)
        assert node.fields == [], "it was started anew"
        assert [each.kind for each in findings(node)] == ["corrected"]
        node.inside.findings.expire(1e12)
        assert findings(node) == []


async def test_others_leave_the_cpus_of_a_pod_before_it_begins_and_come_back(node: Node) -> None:
    other, own = pod("other"), pod("own", qos="LSR", cpus="2-3")
    async with serving(node):
        peer = await connected(node, (other, [container(other, cpus="0-7")]))
        await happens(peer, api.RUN_POD_SANDBOX, own)
        await until(lambda: cpus(peer) == ["0-1,4-7"], "they leave")
        await happens(peer, api.STOP_POD_SANDBOX, own)
        await until(
            lambda: [each.linux.resources.cpu.cpus for each in peer.updates][1:] == ["0-3,4-7"], "they are back"
        )


async def test_others_have_left_before_a_container_with_cpus_of_its_own_begins(node: Node) -> None:
    """Whether or not they were asked to before: the runtime changes them before it answers for the creation."""
    other, own = pod("other"), pod("own", qos="LSR", cpus="2-3")
    handler = node.keeper._handler
    await handler.synchronize(api.SynchronizeRequest(pods=[other], containers=[container(other, cpus="0-7")]))
    first = container(own, state=api.CONTAINER_CREATED)
    creation = await handler.create_container(own, first)
    [update] = creation.updates
    assert (update.container_id, update.resources.cpus, update.ignore_failure) == ("other-main", "0-1,4-7", True)
    assert node.inside.board.updates(node.inside.facts, node.inside.pools(node.inside.facts), 0.0), "nor taken for done"
    plain = container(other, "late", state=api.CONTAINER_CREATED)
    assert (await handler.create_container(other, plain)).updates == ()


async def test_what_the_runtime_refuses_is_told(node: Node) -> None:
    own = pod("own", qos="LSR", cpus="2-3")
    async with serving(node):
        peer = await node.runtime.plugin()
        peer.failing.add("own-main")
        await peer.ready([api.SynchronizeRequest(pods=[own], containers=[container(own)])])
        await until(lambda: node.fields == ["pods[work/own].containers[main]"], "a finding")
        peer.failing.clear()
        node.inside.board._containers["own-main"].retry_at_s = 0.0
        await until(lambda: node.fields == [], "it is right now")


async def test_kubelets_changes_keep_the_cpus(node: Node) -> None:
    own = pod("own", qos="LSR", cpus="2-3")
    async with serving(node):
        peer = await connected(node, (own, [container(own, cpus="2-3", quota_us=-1)]))
        cpu = api.LinuxCPU(quota=api.OptionalInt64(value=300_000))
        request = api.UpdateContainerRequest(
            pod=own, container=container(own), linux_resources=api.LinuxResources(cpu=cpu)
        )
        answer = await peer.call("UpdateContainer", request, api.UpdateContainerResponse)
        assert isinstance(answer, api.UpdateContainerResponse)
        (update,) = answer.update
        assert update.container_id == "own-main"
        assert (update.linux.resources.cpu.cpus, update.linux.resources.cpu.quota.value) == ("2-3", -1)


async def test_the_runtime_restarts_and_frames_are_torn(node: Node) -> None:
    own = pod("own", qos="LSR", cpus="2-3")
    async with serving(node):
        peer = await connected(node, (own, []))
        peer.send_raw(b"\xff\xff\xff\xff\xff\xff\xff\xff")
        peer = await connected(node, (own, []))
        peer.drop()
        await until(lambda: not node.keeper.plugin.status.is_ready, "gone")
        assert not node.keeper.state().connected
        peer = await connected(node, (own, [container(own)]))
        await until(lambda: peer.updates, "limits of what began meanwhile")
        assert (await created(peer, own)).linux.resources.cpu.cpus == "2-3"
        assert node.keeper.plugin.status.connections == 3


async def test_a_device_that_hangs_holds_back_its_own_container(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*_: Any) -> Edits:
        loop.call_soon_threadsafe(hangs.set)
        time.sleep(3.0)
        return Edits()

    async with serving(node):
        peer = await connected(node)
        monkeypatch.setattr("berth.node_qos_enforcer.inside.handler.device_edits", slow)
        late = asyncio.create_task(created(peer, pod("late", devices=TWO_GPUS)))
        await hangs.wait()
        began = time.monotonic()
        assert (await created(peer, pod("other"))).linux.resources.cpu.cpus == "0-3,4-7"
        assert time.monotonic() - began < 1.0
        assert not (await late).ByteSize(), "answered for in time"
        assert node.keeper.plugin.status.is_ready


async def test_a_part_of_a_gpu_is_isolated(tmp_path: Path) -> None:
    node = Node(tmp_path, vgpu_monitor=True)
    node.know(0)
    node.library()
    of = pod(devices={"gpu": [gpu(0, ratio=50)]}, labels=HAMI)
    folder = tmp_path / "host/usr/local/vgpu/containers/uid-web_main"
    folder.mkdir(parents=True)
    (folder / "old.cache").write_text("x")
    gone = folder.with_name("uid-gone_main")
    gone.mkdir()
    strange = folder.with_name("something")
    strange.mkdir()
    async with serving(node):
        peer = await connected(node, (of, []))
        await until(lambda: not gone.exists(), "the folder of a pod that has ended is removed")
        found = await created(peer, of)
        assert env(found)["CUDA_DEVICE_MEMORY_LIMIT"] == str(50 << 20)
        assert [(each.destination, list(each.options)) for each in found.mounts] == [
            ("/usr/local/vgpu/libvgpu.so", ["rbind", "ro"]),
            ("/tmp/vgpulock", ["rbind", "rw"]),
            ("/usr/local/vgpu", ["rbind", "rw"]),
        ]
        assert list(folder.iterdir()) == []
        assert folder.stat().st_mode & 0o777 == 0o777
        assert (tmp_path / "host/tmp/vgpulock").is_dir()
        assert strange.exists()


async def test_a_node_without_the_library_refuses_and_says_so(node: Node) -> None:
    node.know(0)
    async with serving(node):
        peer = await connected(node)
        state = node.keeper.state()
        assert (state.connected, state.runtime, state.isolation) == (True, "fake 1", "")
        assert state.reason == "/usr/local/vgpu/libvgpu.so is not there"
        with pytest.raises(StatusError, match="is not there on this node"):
            await created(peer, pod(devices={"gpu": [gpu(0, ratio=50)]}, labels=HAMI))
        node.library()
        assert node.keeper.state().reason == "/dev/nvidiactl is not there"
        (node.folder / "dev/nvidiactl").symlink_to("/dev/null")
        assert (node.keeper.state().isolation, node.keeper.state().reason) == ("HAMi-core", "")


@pytest.mark.parametrize(
    "folder", ["/usr/local/vgpu/containers/../../x_main", "/etc/x_y", "/usr/local/vgpu/containers/a"]
)
def test_no_other_folder_is_ever_made(tmp_path: Path, folder: str) -> None:
    path = f"{CONTAINERS}{folder}"
    found = Folders(str(tmp_path)).prepare(Edits(folders=(path,), mounts=(Mount(source=path, destination="/x"),)))
    assert found is not None
    assert list(tmp_path.iterdir()) == []


async def test_the_quota_of_a_pod_with_cpus_of_its_own_is_lifted_and_given_back(node: Node) -> None:
    own, other = pod("own", qos="LSR", cpus="2-3"), pod("other")
    knobs = {}
    (node.folder / "cgroup/cgroup.controllers").write_text("cpu cpuset\n")
    for of in (own, other):
        group = node.folder / "cgroup" / of.linux.cgroup_parent.strip("/")
        group.mkdir(parents=True)
        knobs[of.name] = group / "cpu.max"
        knobs[of.name].write_text("200000 100000\n")
    async with serving(node):
        await connected(node, (own, []), (other, []))
        await until(lambda: knobs["own"].read_text() == "max 100000\n", "the quota is lifted")
        assert knobs["other"].read_text() == "200000 100000\n"
    assert give_back(node.executor) == ()
    assert knobs["own"].read_text() == "200000 100000\n"


async def test_cpus_are_given_back(tmp_path: Path) -> None:
    node = Node(tmp_path, give_back=True)
    own, other = pod("own", qos="LSR", cpus="2-3"), pod("other")
    async with serving(node):
        peer = await connected(node, (own, [container(own, cpus="2-3")]), (other, [container(other, cpus="0-1,4-7")]))
        await until(lambda: len(peer.updates) == 2, "updates")
        assert {each.linux.resources.cpu.cpus for each in peer.updates} == {"0-7"}
        assert not (await created(peer, pod("new"))).ByteSize()


async def test_cpus_that_nobody_shares_are_known_to_who_holds_best_effort(node: Node) -> None:
    of = pod(qos="LSE", cpus="1")
    async with serving(node):
        peer = await connected(node, (of, []))
        await until(lambda: node.inside.exclusive == {1}, "they are known")
        await happens(peer, api.REMOVE_POD_SANDBOX, of)
        await until(lambda: node.inside.exclusive == frozenset(), "they are free")


async def test_kubelets_own_cpus_are_nobody_elses(node: Node) -> None:
    entries = {"policyName": "static", "defaultCpuSet": "2-7", "entries": {"uid-k": {"main": "0-1"}}, "checksum": 1}
    (node.folder / "kubelet/cpu_manager_state").write_text(json.dumps(entries))
    async with serving(node):
        peer = await connected(node)
        await until(lambda: node.inside.checkpoint.policy, "kubelet's checkpoint")
        assert (await created(peer, pod(qos="LS"))).linux.resources.cpu.cpus == "2-3,4-7"
        assert not (await created(peer, pod("plain"))).ByteSize(), "kubelet chooses"


async def test_a_checkpoint_that_cannot_be_read_is_told(node: Node) -> None:
    (node.folder / "kubelet/cpu_manager_state").write_text("{")
    async with serving(node):
        await connected(node)
        await until(lambda: node.fields == ["cpu_manager_state"], "a finding")
