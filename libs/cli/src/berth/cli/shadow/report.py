"""What a shadow shows, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from berth.cli.output import columns
from berth.cli.recorded.times import told
from berth.cli.shadow.comparing import Compared
from berth.cli.shadow.outcome import Side, figures, said, waits

SHOWN_MAX: Final = 10
"""Resources that are shown; JSON has all."""
COUNTED: Final = ("whole GPUs left", "nodes left with all GPUs", "idle GPUs of no use")
FIRST: Final = ("cpu allocated", "memory allocated", "GPUs allocated", *COUNTED)


def report(compared: Compared, profile: str) -> dict[str, Any]:
    """For programs."""
    differences, lives = compared.differences, compared.lives.of
    return {
        "profile": profile,
        "since": told(compared.since_s),
        "until": told(compared.until_s),
        "pods": compared.recorded.came,
        "messages_missed": compared.missed,
        "recorded": said(compared.recorded),
        "shadow": said(compared.shadow),
        "differ": {
            "decisions": differences.count,
            "another_node": len(differences.elsewhere),
            "placed_only_as_recorded": ["/".join(lives[uid].name) for uid in differences.only_recorded],
            "placed_only_by_the_shadow": ["/".join(lives[uid].name) for uid in differences.only_shadow],
        },
    }


def lines(compared: Compared, profile: str) -> Iterator[str]:
    """For people."""
    ours, theirs, differences = compared.recorded, compared.shadow, compared.differences
    since, until = told(compared.since_s), told(compared.until_s)
    yield f"{since} to {until}: {ours.came} pods came; the shadow goes by {profile}"
    if compared.missed:
        yield f"{compared.missed} messages were replaced before they were recorded: both sides lack them"
    yield ""
    rows = [(name, *(_cell(each, name) for each in (ours, theirs))) for name in _names(ours, theirs)]
    yield from columns([("", "RECORDED", "SHADOW"), *rows], right=(1, 2))
    yield ""
    placed = len(ours.nodes.keys() | theirs.nodes.keys())
    yield (
        f"{differences.count} of {placed} decisions differ: {len(differences.elsewhere)} pods on another node, "
        f"{len(differences.only_shadow)} placed by the shadow alone, {len(differences.only_recorded)} only as recorded"
    )


def _names(ours: Side, theirs: Side) -> list[str]:
    listed = figures(ours.packings) | figures(theirs.packings)
    taken = [
        name
        for name in listed
        if name not in FIRST and any(figures(each.packings).get(name) for each in (ours, theirs))
    ]
    reasons = sorted(ours.victims.keys() | theirs.victims.keys())
    return [
        "pods placed",
        "pods not placed",
        *(f"waited, {name}" for name in ("mean", "median", "p90", "p99", "longest")),
        *(name for name in FIRST if name in listed),
        *sorted(taken)[:SHOWN_MAX],
        "victims",
        *(f"victims, {reason or 'no reason told'}" for reason in reasons),
        *(("gone with their node",) if theirs.lost else ()),
    ]


def _cell(side: Side, name: str) -> str:
    if name == "pods placed":
        return str(len(side.nodes))
    if name == "pods not placed":
        return str(side.came - len(side.nodes))
    if name == "victims":
        return str(sum(side.victims.values()))
    if name == "gone with their node":
        return str(side.lost)
    kind, _, about = name.partition(", ")
    if kind == "victims":
        return str(side.victims["" if about == "no reason told" else about])
    if kind == "waited":
        found = waits(side)
        return _seconds(found[about]) if found else "-"
    value = figures(side.packings).get(name)
    if value is None:
        return "-"
    return f"{value:.1f}" if name in COUNTED else f"{value:.1%}"


def _seconds(value: float) -> str:
    if value < 60.0:
        return f"{value:.2f} s"
    return f"{value / 60.0:.1f} min" if value < 3600.0 else f"{value / 3600.0:.1f} h"
