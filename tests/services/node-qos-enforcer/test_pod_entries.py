"""Entries of pods; the lock by which one agent hands a node over to the next."""

import asyncio

from msgspec.structs import replace

from berth.bus.port import Entry
from berth.contracts.codec import encode
from berth.contracts.slo import NodePod
from berth.node_qos_enforcer.executor.node_lock import NodeLock
from berth.node_qos_enforcer.pod_entries import FORGET_ENDS, PodEntries
from berth.node_qos_enforcer.store import PodsFile


def entry(uid: str, **more) -> NodePod:
    return NodePod(node="n", uid=uid, namespace="d", name="p", **more)


def show(entries: PodEntries, *shown: tuple[str, bytes | None]) -> None:
    for number, (uid, value) in enumerate(shown, start=1):
        entries.apply(Entry(f"pod.n.{uid}", value or b"", value is None, number, 0, False, None))
    entries.end(len(shown))


def test_what_is_told_is_never_changed_and_is_the_same_while_nothing_is_new():
    entries = PodEntries("n")
    assert entries.pattern == "pod.n.*"
    show(entries, ("a", encode(entry("a"))), ("b", encode(entry("b"))))
    told = entries.told()
    assert told == {"a": entry("a"), "b": entry("b")}
    show(entries, ("a", encode(entry("a"))))
    assert entries.told() is told
    show(entries, ("a", None), ("b", encode(entry("b", priority=5))), ("c", None))
    assert entries.told() == {"b": entry("b", priority=5)}
    assert told == {"a": entry("a"), "b": entry("b")}


def test_what_cannot_be_read_is_named_and_leaves_what_was_known():
    entries = PodEntries("n")
    show(entries, ("a", encode(entry("a"))))
    show(entries, ("a", b"{"))
    assert entries.told() == {"a": entry("a")}
    assert entries.problems()[0].field == "slo.pod.n.a"
    for forged in (entry("b"), replace(entry("a", low_oom_scores=True), node="other")):
        show(entries, ("a", encode(forged)))
        assert entries.told() == {"a": entry("a")}, "it is of another pod"
        assert [each.message[:6] for each in entries.problems()] == ["is of "]
    show(entries, ("a", encode(entry("a"))))
    assert entries.problems() == ()


def test_what_was_known_stays_until_a_bucket_that_was_lost_has_had_time_to_be_filled():
    entries = PodEntries("n")
    entries.restore([entry("a"), entry("b"), entry("gone")])
    show(entries, ("a", encode(entry("a", priority=5))))
    assert entries.told() == {"a": entry("a", priority=5), "b": entry("b"), "gone": entry("gone")}
    show(entries, ("b", encode(entry("b"))))
    for _ in range(FORGET_ENDS):
        show(entries)
    assert entries.told() == {"a": entry("a", priority=5), "b": entry("b")}
    entries.reset()
    for _ in range(FORGET_ENDS):
        assert entries.told() != {}
        show(entries)
    assert entries.told() == {}


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
