"""From "something changed" to "decide now": the shape between a view and its owner's loop.

A sink is called for every message and must be fast, so it only marks the keys that a decision depends on. One loop
takes the marked keys in batches. A key that is marked many times before it is taken comes once, and one that is marked
while its batch is being worked on comes again in the next.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable
from typing import Generic, TypeVar

from berth.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)


class ChangeSet(Generic[K]):
    """Keys that wait for a decision, oldest mark first. For one event loop and one taker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[K, None] = {}
        self._some = asyncio.Event()

    def __len__(self) -> int:
        """How many keys wait."""
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        """Whether a key waits."""
        return key in self._keys

    def mark(self, key: K) -> None:
        """This key has changed."""
        self._keys[key] = None
        self._some.set()

    def mark_all(self, keys: Iterable[K]) -> None:
        """All of these keys have changed."""
        self._keys.update(dict.fromkeys(keys))
        if self._keys:
            self._some.set()

    def discard(self, key: K) -> None:
        """No decision is needed any more."""
        self._keys.pop(key, None)

    def clear(self) -> None:
        """Nothing waits any more: the view starts over."""
        self._keys.clear()

    def take(self, max_keys: int) -> list[K]:
        """At most `max_keys` keys, removed from those that wait."""
        if len(self._keys) <= max_keys:
            keys = list(self._keys)
            self._keys.clear()
        else:
            keys = [key for key, _ in zip(self._keys, range(max_keys), strict=False)]
            for key in keys:
                del self._keys[key]
        if not self._keys:
            self._some.clear()
        return keys

    async def batches(self, window_s: float = 0.005, max_keys: int = 1000) -> AsyncIterator[list[K]]:
        """Batches of changed keys for ever, none of them empty.

        The first mark opens a window of `window_s` in which more keys may join; a window that is full already is not
        waited for.
        """
        if max_keys < 1:
            raise ValueError(f"max_keys: {max_keys} is not at least 1")
        while True:
            await self._some.wait()
            if len(self._keys) < max_keys and window_s > 0:
                await self._clock.sleep(window_s)
            keys = self.take(max_keys)
            if keys:
                yield keys
