"""What the judge of demonstrations and replays looks at, on lists and buckets as the stores would give them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.libs.invariants.worlds import on_gpu

from berth.bus import Bus, Entry, Sink
from berth.bus.errors import Disconnected
from berth.cli import judge as judging
from berth.kube import resources

BORN = "2026-01-01T00:00:00Z"
TOLD = "2026-06-01T00:00:00Z"


class Lists:
    """Lists of the API; those that were not given are empty."""

    def __init__(self, **lists: list[Any]) -> None:
        self._lists = {getattr(resources, name).path(): objects for name, objects in lists.items()}

    async def items(self, path: str) -> list[Any]:
        return self._lists.get(path, [])


class NothingWritten:
    """A follower of a bucket that is empty."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()

    async def run(self) -> None:
        self.ready.set()

    async def has_all(self) -> bool:
        return True


class EmptyBus:
    """A bus whose buckets are empty."""

    def follow(self, bucket: str, sink: Sink, *, keys: str) -> NothingWritten:
        return NothingWritten()


class Behind(NothingWritten):
    """A follower at a server that is behind the others, until it has been asked so often."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink
        self._asked = 0

    async def has_all(self) -> bool:
        self._asked += 1
        if self._asked == 1:
            raise Disconnected("for a moment")
        if self._asked == 3:
            self._sink.apply(Entry("a", b"1", deleted=False, sequence=1, pending=0, gap=False, traceparent=None))
        return self._asked > 3


class BusBehind:
    """A bus of which one server is behind."""

    def follow(self, bucket: str, sink: Sink, *, keys: str) -> Behind:
        return Behind(sink)


def on_card(name: str, minor: int, phase: str = "Running") -> dict[str, Any]:
    pod = on_gpu(name, minor, 100, phase=phase)
    return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": BORN}}


def report(*uses: tuple[str, int]) -> dict[str, Any]:
    told = [
        {"namespace": "default", "name": name, "podUsage": {"devices": [{"type": "gpu", "minor": minor}]}}
        for name, minor in uses
    ]
    return {"metadata": {"name": "n1"}, "status": {"updateTime": TOLD, "podsMetric": told}}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "PAUSE_S", 0.0)


async def test_a_bucket_is_read_as_its_leader_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "READ_AGAIN_S", 0.0)
    assert await judging.read_bucket(cast(Bus, BusBehind()), "b") == {"a": (1, b"1")}


async def judged(pods: list[Any], reports: list[Any]) -> dict[str, str]:
    """The verdict on each promise that is judged by nodes' reports, and on what could not be read."""
    lists = Lists(PODS=pods, NODE_METRICS=reports)
    found = (await judging.judge(lists, cast(Bus, EmptyBus()))).results
    verdicts = {each.name: "not judged" if each.not_judged else "kept" if each.ok else "broken" for each in found}
    return {name: verdicts[name] for name in ("I0", "I1c", "I1d")}


async def test_what_nodes_report_is_held_against_what_was_given() -> None:
    pods = [on_card("a", 0), on_card("b", 1)]
    assert await judged(pods, [report(("a", 0), ("b", 1))]) == {"I0": "kept", "I1c": "kept", "I1d": "kept"}
    assert await judged(pods, [report(("a", 0), ("b", 0))]) == {"I0": "kept", "I1c": "broken", "I1d": "broken"}
    assert await judged(pods, [report(("a", 0), ("b", 2))]) == {"I0": "kept", "I1c": "kept", "I1d": "broken"}


@pytest.mark.parametrize("reports", [[], [{"metadata": {"name": "n1"}, "spec": {}}], [report()], [report(("c", 0))]])
async def test_where_nodes_say_nothing_of_pods_that_are_there_nothing_is_judged(reports: list[Any]) -> None:
    assert await judged([on_card("a", 0)], reports) == {"I0": "kept", "I1c": "not judged", "I1d": "not judged"}


async def test_a_pod_that_has_ended_uses_nothing() -> None:
    pods = [on_card("a", 0, phase="Succeeded"), on_card("b", 0)]
    assert await judged(pods, [report(("a", 0), ("b", 0))]) == {"I0": "kept", "I1c": "kept", "I1d": "kept"}


async def test_a_report_that_cannot_be_read_is_named() -> None:
    assert (await judged([], [{"metadata": 3}]))["I0"] == "broken"
