"""The stretch of time that is played through: from where to where all is recorded, and what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.recorded.moment import Moment, moment_of
from berth.cli.recorded.segments import Head, Segment
from berth.cli.recorded.times import told
from berth.recording.records import AnyRecord, Began, Entered, Missed, Whole


class Run(NamedTuple):
    """Segments between which nothing is missing. `ends_s` is when the next run begins; None: there is no other."""

    heads: Sequence[Head]
    ends_s: float | None

    @property
    def since_s(self) -> float:
        """From when on it goes."""
        return self.heads[0].began.at_s


def runs_of(listed: Sequence[Head]) -> list[Run]:
    """All of them, oldest first."""
    found: list[list[Head]] = []
    for head in listed:
        if found and found[-1][-1].began.run == head.began.run:
            found[-1].append(head)
        else:
            found.append([head])
    following = [*(each[0].began.at_s for each in found[1:]), None]
    return [Run(tuple(each), ends_s) for each, ends_s in zip(found, following, strict=True)]


class Stretch:
    """From `since_s` on, through `until_s`; None: to the end of what is recorded without a gap."""

    def __init__(self, listed: Sequence[Head], since_s: float | None, until_s: float | None) -> None:
        """Without `since_s` it is the newest run. Raises CliError where it was not recorded, or not whole."""
        runs = runs_of(listed)
        if since_s is None:
            self._run = runs[-1] if until_s is None else _run_at(runs, until_s)
        else:
            self._run = _run_at(runs, since_s)
        self.since_s = max(self._run.since_s, since_s or 0.0)
        self.until_s = until_s
        if until_s is not None and until_s <= self.since_s:
            raise CliError(f"nothing lies between {told(self.since_s)} and {told(until_s)}")
        ends_s = self._run.ends_s
        if until_s is not None and ends_s is not None and until_s > ends_s:
            raise CliError(
                f"there is a gap in what is recorded between {told(self.since_s)} and {told(until_s)}: {_told(runs)}",
                EXIT_BAD,
            )

    def moment(self) -> Moment:
        """How things were at its beginning."""
        return moment_of(self._run.heads, self.since_s)

    def records(self) -> Iterator[Entered | Missed]:
        """What was read in it, in order; what a checkpoint repeats is left out."""
        heads = self._run.heads
        first = max(at for at, each in enumerate(heads) if each.began.at_s <= self.since_s)
        for head in heads[first:]:
            if self.until_s is not None and head.began.at_s > self.until_s:
                return
            yield from self._of(Segment(head.path).records())

    def _of(self, records: Iterator[AnyRecord]) -> Iterator[Entered | Missed]:
        in_checkpoint = True
        ends_s = float("inf") if self.until_s is None else self.until_s
        for record in records:
            if isinstance(record, Began | Whole):
                in_checkpoint = isinstance(record, Began)
            elif in_checkpoint:
                continue
            elif isinstance(record, Missed) or (
                isinstance(record, Entered) and self.since_s < record.stored_s <= ends_s
            ):
                yield record


def _run_at(runs: Sequence[Run], at_s: float) -> Run:
    found = [each for each in runs if each.since_s <= at_s]
    if not found:
        raise CliError(f"nothing is recorded of {told(at_s)}: {_told(runs)}", EXIT_BAD)
    return found[-1]


def _told(runs: Sequence[Run]) -> str:
    said = [f"from {told(each.since_s)}" + (f" until {told(each.ends_s)}" if each.ends_s else "") for each in runs[-5:]]
    return f"recorded without a gap is what comes {', '.join(said)}"
