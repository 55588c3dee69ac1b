"""Figures of shared GPUs: of containers of this node's pods, under today's names, and the old ones where asked."""

from __future__ import annotations

import random
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.libs.kubelet.regions import a_region, content
from tests.services.node_qos_builders import pod

from berth.bus.port import BusPort
from berth.contracts.node_report import HeldByContainer
from berth.kubelet.core.vgpu_metrics import HostGpu
from berth.node_qos_enforcer.core.inside.seen import pod_seen
from berth.node_qos_enforcer.gpu_use import Instance, Use
from berth.node_qos_enforcer.inside.known import Inside
from berth.node_qos_enforcer.pods_of_node import PodsOfNode
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.vgpu import VgpuWatching
from berth.node_qos_enforcer.views import KnownNode
from berth.runtime import Context


class Node:
    """A node of files with one pod, `work/web`, and what it shows as metrics."""

    def __init__(self, folder: Path, **settings: bool) -> None:
        self.root = folder / "usr/local/vgpu/containers"
        inside = Inside(Settings(), KnownNode("n"))
        inside.board.begin(pod_seen(pod("web")))
        told = Settings(node_name="n", host_root=str(folder), vgpu_monitor=True, **settings)
        ctx = Context(service="t", settings=told, bus=cast("BusPort", None), random=random.Random(1))
        self.watching = VgpuWatching(ctx, "n", PodsOfNode(inside, None, ctx.clock.monotonic))
        self.registry = CollectorRegistry()
        self.registry.register(self.watching.figures)

    def write(self, name: str, data: bytes) -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / name / "x.cache").write_bytes(data)

    async def shown(self) -> dict[str, float]:
        await self.watching.look()
        lines = generate_latest(self.registry).decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


LABELS = 'device_uuid="GPU-a",namespace="work",pod="web",vdevice_index="0"'


def series(name: str, container: str) -> str:
    return f'{name}{{container="{container}",{LABELS}}}'


@pytest.mark.parametrize("layout", [0, 1])
async def test_containers_of_pods_that_are_there_are_shown(tmp_path: Path, layout: int) -> None:
    node = Node(tmp_path)
    assert await node.shown() == {}
    node.write("uid-web_main", content(a_region(layout)))
    node.write("uid-gone_main", content(a_region(layout)))
    shown = await node.shown()
    assert shown[series("hami_vgpu_memory_used_bytes", "main")] == 100
    assert shown[series("hami_vgpu_memory_limit_bytes", "main")] == 1_000
    assert shown[series("hami_container_device_utilization_ratio", "main")] == 7
    assert (series("hami_container_last_kernel_elapsed_seconds", "main") in shown) == (layout == 1)
    assert all('pod="web"' in each for each in shown), "and of nobody else"
    assert not any(each.startswith("vGPU_") for each in shown)


async def test_the_old_names_are_shown_where_they_are_asked_for(tmp_path: Path) -> None:
    node = Node(tmp_path, vgpu_old_names=True)
    node.write("uid-web_main", content(a_region(1)))
    shown = await node.shown()
    labels = 'ctrname="main",deviceuuid="GPU-a",podname="web",podnamespace="work",vdeviceid="0"'
    assert shown[f"vGPU_device_memory_usage_in_bytes{{{labels}}}"] == 100
    assert shown[series("hami_vgpu_memory_used_bytes", "main")] == 100


async def test_a_file_that_cannot_be_read_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write("uid-web_main", content(a_region(1)))
    node.write("uid-web_torn", content(a_region(1))[:-9_000])
    shown = await node.shown()
    assert series("hami_vgpu_memory_used_bytes", "main") in shown
    [problem] = node.watching.problems()
    assert problem.field == "uid-web_torn/x.cache"
    before = (node.root / "uid-web_main/x.cache").read_bytes()
    assert before == content(a_region(1)), "nothing is written to"


async def test_mig_instances_are_shown_at_the_containers_that_hold_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, vgpu_old_names=True)
    use = Use((HostGpu(0, "GPU-a", "A100", 5, 7.0),), (Instance(0, "GPU-a", "MIG-x", "1g.5gb", 3, 0),))
    monkeypatch.setattr(node.watching._gpus, "read", lambda: use)
    devices = {"nvidia.com/mig-1g.5gb": ["MIG-x", "MIG-unknown"], "example.com/nic": ["MIG"]}
    held = HeldByContainer(namespace="work", pod="web", container="main", devices=devices)
    node.watching._holders = lambda: (held, HeldByContainer(namespace="work", pod="other", container="c"))
    shown = await node.shown()
    assert [each for each in shown if each.startswith("hami_mig_device_info")] == [
        'hami_mig_device_info{compute_instance_id="0",container="main",device_uuid="GPU-a",gpu_instance_id="3",'
        'mig_uuid="MIG-x",namespace="work",pod="web",profile="1g.5gb",vdevice_index="0"}'
    ]
    assert any(each.startswith("MigInfo{") for each in shown)
    host = 'device_index="0",device_type="NVIDIA-A100",device_uuid="GPU-a",node="n"'
    assert shown[f"hami_host_gpu_memory_used_bytes{{{host}}}"] == 5
    assert shown[f"hami_host_gpu_utilization_ratio{{{host}}}"] == 7


async def test_a_container_that_has_gone_takes_its_labels_with_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write("uid-web_main", content(a_region(1)))
    assert await node.shown()
    (node.root / "uid-web_main/x.cache").unlink()
    assert await node.shown() == {}
