"""The report: what was tried, the figures on arrivals that the search has seen and on others, the verdict and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import yaml

from berth.cli.output import columns
from berth.cli.tuning.measuring import SCORES, Gain
from berth.cli.tuning.search import Turn
from berth.cli.tuning.settings import PLUGIN, Settings, nested
from berth.cli.tuning.verdict import Compared, Verdict

WORDS: Final = {"held": "GPUs held on average", "placed": "asked GPUs placed", "whole": "asked whole nodes placed"}


class Report(NamedTuple):
    """Everything that was done. `repeat` are the options that do it again."""

    scheduler: str
    arrivals: dict[str, int]
    nodes: dict[str, int]
    about: Sequence[str]
    repeat: str
    orders: dict[str, int]
    turns: Sequence[Turn]
    played: int
    took_s: float
    settings: Settings
    seen: Compared | None
    unseen: Compared | None
    verdict: Verdict


def lines(report: Report) -> Iterator[str]:
    """For people."""
    arrivals, nodes = report.arrivals, report.nodes
    yield (
        f"profile of {report.scheduler}: {arrivals['seen']} arrivals seen by the search, "
        f"{arrivals['unseen']} later ones to judge by"
    )
    yield f"searched on {nodes['search']} of {nodes['all']} nodes, judged on {nodes['judged']}"
    yield from report.about
    yield ""
    rows = [
        (
            str(turn.number + 1),
            turn.block,
            str(turn.tried),
            ", ".join(f"{score} {gain:+.2f}" for score, gain in turn.gains.items()),
            "kept" if turn.is_kept else "-",
            _said(turn.change),
        )
        for turn in report.turns
    ]
    yield from columns([("TURN", "WHAT", "TRIED", "BEST", "", "CHANGE"), *rows], right=(0, 2))
    yield f"{report.played} runs in {report.took_s:.0f} s; the same again: {report.repeat}"
    for name, part in (("seen", report.seen), ("unseen", report.unseen)):
        if part is not None:
            yield ""
            yield from _table(name, part, report.orders[name])
    yield ""
    yield f"{'accepted' if report.verdict.is_accepted else 'not accepted'}: {report.verdict.why}"
    if report.verdict.is_accepted:
        yield "put this into the configuration of the profile:"
        yield from (f"  {line}" for line in entry(report.settings).splitlines())


def entry(settings: Settings) -> str:
    """The entry of `pluginConfig`, as YAML."""
    found: str = yaml.safe_dump(_entry(settings), sort_keys=False, default_flow_style=None, width=100)
    return found


def _entry(settings: Settings) -> list[dict[str, Any]]:
    return [{"name": PLUGIN, "args": {"nodeCost": nested(settings)}}]


def _table(name: str, part: Compared, orders: int) -> Iterator[str]:
    heading = (f"{name.upper()}, %", "BEFORE", "AFTER", "GAIN", "TWICE ITS ERROR")
    rows = [
        (
            _named(figure),
            _with_spread(part.before[figure]),
            _with_spread(part.after[figure]),
            f"{part.gains[figure].mean:+.2f}",
            f"{2.0 * part.gains[figure].error:.2f}",
        )
        for figure in part.before
    ]
    scores = [
        (f"score: {score}", "", "", f"{part.gains[score].mean:+.2f}", f"{2.0 * part.gains[score].error:.2f}")
        for score in SCORES
    ]
    yield from columns([heading, *rows, *scores], right=(1, 2, 3, 4))
    yield f"means of {orders} orders, which are the same for both, and their standard deviation"


def _named(figure: str) -> str:
    what, place, *kind = figure.split(".")
    if what == "fill":
        return f"filling, {place} % arrived"
    return f"departures, load {'.'.join([place, *kind[:-1]])}: {WORDS[kind[-1]]}"


def _with_spread(value: tuple[float, float]) -> str:
    return f"{value[0]:.2f} ± {value[1]:.2f}"


def _said(change: Settings) -> str:
    return ", ".join(f"{path} {_value(value)}" for path, value in change.items())


def _value(value: float | list[float]) -> str:
    return f"{value:g}" if isinstance(value, float) else "/".join(f"{each:g}" for each in value)


def as_json(report: Report) -> dict[str, Any]:
    """For programs."""
    return {
        "accepted": report.verdict.is_accepted,
        "why": report.verdict.why,
        "scheduler": report.scheduler,
        "settings": _entry(report.settings) if report.verdict.is_accepted else [],
        "found": nested(report.settings),
        "arrivals": report.arrivals,
        "nodes": report.nodes,
        "about": list(report.about),
        "orders": report.orders,
        "repeat": report.repeat,
        "runs": report.played,
        "took_s": round(report.took_s, 1),
        "turns": [
            {
                "turn": turn.number + 1,
                "what": turn.block,
                "tried": turn.tried,
                "gains": turn.gains,
                "kept": turn.is_kept,
                "change": nested(turn.change),
            }
            for turn in report.turns
        ],
        "seen": _compared(report.seen),
        "unseen": _compared(report.unseen),
    }


def _compared(part: Compared | None) -> dict[str, Any] | None:
    if part is None:
        return None
    return {
        "figures": {
            name: {
                "before": _spread(part.before[name]),
                "after": _spread(part.after[name]),
                "gain": _gain(part.gains[name]),
            }
            for name in part.before
        },
        "scores": {score: _gain(part.gains[score]) for score in SCORES},
    }


def _spread(value: tuple[float, float]) -> dict[str, float]:
    return {"mean": round(value[0], 4), "deviation": round(value[1], 4)}


def _gain(gain: Gain) -> dict[str, float]:
    return {"mean": round(gain.mean, 4), "error": round(gain.error, 4)}
