"""Berth on a whole real node: kubelet, containers, control groups, Services, DNS; installed, used, broken, removed.

One ordered story, because each part needs what the one before it made. It takes minutes; `-s` shows how far it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.cluster import displacing, inside, installing, leaving, placing, squeezing, storing, surviving
from tests.cluster.cluster import Cluster
from tests.cluster.listening import Outside

pytestmark = pytest.mark.cluster


@pytest.fixture
def outside(cluster: Cluster) -> Iterator[Outside]:
    with closing(Outside(cluster)) as found:
        yield found


def test_berth_on_a_whole_node(cluster: Cluster, outside: Outside) -> None:
    cluster.kubectl("create", "namespace", placing.HOME)
    before, node = leaving.settled(cluster), leaving.node_fields(cluster)

    cluster.report.section("Berth is installed")
    installing.load(cluster)
    installing.install(cluster)
    outside.start()

    cluster.report.section("A user's pods")
    placing.deployment(cluster, outside)
    placing.gang(cluster, outside)
    placing.quota(cluster, outside)
    placing.reservation(cluster, outside)
    storing.store(cluster, outside)

    cluster.report.section("A pod of high priority comes to the full node")
    displacing.displace(cluster, outside)

    cluster.report.section("Best-effort pods give way")
    squeezing.squeeze(cluster, outside)

    cluster.report.section("Everything is deleted once")
    surviving.survive(cluster, outside)

    cluster.report.section("Inside of the node")
    inside.look_inside(cluster, outside)

    cluster.report.section("Berth is removed")
    outside.close()
    leaving.leave(cluster, before, node)
