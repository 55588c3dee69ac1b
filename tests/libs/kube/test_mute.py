"""Streams that bring nothing at all, on a clock of their own."""

import json
import random
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

import pytest

from berth.contracts.kube import Pod
from berth.kube import Answer, KubeApi, Selection, WatchSettings
from berth.kube.resources import PODS
from berth.kube.watch_events import Bookmark, Finished, Refused, WatchEvent
from berth.kube.watching import MUTE, Watching

IDLE_S = 150.0
SILENCE = b""
"""In a script: the stream says nothing for as long as one waits. A number: nothing for so many seconds."""


class Clock:
    """Goes on only by what is waited for."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds


class Server:
    """Lists one version after the other; each stream brings what its line of the script says."""

    def __init__(self, clock: Clock, versions: list[int], streams: list[tuple[bytes | float | Answer, ...]]) -> None:
        self.asked: list[int] = []
        """The versions that streams were asked to begin at."""
        self._clock = clock
        self._versions = deque(versions)
        self._streams = deque(streams)

    async def page(self, selection: Selection, *, limit: int, token: str = "") -> Answer:
        version = self._versions.popleft()
        return Answer(200, b'{"kind":"List","metadata":{"resourceVersion":"%d"},"items":[]}' % version)

    async def watch(
        self, selection: Selection, *, version: int, stream_s: int, idle_s: float
    ) -> AsyncGenerator[bytes | Answer, None]:
        self.asked.append(version)
        for line in self._streams.popleft():
            if isinstance(line, float):
                self._clock.time_s += line
            elif line == SILENCE:
                self._clock.time_s += idle_s
                yield Answer(0, b"", "Timeout")
            else:
                yield line


def bookmark(version: int) -> bytes:
    meta = {"resourceVersion": str(version)}
    return json.dumps({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": meta}}).encode()


CUT = Answer(0, b"", "Disconnected")
DONE = Answer(200, b"", "")
REFUSED = Answer(500, b"", "InternalError")


async def told(
    streams: list[tuple[bytes | float | Answer, ...]], versions: tuple[int, ...] = (10, 8)
) -> tuple[Server, list[WatchEvent[Pod]]]:
    """What one reads until the script has come to its end."""
    clock = Clock()
    server = Server(clock, list(versions), streams)
    settings = WatchSettings(idle_s=IDLE_S)
    watching = Watching(
        cast(KubeApi, server), Selection(PODS), Pod, clock=clock, rng=random.Random(1), settings=settings
    )
    watch_events: list[WatchEvent[Pod]] = []
    async with aclosing(watching.forever()) as read:
        async for watch_event in read:
            watch_events.append(watch_event)
            if len(server.asked) == len(streams) and isinstance(watch_event, Bookmark):
                break
    return server, watch_events


def refusals(watch_events: list[WatchEvent[Pod]]) -> list[str]:
    return [each.answer.reason for each in watch_events if isinstance(each, Refused)]


async def test_one_after_the_other_they_lead_to_a_list() -> None:
    """A server that was set back to an older state takes a version that it has yet to reach, and is silent."""
    server, watch_events = await told([(SILENCE,), (SILENCE,), (bookmark(9),)])
    assert server.asked == [10, 10, 8]
    assert [each.version for each in watch_events if isinstance(each, Finished)] == [10, 8]
    assert refusals(watch_events) == ["Timeout", MUTE]


async def test_a_bookmark_in_between_begins_the_count_again() -> None:
    server, watch_events = await told([(SILENCE,), (bookmark(10), SILENCE), (SILENCE,), (bookmark(11),)])
    assert server.asked == [10, 10, 10, 10]
    assert MUTE not in refusals(watch_events)


@pytest.mark.parametrize("end", [CUT, DONE])
async def test_streams_that_something_between_ends_after_a_minute_count_together(end: Answer) -> None:
    server, watch_events = await told([(60.0, end)] * 5 + [(bookmark(9),)])
    assert server.asked == [10] * 5 + [8]
    assert refusals(watch_events)[-1] == MUTE


async def test_streams_that_are_cut_or_refused_early_are_not_silence() -> None:
    server, watch_events = await told([(CUT,), (REFUSED,), (CUT,), (SILENCE,), (CUT,), (bookmark(11),)])
    assert server.asked == [10] * 6
    assert MUTE not in refusals(watch_events)
