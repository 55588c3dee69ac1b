"""A migration (E11): the job, its Reservation, the pod, its successor, a sibling. Placing is a single step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.evictions.rules import Rules

SIBLING, TIME_UP, POD_DELETED, RESERVATION_DELETED, LATE_COMMAND = range(5)
"""Faults."""
QUIET = (
    "a sibling is created",
    "the job's time is up",
    "user deletes the pod",
    "user deletes the Reservation",
    "the Reservation expires",
)
"""What a fair run leaves out."""
ORDER = (
    "eviction",
    "mark",
    "rebalancer reads",
    "solver places the R",
    "writer",
    "rebalancer",
    "pod ends",
    "controller",
    "solver",
)
STEPS_MAX = 100


class Moment(NamedTuple):
    job: str = "open"
    """open, closing, done, failed."""
    place: str = ""
    """The Reservation: pending, available, expired, deleted."""
    closed: int = 0
    taken: str = ""
    """By `next` or `sibling`."""
    pod: str = "bound"
    """bound, marked, ending, gone."""
    version: int = 1
    next: str = ""
    """The successor: "", waits, placed."""
    sibling: str = ""
    seen: tuple[str, ...] = ()
    """What the rebalancer has read: (place, taken, pod)."""
    net: frozenset[tuple[str, int]] = frozenset()
    evicted: int = 0
    asked: int = 0
    """The command to evict was sent; it may be delivered late."""
    faults: tuple[int, ...] = (1, 1, 1, 1, 1)
    bad: str = ""

    def spend(self, fault: int) -> Moment:
        return self._replace(faults=(*self.faults[:fault], 0, *self.faults[fault + 1 :]))


class MigrationStep(NamedTuple):
    """Something that may happen next."""

    what: str
    after: Moment
    details: tuple[object, ...] = ()


class Migration:
    """The transition system."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def initial(self) -> Moment:
        """The pod is bound, and a Reservation for its successor is pending."""
        return Moment(place="pending", closed=int(self._rules.closed), seen=("", "", "bound"))

    def canonical(self, moment: Moment) -> Moment:
        """Nothing is alike."""
        return moment

    def broken(self, moment: Moment) -> str:
        """What an eviction has broken."""
        return moment.bad

    def steps(self, now: Moment) -> Iterator[MigrationStep]:
        """Everything that may happen next."""
        if now.seen != (now.place, now.taken, now.pod):
            yield MigrationStep("rebalancer reads", now._replace(seen=(now.place, now.taken, now.pod)))
        if now.place == "pending":
            yield MigrationStep("solver places the Reservation", now._replace(place="available"))
        place, taken, pod = now.seen
        if (now.job, place, taken, pod, now.asked) == ("open", "available", "", "bound", 0):
            yield MigrationStep("rebalancer asks for the eviction", now._replace(asked=1))
        yield from self._writer(now)
        for request in now.net:
            yield self._land(now, request)
        if now.pod == "ending":
            yield MigrationStep("pod ends", now._replace(pod="gone"))
        if now.pod in ("ending", "gone") and not now.next:
            yield MigrationStep("controller creates the successor", now._replace(next="waits"))
        if now.place == "available" and not now.closed and not now.taken:
            for who in ("next", "sibling"):
                if getattr(now, who) == "waits":
                    placed: dict[str, Any] = {who: "placed"}
                    yield MigrationStep(f"solver places the {who}", now._replace(taken=who, **placed))
        yield from self._rebalancer(now)
        yield from self._others(now)

    def _writer(self, now: Moment) -> Iterator[MigrationStep]:
        rules = self._rules
        if now.asked and (now.job == "open" or now.faults[LATE_COMMAND]):
            after = now if now.job == "open" else now.spend(LATE_COMMAND)
            request = ("mark", now.version)
            if now.pod == "bound" and rules.migration_marked and request not in now.net:
                yield MigrationStep("writer marks", after._replace(net=now.net | {request}))
        if now.asked and now.pod == ("marked" if rules.migration_marked else "bound"):
            is_kept = now.place == "available" and not now.taken and now.job == "open"
            request = ("eviction", now.version)
            if (not rules.migration_look or is_kept) and request not in now.net:
                yield MigrationStep("writer sends eviction", now._replace(net=now.net | {request}))
        if now.pod == "marked" and now.job in ("closing", "failed"):
            yield MigrationStep("writer spares", now._replace(pod="bound", version=now.version + 1))

    def _land(self, now: Moment, request: tuple[str, int]) -> MigrationStep:
        what, version = request
        rest = now._replace(net=now.net - {request})
        if version != now.version or now.pod not in ("bound", "marked"):
            return MigrationStep(what + " is refused", rest)
        if what == "mark":
            return MigrationStep("mark lands", rest._replace(pod="marked", version=now.version + 1))
        is_kept = now.place == "available" and not now.taken
        is_users = now.place == "deleted" and not now.faults[RESERVATION_DELETED]
        bad = now.bad or ("" if is_kept or is_users else "evicted without a place for its successor")
        return MigrationStep("eviction lands", rest._replace(pod="ending", version=now.version + 1, evicted=1, bad=bad))

    def _rebalancer(self, now: Moment) -> Iterator[MigrationStep]:
        """By what it has read."""
        place, taken, pod = now.seen
        has_left = pod in ("ending", "gone")
        if now.job == "open" and has_left and now.closed and now.place == "available":
            yield MigrationStep("rebalancer opens the Reservation", now._replace(closed=0))
        if now.job == "open" and taken and has_left:
            yield MigrationStep("rebalancer ends the job", now._replace(job="done"))
        if now.job == "open" and (place in ("expired", "deleted") or (taken and pod in ("bound", "marked"))):
            yield MigrationStep("rebalancer closes the job", now._replace(job="closing"))
        if now.job != "closing":
            return
        if not self._rules.migration_spared or now.pod == pod == "bound":
            left = now.place if now.taken or now.place == "expired" else "deleted"
            yield MigrationStep("rebalancer deletes the Reservation", now._replace(job="failed", place=left))
        elif has_left:
            goes_on = now.place in ("pending", "available")
            what = "rebalancer goes on" if goes_on else "rebalancer ends the job"
            yield MigrationStep(what, now._replace(job="open" if goes_on else "failed"))

    def _others(self, now: Moment) -> Iterator[MigrationStep]:
        if now.faults[SIBLING]:
            yield MigrationStep("a sibling is created", now.spend(SIBLING)._replace(sibling="waits"))
        if now.faults[TIME_UP] and now.job == "open":
            yield MigrationStep("the job's time is up", now.spend(TIME_UP)._replace(job="closing"))
        if now.faults[POD_DELETED] and now.pod in ("bound", "marked"):
            after = now.spend(POD_DELETED)._replace(pod="ending", version=now.version + 1)
            yield MigrationStep("user deletes the pod", after)
        is_free = now.place == "available" and not now.taken
        if now.faults[RESERVATION_DELETED] and is_free:
            after = now.spend(RESERVATION_DELETED)._replace(place="deleted")
            yield MigrationStep("user deletes the Reservation", after)
        if not self._rules.no_clock and is_free:
            yield MigrationStep("the Reservation expires", now._replace(place="expired"))

    def stuck(self, moment: Moment) -> str:
        """What never comes to pass from here, though nothing more goes wrong."""
        now = moment._replace(faults=(0,) * 5)
        for _ in range(STEPS_MAX):
            steps = [step for step in self.steps(now) if step.what not in QUIET]
            if not steps:
                break
            now = min(steps, key=_rank).after
        else:
            return "it never comes to rest"
        if now.bad:
            return now.bad
        if now.pod == "marked":
            return "a mark is never taken back"
        if now.evicted and now.place != "deleted" and not now.taken:
            return "evicted, and its successor has no place"
        if now.job not in ("done", "failed"):
            return "a job that never ends"
        if now.job == "failed" and now.place == "available" and not now.taken:
            return "a Reservation is left behind"
        return ""


def _rank(step: MigrationStep) -> int:
    return next((at for at, what in enumerate(ORDER) if step.what.startswith(what)), len(ORDER))
