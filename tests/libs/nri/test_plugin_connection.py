"""The plugin and a connection that breaks, a runtime that is silent, absent or restarted."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.libs.nri.plugin_bench import Told, counted, ready, running, until

from berth.nri import Fault, Resources, Update
from berth.nri import api_pb2 as api
from berth.testing.nri_runtime import PLUGIN, FakeRuntime, StatusError, framed


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
