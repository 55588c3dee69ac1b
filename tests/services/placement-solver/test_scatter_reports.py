"""Running gangs whose labels change are told of, once, and once more when they lie together again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.services.worlds.solver.bench import Clock, Told

from berth.contracts import names
from berth.contracts.codec import decode
from berth.contracts.event import GangScattered
from berth.placement_solver.scatter_reports import ScatterReports
from berth.testing.builders import pod


def test_a_gang_that_is_scattered_is_told_of_once(solving: type[Any]) -> None:
    run, told = solving(), Told()
    run.network("rack")
    for name in ("n0", "n1"):
        run.node(name, cpu=1_000)
        run.lies(name, "r")
    run.complete()
    asked = json.dumps({"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]})
    run.pod_group("g", 2, annotations={names.ANNOTATION_GANG_TOPOLOGY: asked})
    members = [pod(f"p{at}").requests(cpu=1_000).gang("g") for at in range(2)]
    run.pods(members)
    run.round()
    for member in members:
        run.bind(member)
    reports = ScatterReports(run.cluster, told, Clock())

    def tell() -> list[tuple[dict[str, int], bool]]:
        told.messages.clear()
        asyncio.run(reports.tell())
        found = [decode(payload, GangScattered) for _, payload in told.messages]
        return [(each.domains, each.lasts) for each in found]

    assert tell() == []
    run.lies("n1", "s")
    assert tell() == [({"r": 1, "s": 1}, True)]
    assert tell() == []
    run.lies("n1", "r")
    assert tell() == [({}, False)]
