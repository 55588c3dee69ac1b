"""What the acts of the demonstration share: the API, the bus, the eyes, and the lines they print."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from berth.bus import Bus, Entry, Message
from berth.cli.commands.node import ask_node
from berth.cli.commands.why import ask_why
from berth.cli.demo.scenario import NAMESPACE
from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.cli.load.pods import Fate, PodWatch
from berth.cli.output import WIDTH_MAX, fitted, painted, wrapped
from berth.cli.replay.progress import Progress
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import PlacementDecided
from berth.contracts.question import NodeAnswer, WhyAnswer, WhyQuestion
from berth.simcluster.store.objects import Json

WAIT_S = 20.0
POLL_S = 0.05
INDENT = 33


class Stage:
    """Creates, waits, asks and reports."""

    def __init__(self, api: Api, bus: Bus, watch: PodWatch, progress: Progress) -> None:
        self.api = api
        self.watch = watch
        self._bus = bus
        self._progress = progress
        self.took_ms: list[float] = []
        """How long each plan took from the choice of its pods to its commit."""
        self._began = time.monotonic()

    async def create(self, manifests: Sequence[Json]) -> list[str]:
        """Create them in order; the keys of the pods among them."""
        names = [key_of(each) for each in manifests if each["kind"] == "Pod"]
        for name in names:
            self.watch.sending(name)()
        await create_all(self.api, manifests)
        return names

    async def until(self, done: Callable[[], bool], *, wait_s: float = WAIT_S) -> bool:
        """Whether it came true in time."""
        deadline = time.monotonic() + wait_s
        while not done():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def settled(self, names: Sequence[str], *, wait_s: float = WAIT_S) -> list[Fate]:
        """The fates of pods, once each has a node or a reason, or the time is up."""
        fates = [self.watch.expect(name) for name in names]
        await self.until(lambda: all(fate.is_settled for fate in fates), wait_s=wait_s)
        return fates

    async def published(self, bucket: str, key: str, *, wait_s: float = WAIT_S) -> bool:
        """Whether a bucket shows a key in time."""
        sink = _KeySink(key)
        following = asyncio.create_task(self._bus.follow(bucket, sink, keys=key).run())
        try:
            return await self.until(lambda: sink.found, wait_s=wait_s)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def object(self, path: str) -> dict[str, Any]:
        """One object of the API server."""
        found: dict[str, Any] = await self.api.get(path)
        return found

    async def change(self, path: str, manifest: Json) -> None:
        """Put an object in the place of the one that is there."""
        await self.api.put(path, manifest)

    async def until_node(self, name: str, is_so: Callable[[NodeAnswer], bool], *, wait_s: float = WAIT_S) -> bool:
        """Whether the solver's picture of a node came to be so in time."""
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            answer = await ask_node(self._bus, name)
            if answer is not None and is_so(answer):
                return True
            await asyncio.sleep(POLL_S)
        return False

    async def why(self, name: str) -> WhyAnswer | None:
        """What the solver says of a pod of ours."""
        return await ask_why(self._bus, WhyQuestion(namespace=NAMESPACE, name=name))

    async def decided(self, message: Message) -> None:
        """Note how long a plan took."""
        with contextlib.suppress(InvalidMessage):
            self.took_ms.append(decode(message.data, PlacementDecided).took_ms)

    def tell(self, kind: str, name: str, outcome: str, facts: str = "") -> None:
        """One line of the story, with the time since the first pod."""
        colour = "green" if outcome.startswith(("placed", "available", "well")) else "yellow"
        start = f"{time.monotonic() - self._began:4.1f} s  {kind:<11} {name:<12} "
        rest = fitted(facts, max(10, WIDTH_MAX - len(start) - 15))
        self._progress.line(f"{start}{painted(f'{outcome:<14}', colour)} {rest}".rstrip())

    def more(self, what: str, text: str) -> None:
        """A text below the last line."""
        first, *rest = wrapped(text, indent=" " * INDENT)
        self._progress.line(f"{' ' * (INDENT - 9)}{what:<8} {first[INDENT:]}")
        for line in rest:
            self._progress.line(line)


class _KeySink:
    """Looks for one key."""

    def __init__(self, key: str) -> None:
        self.found = False
        self._key = key

    def reset(self) -> None:
        """The bucket starts over."""
        self.found = False

    def apply(self, entry: Entry) -> None:
        """The next message."""
        if entry.key == self._key:
            self.found = not entry.deleted

    def end(self, sequence: int) -> None:
        """The end was reached."""


def key_of(manifest: Json) -> str:
    """`namespace/name`."""
    return f"{manifest['metadata'].get('namespace', NAMESPACE)}/{manifest['metadata']['name']}"
