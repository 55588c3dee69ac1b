"""One fault in the middle of a steady load: before, fault, recovery, after, quiet, and then every check.

Safety is checked at every change of a pod (`eyes`), and once more, with everything that must have come to its end, in
the quiet time: the invariants by name, an independent recount, pods neither bound nor told, decisions made twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.chaos.evidence import keep
from tests.chaos.excused import caught, newest_loss, was_there
from tests.chaos.field import Field
from tests.chaos.table import HANG_S, TABLE, Row
from tests.e2e.objects import DEVICES, NODES
from tests.e2e.recount import broken_gangs, over_capacity
from tests.e2e.waiting import until

from berth.cli.judge import judge

BEFORE_S = 3.0
ON_THE_WAY_S = 0.5
"""Probes sent so shortly before a fault may be caught by it, and count neither before nor during."""
AFTER_S = 2.5
QUIET_S = 60.0
POLL_S = 0.05
GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups"
DOUBLES = ("I1", "I5")
"""Invariants (with their letters) whose breach is something given or bound twice."""

Fault = Callable[[], Awaitable[float]]
"""Runs a fault to its end; returns the time of the loop from which recovery counts."""


async def run(
    field: Field,
    group: str,
    name: str,
    fault: Fault,
    *,
    bar_s: float | None = None,
    killed: str = "",
    ledger_lost: bool = False,
) -> None:
    """Run one fault, add its row to the table, and fail for what must not be.

    `killed`: the service that dies; it has recovered when it says that it is ready, too. `ledger_lost`: the ledger has
    lost something, so a decision may have been made again for a pod that shows none.
    """
    loop, load, eyes = asyncio.get_running_loop(), field.load, field.eyes
    row = Row(group=group, fault=name, bar_s=bar_s)
    eyes.doubled.clear()
    field.audit.clear()
    field.raised_ms.clear()
    field.log.decisions.clear()
    await _steady(field)
    begin = loop.time()
    await asyncio.sleep(BEFORE_S)
    start = loop.time()
    starts = field.process(killed).starts if killed else 0
    for process in field.whole.stack.processes.values():
        process.restarts = 0  # one kill after the other is no crash loop, which would be started later each time
    mark = await fault()
    row.recovered_s = await load.recovered(mark, HANG_S)
    if killed and row.recovered_s is not None:
        await until(lambda: field.is_ready(killed, starts), f"{killed} to be ready again", timeout_s=HANG_S)
        row.recovered_s = loop.time() - mark
    back = loop.time()
    await asyncio.sleep(AFTER_S)
    end = loop.time()
    await load.pause()
    paused = loop.time()
    left = await _quiet(field)
    row.settled_s, row.epochs = loop.time() - paused, len(field.raised_ms)
    row.p99_before_ms, row.p99_during_ms = load.p99_ms(begin, start - ON_THE_WAY_S), load.p99_ms(start, back)
    row.p99_after_ms = load.p99_ms(back, end)
    row.lost = len(left)
    row.evidence += [f"neither bound nor told: {await _said(field, pod)}" for pod in left[:5]]
    row.evidence += [await field.facts()] if left else []
    await _check(field, row, ledger_lost=ledger_lost)
    load.forget()
    TABLE.add(row)
    print("\n" + TABLE.lines()[-2], flush=True)
    if wrong := row.wrong():
        wrong.append(f"logs, and what each server of the bus holds: {await keep(field, name)}")
        pytest.fail("\n".join(wrong), pytrace=False)


async def _steady(field: Field) -> None:
    """Pods come in and probes are bound."""
    field.load.resume()
    since = asyncio.get_running_loop().time()
    assert await field.load.recovered(since, HANG_S) is not None, "no probe is bound before there is a fault"


async def _quiet(field: Field) -> list[str]:
    """What is still neither bound nor told when the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + QUIET_S
    while (left := field.load.unsettled()) and loop.time() < deadline:
        await asyncio.sleep(POLL_S)
    return left


async def _said(field: Field, pod: str) -> str:
    try:
        answer = await field.whole.why("default", pod)
    except AssertionError as error:
        return f"{pod}: {error}"
    return f"{pod}: the solver says {answer.outcome}: {answer.message}"


async def _check(field: Field, row: Row, *, ledger_lost: bool) -> None:
    whole = field.whole
    loss = await newest_loss(whole.bus, field.raised_ms) if ledger_lost else None
    pods, groups = await whole.items("/api/v1/pods"), await whole.items(GROUPS)
    gangs = caught(loss, pods, field.eyes.lives) if loss else set()
    report = await judge(field.api, whole.bus, excused_gangs=["/".join(gang) for gang in gangs])
    for result in report.broken:
        row.evidence += [f"{result.name}: {text}" for text in result.evidence]
        row.violations += 1
        row.doubled += len(result.evidence) if result.name.rstrip("abc") in DOUBLES else 0
    half = broken_gangs(pods, groups)
    said = [each for each in field.audit if loss is None or not was_there(each, loss)]
    row.excused = len(half.keys() & gangs) + len(field.audit) - len(said)
    recounted = [
        *over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods),
        *(text for gang, text in half.items() if gang not in gangs),
        *(f"the auditor says {each.promise} of {each.subject}: {each.evidence}" for each in said),
    ]
    rejected = await whole.counted("placement-solver", "berth_solver_rejected_plans_total")
    if rejected:
        recounted.append(f"the solver's verifier rejected {rejected:g} plans")
    row.violations += len(recounted)
    twice = [] if ledger_lost else _decided_twice(field)
    row.doubled += len(field.eyes.doubled) + len(twice)
    row.evidence += [*recounted, *field.eyes.doubled, *twice]


def _decided_twice(field: Field) -> list[str]:
    """Pods for which two plans that count were made under one attempt. A nomination is followed by a decision (E1)."""
    found = []
    for (_, attempt), committed in field.log.committed().items():
        decided = [each for each in committed if not each.nominates]
        plans = sorted({each.plan for each in decided})
        if len(plans) > 1:
            told = "; ".join(f"{plan}: {', '.join(field.log.story[plan])}" for plan in plans)
            found.append(f"{decided[0].namespace}/{decided[0].name} (attempt {attempt}) is decided by plans {told}")
    return found
