"""The plugin and a handler that refuses, is late or raises."""

from __future__ import annotations

import asyncio

import pytest
from tests.libs.nri.plugin_bench import CONTAINER, POD, Told, counted, ready, running

from berth.nri import Adjustment, Creation, Refusal, Resources
from berth.nri import api_pb2 as api
from berth.testing.nri_runtime import FakeRuntime, StatusError


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
