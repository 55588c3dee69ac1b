"""A quota group that stays above its runtime gives back after a while, though nobody waits (monitorAllQuotas)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.clusters import cluster_of
from tests.e2e.corner import Corner
from tests.e2e.objects import QUOTAS, note
from tests.e2e.placement.test_preemption import budget, leaving_or_gone
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.contracts import names
from berth.rules.eviction_notes import noted_mark
from berth.rules.preemption import BY_QUOTA
from berth.transaction.revocations import name_of_group

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MONITORED = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: {names.SCHEDULER_NAME}
    pluginConfig:
      - {{name: ElasticQuota, args: {{monitorAllQuotas: true, delayEvictTime: 3s}}}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    file: Path = tmp_path_factory.mktemp("monitored") / "config.yaml"
    file.write_text(MONITORED)
    with cluster_of(kind) as cluster:
        async with run_whole(cluster, environment={"BERTH_SCHEDULER_CONFIG_FILE": str(file)}) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def corner(whole: Whole) -> AsyncIterator[Corner]:
    async with whole.corner() as made:
        yield made


async def test_a_group_that_is_over_its_runtime_gives_back(corner: Corner) -> None:
    """The least important pod that no budget protects leaves under the group's mark, once the max has sunk."""
    await corner.node("n", cpu="16")
    quota = await corner.quota("q", {"cpu": "0"}, {"cpu": "6"})
    labels = {names.LABEL_QUOTA_NAME: quota}
    await budget(corner, "kept")
    await corner.pod("kept", {"cpu": "2"}, labels={**labels, "app": "kept"})
    await corner.pod("stays", {"cpu": "1"}, labels=labels)
    await corner.pod("goes", {"cpu": "3"}, labels=labels)
    await corner.bound("kept", "stays", "goes")
    await corner.whole.patch(f"{QUOTAS.format(corner.namespace)}/{quota}", {"spec": {"max": {"cpu": "3"}}})

    async def marked() -> bool:
        try:
            pod = await corner.see("goes")
        except AssertionError:
            return True
        mark = noted_mark({names.ANNOTATION_EVICTED_FOR: note(pod, names.ANNOTATION_EVICTED_FOR) or ""})
        return mark is not None and (mark.uid, mark.reason) == (name_of_group("", quota)[1], BY_QUOTA)

    await until(marked, "the mark of the group")
    await until(lambda: leaving_or_gone(corner, "goes"), "the pod to leave")
    for name in ("kept", "stays"):
        assert "deletionTimestamp" not in (await corner.see(name))["metadata"]
