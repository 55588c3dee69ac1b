"""Following a kind of objects for ever: three generators, one inside the other.

- `Watching.forever` never ends: it lists, watches, and lists again, with back-off between failures;
- `Watching.until_expired` lists once, then follows one stream after the other from the last version it saw, and ends
  when the server no longer knows that version;
- `Watching.stream` follows one HTTP stream to its end.

Promises: changes come in the order of the server, none is missed between a list and the next one; a stream that falls
silent or is cut off is resumed where it was; one unreadable object is reported and passed over. A line of which not
even the object's name can be read could hide any change, so it leads to a new list instead of a silent gap.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, NamedTuple, TypeVar

from berth.kube import metrics
from berth.kube.answer import TOO_LARGE, Answer, Status, read_status
from berth.kube.api import KubeApi, Selection
from berth.kube.backoff import Backoff
from berth.kube.clock import Clock
from berth.kube.decoding import (
    Decoded,
    HasMeta,
    Malformed,
    ObjectDecoder,
    VersionError,
    read_bookmark,
    read_envelope,
    read_identity,
)
from berth.kube.listing import NOT_A_LIST, PageSize, earliest, pages
from berth.kube.outages import Outages, Reach
from berth.kube.watch_events import Began, Bookmark, Changed, Deleted, Ended, Finished, Refused, Seen, WatchEvent

T = TypeVar("T", bound=HasMeta)

EVENT_KINDS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "UNREADABLE", "UNKNOWN")
UNREADABLE = "Unreadable"
"""Reason of a stream given up because of a line without even a name; begins that of a list without a version."""
WENT_BACK = "VersionWentBack"
"""Reason of a stream given up because the server's versions are lower than before: another history."""
MUTE = "NothingHeard"
"""Reason of a version given up because stream after stream brought nothing, not even a bookmark: a server that was set
back does not refuse a version it has yet to reach, it says nothing until then."""


class WatchSettings(NamedTuple):
    """How lists and watches are asked for."""

    limit: int = 500
    """Objects per page of a list."""
    idle_s: float = 150.0
    """A stream without a byte for so long is taken for dead. Bookmarks come about once a minute."""
    stream_s: tuple[int, int] = (240, 480)
    """A stream is asked to end after a random time between these, so that watches spread over API servers."""
    healthy_s: float = 5.0
    """A stream that lasted so long, or brought something, was worth its request: the next follows without waiting."""
    failures_max: int = 5
    """Streams that the server refuses in a row before the version itself is doubted and a list made."""
    mute_s: float = 300.0
    """Streams in a row that bring nothing for so long, taken together, before a list is made."""


