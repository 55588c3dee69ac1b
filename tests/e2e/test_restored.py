"""A cluster whose etcd is restored from a backup, as docs/operations.md says: Berth stopped, its bus emptied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.clusters import REAL, Real, cluster_of, skip_without_binaries
from tests.e2e.corner import Corner
from tests.e2e.objects import DEVICES, NODES, PODS, devices_of
from tests.e2e.recount import over_capacity
from tests.e2e.whole import run_whole

from berth.contracts import names

pytestmark = pytest.mark.e2e

GPU = {"cpu": "1", "nvidia.com/gpu": "1"}


@pytest.fixture
def cluster() -> Iterator[Real]:
    skip_without_binaries()
    with cluster_of(REAL) as running:
        assert isinstance(running, Real)
        yield running


async def test_versions_that_went_back(cluster: Real, tmp_path: Path) -> None:
    """What the backup has stays where it is; what came after it never was, and its capacity is free."""
    backup = tmp_path / "backup"
    async with run_whole(cluster) as whole:
        corner = Corner(whole, "tenant")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
        await whole.call("POST", "/api/v1/namespaces", namespace)
        await corner.node("a", cpu="4", gpus=3)
        quota = await corner.quota("q", {"cpu": "2"}, {"cpu": "2"})
        (kept,) = await corner.bound(await corner.pod("kept", GPU, labels={names.LABEL_QUOTA_NAME: quota}))
        await corner.pod("wide", {"cpu": "100m", "nvidia.com/gpu": "2"})
        await corner.bound("wide")
        await asyncio.to_thread(cluster.server.back_up, backup)
        await corner.delete_pod("wide")
        await corner.bound(await corner.pod("later", GPU, labels={names.LABEL_QUOTA_NAME: quota}), timeout_s=60)
        for number in range(40):  # so that it takes a while until versions are where they were
            await corner.pod(f"never-{number}", {"cpu": "100"})
        await corner.refused("never-39", "Insufficient cpu")
    await asyncio.to_thread(cluster.server.restore, backup)
    async with run_whole(cluster) as whole:
        corner = Corner(whole, "tenant")
        found = {pod["metadata"]["name"] for pod in await whole.items(PODS.format("tenant"))}
        assert found == {"kept", "wide"}
        assert devices_of(await corner.see("kept")) == devices_of(kept)
        await corner.pod("third", GPU)
        await corner.refused("third", "Insufficient")
        await corner.delete_pod("wide")
        (third,) = await corner.bound("third")
        assert devices_of(third)[0]["minor"] != devices_of(kept)[0]["minor"]
        await corner.bound(await corner.pod("paid", {"cpu": "1"}, labels={names.LABEL_QUOTA_NAME: quota}))
        await corner.pod("over", {"cpu": "1"}, labels={names.LABEL_QUOTA_NAME: quota})
        await corner.refused("over", f"quota {quota}")
        pods = await whole.items(PODS.format("tenant"))
        assert over_capacity(await whole.items(NODES), await whole.items(DEVICES), pods) == []
