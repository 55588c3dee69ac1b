"""From one look after another to the message: what is known, what is left out, what best-effort pods may use."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.base import Problem
from berth.contracts.metrics import BestEffortCpu, GroupPressure, Pressure, Usage
from berth.node_qos_enforcer.core.cgroup_files import Bandwidth
from berth.node_qos_enforcer.core.measure import MAX_PROBLEMS, Meter
from berth.node_qos_enforcer.core.node_facts import NodeFacts
from berth.node_qos_enforcer.core.plan import Held
from berth.node_qos_enforcer.core.pressure import Stall, StallPair
from berth.node_qos_enforcer.core.proc import MemInfo
from berth.node_qos_enforcer.core.sample import ApplicationSample, GroupSample, NodeSample, PodSample
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.core.usage import Reading
from berth.rules.load_aware.agent_report import read_agent_report
from berth.slo_manager.core.mirror import status_of

SECOND = 1_000_000_000
MIB = 1 << 20


def group(cores_s: float, at: float, memory=0, incarnation=1) -> GroupSample:
    return GroupSample(cpu=Reading(int(cores_s * SECOND), at, incarnation), memory_bytes=memory)


def sample(at: float, *, node: float | None, pods=(), groups=None, **more) -> NodeSample:
    """One look at `at` seconds, with counters in core-seconds: pods are (uid, class, core-seconds, memory)."""
    return NodeSample(
        cpu=None if node is None else Reading(int(node * SECOND), at),
        memory=MemInfo(1000 * MIB, 300 * MIB, 600 * MIB),
        online_cpus=8,
        cgroup_version=2,
        driver="systemd",
        pods=tuple(PodSample(uid=uid, kube_qos=qos, group=group(used, at, memory)) for uid, qos, used, memory in pods),
        groups={qos: group(used, at, memory) for qos, (used, memory) in (groups or {}).items()},
        **more,
    )


def measure(meter, look, **more):
    more = {"strategy": Strategy(), "now": 1_000.0, **more}
    return meter.measure(look, **more)


def test_first_look_has_no_usage_and_says_so():
    got = measure(Meter("n", max_gap_s=20), sample(0, node=5, pods=[("a", "Burstable", 1, 7)])).metrics
    assert got.interval_s == 0.0
    assert got.pods == []
    assert got.suppress_cpu_milli == -1
    assert [problem.field for problem in got.problems] == ["interval_s"]
    assert got.node_usage == Usage(cpu_milli=0, memory_bytes=400 * MIB)


def test_second_look_measures_node_classes_and_pods():
    meter = Meter("n", max_gap_s=20)
    groups = {"Guaranteed": (0, 0), "Burstable": (0, 0), "BestEffort": (0, 0)}
    pods = [("b", "BestEffort", 0, 0), ("a", "Guaranteed", 0, 0)]
    measure(meter, sample(0, node=0, pods=pods, groups=groups))
    groups = {"Guaranteed": (30, 30 * MIB), "Burstable": (8, 8 * MIB), "BestEffort": (12, 12 * MIB)}
    pods = [("b", "BestEffort", 12, 12 * MIB), ("a", "Guaranteed", 9.5, 10 * MIB)]
    got = measure(meter, sample(10, node=40, pods=pods, groups=groups)).metrics
    assert got.interval_s == 10.0
    assert got.problems == []
    assert got.node_usage == Usage(cpu_milli=4_000, memory_bytes=400 * MIB)
    assert got.system_usage == Usage(cpu_milli=4_000 - 2_150, memory_bytes=378 * MIB)
    assert got.by_qos == {
        "besteffort": Usage(cpu_milli=1_200, memory_bytes=12 * MIB),
        "burstable": Usage(cpu_milli=800, memory_bytes=8 * MIB),
        "guaranteed": Usage(cpu_milli=1_000, memory_bytes=10 * MIB),
    }
    assert [(pod.uid, pod.qos, pod.usage.cpu_milli) for pod in got.pods] == [
        ("a", "guaranteed", 950),
        ("b", "besteffort", 1_200),
    ]


def test_target_leaves_out_best_effort_use():
    meter = Meter("n", max_gap_s=20)
    pods = [("ls", "Burstable", 0, 0), ("be", "BestEffort", 0, 0)]
    measure(meter, sample(0, node=0, pods=pods))
    pods = [("ls", "Burstable", 20, 0), ("be", "BestEffort", 10, 0)]
    got = measure(meter, sample(10, node=35, pods=pods))
    # 8 cores * 65 % - 2 (the service) - 0.5 (system)
    assert got.target.target_milli == got.metrics.suppress_cpu_milli == 2_700


def test_cluster_facts_count_over_the_machine():
    meter = Meter("n", max_gap_s=20)
    facts = NodeFacts(capacity_milli=10_000, allocatable_milli=9_000, annotation_reserved_milli=2_000)
    pods = [("ls", "Burstable", 0, 0)]
    measure(meter, sample(0, node=0, pods=pods), facts=facts)
    pods = [("ls", "Burstable", 10, 0)]
    got = measure(meter, sample(10, node=10, pods=pods), facts=facts, strategy=Strategy(threshold_percent=50))
    assert got.metrics.cpu_total_milli == 10_000
    assert got.target.target_milli == 5_000 - 1_000 - 2_000


def test_negative_target_is_published_as_nothing_to_use():
    meter = Meter("n", max_gap_s=20)
    measure(meter, sample(0, node=0, pods=[("ls", "Burstable", 0, 0)]))
    got = measure(meter, sample(10, node=80, pods=[("ls", "Burstable", 79, 0)]))
    assert got.target.target_milli < 0
    assert got.metrics.suppress_cpu_milli == 0
    floored = measure(
        meter, sample(20, node=160, pods=[("ls", "Burstable", 158, 0)]), strategy=Strategy(min_percent=10)
    )
    assert floored.metrics.suppress_cpu_milli == 800


def test_without_pods_there_is_no_target():
    meter = Meter("n", max_gap_s=20)
    measure(meter, sample(0, node=0))
    got = measure(meter, sample(10, node=10))
    assert (got.target, got.metrics.suppress_cpu_milli) == (None, -1)
    assert "no pods" in got.skipped


def test_a_new_pod_is_left_out_until_it_is_known():
    meter = Meter("n", max_gap_s=20)
    measure(meter, sample(0, node=0, pods=[("old", "Burstable", 5, 0)]))
    got = measure(meter, sample(10, node=10, pods=[("old", "Burstable", 6, 0), ("new", "Burstable", 4, 0)])).metrics
    assert [pod.uid for pod in got.pods] == ["old"]
    assert got.system_usage.cpu_milli == 900
    got = measure(meter, sample(20, node=20, pods=[("old", "Burstable", 7, 0), ("new", "Burstable", 5, 0)])).metrics
    assert [pod.uid for pod in got.pods] == ["new", "old"]


def test_a_pod_that_was_away_begins_anew():
    meter = Meter("n", max_gap_s=60)
    pod = ("p", "Burstable", 5, 0)
    for at, pods in ((0, [pod]), (10, []), (20, [pod])):
        got = measure(meter, sample(at, node=at, pods=pods)).metrics
        assert got.pods == []


def test_a_pause_longer_than_allowed_costs_a_round():
    meter = Meter("n", max_gap_s=20)
    measure(meter, sample(0, node=0))
    assert measure(meter, sample(30, node=30)).metrics.interval_s == 0.0
    assert measure(meter, sample(40, node=40)).metrics.interval_s == 10.0


def test_a_node_without_counters_still_reports_memory():
    got = measure(Meter("n", max_gap_s=20), sample(0, node=None)).metrics
    assert got.node_usage.memory_bytes == 400 * MIB
    assert got.interval_s == 0.0


def test_next_quota_follows_the_target():
    meter = Meter("n", max_gap_s=20)
    pods = [("ls", "Burstable", 0, 0)]
    more = {"best_effort": Held(Bandwidth(-1, 100_000), frozenset({0, 1}), frozenset({0, 1}))}
    rule = {"strategy": Strategy(enabled=True, policy="cfsQuota"), "enforced": True}
    first = measure(meter, sample(0, node=0, pods=pods, **more), **rule)
    assert first.plan == (None, None, "node CPU usage is not known yet")
    pods = [("ls", "Burstable", 20, 0)]
    got = measure(meter, sample(10, node=20, pods=pods, **more), **rule)
    assert got.plan.quota_us == got.target.target_milli * 100
    assert got.metrics.best_effort == BestEffortCpu(
        policy="cfsQuota", enforced=True, quota_us=-1, cpus="0-1", next_quota_us=got.plan.quota_us
    )


def test_a_machine_without_kubelet_says_nothing_of_best_effort():
    got = measure(Meter("n", max_gap_s=20), replace(sample(0, node=0), driver=None)).metrics
    assert got.best_effort is None


def test_pressure_of_groups_is_told_by_group():
    pair = StallPair(Stall(1.0, 2.0, 3.0, 4), Stall(0.5, 0.25, 0.0, 1))
    groups = {"Guaranteed": GroupSample(), "BestEffort": GroupSample(pressure={"cpu": pair})}
    got = measure(Meter("n", max_gap_s=20), replace(sample(0, node=0), groups=groups)).metrics
    told = Pressure(some_avg10=1.0, some_avg60=2.0, full_avg10=0.5, full_avg60=0.25)
    assert got.pressure_by_group == {"besteffort": GroupPressure(cpu=told)}


def test_pressure_is_carried_over():
    pair = StallPair(Stall(1.0, 2.0, 3.0, 4), None)
    got = measure(Meter("n", max_gap_s=20), sample(0, node=0, pressure={"cpu": pair})).metrics
    assert (got.cpu_pressure.some_avg10, got.cpu_pressure.some_avg60, got.cpu_pressure.full_avg10) == (1.0, 2.0, 0.0)
    assert got.memory_pressure is None


def test_problems_are_bounded():
    problems = tuple(Problem(field=str(index), message="x") for index in range(200))
    got = measure(Meter("n", max_gap_s=20), sample(0, node=0, problems=problems)).metrics
    assert len(got.problems) == MAX_PROBLEMS


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),
            st.one_of(st.none(), st.floats(0, 2e9)),
            st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 2e9)), unique_by=lambda pod: pod[0], max_size=3),
        ),
        max_size=8,
    ),
    st.integers(0, 100),
)
def test_no_sequence_of_counters_breaks_the_meter(looks, threshold):
    meter = Meter("n", max_gap_s=20)
    for at, node, pods in looks:
        pods = [(uid, "Burstable", used, 0) for uid, used in pods]
        got = measure(meter, sample(at, node=node, pods=pods), strategy=Strategy(threshold_percent=threshold)).metrics
        assert 0 <= got.node_usage.cpu_milli <= 16_000
        assert got.system_usage.cpu_milli <= got.node_usage.cpu_milli
        assert -1 <= got.suppress_cpu_milli <= 8_000
        assert all(0 <= pod.usage.cpu_milli <= 16_000 for pod in got.pods)


@pytest.mark.parametrize("threshold", [0, 65, 100])
def test_same_looks_give_the_same_message(threshold):
    def once():
        meter = Meter("n", max_gap_s=20)
        measure(meter, sample(0, node=0, pods=[("a", "Burstable", 0, 0)]))
        look = sample(10, node=30, pods=[("a", "Burstable", 20, 5)])
        return measure(meter, look, strategy=Strategy(threshold_percent=threshold))

    assert once() == once()


def test_applications_outside_of_pods_are_rows_of_their_own():
    meter = Meter("n", max_gap_s=20.0)

    def sample(at, node_s, web_s):
        web = GroupSample(cpu=Reading(int(web_s * 1e9), at), memory_bytes=3 << 30)
        one = ApplicationSample(name="web", is_best_effort=False, group=web, qos="LS", priority_class="koord-prod")
        gone = ApplicationSample(name="gone", is_best_effort=False, group=GroupSample())
        memory = MemInfo(16 << 30, 8 << 30, 8 << 30)
        cpu = Reading(int(node_s * 1e9), at)
        return NodeSample(cpu=cpu, memory=memory, online_cpus=8, applications=(one, gone))

    meter.measure(sample(0.0, 0.0, 0.0), now=0.0, strategy=Strategy())
    found = meter.measure(sample(10.0, 40.0, 15.0), now=10.0, strategy=Strategy()).metrics
    (row,) = found.host_applications
    assert (row.name, row.qos, row.priority_class) == ("web", "LS", "koord-prod")
    assert row.usage == Usage(cpu_milli=1500, memory_bytes=3 << 30)
    assert found.system_usage == Usage(cpu_milli=2500, memory_bytes=5 << 30)
    metric, problems = read_agent_report(found, 100.0)
    assert problems == ()
    (told,) = metric.host_applications
    assert (told.priority_class, told.usage) == ("koord-prod", {"cpu": 1500, "memory": 3 << 30})
    (shown,) = status_of(metric, ())["hostApplicationMetric"]
    assert (shown["name"], shown["priority"], shown["qos"]) == ("web", "koord-prod", "LS")
