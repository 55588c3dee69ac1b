from __future__ import annotations

import asyncio
import re

import pytest

from berth.bus import Bus, ServerTooOld, TopologyError, jetstream
from berth.bus import ensure as ensuring
from berth.bus.topology import TOPOLOGY, Bucket, Stream
from berth.contracts import buckets

STREAMS = {item.stream: item for item in TOPOLOGY}


def test_every_name_of_the_contract_is_in_the_topology() -> None:
    names = {value for name, value in vars(buckets).items() if name.isupper()}
    assert {item.name for item in TOPOLOGY} == names


def test_only_what_can_be_rebuilt_persists_asynchronously_and_only_on_a_single_server() -> None:
    modes = {item.name: item.config(1).get("persist_mode") for item in TOPOLOGY}
    assert modes[buckets.STATE] == "async"
    for name in (buckets.LEDGER, buckets.LEASE, buckets.COMMANDS, buckets.EVENTS, buckets.DEAD):
        assert modes[name] is None
    assert all("persist_mode" not in item.config(3) for item in TOPOLOGY)


def test_everything_is_bounded_and_answers_come_from_leaders() -> None:
    for item in TOPOLOGY:
        config = item.config(1)
        assert config["max_bytes"] > 0
        assert config["max_msg_size"] > 0
        assert config["allow_direct"] is False


async def test_streams_are_what_the_topology_says(bus: Bus) -> None:
    for name, item in STREAMS.items():
        info = await jetstream.stream_info(bus._link, name)
        assert ensuring.differences(info.config, item.config(1)) == []
    ledger = await jetstream.stream_info(bus._link, "KV_berth_ledger")
    assert ledger.config["allow_atomic"] is True


async def test_ensure_changes_nothing_the_second_time(bus: Bus) -> None:
    before = {name: (await jetstream.stream_info(bus._link, name)).created for name in STREAMS}
    await bus.ensure()
    assert {name: (await jetstream.stream_info(bus._link, name)).created for name in STREAMS} == before


async def test_many_services_may_ensure_at_once(connect) -> None:
    buses = await asyncio.gather(*(connect(f"s{number}") for number in range(8)))
    await asyncio.gather(*(bus.ensure() for bus in buses))
    assert (await jetstream.stream_info(buses[0]._link, "KV_berth_state")).config["max_msgs_per_subject"] == 1


async def test_a_changed_setting_is_updated_and_foreign_settings_stay(bus: Bus) -> None:
    link = bus._link
    config = (await jetstream.stream_info(link, "BERTH_EVT")).config
    await jetstream.call(link, "STREAM.UPDATE.BERTH_EVT", config | {"max_bytes": 1 << 20, "description": "mine"})
    await bus.ensure()
    after = (await jetstream.stream_info(link, "BERTH_EVT")).config
    assert after["max_bytes"] == STREAMS["BERTH_EVT"].config(1)["max_bytes"]
    assert after["description"] == "mine"


async def test_a_stream_that_cannot_be_changed_is_named(connect) -> None:
    bus = await connect()
    config = STREAMS["KV_berth_state"].config(1)
    config.pop("persist_mode")
    await jetstream.call(bus._link, "STREAM.CREATE.KV_berth_state", config)
    with pytest.raises(TopologyError, match=r"KV_berth_state.*persist mode"):
        await bus.ensure()


async def test_ensure_waits_for_a_server_that_is_away(connect, nats_server) -> None:
    bus = await connect()
    nats_server.kill()
    task = asyncio.create_task(bus.ensure())
    await asyncio.sleep(0.1)
    assert not task.done()
    nats_server.start()
    await asyncio.wait_for(task, 20)


async def test_an_old_server_is_refused_politely(connect, monkeypatch) -> None:
    bus = await connect()
    monkeypatch.setattr(ensuring, "SERVER_MIN", (99, 1))
    with pytest.raises(ServerTooOld, match=re.escape("too old: Berth needs 99.1 or newer")):
        await bus.ensure()


def test_differences_ignore_what_the_server_leaves_out() -> None:
    wanted = Stream("S", "s.>", 10, "limits", "old").config(1)
    found = {name: value for name, value in wanted.items() if value not in (False, 0)}
    assert ensuring.differences(found, wanted) == []
    assert ensuring.differences(found | {"max_bytes": 11}, wanted) == ["max_bytes"]
    assert ensuring.differences({}, Bucket("b", 5, atomic=True).config(1) | {})
