"""Waves and strict gangs: a gang begins whole or not at all, and once it has begun it goes on (R9)."""

from __future__ import annotations

import pytest
from tests.services.worlds.writer.store_api import StoreApi
from tests.services.worlds.writer.wave_bench import WaveBench, wave_runner

from berth.contracts import names, subjects
from berth.contracts.codec import encode


@pytest.fixture
async def bench(api: StoreApi) -> WaveBench:
    return await wave_runner(api)


async def test_a_gang_that_is_not_whole_is_given_up_and_never_named(bench):
    bench.plan("p1", "a", "b", gang=3)
    bench.plan("p2", "c")
    await bench.turn()
    assert (bench.binds.given_up, bench.binds.began, bench.named) == (["a", "b"], ["c"], "p2")


async def test_a_gang_that_has_begun_goes_on_when_its_bound_member_is_gone(bench, api):
    bench.plan("p1", "a", "b", gang=2)
    await bench.turn()
    assert bench.binds.began == ["a", "b"]
    notes = {names.ANNOTATION_PLAN: "p1"}
    body = {"metadata": {"name": "a", "annotations": notes}, "target": {"kind": "Node", "name": "n"}}
    assert api.store.bind("default", "a", body).status == 201
    key = subjects.pod_key("default", "a")
    bench.cluster.read_state(key, encode(api.seen("a")), deleted=False, gap=False)
    api.remove("a")
    bench.cluster.read_state(key, str(api.store.version).encode(), deleted=True, gap=False)
    bench.wave_runner.check_again()
    await bench.turn()
    assert bench.binds.given_up == []
    assert "b" in bench.binds.began[2:]


async def test_a_gang_that_loses_a_member_while_the_lease_is_written_does_not_begin(bench, api):
    """The API server may be away for half a minute between the look at the gang and its begin."""
    bench.plan("p1", "a", "b", gang=2, alone=("c",))

    api.on("patch", lambda *_: bench.delete("b"))
    await bench.turn()
    assert (bench.binds.given_up, bench.binds.began, bench.named) == (["a"], ["c"], "p1")


async def test_a_gang_that_loses_a_member_while_the_lease_is_renewed_does_not_begin(bench, api):
    """The Lease names its plan already, as after a crash before the first bind: being the holder is what is written."""
    bench.plan("p1", "a", "b", gang=2)
    await bench.lease.remember(epoch=1, plan="p1", seen=bench.lease.record)
    api.on("patch", lambda *_: bench.delete("b"))
    await bench.turn()
    assert (bench.binds.given_up, bench.binds.began, bench.named) == (["a"], [], "p1")


async def test_a_gang_is_not_judged_while_the_ledger_is_read_anew(bench, api):
    """It starts over while the Lease is written, and half of the gang has been read again."""
    bench.plan("p1", "a", "b", gang=2)

    def starts_over(*_args):
        api.on("patch", None)
        member = bench.cluster.book.ledger.decisions.pop(("default", "b"))
        bench.cluster.book.ledger.members["p1"].discard(("default", "b"))
        bench.wave_runner.check_again()
        read_again.append(member)

    read_again = []
    api.on("patch", starts_over)
    await bench.turn(1)
    assert read_again
    assert (bench.binds.given_up, bench.binds.began) == ([], [])


async def test_pods_that_share_a_plan_with_a_broken_gang_begin(bench):
    """After an outage one plan holds all that has gathered, gangs of which members are gone by now among it."""
    bench.plan("p1", "a", "b", gang=3, alone=("c", "d"))
    await bench.turn()
    assert (bench.binds.given_up, bench.binds.began, bench.named) == (["a", "b"], ["c", "d"], "p1")


async def test_a_gang_that_has_begun_is_remembered_for_as_long_as_its_plan(bench):
    bench.plan("p1", "a", "b", gang=2)
    bench.cluster.begun |= {("p1", "g"), ("p0", "g")}
    await bench.wave_runner.forget_plans()
    assert bench.cluster.begun == {("p1", "g")}
