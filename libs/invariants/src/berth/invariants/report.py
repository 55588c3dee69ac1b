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
    """One invariant. `evidence` names what breaks it, at most `EVIDENCE_MAX` cases and a count of the rest.

    `not_judged` says what was missing to judge it: nothing breaks it then, but neither is it known to hold.
    """

    name: str
    sentence: str
    ok: bool
    evidence: tuple[str, ...] = ()
    title: str = ""
    not_judged: str = ""


class Report(NamedTuple):
    """All invariants that were checked."""

    results: list[Result]

    @property
    def ok(self) -> bool:
        """Nothing is broken."""
        return all(result.ok for result in self.results)

    @property
    def broken(self) -> list[Result]:
        """What does not hold."""
        return [result for result in self.results if not result.ok]

    def lines(self) -> list[str]:
        """For people: a line per invariant, its evidence indented below."""
        lines = []
        for result in self.results:
            word = "BROKEN" if not result.ok else "-" if result.not_judged else "ok"
            lines.append(f"{word:<6} {result.name}: {result.sentence}")
            lines += [f"         not judged: {result.not_judged}"] if result.not_judged else []
            lines += [f"         {text}" for text in result.evidence]
        return lines


def result_of(name: str, sentence: str, evidence: list[str], title: str = "", not_judged: str = "") -> Result:
    """A result from what was found; nothing found means that it holds, unless it could not be judged."""
    shown = evidence[:EVIDENCE_MAX]
    if len(evidence) > EVIDENCE_MAX:
        shown.append(f"and {len(evidence) - EVIDENCE_MAX} more")
    return Result(name, sentence, not evidence, tuple(shown), title, "" if evidence else not_judged)
