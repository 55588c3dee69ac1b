"""`berth at`: the cluster as it was, as a solver saw it: nodes, quota, and who waited in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from berth.cli.errors import EXIT_OK, CliError
from berth.cli.output import columns
from berth.cli.recorded.segments import Head, Segment, heads, since
from berth.cli.recorded.tape import ORDER, Values, entry_of
from berth.cli.recorded.times import told
from berth.contracts import buckets, names
from berth.contracts.round import Ground
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.origins.remaking import Remaker
from berth.recording.grounds import Known
from berth.recording.recalled import Recalled
from berth.recording.records import AnyRecord, Began, Entered
from berth.resources.amounts import format_amount

SHOWN_MAX: Final = 50
"""Lines of each table; JSON has all."""
SOLVER: Final = "berth-at"
NO_GROUND: Final = Known(Ground(id="", schedulers=[names.SCHEDULER_NAME]), ())


class Moment(NamedTuple):
    """What was there. `newest_s` is when the newest message of it was stored, `began_s` since when all is recorded,
    `streams` the buckets that are. `ground` is what was told last of what solvers go by, `recalled` has all of
    those: what is told later may be told as a change of one of them."""

    values: Values
    ground: Known
    recalled: Recalled
    newest_s: float
    began_s: float
    streams: frozenset[str] = frozenset()


def moment_of(listed: Sequence[Head], at_s: float) -> Moment:
    """The values at a time. Raises CliError where that lies before everything that is recorded."""
    if at_s < listed[0].began.at_s:
        raise CliError(f"nothing is recorded of {told(at_s)}: it begins at {told(listed[0].began.at_s)}")
    run = [each for each in listed if each.began.at_s <= at_s][-1].began.run
    found, recalled, ground, newest_s = Values(), Recalled(), NO_GROUND, 0.0
    mine = [each for each in since(listed, at_s) if each.began.run == run]
    for record in _records(mine, at_s):
        if isinstance(record, Entered):
            if record.stored_s > at_s:
                continue
            found.put(record)
            newest_s = max(newest_s, record.stored_s)
        ground = recalled.take(record) or ground
    return Moment(found, ground, recalled, newest_s, mine[0].began.at_s, frozenset(mine[0].began.streams))


def _records(listed: Sequence[Head], at_s: float) -> Iterator[AnyRecord]:
    """Of the last checkpoint before a time, and of what came then."""
    first = max(at for at, each in enumerate(listed) if each.began.at_s <= at_s)
    for head in listed[first:]:
        for record in Segment(head.path).records():
            if isinstance(record, Began) and record.at_s > at_s:
                return
            yield record


def view_of(moment: Moment) -> ClusterView:
    """As a solver that is alone sees it."""
    remaker = Remaker(SOLVER, Known(moment.ground.ground, ()))
    for bucket in ORDER:
        for each in moment.values.of(bucket):
            remaker.read(bucket, entry_of(each))
        if bucket == buckets.STATE:
            remaker.end_of_state()
    remaker.end_of_state()
    return remaker.cluster


def at(folder: Path, at_s: float, *, as_json: bool) -> int:
    """Print it."""
    moment = moment_of(heads(folder), at_s)
    seen = _seen(view_of(moment))
    if as_json:
        told_of = {"at": told(at_s), "newest": told(moment.newest_s), **seen}
        print(msgspec.json.encode(told_of).decode())
    else:
        print("\n".join(_lines(at_s, moment, seen)))
    return EXIT_OK


def _seen(cluster: ClusterView) -> dict[str, list[dict[str, Any]]]:
    waiting = sorted(cluster.queue.waiting.values(), key=lambda each: each.order)
    return {
        "nodes": list(_nodes(cluster)),
        "quotas": [
            {
                "tree": tree,
                "name": name,
                "used": dict(cluster.quotas.used((tree, name))),
                "runtime": dict(group.runtime),
            }
            for (tree, name), group in sorted(cluster.quotas.groups.items())
        ],
        "waiting": [
            {
                "position": position,
                "name": "/".join(filter(None, each.name)),
                "priority": each.template.priority,
                "gang": each.group,
                "requests": dict(each.template.requests),
            }
            for position, each in enumerate(waiting, 1)
        ],
    }


def _nodes(cluster: ClusterView) -> Iterator[dict[str, Any]]:
    nodes = cluster.nodes
    shown = (names.CPU, names.MEMORY, names.PODS)
    for name in sorted(nodes.rows):
        row = nodes.rows[name]
        if not nodes.alive[row]:
            continue
        whole = {each: int(nodes.allocatable[nodes.columns[each], row]) for each in shown}
        free = {each: int(nodes.free[nodes.columns[each], row]) for each in shown}
        gpus = int(nodes.gpu_count[row])
        left = float(nodes.fleet.percent_sum[row]) / 100.0 if gpus else 0.0
        yield {
            "name": name,
            "used": {each: whole[each] - free[each] for each in shown},
            "allocatable": whole,
            "gpus": gpus,
            "gpus_used": round(gpus - left, 2),
        }


def _lines(at_s: float, moment: Moment, seen: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    nodes, quotas, waiting = seen["nodes"], seen["quotas"], seen["waiting"]
    newest = told(moment.newest_s)
    yield f"{told(at_s)}: {len(nodes)} nodes, {len(quotas)} quota groups, {len(waiting)} waiting; last message {newest}"
    heading = ("NODE", "CPU", "MEMORY", "PODS", "GPUS")
    yield from _table(
        heading,
        [
            (
                each["name"],
                *(_of(name, each["used"], each["allocatable"]) for name in (names.CPU, names.MEMORY, names.PODS)),
                f"{each['gpus_used']:g}/{each['gpus']}" if each["gpus"] else "-",
            )
            for each in nodes
        ],
    )
    yield from _table(
        ("QUOTA", "USED/RUNTIME"),
        [
            (
                "/".join(filter(None, (each["tree"], each["name"]))),
                ", ".join(f"{name} {_of(name, each['used'], each['runtime'])}" for name in sorted(each["runtime"])),
            )
            for each in quotas
        ],
    )
    yield from _table(
        ("POSITION", "WAITING", "PRIORITY", "GANG", "REQUESTS"),
        [
            (
                str(each["position"]),
                each["name"],
                str(each["priority"]),
                each["gang"] or "-",
                ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in sorted(each["requests"].items())),
            )
            for each in waiting
        ],
    )


def _of(name: str, used: dict[str, int], whole: dict[str, int]) -> str:
    return f"{format_amount(name, used.get(name, 0))}/{format_amount(name, whole.get(name, 0))}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    if not rows:
        return
    yield ""
    yield from columns([heading, *rows[:SHOWN_MAX]])
    if len(rows) > SHOWN_MAX:
        yield f"and {len(rows) - SHOWN_MAX} more"
