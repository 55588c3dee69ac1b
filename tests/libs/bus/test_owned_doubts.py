"""Keys in doubt are read some at once, and with a pause only where reading gains nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from berth.bus import jetstream
from berth.bus.errors import Disconnected
from berth.bus.owned_doubts import AT_ONCE, RETRY_FIRST_S, RETRY_MAX_S, Doubts

KEYS = [f"k{number}" for number in range(AT_ONCE * 5)]


class Clock:
    """Notes its pauses, which take no time."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


class Bench:
    """Doubts about `KEYS`, under way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spawn: Any, answer: Any) -> None:
        self.clock, self.read = Clock(), list[str]()
        monkeypatch.setattr(jetstream, "newest", answer)
        link: Any = None
        self.doubts = Doubts(link, "b", clock=self.clock, readable=self._readable, decide=self._decide)
        for key in KEYS:
            self.doubts.add(key, "no answer")
        spawn(self.doubts.run(lambda: None))

    async def _readable(self) -> None:
        pass

    def _decide(self, key: str, _: object) -> bool:
        self.read.append(key)
        return True


async def test_keys_that_nobody_has_read_yet_are_read_without_a_pause(monkeypatch, spawn) -> None:
    async def nothing(*_: object) -> None:
        return None

    desk = Bench(monkeypatch, spawn, nothing)
    async with asyncio.timeout(10):
        while desk.doubts:
            await asyncio.sleep(0)
    assert desk.read == KEYS
    assert len(desk.clock.slept) <= 1


async def test_while_nobody_answers_pauses_grow_to_a_limit(monkeypatch, spawn) -> None:
    async def nobody(*_: object) -> None:
        raise Disconnected("gone")

    desk = Bench(monkeypatch, spawn, nobody)
    async with asyncio.timeout(10):
        while len(desk.clock.slept) < 7:
            await asyncio.sleep(0)
    assert desk.clock.slept[:2] == [RETRY_FIRST_S, 2 * RETRY_FIRST_S]
    assert desk.clock.slept[6] == RETRY_MAX_S
    assert desk.read == []
