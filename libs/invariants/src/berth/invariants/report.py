"""What a check answers."""

from __future__ import annotations

from typing import NamedTuple

EVIDENCE_MAX = 20


class Finding(NamedTuple):
    """One thing that breaks a promise.

    `subject` says what it is about and stays the same while it lasts (`node n1, gpu 0`); `text` is the evidence.
    """

    subject: str
    text: str


class Result(NamedTuple):
    """One invariant. `evidence` names what breaks it, at most `EVIDENCE_MAX` cases and a count of the rest."""

    name: str
    sentence: str
    ok: bool
    evidence: tuple[str, ...] = ()
    title: str = ""


class Report(NamedTuple):
    """All invariants that were checked."""

    results: list[Result]

    @property
    def ok(self) -> bool:
        """Everything holds."""
        return all(result.ok for result in self.results)

    @property
    def broken(self) -> list[Result]:
        """What does not hold."""
        return [result for result in self.results if not result.ok]

    def lines(self) -> list[str]:
        """For people: a line per invariant, its evidence indented below."""
        lines = []
        for result in self.results:
            lines.append(f"{'ok    ' if result.ok else 'BROKEN'} {result.name}: {result.sentence}")
            lines += [f"         {text}" for text in result.evidence]
        return lines


def result_of(name: str, sentence: str, evidence: list[str], title: str = "") -> Result:
    """A result from what was found; nothing found means that it holds."""
    shown = evidence[:EVIDENCE_MAX]
    if len(evidence) > EVIDENCE_MAX:
        shown.append(f"and {len(evidence) - EVIDENCE_MAX} more")
    return Result(name, sentence, not evidence, tuple(shown), title)
