"""The bus comes back empty: a small cluster's state, quotas, reservations and open decisions are made again."""

from __future__ import annotations

import pytest
from tests.e2e.rebuild import OnServer, Size, fill, lose_everything, release, still
from tests.e2e.whole import run_whole

from berth.testing.nats_server import NatsServer

pytestmark = pytest.mark.e2e


async def test_everything_is_rebuilt_from_the_api() -> None:
    with NatsServer(config="max_payload: 2MB") as server:
        async with run_whole(OnServer(server), sim_arguments=["--no-running"]) as whole:
            await fill(whole, Size(nodes=20, pods=200), within_s=60)
            before = await still(whole, within_s=30)
            rebuilt = await lose_everything(whole, server, before, within_s=60)
            await release(whole, within_s=60)
            assert rebuilt.entries > 200
            print(f"{rebuilt.entries} values and {rebuilt.bound} placements are the same after {rebuilt.seconds:.1f} s")
