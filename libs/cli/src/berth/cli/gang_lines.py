"""A gang in lines of text, and all of them as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from berth.cli.lines import reason_line
from berth.cli.output import columns, fitted, wrapped
from berth.contracts.gang_question import GangAnswer, GangView

SHOWN_MAX: Final = 16
"""So many members of a kind, domains or victims are listed for people; JSON has more."""
_INDENT: Final = 14


def table(answer: GangAnswer, columns_max: int) -> list[str]:
    """A line for each gang."""
    if not answer.gangs:
        return ["no gangs"]
    heading = ("GANG", "STATE", "BOUND", "WAITING", "ROUNDS", "DOMAIN", "WHY")
    rows = [
        (
            f"{view.namespace}/{view.name}",
            view.outcome,
            f"{_count(view, 'bound')}/{_minimum(view)}",
            str(_count(view, "waiting") + _count(view, "nominated")),
            str(view.rounds),
            view.domain or "-",
            _why(view),
        )
        for view in answer.gangs
    ]
    lines = [fitted(row, columns_max) for row in columns([heading, *rows], indent="")]
    return [*lines, f"and {answer.more} more"] if answer.more else lines


def drawn(view: GangView, columns_max: int) -> list[str]:
    """All of a gang."""
    lines = [f"gang/{view.namespace}/{view.name}  {view.outcome}"]
    facts = (
        ("size", f"{view.children} members, at least {_minimum(view)} start together"),
        ("settings", _settings(view)),
        ("group", ", ".join(view.group) if len(view.group) > 1 else ""),
        ("domain", view.domain),
        ("last round", f"{view.last_round_s:.0f} s ago, {view.rounds} in vain" if view.last_round_s >= 0 else ""),
        ("victims", _listed(view.victims, _count(view, "victims"))),
        ("leaves for", _listed(view.displaced_by, len(view.displaced_by))),
    )
    for what, text in facts:
        lines += _told(what, text, columns_max) if text else []
    for what, members in (("bound", view.bound), ("decided", view.decided), ("nominated", view.nominated)):
        lines += _members(what, members, _count(view, what), columns_max)
    for what, names in (("waiting", view.waiting), ("leaving", view.leaving)):
        lines += _members(what, dict.fromkeys(names, ""), _count(view, what), columns_max)
    if view.slots:
        lines += ["  slots", *(fitted(f"    {each}", columns_max) for each in view.slots)]
    for reason in view.reasons:
        lines += _told("because", reason_line(reason), columns_max)
    for problem in view.problems:
        lines += _told("problem", f"{problem.field}: {problem.message}", columns_max)
    for repair in dict.fromkeys(reason.repair for reason in view.reasons if reason.repair):
        lines += _told("repair", repair, columns_max)
    return lines


def _minimum(view: GangView) -> str:
    return "?" if view.minimum < 0 else str(view.minimum)


def _settings(view: GangView) -> str:
    if not view.source:
        return "none yet"
    begun = ", has begun" if view.has_begun else ""
    return f"{view.mode}, {view.match_policy}, waits {view.wait_s:.0f} s, by {view.source}{begun}"


def _why(view: GangView) -> str:
    if victims := _count(view, "victims"):
        return f"waits for {victims} to leave"
    if view.displaced_by:
        return "leaves for others"
    problem = next((f"{each.field}: {each.message}" for each in view.problems), "")
    return problem or next((reason_line(each) for each in view.reasons), "")


def _count(view: GangView, what: str) -> int:
    return view.counts.get(what, 0)


def _members(what: str, members: Mapping[str, str], count: int, columns_max: int) -> Iterator[str]:
    if not members:
        return
    yield f"  {what}"
    shown = [(name, node) for name, node in list(members.items())[:SHOWN_MAX]]
    yield from (fitted(row, columns_max) for row in columns(shown, indent="    "))
    if count > len(shown):
        yield f"    and {count - len(shown)} more"


def _listed(found: Sequence[str], count: int) -> str:
    more = f" and {count - SHOWN_MAX} more" if count > SHOWN_MAX else ""
    return ", ".join(found[:SHOWN_MAX]) + more


def _told(what: str, text: str, columns_max: int) -> list[str]:
    first, *rest = wrapped(text, indent=" " * _INDENT, width=columns_max)
    return [f"  {what:<12}{first[_INDENT:]}", *rest]
