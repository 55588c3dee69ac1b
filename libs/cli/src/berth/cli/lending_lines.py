"""What a node lends and why, who leaves for its sake, and what its agent has written last, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from berth.cli.facts import ago
from berth.cli.output import columns, fitted, wrapped
from berth.contracts import names
from berth.contracts.node_audit import Departure, LendingAnswer, TrailAnswer
from berth.contracts.slo import NodeOffer, Offer
from berth.resources.amounts import format_amount, in_bytes

DEPARTURES_SHOWN: Final = 10
TRAIL_SHOWN: Final = 12
PATH_MAX: Final = 60
NARROW: Final = 60
WAITING: Final = "waiting"
CAPACITY: Final = "capacity"
WORDS: Final = {
    "endedPods": "ended pods",
    "thirdParties": "third parties",
    "floor": "below nothing",
    WAITING: "waiting for a second report",
}


def lending_lines(answer: LendingAnswer, columns_max: int) -> list[str]:
    """Everything that slo-manager says of a node; nothing where nothing is lent or asked for."""
    lines: list[str] = []
    if answer.offer is not None:
        lines += ["", *_offer(answer, answer.offer, columns_max)]
    if answer.departures:
        lines += ["", "  EVICTIONS", *_departures(answer, columns_max)]
    return lines


def trail_lines(trail: TrailAnswer) -> list[str]:
    """What the agent has written last."""
    if not trail.entries:
        return []
    rows = [
        (ago(each.at, trail.at), _tail(each.path), f"{_said(each.text, undone=each.undone)}{_times(each.times)}")
        for each in trail.entries[:TRAIL_SHOWN]
    ]
    left = len(trail.entries) - TRAIL_SHOWN
    more = [f"    and {left} more: --json has them"] if left > 0 else []
    return ["", "  WRITTEN LAST", *columns(rows, indent="    "), *more]


def _offer(answer: LendingAnswer, offer: NodeOffer, columns_max: int) -> Iterator[str]:
    about = [
        f"nothing: {offer.reason}" if offer.reason else f"revision {offer.revision}",
        f"strategy {offer.strategy}" if offer.strategy else "",
        f"{'its agent' if offer.reporter == 'agent' else offer.reporter} reported {ago(answer.reported_at, answer.at)}"
        if answer.reported_at and offer.reporter
        else "",
    ]
    yield f"  LENDS  {', '.join(filter(None, about))}"
    for name, each in offer.offers.items():
        shown = answer.shown.get(name, 0)
        notes = [_newest(name, each, answer.newest.get(name))]
        if shown != each.amount:
            notes.append(f"the node shows {_amount(name, shown)}")
        yield from _listed(_short(name), _sum(name, each), columns_max)
        for note in filter(None, notes):
            yield from _listed("", note, columns_max)
    written = {each.zone: each.amounts for each in offer.zones_written or ()}
    for zone in offer.zones:
        yield from _listed(f"zone {zone.zone}", _amounts(zone.amounts), columns_max)
        if zone.zone in written and written[zone.zone] != zone.amounts:
            yield from _listed("", f"its topology shows {_amounts(written[zone.zone])}", columns_max)
    if answer.strategies:
        text = ", ".join(f"{name} for {section}" for section, name in sorted(answer.strategies.items()))
        yield from _listed("by", text, columns_max)
    for problem in answer.problems:
        yield from _listed("problem", f"{problem.field}: {problem.message}", columns_max)


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{_short(name)} {_amount(name, amount)}" for name, amount in amounts.items())


def _newest(name: str, said: Offer, newest: Offer | None) -> str:
    """What the newest report comes to, where that is something else than what is offered."""
    if newest is None:
        return ""
    held = -newest.terms.get(WAITING, 0)
    if held <= 0:
        return "" if newest.amount == said.amount else f"{_amount(name, newest.amount)} by the newest report"
    whole = newest.amount + held
    return f"{_amount(name, whole)} by the newest report: {_amount(name, held)} of it waits for a second one"


def _sum(name: str, offer: Offer) -> str:
    """The amount with the terms that it is the sum of."""
    words = [f"{_amount(name, offer.amount)} ="]
    for at, (term, amount) in enumerate(offer.terms.items()):
        if at and not amount:
            continue
        sign = "-" if amount < 0 else "+" if at else ""
        words.append(f"{sign} {_amount(name, abs(amount))} {WORDS.get(term, term)}".strip())
    return " ".join(words)


def _amount(name: str, amount: int) -> str:
    """In cores, or in bytes of a unit that is easily read, with what is behind the point left out."""
    if not in_bytes(name):
        return format_amount(names.CPU, amount)
    unit = next((shift for shift in (30, 20) if amount >= 10 << shift), 0)
    return format_amount(names.MEMORY, amount >> unit << unit)


def _short(name: str) -> str:
    return name.removeprefix("kubernetes.io/")


def _departures(answer: LendingAnswer, columns_max: int) -> Iterator[str]:
    for each in answer.departures[:DEPARTURES_SHOWN]:
        yield from wrapped(f"{each.holder}  {_departure(each, answer.at)}", indent="    ", width=columns_max)
    left = len(answer.departures) - DEPARTURES_SHOWN
    if left > 0:
        yield f"    and {left} more: --json has them"


def _departure(departure: Departure, now: float) -> str:
    state = f"{departure.state} {ago(departure.at, now)}"
    if departure.left:
        state += f", left {ago(departure.left, now)}"
    why = departure.reason or departure.message
    return f"{state}  {departure.feature}{f': {why}' if why else ''}"


def _listed(what: str, text: str, columns_max: int) -> list[str]:
    """A text beside its title; below it on a narrow terminal."""
    if columns_max < NARROW:
        return [*([f"    {what}"] if what else []), *wrapped(text, indent="      ", width=columns_max)]
    title = f"    {what:<12}  "
    first, *rest = wrapped(text, indent=" " * len(title), width=columns_max)
    return [title + first.lstrip(), *rest]


def _said(text: str, *, undone: bool) -> str:
    """What was written, on one line."""
    line = " ".join(text.split())
    return f"given back {line}".rstrip() if undone else f"= {line}"


def _times(times: int) -> str:
    return f"  ({times} times)" if times > 1 else ""


def _tail(path: str) -> str:
    """The last steps of a path, which say most."""
    if len(path) <= PATH_MAX:
        return path
    end = path[1 - PATH_MAX :]
    return "…" + (end[end.find("/") :] if "/" in end else end)


def strategy_lines(strategies: Mapping[str, str], columns_max: int) -> list[str]:
    """How each strategy of the agent stands: what it holds, what it lacks, or that it is off."""
    rows = list(strategies.items())
    lines = columns(rows, indent="    ", gap="  ")
    found: list[str] = []
    for line, (name, words) in zip(lines, rows, strict=True):
        found += (
            [line] if len(line) <= columns_max else [f"    {name}", *wrapped(words, indent="      ", width=columns_max)]
        )
    return [fitted(line, columns_max) for line in found]
