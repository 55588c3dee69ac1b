"""The plugin against a runtime: registration, state in parts, every event, updates."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.libs.nri.plugin_bench import CONTAINER, POD, Told, counted, ready, running

from berth.nri import Adjustment, Creation, Event, PluginSettings, Resources, Runtime, Update
from berth.nri import api_pb2 as api
from berth.nri.core.methods import EVENTS
from berth.testing.nri_runtime import FakeRuntime


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


def test_settings_name_what_is_wrong() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.index"):
        msgspec.convert({"name": "berth", "index": "1"}, PluginSettings)
    with pytest.raises(msgspec.ValidationError, match=r"\$\.events"):
        msgspec.convert({"name": "berth", "events": [15]}, PluginSettings)
    with pytest.raises(msgspec.ValidationError, match=r"\$\.call_s"):
        msgspec.convert({"name": "berth", "call_s": 0}, PluginSettings)


async def test_events_and_fields_of_later_versions_are_skipped(runtime: FakeRuntime, handler: Told) -> None:
    before = counted("berth_nri_unknown_fields_total", method="StateChange")
    async with running(runtime, handler):
        peer = await ready(runtime)
        payload = api.StateChangeEvent(event=99).SerializeToString() + b"\xa2\x06\x01x"  # type: ignore[arg-type]
        await peer.answer_to(peer.send("StateChange", payload))
        assert handler.events == []
        assert counted("berth_nri_unknown_fields_total", method="StateChange") == before + 1
