"""Entries of pods, read by name; the lock by which one agent hands a node over to the next."""

import asyncio

from msgspec.structs import replace

from berth.bus.port import Stored
from berth.contracts.codec import encode
from berth.contracts.slo import NodePod
from berth.node_qos_enforcer.executor.node_lock import NodeLock
from berth.node_qos_enforcer.pod_entries import AGAIN_S, SOON_FOR_S, SOON_S, PodEntries
from berth.node_qos_enforcer.store import PodsFile


def entry(uid: str, **more) -> NodePod:
    return NodePod(node="n", uid=uid, namespace="d", name="p", **more)


def stored(message) -> Stored:
    return Stored(1, encode(message), False)


def test_a_new_pod_is_asked_for_soon_and_one_that_is_known_now_and_then():
    entries = PodEntries("n")
    assert entries.due(["a", "b"], 0.0) == ["a", "b"]
    entries.put("a", stored(entry("a")), 0.0)
    entries.put("b", None, 0.0)
    assert entries.due(["a", "b"], SOON_S) == ["b"]
    entries.put("b", None, SOON_FOR_S)
    assert entries.due(["a", "b"], AGAIN_S) == ["a"]
    entries.ask_soon("b")
    assert "b" in entries.due(["a", "b"], AGAIN_S)
    assert entries.told() == {"a": entry("a")}
    assert entries.due([], 100.0) == []
    assert entries.told() == {}


def test_what_cannot_be_read_is_named_and_leaves_what_was_known():
    entries = PodEntries("n")
    entries.due(["a"], 0.0)
    entries.put("a", stored(entry("a")), 0.0)
    entries.put("a", Stored(2, b"{", False), 1.0)
    assert entries.told() == {"a": entry("a")}
    assert entries.problems()[0].field == "slo.pod.n.a"
    for forged in (entry("b"), replace(entry("a", low_oom_scores=True), node="other")):
        entries.put("a", stored(forged), 2.0)
        assert entries.told() == {"a": entry("a")}, "it is of another pod"
        assert [each.message[:6] for each in entries.problems()] == ["is of "]
    entries.put("a", stored(entry("a")), 3.0)
    assert entries.problems() == ()


def test_what_is_known_is_kept_over_restarts(tmp_path):
    file = PodsFile(str(tmp_path / "pods"), "n")
    assert file.load() == []
    file.save([entry("a", priority=5), entry("b")])
    assert file.load() == [entry("a", priority=5), entry("b")]
    assert PodsFile(str(tmp_path / "pods"), "other").load() == []


async def test_a_node_is_handed_over(tmp_path):
    async def sleep(_: float) -> None:
        await asyncio.sleep(0)

    first, second = NodeLock(str(tmp_path / "journal")), NodeLock(str(tmp_path / "journal"))
    await first.wait(sleep)
    assert not first.is_awaited()
    waits = asyncio.create_task(second.wait(sleep))
    await asyncio.sleep(0.01)
    assert first.is_awaited()
    assert not waits.done()
    first.release()
    await waits
    assert not second.is_awaited()
    second.release()
