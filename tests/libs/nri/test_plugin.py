"""The plugin against a runtime: registration, state in parts, every event, and what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from prometheus_client import REGISTRY

from berth.nri import (
    Adjustment,
    Creation,
    Event,
    Fault,
    Handler,
    Plugin,
    PluginSettings,
    Refusal,
    Resources,
    Runtime,
    Update,
)
from berth.nri import api_pb2 as api
from berth.nri.core.methods import EVENTS
from berth.testing.nri_runtime import PLUGIN, FakeRuntime, PluginPeer, StatusError, framed

POD = api.PodSandbox(id="pod", name="web", namespace="shop", uid="u1")
CONTAINER = api.Container(id="ctr", name="main", env=["TOKEN=hunter2"])


class Told(Handler):
    """Remembers its calls and answers as the test wants."""

    def __init__(self) -> None:
        self.configs: list[tuple[Runtime, str]] = []
        self.parts: list[tuple[list[str], bool]] = []
        self.events: list[tuple[Event, str, str]] = []
        self.limits: list[tuple[str, str]] = []
        self.pods: list[str] = []
        self.faults: list[Fault] = []
        self.pause_s = 0.0
        self.error: Exception | None = None
        self.creation = Creation()
        self.updates: tuple[Update, ...] = ()
        self.refusal = ""
        self.at_once = 0
        self.most_at_once = 0

    async def _answering(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.pause_s)
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error

    async def configured(self, runtime: Runtime, config: str) -> None:
        self.configs.append((runtime, config))

    async def synchronize(self, part: api.SynchronizeRequest) -> Sequence[Update]:
        self.parts.append(([each.id for each in part.containers], part.more))
        await self._answering()
        return self.updates

    async def create_container(self, pod: api.PodSandbox, container: api.Container) -> Creation:
        await self._answering()
        return self.creation

    async def update_container(
        self, pod: api.PodSandbox, container: api.Container, resources: api.LinuxResources
    ) -> Sequence[Update]:
        self.limits.append((container.id, resources.cpu.cpus))
        return self.updates

    async def stop_container(self, pod: api.PodSandbox, container: api.Container) -> Sequence[Update]:
        return self.updates

    async def update_pod(self, request: api.UpdatePodSandboxRequest) -> None:
        self.pods.append(request.pod.id)

    async def happened(self, event: Event, pod: api.PodSandbox, container: api.Container) -> None:
        await self._answering()
        self.events.append((event, pod.id, container.id))

    async def validate(self, request: api.ValidateContainerAdjustmentRequest) -> str:
        return self.refusal

    async def disconnected(self, fault: Fault) -> None:
        self.faults.append(fault)


def settings(socket: Path, **more: object) -> PluginSettings:
    values = {
        "name": "berth",
        "index": "10",
        "socket": str(socket),
        "register_s": 0.5,
        "synchronize_s": 0.5,
        "call_s": 0.5,
        "pause_first_s": 0.02,
        "pause_most_s": 0.05,
        **more,
    }
    return msgspec.convert(values, PluginSettings)


@pytest.fixture
def handler() -> Told:
    return Told()


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[FakeRuntime]:
    found = FakeRuntime(tmp_path / "nri.sock")
    await found.start()
    yield found
    with contextlib.suppress(AssertionError):
        await found.stop()


@contextlib.asynccontextmanager
async def running(runtime: FakeRuntime, handler: Handler, **more: object) -> AsyncIterator[Plugin]:
    plugin = Plugin(settings(runtime.socket, **more), handler)
    task = asyncio.create_task(plugin.run())
    try:
        yield plugin
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def ready(runtime: FakeRuntime) -> PluginPeer:
    peer = await runtime.plugin()
    await peer.ready()
    return peer


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


# --- as it should be --------------------------------------------------------------------------------------------------


async def test_registers_and_is_configured(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler, events=(1, 3, 4, 8)) as plugin:
        peer = await runtime.plugin()
        async with asyncio.timeout(5):
            await peer.registered.wait()
        assert (peer.name, peer.index) == ("berth", "10")
        await peer.configure(config="a: b", request_timeout_ms=1500)
        assert peer.events == 141
        assert handler.configs == [(Runtime("fake", "1", 1.5), "a: b")]
        assert not plugin.status.is_ready
        await peer.synchronize([api.SynchronizeRequest()])
        assert plugin.status.is_ready
        assert plugin.status.runtime == Runtime("fake", "1", 1.5)


async def test_state_in_three_parts(runtime: FakeRuntime, handler: Told) -> None:
    handler.updates = (Update("a", Resources(cpus="0")),)
    async with running(runtime, handler) as plugin:
        peer = await runtime.plugin()
        await peer.registered.wait()
        await peer.configure()
        parts = [
            api.SynchronizeRequest(pods=[POD], containers=[api.Container(id=name)], more=name != "c") for name in "abc"
        ]
        first = await peer.synchronize(parts[:2])
        assert not plugin.status.is_ready
        [last] = await peer.synchronize(parts[2:])
        assert [(each.more, len(each.update)) for each in first] == [(True, 0), (True, 0)]
        assert (last.more, [each.container_id for each in last.update]) == (False, ["a"])
        assert handler.parts == [(["a"], True), (["b"], True), (["c"], False)]
        assert plugin.status.is_ready


async def test_a_part_of_four_mebibytes(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler):
        peer = await runtime.plugin()
        await peer.registered.wait()
        await peer.configure()
        big = api.Container(id="big", annotations={"a": "x" * (4 * 1024 * 1024 - 500)})
        await peer.synchronize([api.SynchronizeRequest(containers=[big])])
        assert handler.parts == [(["big"], False)]


async def test_a_container_gets_what_was_decided(runtime: FakeRuntime, handler: Told) -> None:
    handler.creation = Creation(
        Adjustment(env={"GPU": "1"}, resources=Resources(cpus="2-3", cpu_quota_us=-1)),
        (Update("other", Resources(cpus="0-1")),),
    )
    async with running(runtime, handler):
        peer = await ready(runtime)
        request = api.CreateContainerRequest(pod=POD, container=CONTAINER)
        found = await peer.call("CreateContainer", request, api.CreateContainerResponse)
        assert isinstance(found, api.CreateContainerResponse)
        assert [(each.key, each.value) for each in found.adjust.env] == [("GPU", "1")]
        assert found.adjust.linux.resources.cpu.cpus == "2-3"
        assert found.adjust.linux.resources.cpu.quota.value == -1
        assert [each.container_id for each in found.update] == ["other"]


async def test_an_update_names_its_container(runtime: FakeRuntime, handler: Told) -> None:
    handler.updates = (Update("", Resources(cpus="5")),)
    async with running(runtime, handler):
        peer = await ready(runtime)
        limits = api.LinuxResources(cpu=api.LinuxCPU(cpus="0-7"))
        request = api.UpdateContainerRequest(pod=POD, container=CONTAINER, linux_resources=limits)
        found = await peer.call("UpdateContainer", request, api.UpdateContainerResponse)
        assert isinstance(found, api.UpdateContainerResponse)
        assert [each.container_id for each in found.update] == ["ctr"]
        assert handler.limits == [("ctr", "0-7")]


async def test_every_event_by_both_dialects(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler):
        peer = await ready(runtime)
        for event in Event:
            request = api.StateChangeEvent(event=event.value, pod=POD, container=CONTAINER)
            await peer.call("StateChange", request)
        for method in EVENTS:
            await peer.call(method, api.EventRequest(pod=POD, container=CONTAINER))
        assert handler.events == [(event, "pod", "ctr") for event in (*Event, *EVENTS.values())]
        handler.updates = (Update("other", Resources(cpus="1")),)
        stopped = await peer.call(
            "StopContainer", api.StopContainerRequest(pod=POD, container=CONTAINER), api.StopContainerResponse
        )
        assert isinstance(stopped, api.StopContainerResponse)
        assert [each.container_id for each in stopped.update] == ["other"]
        await peer.call("UpdatePodSandbox", api.UpdatePodSandboxRequest(pod=POD))
        assert handler.pods == ["pod"]
        handler.refusal = "cores overlap"
        found = await peer.call(
            "ValidateContainerAdjustment",
            api.ValidateContainerAdjustmentRequest(pod=POD),
            api.ValidateContainerAdjustmentResponse,
        )
        assert found == api.ValidateContainerAdjustmentResponse(reject=True, reason="cores overlap")


async def test_calls_at_the_same_time_are_answered_by_number(runtime: FakeRuntime, handler: Told) -> None:
    handler.pause_s = 0.05
    async with running(runtime, handler):
        peer = await ready(runtime)
        started = asyncio.get_running_loop().time()
        request = api.CreateContainerRequest(pod=POD, container=CONTAINER)
        slow = [peer.send("CreateContainer", request.SerializeToString(), cut=(4, 30)) for _ in range(40)]
        handler.pause_s = 0.0
        await peer.call("StopContainer", api.StopContainerRequest(), api.StopContainerResponse)
        for number in slow:
            await peer.answer_to(number, api.CreateContainerResponse)
        assert handler.most_at_once > 1
        assert asyncio.get_running_loop().time() - started < 40 * 0.05


async def test_a_storm_of_calls_is_bounded(runtime: FakeRuntime, handler: Told) -> None:
    handler.pause_s = 0.02
    async with running(runtime, handler):
        peer = await ready(runtime)
        numbers = [peer.send("CreateContainer", b"") for _ in range(300)]
        for number in numbers:
            await peer.answer_to(number, api.CreateContainerResponse)
        assert handler.most_at_once <= 64


async def test_updates_are_sent(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler) as plugin:
        peer = await ready(runtime)
        peer.failing = {"b"}
        pushed = await plugin.update_containers([Update(name, Resources(cpus="0-3")) for name in "abc"])
        assert pushed.failed == ("b",)
        assert pushed.fault is None
        assert [each.container_id for each in peer.updates] == ["a", "b", "c"]


async def test_failed_updates_that_the_runtime_does_not_name_are_found(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler) as plugin:
        peer = await ready(runtime)
        peer.breaking = {"b", "g"}
        pushed = await plugin.update_containers([Update(name, Resources(cpus="0-3")) for name in "abcdefgh"])
        assert pushed.failed == ("b", "g")
        assert pushed.fault is None
        assert {each.container_id for each in peer.updates} == set("abcdefgh")


async def test_many_updates_go_in_several_calls(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler, call_s=5) as plugin:
        peer = await ready(runtime)
        updates = [Update(f"{n:064}", Resources(cpus="0-127", unified={"a": "x" * 2000})) for n in range(3000)]
        assert (await plugin.update_containers(updates)).fault is None
        assert len(peer.updates) == 3000


# --- what goes wrong --------------------------------------------------------------------------------------------------


async def test_no_runtime_yet(tmp_path: Path, handler: Told) -> None:
    runtime = FakeRuntime(tmp_path / "nri.sock")
    before = counted("berth_nri_faults_total", kind="unreachable")
    async with running(runtime, handler) as plugin:
        await until(lambda: counted("berth_nri_faults_total", kind="unreachable") >= before + 2)
        fault = plugin.status.fault
        assert fault is not None
        assert fault.text == f"{runtime.socket}: No such file or directory"
        pushed = await plugin.update_containers([Update("a", Resources(cpus="1"))])
        assert pushed.fault == Fault("unreachable", "UpdateContainers: no runtime is connected")
        await runtime.start()
        await ready(runtime)
        assert plugin.status.is_ready
        await runtime.stop()


async def test_a_restarted_runtime_is_told_anew(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler) as plugin:
        await ready(runtime)
        await runtime.stop()
        await until(lambda: not plugin.status.is_ready)
        await runtime.start()
        peer = await ready(runtime)
        assert len(handler.configs) == 2
        assert [fault.kind for fault in handler.faults] == ["closed"]
        assert plugin.status.connections >= 2
        await peer.call("CreateContainer", api.CreateContainerRequest(), api.CreateContainerResponse)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (framed(PLUGIN, 99, 1, b"abc")[:-2], "torn"),
        (b"\0\0\0\1\xff\xff\xff\xff", "oversized"),
        (framed(PLUGIN, 99, 1, b"\xff\xff\xff"), "malformed"),
    ],
)
async def test_a_broken_frame_renews_the_connection(
    runtime: FakeRuntime, handler: Told, sent: bytes, kind: str
) -> None:
    before = counted("berth_nri_faults_total", kind=kind)
    async with running(runtime, handler):
        peer = await ready(runtime)
        peer.send_raw(sent)
        if kind == "torn":
            peer.drop()
        await ready(runtime)
        assert [fault.kind for fault in handler.faults] == [kind]
        assert counted("berth_nri_faults_total", kind=kind) == before + 1
        async with asyncio.timeout(5):
            await peer.gone.wait()


async def test_a_payload_that_cannot_be_read_renews_the_connection(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler):
        peer = await ready(runtime)
        peer.send("CreateContainer", b"\x0a\xff")
        await ready(runtime)
        assert handler.faults == [Fault("malformed", "CreateContainer: a payload of 2 bytes cannot be read")]


@pytest.mark.parametrize(
    ("service", "method"),
    [("nri.pkg.api.v1alpha1.Plugin", "Dance"), ("nri.pkg.api.v2.Plugin", "Configure"), ("", "")],
)
async def test_an_unknown_method_is_answered(runtime: FakeRuntime, handler: Told, service: str, method: str) -> None:
    before = counted("berth_nri_calls_total", method="unknown", outcome="unknown")
    async with running(runtime, handler) as plugin:
        peer = await ready(runtime)
        with pytest.raises(StatusError, match="unknown method") as caught:
            await peer.answer_to(peer.send(method, b"", service=service))
        assert caught.value.code == 12
        assert counted("berth_nri_calls_total", method="unknown", outcome="unknown") == before + 1
        assert plugin.status.is_ready


async def test_numbers_that_go_back_are_answered(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler) as plugin:
        peer = await ready(runtime)
        with pytest.raises(StatusError) as caught:
            await peer.answer_to(peer.send("StopContainer", b"", number=2))
        assert caught.value.code == 3
        assert plugin.status.is_ready


async def test_events_and_fields_of_later_versions_are_skipped(runtime: FakeRuntime, handler: Told) -> None:
    before = counted("berth_nri_unknown_fields_total", method="StateChange")
    async with running(runtime, handler):
        peer = await ready(runtime)
        payload = api.StateChangeEvent(event=99).SerializeToString() + b"\xa2\x06\x01x"  # type: ignore[arg-type]
        await peer.answer_to(peer.send("StateChange", payload))
        assert handler.events == []
        assert counted("berth_nri_unknown_fields_total", method="StateChange") == before + 1


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_a_refusal_has_its_reason(runtime: FakeRuntime, handler: Told, policy: str) -> None:
    handler.error = Refusal("no such device" + "!" * 5000)
    async with running(runtime, handler, failure_policy=policy) as plugin:
        peer = await runtime.plugin()
        await peer.ready()  # nobody is kept back by the state, so nothing is refused there
        with pytest.raises(StatusError) as refused:
            await peer.call("CreateContainer", api.CreateContainerRequest(pod=POD, container=CONTAINER))
        assert refused.value.code == 9
        assert str(refused.value).startswith("9: no such device")
        assert len(str(refused.value)) < 1100
        assert plugin.status.is_ready


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_a_late_handler(runtime: FakeRuntime, handler: Told, policy: str) -> None:
    async with running(runtime, handler, failure_policy=policy) as plugin:
        peer = await ready(runtime)
        handler.pause_s = 5.0
        started = asyncio.get_running_loop().time()
        number = peer.send("CreateContainer", b"", timeout_s=0.1)
        if policy == "Fail":
            with pytest.raises(StatusError) as caught:
                await peer.answer_to(number)
            assert caught.value.code == 4
        else:
            found = await peer.answer_to(number, api.CreateContainerResponse)
            assert found == api.CreateContainerResponse()
        assert asyncio.get_running_loop().time() - started < 1.0, "0.1 s is what this call waits, not the 2 s of others"
        assert plugin.status.is_ready


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
async def test_a_handler_that_raises(
    runtime: FakeRuntime, handler: Told, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = counted("berth_nri_calls_total", method="CreateContainer", outcome="failed")
    async with running(runtime, handler, failure_policy=policy) as plugin:
        peer = await ready(runtime)
        handler.error = ValueError("TOKEN=hunter2")
        number = peer.send("CreateContainer", b"")
        if policy == "Fail":
            with pytest.raises(StatusError, match="the plugin berth failed") as caught:
                await peer.answer_to(number)
            assert caught.value.code == 13
        else:
            assert await peer.answer_to(number, api.CreateContainerResponse) == api.CreateContainerResponse()
        assert counted("berth_nri_calls_total", method="CreateContainer", outcome="failed") == before + 1
        assert plugin.status.is_ready
    assert "hunter2" not in caplog.text
    assert "ValueError" in caplog.text


async def test_a_handler_that_raises_on_a_part_still_hears_the_next(runtime: FakeRuntime, handler: Told) -> None:
    handler.error = ValueError("no")
    async with running(runtime, handler, failure_policy="Fail") as plugin:
        peer = await runtime.plugin()
        await peer.registered.wait()
        await peer.configure()
        found = await peer.synchronize([api.SynchronizeRequest(more=True), api.SynchronizeRequest()])
        assert [each.more for each in found] == [True, False]
        assert plugin.status.is_ready


async def test_a_decision_that_cannot_be_said(runtime: FakeRuntime, handler: Told) -> None:
    handler.creation = Creation(Adjustment(env={"A": "\ud800"}))
    async with running(runtime, handler, failure_policy="Fail") as plugin:
        peer = await ready(runtime)
        with pytest.raises(StatusError):
            await peer.answer_to(peer.send("CreateContainer", b""))
        handler.creation = Creation(Adjustment(resources=Resources(cpu_quota_us=2**70)))
        with pytest.raises(StatusError):
            await peer.answer_to(peer.send("CreateContainer", b""))
        assert plugin.status.is_ready


async def test_a_registration_without_answer_is_tried_again(runtime: FakeRuntime, handler: Told) -> None:
    runtime.is_silent = True
    async with running(runtime, handler, register_s=0.05):
        await runtime.plugin()
        await until(lambda: bool(handler.faults))
        assert handler.faults[0] == Fault("deadline", "RegisterPlugin: no answer within 0.05 s")
        await runtime.plugin()


async def test_a_refused_registration_is_tried_again(runtime: FakeRuntime, handler: Told) -> None:
    runtime.refusal = 2
    async with running(runtime, handler):
        await runtime.plugin()
        await until(lambda: bool(handler.faults))
        assert handler.faults[0] == Fault("refused", "RegisterPlugin: status 2: not now")
        runtime.refusal = 0
        while (peer := await runtime.plugin()).refusal:
            pass
        await peer.ready()


async def test_configuration_and_state_have_deadlines(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler, register_s=0.1, synchronize_s=0.1):
        await runtime.plugin()
        await until(lambda: len(handler.faults) == 1)
        assert handler.faults[0].text == "Configure did not come within 0.1 s"
        peer = await runtime.plugin()
        await peer.registered.wait()
        await peer.configure()
        await until(lambda: len(handler.faults) == 2)
        assert handler.faults[1].text == "Synchronize did not end within 0.1 s"


async def test_an_update_without_answer_renews_the_connection(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler, call_s=0.1) as plugin:
        peer = await ready(runtime)
        peer.is_silent = True
        pushed = await plugin.update_containers([Update("a", Resources(cpus="1"))])
        assert pushed.fault == Fault("deadline", "UpdateContainers: no answer within 0.1 s")
        await ready(runtime)
        assert plugin.status.is_ready


async def test_an_update_while_the_runtime_goes(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler, call_s=5) as plugin:
        peer = await ready(runtime)
        peer.is_silent = True
        sending = asyncio.create_task(plugin.update_containers([Update("a", Resources(cpus="1"))]))
        await until(lambda: bool(peer.updates))
        peer.drop()
        fault = (await sending).fault
        assert fault is not None
        assert fault.kind == "closed"


async def test_a_refused_update_is_told(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler) as plugin:
        peer = await ready(runtime)
        peer.refusal = 9
        pushed = await plugin.update_containers([Update("a", Resources(cpus="1"))])
        assert pushed.fault == Fault("refused", "UpdateContainers: status 9: not now")
        assert plugin.status.is_ready


async def test_shutdown_is_answered_and_the_next_runtime_found(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler):
        peer = await ready(runtime)
        await peer.call("Shutdown", api.Empty())
        await ready(runtime)
        assert [fault.kind for fault in handler.faults] == ["shutdown"]


async def test_the_old_connection_is_closed_before_the_next(runtime: FakeRuntime, handler: Told) -> None:
    async with running(runtime, handler):
        peer = await ready(runtime)
        peer.send_raw(b"\0\0\0\1\xff\xff\xff\xff")
        await runtime.plugin()
        async with asyncio.timeout(5):
            await peer.gone.wait()


async def test_cancelling_closes_the_connection_and_leaves_nothing(runtime: FakeRuntime, handler: Told) -> None:
    handler.pause_s = 5.0
    async with running(runtime, handler):
        peer = await runtime.plugin()
        await peer.registered.wait()
        peer.send("CreateContainer", b"")
        await until(lambda: handler.at_once == 1)
    async with asyncio.timeout(5):
        await peer.gone.wait()
    assert handler.at_once == 0


async def test_the_same_fault_is_logged_once(tmp_path: Path, handler: Told, caplog: pytest.LogCaptureFixture) -> None:
    before = counted("berth_nri_faults_total", kind="unreachable")
    with caplog.at_level(logging.WARNING):
        async with running(FakeRuntime(tmp_path / "nri.sock"), handler):
            await until(lambda: counted("berth_nri_faults_total", kind="unreachable") >= before + 4)
    assert caplog.text.count("No such file") == 1


def test_settings_name_what_is_wrong() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.index"):
        msgspec.convert({"name": "berth", "index": "1"}, PluginSettings)
    with pytest.raises(msgspec.ValidationError, match=r"\$\.events"):
        msgspec.convert({"name": "berth", "events": [15]}, PluginSettings)
    with pytest.raises(msgspec.ValidationError, match=r"\$\.call_s"):
        msgspec.convert({"name": "berth", "call_s": 0}, PluginSettings)
