"""A best-effort pod is held back in its real control group while an online pod works, and let go again."""

from __future__ import annotations

import time

from tests.cluster import groups
from tests.cluster.cluster import Cluster
from tests.cluster.listening import Outside
from tests.cluster.node import NAME
from tests.cluster.placing import HOME, placed_by_berth

THRESHOLD_PERCENT = 65
MINIMUM_US = 2_000
"""The node agent leaves the group this much in any case."""
WATCH_S = 6.0
SETTLE_S = 6.0
"""Until the agent's figures of a pod that has just started are its own, and not of its start."""
SLACK_MILLI = 350
"""What an online pod's use may differ between the agent's second and ours."""
STRATEGIES = "/apis/slo.koordinator.sh/v1alpha1/nodeslos"


def squeeze(cluster: Cluster, outside: Outside) -> None:
    """Unlimited, held, held harder, let go; figures are read from the kernel, not from Berth."""
    cluster.apply("best-effort.yaml")
    (batch,) = cluster.until_running(HOME, "app=batch", 1)
    placed_by_berth([batch])
    assert batch["status"]["qosClass"] == "BestEffort"
    group = groups.pod_group(batch["metadata"]["uid"], "besteffort")
    assert groups.quota_us() == groups.UNLIMITED
    free = groups.watched(group, WATCH_S)
    cluster.report.step(f"best-effort pod: no limit, uses {free.cores:.2f} cores")

    cluster.apply("strategy.yaml")
    cluster.until(lambda: groups.quota_us() != groups.UNLIMITED, "a quota on the best-effort group")
    assert cluster.get(f"{STRATEGIES}/{NAME}"), "no NodeSLO was made"
    time.sleep(SETTLE_S)
    alone = groups.watched(group, WATCH_S)
    _within(alone)
    cluster.report.step(f"strategy of {THRESHOLD_PERCENT} %: {_told(alone)}")

    cluster.apply("online.yaml")
    (online,) = cluster.until_running(HOME, "app=online", 1)
    placed_by_berth([online])
    time.sleep(SETTLE_S)
    service = groups.pod_group(online["metadata"]["uid"], "burstable")
    told = _both(cluster, group, service)
    cluster.report.step(told)

    cluster.kubectl("delete", "pod", "online", "-n", HOME, "--wait=true")
    time.sleep(SETTLE_S)
    after = groups.watched(group, WATCH_S)
    _within(after)
    cluster.report.step(f"online pod gone: {_told(after)}")

    seen = outside.berth("status")
    assert NAME in seen.stdout, seen.stdout + seen.stderr
    cluster.call(
        "PATCH",
        "/api/v1/namespaces/berth-system/configmaps/slo-controller-config",
        {"data": {"resource-threshold-config": '{"clusterStrategy": {"enable": false}}'}},
    )
    cluster.until(lambda: groups.quota_us() == groups.UNLIMITED, "the best-effort group to be let go")
    again = groups.watched(group, WATCH_S)
    assert set(again.quotas_us) == {groups.UNLIMITED}
    assert again.throttled == 0
    cluster.report.step(f"strategy switched off: no limit, uses {again.cores:.2f} cores")
    cluster.kubectl("delete", "pod", "batch", "-n", HOME, "--wait=true")


def _both(cluster: Cluster, group: str, service: str) -> str:
    """Both pods over the same seconds. The quota leaves the group no more than the online pod lets it."""
    begun = groups.watched(service, WATCH_S / 2)
    held = groups.watched(group, WATCH_S)
    ended = groups.watched(service, WATCH_S / 2)
    _within(held)
    least = min(begun.cores, ended.cores)
    (node,) = cluster.items("/api/v1/nodes")
    limit_milli = int(node["status"]["capacity"]["cpu"]) * 10 * THRESHOLD_PERCENT
    left_us = max(int(limit_milli - least * 1000 + SLACK_MILLI) * 100, MINIMUM_US)
    assert max(held.quotas_us) <= left_us, f"quotas {held.quotas_us}, and the online pod leaves {left_us} us"
    assert held.throttled > 0, "the kernel never held the group back"
    return f"online pod uses {(begun.cores + ended.cores) / 2:.2f} cores beside it: {_told(held)}"


def _within(use: groups.Use) -> None:
    """The group has a limit, and the kernel keeps it."""
    assert groups.UNLIMITED not in use.quotas_us
    assert use.cores <= max(use.quotas_us) / 100_000 + 0.15, use


def _told(use: groups.Use) -> str:
    low, high = min(use.quotas_us) / 100_000, max(use.quotas_us) / 100_000
    between = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    return f"the group may use {between} cores, uses {use.cores:.2f}, held back {use.throttled} times in {WATCH_S:g} s"
