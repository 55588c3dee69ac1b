"""The connection. What is about users and their permissions, or about a process that is stopped and not killed, needs
the real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from berth.bus import Bus, BusSettings, Denied, Disconnected, NoAnswer, Refused, TimedOut, Write
from berth.testing.nats_server import NatsServer
from berth.testing.views import View, eventually

needs_users = pytest.mark.asyncio(loop_factories=["real"])

USERS = """
authorization {
  users: [
    {user: admin, password: admin}
    {user: solver, password: solver, permissions: {
      publish: ["$JS.API.STREAM.INFO.>", "$JS.API.CONSUMER.CREATE.KV_berth_state.>", "$JS.FC.>", "berth.v1.evt.>"]
      subscribe: ["_INBOX_solver.>"]
    }}
  ]
}
"""


@pytest.fixture
def guarded_server() -> Iterator[NatsServer]:
    with NatsServer(config=USERS) as server:
        yield server


@pytest.fixture
async def solver(guarded_server: NatsServer, connect, tmp_path) -> Bus:
    for name in ("admin", "solver"):
        (tmp_path / name).write_text(f"{name}\n")
    admin = await connect("admin", url=guarded_server.url, user="admin", password_file=str(tmp_path / "admin"))
    await admin.ensure()
    return await connect("solver", url=guarded_server.url, user="solver", password_file=str(tmp_path / "solver"))


def denials() -> float:
    return REGISTRY.get_sample_value("berth_bus_permission_errors_total", {"operation": "publish"}) or 0.0


async def test_connect_waits_for_a_server_that_is_not_there_yet(nats_server: NatsServer, connect) -> None:
    nats_server.kill()
    task = asyncio.create_task(connect())
    await asyncio.sleep(0.5)
    assert not task.done()
    nats_server.start()
    bus = await asyncio.wait_for(task, 20)
    assert bus.connected.is_set()


async def test_connect_can_be_given_up(nats_server: NatsServer) -> None:
    nats_server.kill()
    task = asyncio.create_task(Bus.connect(BusSettings(url=nats_server.url), service="x"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


@needs_users
async def test_a_wrong_password_is_tried_again_until_it_is_right(guarded_server: NatsServer, connect, tmp_path) -> None:
    secret = tmp_path / "password"
    secret.write_text("wrong")
    task = asyncio.create_task(
        connect("solver", url=guarded_server.url, user="solver", password_file=str(secret), reconnect_max_s=0.1)
    )
    await asyncio.sleep(0.5)
    assert not task.done()
    secret.write_text("solver")
    assert (await asyncio.wait_for(task, 20)).connected.is_set()


async def test_a_waiting_request_hears_of_a_loss_at_once(bus: Bus, nats_server: NatsServer) -> None:
    def silent(msg) -> None: ...

    await bus._link.subscribe("silent", silent)
    waiting = asyncio.create_task(bus.ask("silent", b"", timeout_s=60))
    await asyncio.sleep(0.1)
    nats_server.kill()
    with pytest.raises(Disconnected):
        await asyncio.wait_for(waiting, 5)
    with pytest.raises(Disconnected):
        await bus.ask("silent", b"", timeout_s=60)


async def test_nothing_is_kept_for_a_later_connection(bus: Bus, nats_server: NatsServer) -> None:
    """A write that was given up while the bus was away must not arrive when it is back."""
    nats_server.kill()
    await eventually(lambda: not bus.connected.is_set())
    with pytest.raises(Disconnected):
        await bus._link.publish("$KV.berth_state.a", b"late")
    nats_server.start()
    await eventually(bus.connected.is_set)
    follower = bus.follow("berth_state", view := View())
    task = asyncio.create_task(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 10)
    assert view.entries == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_reconnects_again_and_again(bus: Bus, nats_server: NatsServer) -> None:
    for _ in range(5):
        generation = bus._link.generation
        nats_server.restart()
        await eventually(lambda generation=generation: bus._link.generation > generation and bus.connected.is_set())
        with pytest.raises(NoAnswer):
            await bus.ask("nobody", b"")


async def test_a_frozen_server_gives_time_outs_not_hangs(bus: Bus, nats_server: NatsServer) -> None:
    nats_server.pause()
    try:
        with pytest.raises(TimedOut):
            await bus.ask("anything", b"", timeout_s=0.2)
    finally:
        nats_server.resume()


def denied_by_log(caplog: pytest.LogCaptureFixture) -> set[tuple[str, str]]:
    """What the log says was refused: operation and subject."""
    lines = [record for record in caplog.records if record.message == "permission denied by the bus"]
    return {(vars(line)["operation"], vars(line)["subject"]) for line in lines}


@needs_users
async def test_a_denied_request_fails_at_once_and_names_the_subject(solver: Bus, caplog) -> None:
    before, started = denials(), time.monotonic()
    with pytest.raises(Denied, match=r"berth\.v1\.svc\.quota\.why"):
        await solver.ask("berth.v1.svc.quota.why", b"", timeout_s=30)
    assert time.monotonic() - started < 5
    assert denials() == before + 1
    assert ("publish", "berth.v1.svc.quota.why") in denied_by_log(caplog)


@needs_users
async def test_a_denied_subject_is_spelt_as_it_was_asked(solver: Bus, caplog) -> None:
    with pytest.raises(Denied, match=r"\$JS\.API\.STREAM\.PURGE\.KV_berth_state") as denied:
        await solver.ask("$JS.API.STREAM.PURGE.KV_berth_state", b"", timeout_s=30)
    assert denied.value.subject == "$JS.API.STREAM.PURGE.KV_berth_state"
    assert ("publish", "$JS.API.STREAM.PURGE.KV_berth_state") in denied_by_log(caplog)


@needs_users
async def test_whoever_may_not_read_answers_is_told_at_once(solver: Bus, guarded_server, connect, tmp_path) -> None:
    """The user of another service."""
    wrong = await connect("quota", url=guarded_server.url, user="solver", password_file=str(tmp_path / "solver"))
    with pytest.raises(Denied, match=r"_INBOX_quota\."):
        await asyncio.wait_for(wrong.ensure(), 5)


@needs_users
async def test_a_denied_commit_is_a_refusal(solver: Bus) -> None:
    outcome = await asyncio.wait_for(solver.ledger().commit([Write("a", b"1", 0), Write("b", b"1", 0)]), 5)
    assert isinstance(outcome, Refused)
    assert "permission denied" in outcome.reason


@needs_users
async def test_permissions_that_suffice_for_a_follower(solver: Bus, spawn) -> None:
    view = View()
    follower = solver.follow("berth_state", view)
    spawn(follower.run())
    await asyncio.wait_for(follower.ready.wait(), 10)
    await solver.ensure()  # may read the streams, so it finds all in place
    other = solver.follow("berth_quota", View())
    spawn(other.run())
    await asyncio.sleep(0.3)
    assert not other.ready.is_set()


@needs_users
async def test_a_denied_write_of_an_owner_is_loud_and_not_lost(solver: Bus, caplog) -> None:
    await solver.events().publish("berth.v1.evt.quota.changed.x", b"{}", id="1", type="t")
    await asyncio.wait_for(solver.events().drain(), 10)
    await solver.commands().publish("berth.v1.cmd.bind.x", b"{}", id="1", type="t")
    await eventually(lambda: ("publish", "berth.v1.cmd.bind.x") in denied_by_log(caplog))


def test_settings_are_checked() -> None:
    assert BusSettings(url="nats://a:1, nats://b:2,").urls == ["nats://a:1", "nats://b:2"]
    with pytest.raises(ValueError, match="replicas"):
        BusSettings(replicas=2)
    with pytest.raises(ValueError, match="url"):
        BusSettings(url=" ,")
