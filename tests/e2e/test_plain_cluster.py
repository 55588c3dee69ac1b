"""A cluster without any of the protocol's custom resources: plain pods are placed all the same, and when a kind is
installed later it is used from then on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.clusters import cluster_of
from tests.e2e.corner import Corner
from tests.e2e.whole import Whole, run_whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    nothing: Path = tmp_path_factory.mktemp("crds")
    with cluster_of(kind, custom_resources=False) as cluster:
        async with run_whole(cluster, sim_arguments=["--crds", str(nothing)]) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def corner(whole: Whole) -> AsyncIterator[Corner]:
    async with whole.corner() as made:
        yield made


async def test_plain_pods_are_placed(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="2")
    await corner.bound(await corner.pod("a", {"cpu": "1"}), await corner.pod("b", {"cpu": "1"}))
    await corner.pod("c", {"cpu": "1"})
    await corner.refused("c", "Insufficient cpu")


async def test_a_gang_by_annotations_needs_no_custom_resource(corner: Corner) -> None:
    await corner.node("n", cpu="2")
    notes = {names.ANNOTATION_GANG_NAME: "g", names.ANNOTATION_GANG_MIN: "2"}
    await corner.bound(*[await corner.pod(f"m{i}", {"cpu": "1"}, annotations=notes) for i in range(2)])


async def test_a_reservation_affinity_finds_nothing(corner: Corner) -> None:
    await corner.node("n")
    await corner.pod("p", annotations={names.ANNOTATION_RESERVATION_AFFINITY: '{"name": "r"}'})
    await corner.refused("p", "no reservations match")


async def test_a_quota_label_without_quotas_limits_nothing(corner: Corner) -> None:
    await corner.node("n")
    await corner.bound(await corner.pod("p", labels={names.LABEL_QUOTA_NAME: "nowhere"}))
