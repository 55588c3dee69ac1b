"""`berth audit` and `berth replay-decision`: plans made again from what recorder has kept."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.recorded.auditing import Audit, Verdict
from berth.cli.recorded.segments import Head, Segment, heads, since
from berth.cli.recorded.times import told
from berth.contracts import buckets
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Decision, Plan
from berth.recording.records import Entered

SHOWN_MAX: Final = 20
"""Plans that are listed one by one."""


def verdicts(listed: Sequence[Head], wanted: Callable[[Plan, float], bool]) -> Iterator[Verdict]:
    """Every plan that is wanted, made again. A torn end is told of on standard error. Raises CliError."""
    audit = Audit(wanted)
    for head in listed:
        segment = Segment(head.path)
        yield from audit.over(segment.records())
        if segment.is_torn:
            print(f"{head.path}: its end is broken, and left out", file=sys.stderr)
    yield from audit.end()


def audit(folder: Path, since_s: float, *, as_json: bool) -> int:
    """Make every plan again that was committed since; EXIT_BAD when one comes out otherwise."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    decisions = 0
    different: list[Verdict] = []
    digest = hashlib.blake2b(digest_size=16)
    for each in verdicts(since(heads(folder), since_s), lambda _, stored_s: stored_s >= since_s):
        counts[each.outcome] += 1
        if each.outcome == "same":
            decisions += len(each.decisions)
            for decision in each.decisions:
                digest.update(encode(decision))
        elif each.outcome == "different":
            different.append(each)
        else:
            reasons.update(each.about)
    if as_json:
        _print_json(
            {
                "since": told(since_s),
                "same": counts["same"],
                "decisions": decisions,
                "digest": digest.hexdigest(),
                "different": [_json(each) for each in different],
                "not_replayable": dict(reasons.most_common()),
            }
        )
    else:
        print("\n".join(_summary(since_s, counts, decisions, digest.hexdigest(), different, reasons)))
    return EXIT_BAD if different else EXIT_OK


def replay_decision(folder: Path, about: str, *, as_json: bool) -> int:
    """Make one plan again; EXIT_BAD when it comes out otherwise, or cannot be made."""
    plan, number = _plan_of(heads(folder), about)
    listed = heads(folder)
    first = number - 1 if number and listed[number - 1].began.run == listed[number].began.run else number
    found = next((each for each in verdicts(listed[first:], lambda entry, _: entry.id == plan)), None)
    if found is None:
        raise CliError(f"plan {plan} was not committed by what is recorded", EXIT_BAD)
    if as_json:
        _print_json(_json(found))
    else:
        print("\n".join(_lines(found)))
    return EXIT_OK if found.outcome == "same" else EXIT_BAD


def _plan_of(listed: Sequence[Head], about: str) -> tuple[str, int]:
    """The plan of an id or of a pod's newest decision, and the number of the segment that it was recorded in."""
    name = tuple(about.split("/", 1)) if "/" in about else ("default", about)
    found: tuple[str, int] | None = None
    for number, head in enumerate(listed):
        for record in Segment(head.path).records():
            if not isinstance(record, Entered) or record.bucket != buckets.LEDGER or record.deleted:
                continue
            if record.key.endswith(f".plan.{about}"):
                return about, number
            if ".decision." in record.key and name[1].encode() in record.value:
                try:
                    decision = decode(record.value, Decision)
                except InvalidMessage:
                    continue
                if (decision.namespace, decision.name) == name and (found is None or found[0] != decision.plan):
                    found = decision.plan, number
    if found is None:
        raise CliError(f"nothing is recorded of a plan or pod {about!r}", EXIT_BAD)
    return found


def _summary(
    since_s: float,
    counts: Counter[str],
    decisions: int,
    digest: str,
    different: Sequence[Verdict],
    reasons: Counter[str],
) -> Iterator[str]:
    yield f"{sum(counts.values())} plans since {told(since_s)}"
    yield f"  {counts['same']} same, byte for byte: {decisions} decisions, digest {digest}"
    yield f"  {counts['different']} different"
    for each in different[:SHOWN_MAX]:
        yield from (f"    {line}" for line in _lines(each))
    if len(different) > SHOWN_MAX:
        yield f"    and {len(different) - SHOWN_MAX} more"
    yield f"  {counts['not replayable']} not replayable"
    yield from (f"    {count}: {reason}" for reason, count in reasons.most_common())


def _lines(verdict: Verdict) -> Iterator[str]:
    kind = f" ({verdict.kind})" if verdict.kind not in ("", "batch") else ""
    about = (
        f"plan {verdict.plan}{kind} of {verdict.solver}, {told(verdict.stored_s)}, {len(verdict.decisions)} decisions"
    )
    yield f"{about}: {verdict.outcome}"
    yield from (f"  {each}" for each in verdict.about)
    if verdict.outcome == "same":
        for each in verdict.decisions[:SHOWN_MAX]:
            yield f"  {'/'.join(filter(None, (each.namespace, each.name)))} to {each.node or 'nowhere'}"


def _json(verdict: Verdict) -> dict[str, Any]:
    return {
        "plan": verdict.plan,
        "solver": verdict.solver,
        "stored": told(verdict.stored_s),
        "kind": verdict.kind,
        "outcome": verdict.outcome,
        "about": list(verdict.about),
        "decisions": [msgspec.to_builtins(each) for each in verdict.decisions],
    }


def _print_json(value: object) -> None:
    print(msgspec.json.encode(value).decode())
