"""One control plane for all files of this folder, and a corner of it for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.e2e.clusters import KINDS, REAL, cluster_of, skip_without_binaries
from tests.e2e.corner import Corner
from tests.e2e.whole import Whole, run_whole


@pytest.fixture(scope="package", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Against which API server the files run: each of them against both, all of them first against the one."""
    if request.param == REAL:
        skip_without_binaries()
    return str(request.param)


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def whole(kind: str) -> AsyncIterator[Whole]:
    with cluster_of(kind) as cluster:
        async with run_whole(cluster) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="package")
async def corner(whole: Whole) -> AsyncIterator[Corner]:
    async with whole.corner() as made:
        yield made
