"""What may go wrong between a client and the API server, as shares of requests, and what befalls one of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Mishap = Literal[
    "",
    "throttled",
    "failed",
    "failed-after",
    "lost",
    "lost-after",
    "slow",
    "conflict",
    "token-expired",
    "stale",
    "turned-away",
]
WRITES_TO_ONE: Final = frozenset({"update", "patch", "delete", "bind", "evict"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeFaults:
    """Shares are between 0 and 1; of each request at most one thing goes wrong. The default is a quiet day.

    A slow request arrives late, maybe after its client gave up, and has its effect then. A stale list shows the cluster
    as it was `stale_s` ago, from the cache of another server; a real server does that only to a list that asks for
    resourceVersion=0, so `stale_anyway` goes beyond what Kubernetes promises.
    """

    delay_s: tuple[float, float] = (0.001, 0.01)
    """Each way."""
    verbs: tuple[str, ...] = ()
    """What the shares below apply to; empty: every verb."""
    resources: tuple[str, ...] = ()
    """Plurals; empty: every resource."""
    throttled: float = 0.0
    retry_after_s: tuple[int, int] = (1, 5)
    failed: float = 0.0
    """500, 503 or 504 without an effect."""
    failed_after: float = 0.0
    """500 or 504 although it had its effect."""
    lost: float = 0.0
    """No answer and no effect: time-out, or a connection that breaks."""
    lost_after: float = 0.0
    """No answer, but the effect."""
    turned_away: float = 0.0
    """400, 401, 403, 404 or 408 without an effect, that says nothing of the object: rights or a login that were taken
    away, in the words of an API server; or a page of a proxy that does not find it."""
    slow: float = 0.0
    slow_s: tuple[float, float] = (5.0, 60.0)
    conflicts: float = 0.0
    """Of writes to one object: somebody else wrote to it just before."""
    tokens_expired: float = 0.0
    """Of further pages of a list."""
    stale_lists: float = 0.0
    stale_s: tuple[float, float] = (5.0, 60.0)
    stale_anyway: bool = False
    stale_to: str = ""
    """Only to clients whose names begin so."""
    watches_gone: float = 0.0
    """Of watches: 410 at their beginning."""
    watches_cut: float = 0.0
    """Of watches: the connection breaks after `watch_life_s`."""
    watches_ended: float = 0.0
    """Of watches: the server ends them regularly, but after `watch_life_s`."""
    watches_silent: float = 0.0
    """Of watches: nothing comes any more after `watch_life_s`, not even an end."""
    watch_life_s: tuple[float, float] = (0.0, 120.0)
    watches_late: float = 0.0
    """Of watches: everything comes `watch_lag_s` late."""
    watch_lag_s: tuple[float, float] = (1.0, 20.0)


class Fate(NamedTuple):
    """What becomes of one request."""

    there_s: float
    back_s: float
    mishap: Mishap = ""
    status: int = 0
    is_page: bool = False
    retry_after_s: int | None = None
    times_out: bool = False
    """A lost one is noticed by a time-out only."""
    age_s: float = 0.0
    """Of what a stale list shows."""


class StreamFate(NamedTuple):
    """What becomes of one watch."""

    lag_s: float = 0.0
    gone: bool = False
    ends: Literal["", "cut", "ended", "silent"] = ""
    life_s: float = 0.0


def fate_of(
    faults: KubeFaults,
    rng: random.Random,
    verb: str,
    resource: str,
    *,
    client: str = "",
    further_page: bool,
    any_version: bool,
) -> Fate:
    """Draw for one request. `any_version`: a list that does not ask for a consistent read."""
    there_s, back_s = rng.uniform(*faults.delay_s), rng.uniform(*faults.delay_s)
    if _spared(faults, verb, resource):
        return Fate(there_s, back_s)
    writes = verb in WRITES_TO_ONE
    goes_stale = verb == "list" and not further_page and client.startswith(faults.stale_to)
    shares: tuple[tuple[Mishap, float], ...] = (
        ("throttled", faults.throttled),
        ("failed", faults.failed),
        ("failed-after", faults.failed_after),
        ("lost", faults.lost),
        ("lost-after", faults.lost_after),
        ("slow", faults.slow),
        ("conflict", faults.conflicts if writes else 0.0),
        ("token-expired", faults.tokens_expired if further_page else 0.0),
        ("turned-away", faults.turned_away),
        ("stale", faults.stale_lists if goes_stale and (any_version or faults.stale_anyway) else 0.0),
    )
    drawn = rng.random()
    for mishap, share in shares:
        drawn -= share
        if drawn < 0:
            return _in_detail(faults, rng, Fate(there_s, back_s, mishap))
    return Fate(there_s, back_s)


def _in_detail(faults: KubeFaults, rng: random.Random, fate: Fate) -> Fate:
    match fate.mishap:
        case "throttled":
            return fate._replace(status=429, retry_after_s=rng.randint(*faults.retry_after_s))
        case "failed":
            return fate._replace(status=rng.choice((500, 503, 504)))
        case "failed-after":
            return fate._replace(status=rng.choice((500, 504)))
        case "turned-away":
            status = rng.choice((400, 401, 403, 404, 408))
            return fate._replace(status=status, is_page=status not in (401, 403) or rng.random() < 0.5)
        case "lost" | "lost-after":
            return fate._replace(times_out=rng.random() < 0.5)
        case "slow":
            return fate._replace(there_s=rng.uniform(*faults.slow_s))
        case "stale":
            return fate._replace(age_s=rng.uniform(*faults.stale_s))
        case _:
            return fate


def stream_fate_of(faults: KubeFaults, rng: random.Random, resource: str) -> StreamFate:
    """Draw for one watch."""
    if _spared(faults, "watch", resource):
        return StreamFate()
    lag_s = rng.uniform(*faults.watch_lag_s) if rng.random() < faults.watches_late else 0.0
    if rng.random() < faults.watches_gone:
        return StreamFate(lag_s, gone=True)
    drawn, life_s = rng.random(), rng.uniform(*faults.watch_life_s)
    if drawn < faults.watches_cut:
        return StreamFate(lag_s, ends="cut", life_s=life_s)
    if drawn < faults.watches_cut + faults.watches_ended:
        return StreamFate(lag_s, ends="ended", life_s=life_s)
    if drawn < faults.watches_cut + faults.watches_ended + faults.watches_silent:
        return StreamFate(lag_s, ends="silent", life_s=life_s)
    return StreamFate(lag_s)


def _spared(faults: KubeFaults, verb: str, resource: str) -> bool:
    if faults.verbs and verb not in faults.verbs:
        return True
    return bool(faults.resources) and resource not in faults.resources