class Watching(Generic[T]):
    """One kind followed through one API; holds what the three generators share."""

    def __init__(
        self,
        api: KubeApi,
        selection: Selection,
        item_type: type[T],
        *,
        clock: Clock,
        rng: random.Random,
        settings: WatchSettings | None = None,
        outages: Outages | None = None,
    ) -> None:
        self._api = api
        self._selection = selection
        self._decoder = ObjectDecoder(item_type)
        self._clock = clock
        self._rng = rng
        self._settings = settings or WatchSettings()
        self._size = PageSize(self._settings.limit)
        self._backoff = Backoff(rng)
        self._reach = Reach(outages or Outages(), clock)
        self._label = selection.resource.label
        self._counts = {kind: metrics.WATCH_EVENTS.labels(self._label, kind) for kind in EVENT_KINDS}

    async def forever(self) -> AsyncGenerator[WatchEvent[T], None]:
        """Everything that happens to the kind, without end."""
        while True:
            async with aclosing(self.until_expired()) as watch_events:
                async for watch_event in watch_events:
                    yield watch_event

    async def until_expired(self) -> AsyncGenerator[WatchEvent[T], None]:
        """One list and what follows it; ends, after waiting, when a new list is needed."""
        version: int | None = None
        async with aclosing(self._list()) as listed:
            async for watch_event in listed:
                if isinstance(watch_event, Finished):
                    version = watch_event.version
                yield watch_event
        failures, mute_s = 0, 0.0
        while version is not None and failures < self._settings.failures_max:
            began = self._clock.monotonic()
            before = version
            is_mute = True
            ended = Answer(0, b"", "Interrupted")
            async with aclosing(self.stream(version)) as events:
                async for event in events:
                    if isinstance(event, Ended):
                        ended = event.answer
                    elif event.version < version and not _nameless(event):
                        ended = Answer(0, b"", WENT_BACK)
                        break
                    else:
                        self._reach.through()
                        is_mute = False
                        version = max(version, event.version)
                        yield event
            lasted_s = self._clock.monotonic() - began
            mute_s = mute_s + lasted_s if is_mute else 0.0
            if mute_s >= self._settings.mute_s:
                ended = Answer(0, b"", MUTE)
            if version > before or lasted_s >= self._settings.healthy_s:
                failures = 0
                self._backoff.reset()
                if ended.ok:
                    continue
            elif ended.status:
                failures += 1  # no answer at all says nothing about the version
            refused = self._refused(ended)
            yield refused
            await self._pause(refused)
            if _needs_list(ended):
                return

    async def stream(
        self, version: int
    ) -> AsyncGenerator[Changed[T] | Deleted[T] | Bookmark | Malformed | Ended, None]:
        """What one HTTP stream brings after `version`; its last item is `Ended`."""
        self._reach.trying()
        stream_s = self._rng.randint(*self._settings.stream_s)
        watch = self._api.watch(self._selection, version=version, stream_s=stream_s, idle_s=self._settings.idle_s)
        async with aclosing(watch) as lines:
            async for line in lines:
                event = Ended(line) if isinstance(line, Answer) else self._event(line)
                yield event
                if isinstance(event, Ended):
                    return
                if _nameless(event):
                    yield Ended(Answer(0, b"", UNREADABLE))
                    return
        yield Ended(Answer(0, b"", "Interrupted"))

    async def _list(self) -> AsyncGenerator[Began | Seen[T] | Finished | Malformed | Refused, None]:
        metrics.LISTS.labels(self._label).inc()
        yield Began()
        self._reach.trying()
        keys: set[str] = set()
        version: int | None = None
        problem: Answer | None = None
        async with aclosing(pages(self._api, self._selection, self._size)) as read:
            async for page in read:
                if isinstance(page, Answer):
                    problem = page
                    break
                self._reach.through()
                try:
                    version = earliest(version, page)
                except VersionError as error:
                    problem = Answer(0, b"", f"{UNREADABLE}: {error}")
                    break
                for raw in page.items or ():
                    decoded = self._decoder.read(raw)
                    if decoded.key:
                        keys.add(decoded.key)
                    if isinstance(decoded, Malformed):
                        metrics.MALFORMED.labels(self._label).inc()
                        yield decoded
                    else:
                        yield Seen(bytes(raw), decoded.item, decoded.version)
        if problem is None:
            yield Finished(version or 0, frozenset(keys))
            return
        refused = self._refused(problem)
        yield refused
        await self._pause(refused)

    def _event(self, line: bytes) -> Changed[T] | Deleted[T] | Bookmark | Malformed | Ended:
        envelope = read_envelope(line)
        if isinstance(envelope, Malformed):
            return self._malformed(envelope, "UNREADABLE")
        kind = envelope.type
        if kind == "ERROR":
            self._counts[kind].inc()
            return Ended(_answer_of(read_status(bytes(envelope.object)), bytes(envelope.object)))
        if kind == "BOOKMARK":
            version = read_bookmark(envelope.object)
            if isinstance(version, Malformed):
                return self._malformed(version, kind)
            self._counts[kind].inc()
            return Bookmark(version)
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            return self._malformed(Malformed("", "", 0, "type", f"unknown event {kind[:40]!r}"), "UNKNOWN")
        decoded = self._decoder.read(envelope.object)
        if isinstance(decoded, Decoded):
            self._counts[kind].inc()
            if kind == "DELETED":
                return Deleted(decoded.item, decoded.version)
            return Changed("ADDED" if kind == "ADDED" else "MODIFIED", decoded.item, decoded.version)
        if kind == "DELETED" and isinstance(known := read_identity(envelope.object), Decoded):
            self._counts[kind].inc()
            return Deleted(known.item, known.version)
        return self._malformed(decoded, kind)

    def _malformed(self, problem: Malformed, kind: str) -> Malformed:
        self._counts[kind].inc()
        metrics.MALFORMED.labels(self._label).inc()
        return problem

    def _refused(self, answer: Answer) -> Refused:
        if self._reach.refused(answer):
            self._backoff.reset()
        return Refused(answer, self._backoff.next(answer.retry_after_s))

    async def _pause(self, refused: Refused) -> None:
        pause = self._reach.pause if _is_unanswered(refused.answer) else self._clock.sleep
        await pause(refused.wait_s)


def _answer_of(status: Status, body: bytes) -> Answer:
    """An ERROR event as the answer it would have been."""
    wait_s = status.details.retry_after_seconds if status.details else 0.0
    return Answer(status.code if 400 <= status.code < 600 else 500, body, status.reason, wait_s or None)


def _nameless(event: object) -> bool:
    return isinstance(event, Malformed) and not (event.key and event.version)


def _is_unanswered(answer: Answer) -> bool:
    """No answer, or one of a server that could not do better: a matter of the server, not of the kind.

    Not when it says itself for how long it wants to be left alone.
    """
    is_ours = answer.reason.startswith((UNREADABLE, WENT_BACK, MUTE, TOO_LARGE, NOT_A_LIST))
    return answer.unknown and not is_ours and answer.retry_after_s is None


def _needs_list(ended: Answer) -> bool:
    """Whether to give up the version: it expired, led to something unreadable, or the server refuses it as such."""
    if ended.reason in (UNREADABLE, WENT_BACK, MUTE) or ended.reason.startswith(TOO_LARGE):
        return True
    return 400 <= ended.status < 500 and ended.status not in (401, 403, 408, 429)
