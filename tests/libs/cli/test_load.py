from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cli.errors import CliError
from berth.cli.load.api import Api, path_of, refusal
from berth.cli.load.creator import Creation, create, create_all
from berth.cli.load.pods import PodWatch
from berth.cli.load.ready import until_counted
from berth.cli.load.wire import Wire, Wires
from berth.simcluster import SimCluster, SimSettings
from berth.simcluster.generate import PodRequest, device_manifest, node_manifest, pod_manifest

DEADLINE_S = 20.0


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not done():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def server(answer: Callable[[bytes], Awaitable[bytes]] | bytes) -> AsyncIterator[str]:
    """A server that answers each request with these bytes; empty bytes close the connection."""

    handling: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handling.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                data = answer if isinstance(answer, bytes) else await answer(body)
                for byte in range(0, len(data), 7):  # in pieces, as networks do
                    writer.write(data[byte : byte + 7])
                    await writer.drain()
                if not data:
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        await asyncio.wait_for(asyncio.gather(*handling, return_exceptions=True), DEADLINE_S)


OK = b"HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    cluster = SimCluster(SimSettings(kubelet=None))
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


# --- the wire --------------------------------------------------------------------------------------------------------


async def test_answers_come_back_over_one_connection() -> None:
    async with server(OK) as url:
        wires = Wires(url)
        assert [await wires.post("/a", b"{}") for _ in range(3)] == [(201, b"hello")] * 3
        assert len(wires._idle) == 1
        wires.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"x" * 70_000],
)
async def test_an_answer_that_cannot_be_read_is_a_lost_connection(answer: bytes) -> None:
    async with server(answer) as url:
        wires = Wires(url)
        with pytest.raises(OSError, match=r"lost|length|endless"):
            await wires.post("/a", b"{}")
        assert wires._idle == []


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_make_a_connection_raise(pieces: list[bytes]) -> None:
    wire = Wire()
    for piece in pieces:
        wire.data_received(piece)


# --- creating --------------------------------------------------------------------------------------------------------


async def test_objects_are_sent_in_order_with_a_bound_on_what_is_under_way() -> None:
    sent: list[int] = []
    most = now = 0

    async def answer(body: bytes) -> bytes:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002)
        now -= 1
        return OK

    async with server(answer) as url, Api(url) as api:
        await create(api, [Creation("/x", b"{}", lambda i=i: sent.append(i)) for i in range(50)], in_flight=4)
    assert sent == list(range(50))
    assert 1 < most <= 4


async def test_what_was_lost_or_throttled_is_sent_again_and_what_exists_is_fine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("berth.cli.load.creator.RETRY_PAUSE_S", 0.01)
    answers = [b"", OK.replace(b"201", b"503"), OK.replace(b"201", b"429"), OK.replace(b"201", b"409")]

    async def answer(body: bytes) -> bytes:
        return answers.pop(0)

    async with server(answer) as url, Api(url) as api:
        await create(api, [Creation("/x", b"{}")])
    assert answers == []


async def test_a_refusal_names_the_object_and_the_reason(sim: SimCluster) -> None:
    async with Api(sim.url) as api:
        odd = pod_manifest("Not A Name", PodRequest(1, 1))
        with pytest.raises(CliError, match="Pod Not A Name: 422"):
            await create_all(api, [odd])
        with pytest.raises(CliError, match="404"):
            await api.get("/api/v1/nodes/nowhere")


async def test_an_api_server_that_is_gone_is_named() -> None:
    async with Api("http://127.0.0.1:1") as api:
        with pytest.raises(CliError, match=r"127\.0\.0\.1:1 cannot be reached"):
            await api.get("/api/v1/nodes")


def test_refusals_are_read_from_any_body() -> None:
    assert refusal(b'{"message": "no"}') == "no"
    assert refusal(b"<html>") == "<html>"
    assert refusal(b"[]") == "[]"


# --- watching --------------------------------------------------------------------------------------------------------


async def call(api: Api, path: str, body: dict[str, Any]) -> None:
    status, answer = await api.post(path, json.dumps(body).encode())
    assert status < 300, answer


async def test_fates_follow_what_happens_to_pods(sim: SimCluster) -> None:
    async with Api(sim.url) as api:
        await create_all(
            api, [pod_manifest("before", PodRequest(100, 64)), node_manifest("n", cpu_milli=1, memory_mib=1)]
        )
        watch = PodWatch(api)
        following = asyncio.create_task(watch.run())
        await watch.seen.wait()
        watch.sending("default/after")()
        await create_all(api, [pod_manifest("after", PodRequest(100, 64))])
        await until(lambda: "default/after" in watch.fates and watch.last_change > 0)
        assert not watch.fates["default/before"].is_settled
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "after"}, "target": {"name": "n"}}
        await call(api, "/api/v1/namespaces/default/pods/after/binding", binding)
        fate = watch.fates["default/after"]
        await until(lambda: fate.node == "n")
        assert fate.bound >= fate.sent > 0
        assert watch.bound == 1
        await api.delete("/api/v1/namespaces/default/pods/before")
        await until(lambda: watch.fates["default/before"].gone)
        assert watch.fates["default/before"].is_settled
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_cluster_is_counted_once_every_node_with_devices_shows_them(sim: SimCluster) -> None:
    told: list[tuple[int, int]] = []
    async with Api(sim.url) as api:
        node = node_manifest("n", cpu_milli=1000, memory_mib=1024)
        await create_all(api, [node, node_manifest("plain", cpu_milli=1, memory_mib=1), device_manifest("n", "T4", 1)])
        with pytest.raises(CliError, match="only 0 of 1 nodes"):
            await until_counted(api, timeout_s=0.0, say=lambda *counts: told.append(counts))
        node = node_manifest("m", cpu_milli=1000, memory_mib=1024)
        node["status"]["allocatable"] = {**node["status"]["allocatable"], "koordinator.sh/gpu-core": "100"}
        await create_all(api, [node, device_manifest("m", "T4", 1)])
        await api.delete(f"{path_of(device_manifest('n', 'T4', 1))}/n")
        await until_counted(api, timeout_s=DEADLINE_S, say=lambda *counts: told.append(counts))
        fpga = device_manifest("n", "T4", 1)
        fpga["spec"]["devices"] = [{"type": "fpga", "id": "f", "minor": 0, "resources": {"koordinator.sh/fpga": "100"}}]
        await create_all(api, [fpga])
        await until_counted(api, timeout_s=0.0, say=lambda *counts: told.append(counts))
    assert told[0] == (0, 1)
    assert told[-1] == (1, 1), "of FPGAs a node shows no sum"
