"""When a node's message is news."""

import pytest
from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.contracts.metrics import BestEffortCpu, HostApplicationUsage, NodeMetrics, PodUsage, Usage
from berth.node_qos_enforcer.core.pacing import is_news

GIB = 1 << 30
POD = PodUsage(uid="a", qos="burstable", usage=Usage(cpu_milli=1_000, memory_bytes=4 * GIB))
TOLD = NodeMetrics(
    node="n",
    measured_at=1.0,
    interval_s=10.0,
    cpu_total_milli=10_000,
    memory_total_bytes=100 * GIB,
    node_usage=Usage(cpu_milli=5_000, memory_bytes=50 * GIB),
    pods=[POD],
    host_applications=[HostApplicationUsage(name="web", usage=Usage(cpu_milli=500))],
    suppress_cpu_milli=2_000,
    strategies={"suppress": "1 values", "network": "off"},
    best_effort=BestEffortCpu(policy="cpuset", quota_us=5),
)


def used(cpu, memory=4 * GIB):
    return {"pods": [replace(POD, usage=Usage(cpu_milli=cpu, memory_bytes=memory))]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"measured_at": 9.0, "interval_s": 9.0}, False),
        ({"node_usage": Usage(cpu_milli=5_499, memory_bytes=50 * GIB)}, False),
        ({"node_usage": Usage(cpu_milli=5_500, memory_bytes=50 * GIB)}, True),
        ({"node_usage": Usage(cpu_milli=4_500, memory_bytes=50 * GIB)}, True),
        ({"node_usage": Usage(cpu_milli=5_000, memory_bytes=56 * GIB)}, True),
        (used(1_099), False),
        (used(1_100), True),
        (used(900), True),
        (used(1_000, 5 * GIB), True),
        (used(1_000, 4 * GIB + GIB // 2), False),  # more than a tenth, less than a hundredth of the node
        ({"pods": []}, True),
        ({"pods": [POD, replace(POD, uid="b")]}, True),
        ({"host_applications": [HostApplicationUsage(name="web", usage=Usage(cpu_milli=600))]}, True),
        ({"host_applications": []}, True),
        ({"suppress_cpu_milli": 2_100}, False),
        ({"suppress_cpu_milli": 1_700}, True),
        ({"suppress_cpu_milli": -1}, True),
        ({"prod_reclaimable": Usage(cpu_milli=1)}, True),
        ({"strategies": {"suppress": "2 values", "network": "off"}}, False),
        ({"strategies": {"suppress": "skipped: x", "network": "off"}}, True),
        ({"best_effort": BestEffortCpu(policy="cpuset", quota_us=9)}, False),
        ({"best_effort": BestEffortCpu(policy="cfsQuota", quota_us=5)}, True),
        ({"problems": [Problem(field="x", message="y")]}, True),
        ({"cpu_total_milli": 9_000}, True),
        ({"interval_s": 0.0}, True),
    ],
)
def test_what_is_news(change, expected):
    assert is_news(TOLD, replace(TOLD, **change), since_s=59.9, interval_s=60.0) is expected


def test_the_first_and_one_after_the_interval_are_news():
    assert is_news(None, TOLD, since_s=0.0, interval_s=60.0)
    assert is_news(TOLD, TOLD, since_s=60.0, interval_s=60.0)
    assert is_news(TOLD, TOLD, since_s=0.0, interval_s=0.0)
