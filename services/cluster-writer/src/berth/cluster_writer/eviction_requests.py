"""The requests of evictions, each guarded by uid and version, and what is known of those that were sent.

What was sent and is not shown by STATE yet, and how long an object has to be left alone, is remembered here, and
nothing else: it is lost with the process, and found again by asking.
"""

from __future__ import annotations

import random as randomness
from typing import Any, Final, NamedTuple

import msgspec

from berth.cluster_writer.core.eviction_answers import Heed, after_request, missing_right
from berth.contracts import kube
from berth.contracts.state import Pod, Reservation
from berth.kube import resources
from berth.kube.answer import Answer
from berth.kube.api import KubeApi
from berth.kube.backoff import Backoff
from berth.kube.bodies import Patch
from berth.rules.preemption import THROUGH_API
from berth.runtime.clock import Clock
from berth.telemetry import get_logger
from berth.transaction.book import Book
from berth.transaction.claims import Name, name_of

log = get_logger(__name__)

PAUSE_MAX_S: Final = 30.0
HELD_MAX_S: Final = 60.0
"""How long a budget or a webhook may ask for patience."""
RIGHTS_FROM: Final = "k8s/components/preemption"
"""What grants the rights that evictions alone need."""

_META = msgspec.json.Decoder(kube.AnyObject)


class Outcome(NamedTuple):
    """What came of a request. `version` is the one that it made (`DONE`), `message` why it was refused.

    `lacks_right`: the API server refuses the request whatever it is about.
    """

    heed: Heed
    version: str = ""
    message: str = ""
    lacks_right: bool = False


class _Pause:
    """How long an object, as it is, is left alone."""

    def __init__(self, rng: randomness.Random) -> None:
        self.backoff = Backoff(rng, cap_s=PAUSE_MAX_S)
        self.until = 0.0
        self.version = 0
        self.held_since: float | None = None


class EvictionRequests:
    """Sends one request at a time. Answers are `Outcome`s; nothing is tried again here."""

    def __init__(self, api: KubeApi, book: Book, clock: Clock, random: randomness.Random) -> None:
        self._api = api
        self._book = book
        self._clock = clock
        self._random = random
        self._sent: dict[str, tuple[Name, int]] = {}
        self._pauses: dict[str, tuple[Name, _Pause]] = {}

    def is_held(self, seen: Pod | Reservation) -> bool:
        """Nothing is sent for it now: STATE does not show yet what was sent before, or it is to be left alone."""
        if self.is_awaited(seen):
            return True
        known = self._pauses.get(seen.uid)
        return known is not None and seen.version == known[1].version and self._clock.monotonic() < known[1].until

    def is_awaited(self, seen: Pod | Reservation) -> bool:
        """STATE does not show yet what was sent."""
        return seen.uid in self._sent and seen.version < self._sent[seen.uid][1]

    async def patch(
        self, seen: Pod | Reservation, meta: dict[str, Any], version: str, status: dict[str, Any] | None = None
    ) -> Outcome:
        """A patch of the metadata, or of the status subresource."""
        is_pod = isinstance(seen, Pod)
        body: dict[str, Any] = {"metadata": {"uid": seen.uid, "resourceVersion": version, **meta}}
        if status is not None:
            body["status"] = status
        answer = await self._api.patch(
            resources.PODS if is_pod else resources.RESERVATIONS,
            namespace_of(seen),
            seen.name,
            body,
            content_type=Patch.STRATEGIC if is_pod else Patch.MERGE,
            subresource="" if status is None else "status",
        )
        outcome = self._outcome(seen, answer)
        return outcome if outcome.version or outcome.heed is not Heed.DONE else Outcome(Heed.LOOK)

    async def delete(self, victim: Pod, version: str, reason: str, *, dry_run: bool = False) -> Outcome:
        """A deletion, or the question whether it would be let through; by the API server's eviction where the reason to
        leave is one of those that disruption budgets may stop."""
        namespace, name, uid = victim.namespace, victim.name, victim.uid
        if reason in THROUGH_API:
            answer = await self._api.evict(namespace, name, uid=uid, version=version, dry_run=dry_run)
        else:
            answer = await self._api.delete(resources.PODS, namespace, name, uid=uid, version=version, dry_run=dry_run)
        if dry_run and answer.ok:
            return Outcome(Heed.DONE)
        outcome = self._outcome(victim, answer)
        if outcome.heed is Heed.DONE and reason in THROUGH_API:
            # The answer to an eviction names no version: whatever is newer shows it.
            self._sent[uid] = (name_of(victim), int(version) + 1)
        return outcome

    def release(self, seen: Pod | Reservation) -> None:
        """Another request than the one that was refused may be sent at once."""
        self._pauses.pop(seen.uid, None)

    def forget_shown(self) -> set[str]:
        """What STATE shows, or shows no more, is no longer waited for; the uids of those that were sent something."""
        shown: set[str] = set()
        for uid, (name, version) in list(self._sent.items()):
            seen = self._book.seen(name)
            if seen is None or seen.uid != uid or seen.version >= version:
                del self._sent[uid]
                shown.add(uid)
        for uid, (name, _) in list(self._pauses.items()):
            seen = self._book.seen(name)
            if seen is None or seen.uid != uid:
                del self._pauses[uid]
        return shown

    def _outcome(self, seen: Pod | Reservation, answer: Answer) -> Outcome:
        heed = after_request(answer)
        if heed is Heed.DONE:
            self._pauses.pop(seen.uid, None)
            return Outcome(heed, self._await(seen, answer))
        pause = self._pauses.setdefault(seen.uid, (name_of(seen), _Pause(self._random)))[1]
        now = self._clock.monotonic()
        pause.until, pause.version = now + pause.backoff.next(answer.retry_after_s), seen.version
        if heed is Heed.HELD:
            since = pause.held_since = now if pause.held_since is None else pause.held_since
            heed = Heed.REFUSED if now - since >= HELD_MAX_S else heed
        else:
            pause.held_since = None
        right = missing_right(answer)
        message = f"the right to {right} is missing ({RIGHTS_FROM})" if right else answer.message
        log.info("a request of an eviction did not land", name=seen.name, status=answer.status, message=message)
        return Outcome(heed, message=message, lacks_right=bool(right))

    def _await(self, seen: Pod | Reservation, answer: Answer) -> str:
        """What is known to have changed is judged again once STATE shows it."""
        try:
            version = _META.decode(answer.body).metadata.resource_version
            self._sent[seen.uid] = (name_of(seen), int(version))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            return ""
        return version


def namespace_of(seen: Pod | Reservation) -> str:
    """Empty for a Reservation."""
    return seen.namespace if isinstance(seen, Pod) else ""
