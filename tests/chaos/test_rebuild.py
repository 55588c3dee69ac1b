"""The bus comes back empty under 1,000 nodes and 10,000 pods: all is made again from the API server, and equal."""

from __future__ import annotations

import pytest
from tests.chaos.table import TABLE, Row
from tests.e2e.rebuild import OnServer, Size, fill, lose_everything, release, still
from tests.e2e.whole import run_whole

from berth.cli.judge import judge
from berth.cli.load.api import Api
from berth.testing.nats_server import NatsServer

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

SIZE = Size(nodes=1_000, pods=10_000)
BAR_S = 60.0


async def test_everything_is_rebuilt_from_the_api() -> None:
    with NatsServer(config="max_payload: 2MB") as server:
        async with run_whole(OnServer(server), sim_arguments=["--no-running"]) as whole:
            await fill(whole, SIZE, within_s=400)
            before = await still(whole, within_s=60)
            rebuilt = await lose_everything(whole, server, before, within_s=3 * BAR_S)
            await release(whole, within_s=BAR_S)
            async with Api(whole.stack.kube_url) as api:
                report = await judge(api, whole.bus)
            evidence = [f"{result.name}: {text}" for result in report.broken for text in result.evidence]
            print(f"\n{rebuilt.entries} values and {rebuilt.bound} placements equal after {rebuilt.seconds:.1f} s")
            row = Row(
                group="F3",
                fault=f"empty bus, {SIZE.nodes} nodes, {SIZE.pods} pods: rebuilt equal",
                violations=len(report.broken),
                recovered_s=rebuilt.seconds,
                bar_s=BAR_S,
                evidence=evidence,
            )
            TABLE.add(row)
            assert row.wrong() == []
