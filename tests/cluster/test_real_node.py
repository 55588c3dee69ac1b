"""Berth on a whole real node: kubelet, containers, control groups, Services, DNS; installed, used, broken, removed.

One ordered story, because each part needs what the one before it made. It takes minutes; `-s` shows how far it is.
BERTH_CLUSTER_ACTS names some of the acts, for who works on them: they run after an installation, and nothing is removed
in the end but the whole node.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from tests.cluster import (
    beside,
    displacing,
    holding,
    inside,
    installing,
    leaving,
    lending,
    placing,
    relieving,
    squeezing,
    storing,
    surviving,
)
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACTS as CHOSEN
from tests.cluster.listening import Outside

pytestmark = pytest.mark.cluster


@pytest.fixture
def outside(cluster: Cluster) -> Iterator[Outside]:
    with closing(Outside(cluster)) as found:
        yield found


def use(cluster: Cluster, outside: Outside) -> None:
    """What a user does with it."""
    placing.deployment(cluster, outside)
    placing.gang(cluster, outside)
    placing.quota(cluster, outside)
    placing.reservation(cluster, outside)
    storing.store(cluster, outside)


ACTS: dict[str, tuple[str, Callable[[Cluster, Outside], None]]] = {
    "use": ("A user's pods", use),
    "displace": ("A pod of high priority comes to the full node", displacing.displace),
    "lend": ("Batch pods where requests leave nothing", lending.lend),
    "squeeze": ("Best-effort pods give way", squeezing.squeeze),
    "relieve": ("The node runs short of memory", relieving.relieve),
    "survive": ("Everything is deleted once", surviving.survive),
    "hold": ("What the kernel holds pods to", holding.hold),
    "inside": ("Inside of the node", inside.look_inside),
}
MEASURED: dict[str, tuple[str, Callable[[Cluster, Outside], None]]] = {
    "beside": ("A service beside batch pods", beside.beside),
}
"""Only where they are named: they take minutes, and a machine that does nothing else."""


def test_berth_on_a_whole_node(cluster: Cluster, outside: Outside) -> None:
    chosen = os.environ.get(CHOSEN, "").split() or list(ACTS)
    cluster.kubectl("create", "namespace", placing.HOME)
    before, node = leaving.settled(cluster), leaving.node_fields(cluster)

    cluster.report.section("Berth is installed")
    installing.load(cluster)
    installing.install(cluster)
    outside.start()
    for name in chosen:
        title, act = (ACTS | MEASURED)[name]
        cluster.report.section(title)
        act(cluster, outside)
    if chosen != list(ACTS):
        return
    cluster.report.section("Berth is removed")
    outside.close()
    leaving.leave(cluster, before, node)
