"""The act of a node that lends: batch pods run on what is asked for and not used, and it comes back at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Final

from berth.cli.demo.scenario import NAMESPACE, Scenario
from berth.cli.demo.shop import BUSY, CORES, KEPT_PERCENT, NAME, QUIET, report
from berth.cli.demo.stage import Stage
from berth.contracts import names
from berth.resources.quantity import parse_units

NODE: Final = f"/api/v1/nodes/{NAME}"
METRIC: Final = f"/apis/slo.koordinator.sh/v1alpha1/nodemetrics/{NAME}"
REPORTS_MAX: Final = 29
REPORT_S: Final = 0.3


async def lent(stage: Stage, plot: Scenario) -> bool:
    """What a pod asks for and does not use is lent to a batch pod; what it uses again is not."""
    of = plot.shop
    await stage.create([of.node])
    (till,) = await stage.settled(await stage.create([of.till]))
    stage.tell("pod", "till", "placed" if till.node else "waiting", f"{till.node}, asks for nearly all of it")
    await stage.create([of.strategy, report(NAMESPACE, QUIET, 0)])
    minutes = count(1)
    lends = await _reported(stage, QUIET, minutes, lambda amount: amount > 0)
    facts = f"{lends / 1000:g} of {CORES} cores: {KEPT_PERCENT} % are kept, {QUIET} is in use"
    stage.tell("node", NAME, "lends" if lends else "lends nothing", facts)
    (early,) = await stage.settled(await stage.create([of.early]))
    stage.tell(
        "batch pod", "stocktake", "placed" if early.node else "waiting", f"{early.node}, on what till does not use"
    )
    less = await _reported(stage, BUSY, minutes, lambda amount: amount < lends)
    stage.tell("node", NAME, "lends less", f"{less / 1000:g} of {CORES} cores: {BUSY} are in use")
    (late,) = await stage.settled(await stage.create([of.late]))
    said = await stage.why("invoices")
    stage.tell("batch pod", "invoices", "placed" if late.node else "waits", late.node)
    stage.more("because", said.message if said else "no reason")
    return bool(till.node) and early.node == NAME and less < lends and not late.node and bool(said)


async def _reported(stage: Stage, cores: int, minutes: Iterator[int], is_meant: Callable[[int], bool]) -> int:
    """Report such a use until the node's status shows what is meant; what it lends then, in thousandths of a core. A
    rise waits for a second report."""
    lends = 0
    for minute in islice(minutes, REPORTS_MAX):
        metadata = (await stage.object(METRIC))["metadata"]
        await stage.change(f"{METRIC}/status", report(NAMESPACE, cores, minute) | {"metadata": metadata})
        await asyncio.sleep(REPORT_S)
        shown = (await stage.object(NODE))["status"]["allocatable"].get(names.BATCH_CPU, "0")
        lends = parse_units(shown)
        if is_meant(lends):
            break
    return lends
