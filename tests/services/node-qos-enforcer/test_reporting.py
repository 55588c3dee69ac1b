"""Reports on a real bus: what is on the node, when it is told, and what a restart, a loss and a switch make of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.libs.kubelet.kubelet_double import KubeletDouble
from tests.services.worlds.fake_sys import FakeSys

from berth.bus import Bus, BusSettings
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.node_report import NodeReport, ReportedDevice, ReportedKubelet
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.subjects import named_key, question_subject
from berth.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerDevices,
    ContainerResources,
    ListPodResourcesResponse,
)
from berth.kubelet.podresources_pb2 import PodResources as OfPod
from berth.node_qos_enforcer.core.node_report import HELD, KUBELET, Findings
from berth.node_qos_enforcer.pod_resources import PodResources
from berth.node_qos_enforcer.reporting import Reporter
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.shell import SERVICE, Agent
from berth.rules.cpus.kubelet import HeldCpus
from berth.runtime import Context, Moment
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually
from berth.vendors.devices import Found, FoundDevice

NODE = "node-1.example"
KEY = named_key("report", NODE)


class World:
    """A bus, a tree of sysfs, and agents that look at it."""

    def __init__(self, server: NatsServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.sys = FakeSys(folder / "sys")
        self.seen = View()

    @contextlib.asynccontextmanager
    async def agent(self, **settings: object) -> AsyncIterator[Context[Settings]]:
        bus = await Bus.connect(BusSettings(url=self.server.url), service=SERVICE)
        chosen: dict[str, object] = {
            "node_name": NODE,
            "interval_s": 3600.0,
            "devices": True,
            "report_interval_s": 0.1,
            "sys_root": str(self.sys.root),
            "device_files": str(self.folder / "xpu"),
        }
        ctx = Context(
            service=SERVICE,
            settings=Settings(**chosen | settings),
            bus=bus,
            instance="i",
            random=random.Random(1),  # type: ignore[arg-type]
        )
        self.agent_now = Agent()
        ctx.spawn(self.agent_now.main(ctx), name="main")
        try:
            yield ctx
        finally:
            for task in list(ctx.supervisor._tasks):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await bus.close()
            assert ctx.supervisor.failure is None

    @property
    def report(self) -> NodeReport | None:
        value = self.seen.values.get(KEY)
        return decode(value, NodeReport) if value else None

    @property
    def writes(self) -> int:
        return sum(entry.key == KEY for entry in self.seen.entries)

    def minors(self) -> list[int]:
        return [device.minor for device in self.report.devices] if self.report else []


@pytest.fixture
async def world(nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[World]:
    world = World(nats_server, tmp_path)
    bus = await Bus.connect(BusSettings(url=nats_server.url), service="test")
    await bus.ensure()
    task = asyncio.create_task(bus.follow(buckets.METRICS, world.seen).run())
    world.bus = bus  # type: ignore[attr-defined]
    yield world
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.close()


async def test_devices_are_told_and_told_again_only_when_something_is_new(world: World) -> None:
    world.sys.nic(0, functions=2)
    async with world.agent() as ctx:
        await eventually(lambda: world.minors() == [0], what="the interface")
        first = world.report
        assert first is not None
        assert first.devices[0].functions == ["0000:10:00.1", "0000:10:00.2"]
        looks = time.monotonic() + 0.5
        await eventually(lambda: time.monotonic() > looks, what="some looks")
        assert world.writes == 1
        world.sys.nic(1)
        await eventually(lambda: world.minors() == [0, 1], what="one that was plugged in")
        world.sys.port(1, "1: DOWN")
        await eventually(lambda: not world.report.devices[1].healthy, what="a port that went down")  # type: ignore[union-attr]
        world.sys.unplug(0)
        await eventually(lambda: world.minors() == [1], what="one that was taken out")
        last = world.report
        assert last is not None
        assert last.version > first.version
        assert ctx.health.ready
        bus = world.bus  # type: ignore[attr-defined]
        answer = decode(await bus.ask(question_subject(SERVICE, "status"), encode(StatusQuestion())), StatusAnswer)
        assert answer.facts["unhealthy_devices"] == "rdma/1 PortNotActive"


async def test_hot_plug_shows_within_five_seconds_of_the_settings_that_nobody_changed(world: World) -> None:
    async with world.agent(report_interval_s=Settings().report_interval_s):
        await eventually(lambda: world.report is not None, what="a report of nothing")
        began = time.monotonic()
        world.sys.nic(0)
        await eventually(lambda: world.minors() == [0], what="the interface")
        assert time.monotonic() - began < 5.0


async def test_a_restart_goes_on_where_the_last_process_was(world: World) -> None:
    world.sys.nic(0)
    world.sys.port(0, "1: DOWN")
    async with world.agent():
        await eventually(lambda: bool(world.minors()), what="the ill interface")
    before = world.report
    world.sys.port(0, "4: ACTIVE")
    async with world.agent():
        world.sys.nic(1)
        await eventually(lambda: world.minors() == [0, 1], what="the next process")
        after = world.report
        assert before is not None
        assert after is not None
        assert after.version > before.version
        assert after.devices[0] == before.devices[0], "ill until a minute was clean"
        assert after.devices[1].healthy


async def test_an_agent_that_is_not_to_report_withdraws_what_was_reported(world: World) -> None:
    world.sys.nic(0)
    async with world.agent():
        await eventually(lambda: world.report is not None, what="a report")
    async with world.agent(devices=False):
        await eventually(lambda: KEY not in world.seen.values, what="the withdrawal")
    assert world.seen.entries[-1].deleted or any(each.deleted for each in world.seen.entries if each.key == KEY)


async def test_an_agent_that_never_reported_writes_nothing(world: World) -> None:
    async with world.agent(devices=False):
        await eventually(lambda: named_key("node", NODE) in world.seen.values, what="its figures")
    assert world.writes == 0


async def test_a_malformed_device_file_is_named_counted_and_the_rest_goes_on(world: World) -> None:
    world.sys.nic(0)
    world.sys.write("../xpu/huawei", '[{"vendor":"huawei","uuid":"u","minor":"-7"}]')
    async with world.agent():
        await eventually(lambda: world.report is not None, what="a report")
        report = world.report
        assert report is not None
        assert [device.kind for device in report.devices] == ["rdma"]
        assert [problem.field for problem in report.problems] == ["/var/run/koordlet/xpu-device-infos/huawei[0].minor"]


async def test_a_bus_that_lost_everything_gets_the_report_again(world: World) -> None:
    world.sys.nic(0)
    server = world.server
    async with world.agent(report_interval_s=60.0):
        await eventually(lambda: world.report is not None, what="a report")
        before = world.report
        server.kill()
        empty = server.home / "empty"
        empty.mkdir()
        server.restore_store(empty)
        server.start()
        await world.bus.ensure()  # type: ignore[attr-defined]
        await eventually(lambda: world.writes >= 2 and world.report == before, what="the report on an empty bus")


def test_the_last_report_of_another_shape_is_no_obstacle() -> None:
    last = NodeReport(node="n", version=9_000, devices=[ReportedDevice(kind="gpu", minor=0, id="a", healthy=False)])
    reporter = Reporter("n", last)
    gpu = FoundDevice(kind="gpu", minor=0, id="a")
    report = reporter.report(Findings(devices=Found(devices=(gpu,))), Moment(1.0, 1.0))
    assert (report.version, report.devices[0].healthy) == (9_001, False)
    assert reporter.report(Findings(devices=Found(devices=(gpu,))), Moment(62.0, 62.0)).devices[0].healthy


@pytest.mark.parametrize(("cpus", "policy"), [((0, 1), "static"), ((), "none")])
async def test_podresources_say_whether_kubelet_gives_out_cpus(
    tmp_path: Path, cpus: tuple[int, ...], policy: str
) -> None:
    """Without its checkpoint and its configuration: so that the CPUs are reported, and given to nobody else."""
    answers = {
        "List": ListPodResourcesResponse().SerializeToString(),
        "GetAllocatableResources": AllocatableResourcesResponse(cpu_ids=cpus).SerializeToString(),
    }
    now = [0.0]
    async with KubeletDouble(tmp_path / "k.sock", dict(answers)) as kubelet:
        async with PodResources(str(kubelet.path), lambda: now[0], reports_cpus=True) as holders:
            for _ in range(3):
                found = await holders.added_to(Findings())
                assert found.kubelet == ReportedKubelet(cpu_manager=policy)
            assert holders.gives_cpus == bool(cpus)
            assert [method for method, _ in kubelet.asked].count("GetAllocatableResources") == 1
            said = ReportedKubelet(cpu_manager="static", reserved_cpus="0")
            assert (await holders.added_to(Findings(kubelet=said))).kubelet == said, "its own word goes before"
            assert (await holders.added_to(Findings(unread=frozenset({KUBELET})))).kubelet is None
            await kubelet.stop()
            assert (await holders.added_to(Findings())).unread == {HELD, KUBELET}, "the policy stays what it was"
            assert (await holders.added_to(Findings(kubelet=said))).unread == {HELD}
            await kubelet.start()
        async with PodResources(str(kubelet.path), lambda: now[0], reports_cpus=False) as holders:
            assert (await holders.added_to(Findings())).kubelet is None


async def test_what_kubelet_gave_out_is_told_and_stays_while_kubelet_is_away(world: World) -> None:
    devices = [ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["g0"])]
    pod = OfPod(name="p", namespace="a", containers=[ContainerResources(name="c", devices=devices, cpu_ids=[3])])
    says = ListPodResourcesResponse(pod_resources=[pod]).SerializeToString()
    kubelet = KubeletDouble(world.folder / "kubelet.sock", {"List": says})
    async with world.agent(devices=False, podresources_socket=str(kubelet.path)):
        await eventually(lambda: world.report is not None and bool(world.report.problems), what="no kubelet yet")
        assert "held" not in world.report.parts  # type: ignore[union-attr]
        await kubelet.start()
        await eventually(lambda: bool(world.report and world.report.held), what="what is held")
        (held,) = world.report.held  # type: ignore[union-attr]
        assert (held.pod, held.devices, held.cpus) == ("p", {"nvidia.com/gpu": ["g0"]}, "3")
        parts = world.agent_now._parts
        assert parts is not None
        facts = parts.inside.facts
        assert facts.held == (HeldCpus("a", "p", frozenset({3})),), "who gives out CPUs knows it"
        assert facts.kubelet_is_static
        await kubelet.stop()
        await eventually(lambda: bool(world.report and world.report.problems), what="kubelet is away")
        assert world.report.held == [held]  # type: ignore[union-attr]
