"""The node agent beside a real kubelet and a real containerd: what pods hold, and whose CPUs are whose."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.e2e import kubelet_alone, waiting
from tests.e2e.container_runtime import PAUSE_IMAGE, ContainerRuntime, processes_with
from tests.e2e.device_plugin import DevicePlugin
from tests.e2e.kubelet_alone import Kubelet
from tests.e2e.real_agent import (
    CPUS,
    EVERY,
    GPU,
    LSR,
    NIC,
    OWN,
    Agent,
    Reports,
    a_container_runtime,
    cpus,
    devices,
    environment,
    own_cpus,
    reports,
    until,
)

from berth.contracts import names
from berth.kubelet.client import PodResourcesClient, Unanswered
from berth.testing.nats_server import NatsServer

pytestmark = pytest.mark.e2e
CARD = "example.com/card"
STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": str(CPUS[0])}


def container(name: str, **more: Any) -> dict[str, Any]:
    mark = [{"name": "MARK", "value": name}]
    return {"name": name, "image": PAUSE_IMAGE, "imagePullPolicy": "Never", "env": mark, **more}


class RealNode:
    """containerd, kubelet, and an agent whose plugin, reports and proxy are on."""

    def __init__(self, folder: Path, server: NatsServer, runtime: ContainerRuntime, **kubelet: Any) -> None:
        self.kubelet = Kubelet(runtime, **kubelet)
        self.agent = Agent(folder, runtime.nri, server.url)
        self.served = folder / "served/kubelet.sock"
        self.settings = {
            "BERTH_KUBELET_ROOT": "",
            "BERTH_CPUS": "true",
            "BERTH_REPORT_INTERVAL_S": "0.3",
            "BERTH_SYS_ROOT": "/sys",
            "BERTH_PODRESOURCES_SOCKET": str(self.kubelet.podresources),
            "BERTH_PODRESOURCES_PROXY": str(self.served),
        }

    def process(self, name: str) -> Path:
        """The process of a container that carries this mark."""
        found = list(processes_with(f"MARK={name}"))
        return found[0] if found else Path()

    def why(self) -> str:
        return f"{self.agent.log()}\n--- kubelet:\n{self.kubelet.log()}"

    async def holds(self, condition: Any, what: str) -> Any:
        try:
            return await until(condition, what, self.agent)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- kubelet:\n{self.kubelet.log()}") from None

    def close(self) -> None:
        self.agent.kill()
        self.kubelet.close()


@pytest.fixture
def containerd() -> Iterator[ContainerRuntime]:
    with a_container_runtime(*kubelet_alone.lacking()) as found:
        yield found


@asynccontextmanager
async def living(node: RealNode, server: NatsServer, **settings: str) -> AsyncIterator[Reports]:
    try:
        node.kubelet.start()
        node.agent.start(**node.settings, **settings)
        async with reports(server) as shown:
            await node.holds(lambda: shown.is_connected, "connected")
            yield shown
    finally:
        node.close()


async def held(asked: PodResourcesClient, pod: str) -> dict[str, dict[str, list[str]]] | None:
    """Devices of each container of a pod, by resource; None while kubelet or the proxy does not say."""
    try:
        answer = await asked.list()
    except Unanswered as error:
        assert error.code is grpc.StatusCode.UNAVAILABLE  # noqa: PT017
        return None
    for each in answer.pod_resources:
        if each.name == f"{pod}-{kubelet_alone.NODE}":
            return {
                one.name: {device.resource_name: list(device.device_ids) for device in one.devices}
                for one in each.containers
            }
    return None


async def test_who_asks_kubelet_is_told_of_the_devices_of_records(
    containerd: ContainerRuntime, nats_server: NatsServer, tmp_path: Path
) -> None:
    node = RealNode(tmp_path, nats_server, containerd)
    async with living(node, nats_server) as shown:
        shares = {names.ANNOTATION_CONTAINER_DEVICES: json.dumps({"main": {"gpu": [{"minor": 0}]}})}
        node.kubelet.run("train", [container("side"), container("main")], annotations=devices() | shares)
        await node.holds(lambda: node.process("main") != Path() and node.process("side") != Path(), "both run")
        assert environment(node.process("main"))["NVIDIA_VISIBLE_DEVICES"] == GPU
        assert "NVIDIA_VISIBLE_DEVICES" not in environment(node.process("side"))
        async with PodResourcesClient(node.kubelet.podresources) as own, PodResourcesClient(node.served) as asked:
            assert await held(own, "train") == {"side": {}, "main": {}}, "kubelet knows nothing of it"
            assert await held(asked, "train") == {"side": {}, "main": {names.NVIDIA_GPU: [GPU]}}
            assert not (await own.allocatable()).devices
            there = {each.resource_name: list(each.device_ids) for each in (await asked.allocatable()).devices}
            assert there == {names.NVIDIA_GPU: [GPU], names.RDMA: [NIC]}
            node.kubelet.kill()
            assert await held(asked, "train") is None
            node.kubelet.start()
            again = await waiting.until(lambda: held(asked, "train"), "kubelet, and what it says")
            assert again == {"side": {}, "main": {names.NVIDIA_GPU: [GPU]}}
        assert shown.report is not None
        assert shown.report.kubelet is not None
        assert shown.report.kubelet.cpu_manager == "none", "by what kubelet could give out"


async def test_cpus_that_kubelet_gave_out_are_nobody_elses_without_its_checkpoint(
    containerd: ContainerRuntime, nats_server: NatsServer, tmp_path: Path
) -> None:
    """Its folder is not mounted in a cluster: what it gave out is known by its PodResources alone."""
    node = RealNode(tmp_path, nats_server, containerd, **STATIC)
    async with living(node, nats_server) as shown:
        whole = {"cpu": "1", "memory": "32Mi"}
        node.kubelet.run("pinned", [container("pinned", resources={"limits": whole, "requests": whole})])
        node.kubelet.run("plain", [container("plain")])
        await node.holds(lambda: node.process("pinned") != Path() and node.process("plain") != Path(), "both run")
        await node.holds(lambda: cpus(node.process("pinned")) == {int(OWN)}, "kubelet gave it a CPU")
        await node.holds(lambda: cpus(node.process("plain")) == EVERY - {int(OWN)}, "which the other has not")
        report = await node.holds(
            lambda: shown.report if shown.report is not None and shown.report.held else None, "what it holds"
        )
        assert [(each.pod, each.cpus) for each in report.held] == [(f"pinned-{kubelet_alone.NODE}", OWN)]
        assert report.kubelet.cpu_manager == "static"
        assert report.kubelet.pinned == []
        assert report.cores, "CPUs are reported once it is known whose they are"
        assert shown.fields() == set()


async def test_what_kubelet_picked_for_a_vendors_plugin_is_named(
    containerd: ContainerRuntime, nats_server: NatsServer, tmp_path: Path
) -> None:
    """Such a pod has a number until kubelet says which; the proxy says what kubelet says."""
    node = RealNode(tmp_path, nats_server, containerd)
    async with living(node, nats_server) as shown:
        with DevicePlugin(containerd.root, CARD, "card-0", "card-1"):
            one = {"cpu": "10m", CARD: "1"}
            node.kubelet.run("vendor", [container("vendor", resources={"limits": one, "requests": one})])
            await node.holds(lambda: node.process("vendor") != Path(), "it runs")
            assert environment(node.process("vendor"))["DOUBLE"] == "given"
            report = await node.holds(
                lambda: shown.report if shown.report is not None and shown.report.held else None, "what it holds"
            )
            [holder] = report.held
            assert (holder.pod, holder.container) == (f"vendor-{kubelet_alone.NODE}", "vendor")
            [card] = holder.devices[CARD]
            assert card in ("card-0", "card-1")
            async with PodResourcesClient(node.served) as asked:
                assert await held(asked, "vendor") == {"vendor": {CARD: [card]}}
            assert shown.fields() == set()


async def test_an_lsr_pod_has_its_cpus_and_the_others_have_not(
    containerd: ContainerRuntime, nats_server: NatsServer, tmp_path: Path
) -> None:
    """The others are of class LS or none: a best-effort pod may use what it leaves idle."""
    node = RealNode(tmp_path, nats_server, containerd)
    async with living(node, nats_server):
        some = {"requests": {"cpu": "10m"}}
        node.kubelet.run("plain", [container("plain", resources=some)])
        await node.holds(lambda: node.process("plain") != Path(), "it runs")
        assert cpus(node.process("plain")) == EVERY
        whole = {"cpu": "1", "memory": "32Mi"}
        node.kubelet.run(
            "own",
            [container("own", resources={"limits": whole, "requests": whole})],
            labels=LSR,
            annotations=own_cpus(),
        )
        await node.holds(lambda: node.process("own") != Path(), "it runs")
        assert cpus(node.process("own")) == {int(OWN)}
        assert cpus(node.process("plain")) == EVERY - {int(OWN)}, "it has left it before"
        node.kubelet.kill()
        node.kubelet.start()
        node.kubelet.run("late", [container("late", resources=some)])
        await node.holds(lambda: node.process("late") != Path(), "it runs")
        assert cpus(node.process("late")) == EVERY - {int(OWN)}
        node.kubelet.end("own")
        await node.holds(lambda: cpus(node.process("plain")) == EVERY, "its CPU is everybody's again")
