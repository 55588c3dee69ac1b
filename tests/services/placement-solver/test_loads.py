"""LoadAwareScheduling: reports from two sources, aged by the bus, and pods that no report has measured."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.libs.rules.load_aware.worlds import score_of

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.kube import OwnerReference
from berth.contracts.metrics import NodeMetrics, PodUsage, Usage, UsageWindow
from berth.contracts.question import WhyQuestion
from berth.contracts.state import NodeMetric
from berth.placement_solver.core.load_table import LoadQuery, LoadTable
from berth.placement_solver.core.seams import Spec
from berth.placement_solver.why import answer
from berth.rules.load_aware.capacity import capacity_of
from berth.rules.load_aware.existing import Existing, existing_of
from berth.rules.load_aware.filter import EXPIRED, Measured, too_busy
from berth.rules.load_aware.metric import Metric
from berth.rules.load_aware.pods import assigned_of, incoming_of
from berth.rules.load_aware.reports import ABANDONED_S, LoadReports
from berth.rules.load_aware.thresholds import thresholds_of
from berth.rules.scheduler_config import LoadAwareArgs
from berth.rules.scheduler_config.load_aware import AggregatedArgs
from berth.rules.times import text_of
from berth.testing.builders import GI, pod
from berth.transaction.claims import Claim

NAME = "LoadAwareScheduling"
NOW_S = 1_000_000.0
LONG_AGO = text_of(NOW_S - 10**5)


def listed(run: Any, *, decides: str = "native", **args: Any) -> Any:
    """A profile with the plugin, which looks at cpu alone unless told otherwise."""
    args.setdefault("usageThresholds", {"cpu": 50})
    run.configure(
        plugins={"multiPoint": {"enabled": [{"name": NAME}]}},
        pluginConfig=[{"name": NAME, "args": args}, {"name": "Berth", "args": {"decides": decides}}],
    )
    run.cluster.loads.tell_time(NOW_S)
    return run


@pytest.fixture
def run(solving: Any) -> Any:
    run = solving()
    for name in ("a", "b"):
        run.node(name, cpu=10_000)
    return run


def refused(run: Any, name: str = "p") -> list[str]:
    return [reason.message for reason in run.cluster.queue.waiting["default", name].reasons]


# --- off, on ----------------------------------------------------------------------------------------------------------


def test_a_profile_that_does_not_list_it_looks_at_no_load(run: Any) -> None:
    assert not run.cluster.looks_at_load
    for name in ("a", "b"):
        run.uses(name, NOW_S, cpu=9_900)
    run.pod(pod("p").requests(cpu=1000))
    assert len(run.round().placements) == 1


def test_a_busy_node_takes_no_pod_and_the_reason_is_told(run: Any) -> None:
    listed(run)
    assert run.cluster.looks_at_load
    run.uses("a", NOW_S, cpu=6_000)
    run.uses("b", NOW_S, cpu=1_000)
    run.pod(pod("p").requests(cpu=1000))
    assert run.nodes_of(run.round()) == {"p": "b"}
    run.uses("b", NOW_S, cpu=5_000)
    run.pod(pod("q").requests(cpu=1000))
    assert run.round().placements == ()
    (reason,) = run.cluster.queue.waiting["default", "q"].reasons
    assert (reason.code, reason.message, reason.nodes) == (NAME, "node(s) cpu usage exceed threshold", 2)
    assert "usageThresholds" in reason.repair


def test_what_is_there_counts_when_a_profile_begins_to_look(run: Any) -> None:
    run.pod(pod("there").requests(cpu=4000).on("a"))
    run.uses("a", NOW_S, cpu=2_000)
    run.uses("b", NOW_S, cpu=5_100)
    listed(run)
    run.pod(pod("p").requests(cpu=1000))
    assert run.round().placements == ()  # 2,000 measured, 3,400 and 850 estimated, of 10,000
    run.delete_pod("there")
    run.cluster.queue.wake(run.cluster.now + 60)
    run.cluster.now += 60
    assert run.nodes_of(run.round()) == {"p": "a"}


def test_pods_of_one_batch_count_with_their_estimates(run: Any) -> None:
    listed(run)
    for name in ("a", "b"):
        run.uses(name, NOW_S, cpu=2_000)
    run.pods(pod(f"p{at}").requests(cpu=1000) for at in range(10))
    solution = run.round()
    per_node = [each.claim.node for each in solution.placements]
    assert sorted(per_node) == ["a"] * 3 + ["b"] * 3  # 2,000 + 3 x 850 of 5,000
    assert len(solution.refusals) == 4


def test_a_daemon_set_goes_wherever_its_node_is(run: Any) -> None:
    listed(run)
    for name in ("a", "b"):
        run.uses(name, NOW_S, cpu=9_900)
    run.pod(pod("p").requests(cpu=100).set(owners=[OwnerReference(kind="DaemonSet", name="d", uid="d")]))
    assert len(run.round().placements) == 1


def test_scores_prefer_what_is_really_idle(run: Any) -> None:
    for decides in ("native", "kube-scheduler"):
        listed(run, decides=decides, usageThresholds={"cpu": 0})
        run.pod(pod(f"there-{decides}").requests(cpu=3000).on("b").set(scheduled=LONG_AGO))
        held = PodUsage(uid=f"uid-default-there-{decides}", qos="burstable", usage=Usage(cpu_milli=1))
        run.uses("a", NOW_S, cpu=9_000, memory=200 * GI)
        run.uses("b", NOW_S, cpu=100, pods=[held])
        run.configure(
            plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": NAME}]}},
            pluginConfig=[{"name": "Berth", "args": {"decides": "kube-scheduler"}}],
        )
        run.pod(pod(decides).requests(cpu=1000))
        assert run.nodes_of(run.round()) == {decides: "b"}


# --- reports ----------------------------------------------------------------------------------------------------------


def status(updated_s: float, cpu: str) -> dict[str, Any]:
    return {"updateTime": text_of(updated_s), "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu}}}}


def usage_of(run: Any, node: str) -> int | None:
    report = run.cluster.loads.reports.of(node)
    return None if report is None else (report.metric.node_usage or {}).get("cpu")


def test_metrics_go_before_node_metrics_until_their_agent_is_long_gone(run: Any) -> None:
    listed(run)
    run.reports("a", status(NOW_S, "6"))
    assert usage_of(run, "a") == 6_000
    run.uses("a", NOW_S, cpu=1_000)
    assert usage_of(run, "a") == 1_000
    run.cluster.loads.tell_time(NOW_S + ABANDONED_S + 1)
    run.reports("a", status(NOW_S + ABANDONED_S, "7"))
    assert usage_of(run, "a") == 1_000
    run.reports("a", status(NOW_S + ABANDONED_S + 1, "7"))
    assert usage_of(run, "a") == 7_000


def test_a_report_is_as_old_as_the_bus_says(run: Any) -> None:
    listed(run)
    run.uses("a", NOW_S, cpu=1_000, measured_at=5.0)
    run.uses("b", NOW_S, cpu=1_000, measured_at=NOW_S + 10**6)
    run.cluster.loads.tell_time(NOW_S + 179.0)
    run.pod(pod("p").requests(cpu=100))
    assert len(run.round().placements) == 1
    run.cluster.loads.tell_time(NOW_S + 180.0)
    run.pod(pod("q").requests(cpu=100))
    assert run.round().placements == ()
    assert refused(run, "q") == [EXPIRED]
    assert "node-qos-enforcer" in run.cluster.queue.waiting["default", "q"].reasons[0].repair


def test_expired_reports_may_be_no_obstacle(run: Any) -> None:
    listed(run, enableScheduleWhenNodeMetricsExpired=True)
    run.uses("a", NOW_S, cpu=9_900)
    run.uses("b", NOW_S, cpu=9_900)
    run.cluster.loads.tell_time(NOW_S + 200.0)
    run.pod(pod("p").requests(cpu=100))
    assert len(run.round().placements) == 1


def test_a_clock_that_was_set_back_is_believed_when_it_shows_the_present(run: Any) -> None:
    loads = run.cluster.loads
    loads.tell_time(NOW_S)
    loads.tell_time(NOW_S - 3600.0)
    loads.tell_time(NOW_S - 20.0, is_present=True)
    assert loads.now_s == NOW_S
    loads.tell_time(0.0, is_present=True)
    assert loads.now_s == NOW_S
    loads.tell_time(NOW_S - 3600.0, is_present=True)
    assert loads.now_s == NOW_S - 3600.0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"updateTime": text_of(NOW_S + 40)}, "status.updateTime"),
        ({"nodeMetric": {}}, "status.updateTime"),
        ({"updateTime": "soon"}, "status.updateTime"),
        ({"updateTime": text_of(NOW_S), "nodeMetric": 5}, "status"),
    ],
)
def test_a_node_metric_that_cannot_be_used_is_named_and_counted(run: Any, given: dict[str, Any], field: str) -> None:
    listed(run)
    run.reports("a", given)
    reports = run.cluster.loads.reports
    assert [problem.field for problem in reports.problems("a")] == [field]
    assert reports.refused == 1
    run.reports("a", status(NOW_S, "1"))
    assert reports.problems("a") == []
    run.reports("b", status(NOW_S, "1"))
    assert usage_of(run, "b") == 1_000


def test_messages_under_another_name_are_refused(run: Any) -> None:
    key = subjects.named_key("node", "a")
    other = encode(NodeMetrics(node="b", measured_at=0.0))
    with pytest.raises(InvalidMessage, match="node"):
        run.cluster.read_metrics(key, other, deleted=False, stored_s=NOW_S)
    key = subjects.named_key("nodemetric", "a")
    with pytest.raises(InvalidMessage, match="name"):
        run.cluster.read_node_metric(key, encode(NodeMetric(name="b", version=1)), deleted=False)


def test_an_agent_that_starts_anew_leaves_what_it_said_before(run: Any) -> None:
    listed(run)
    run.uses("a", NOW_S, cpu=6_000)
    run.uses("a", NOW_S + 1, cpu=0, interval_s=0.0)
    assert usage_of(run, "a") == 6_000


def test_what_is_deleted_or_read_anew_says_nothing(run: Any) -> None:
    listed(run)
    run.uses("a", NOW_S, cpu=9_000)
    run.reports("b", status(NOW_S, "9"))
    run.cluster.read_metrics(subjects.named_key("node", "a"), b"", deleted=True, stored_s=NOW_S)
    run.cluster.read_node_metric(subjects.named_key("nodemetric", "b"), b"", deleted=True)
    assert (usage_of(run, "a"), usage_of(run, "b")) == (None, None)
    run.uses("a", NOW_S, cpu=9_000)
    run.reports("b", status(NOW_S, "9"))
    run.cluster.reset_reports(agents=True)
    assert (usage_of(run, "a"), usage_of(run, "b")) == (None, 9_000)
    run.cluster.reset_reports(agents=False)
    assert usage_of(run, "b") is None
    run.pod(pod("p").requests(cpu=100))
    assert len(run.round().placements) == 1


def test_problems_of_one_source_do_not_hide_those_of_the_other() -> None:
    reports = LoadReports()
    negative = Usage(cpu_milli=-1)
    message = NodeMetrics(node="n", measured_at=0.0, interval_s=1.0, memory_total_bytes=1, node_usage=negative)
    reports.see_agent("n", message, NOW_S)
    reports.see_object("n", NodeMetric(name="n", version=1, status={"updateTime": "x"}), NOW_S)
    assert [problem.field for problem in reports.problems("n")] == ["node_usage", "status.updateTime"]
    reports.see_object("n", None, NOW_S)
    assert [problem.field for problem in reports.problems("n")] == ["node_usage"]


# --- who is woken -----------------------------------------------------------------------------------------------------


def test_a_refused_pod_is_tried_again_when_a_node_is_less_busy(run: Any) -> None:
    listed(run)
    for name in ("a", "b"):
        run.uses(name, NOW_S, cpu=8_000)
    run.pod(pod("p").requests(cpu=1000))
    assert run.round().placements == ()
    run.cluster.wake()
    run.uses("a", NOW_S + 1, cpu=9_000)
    run.uses("a", NOW_S + 2, cpu=7_000)
    assert not run.cluster.has_news  # it takes nobody, whatever the pod uses
    run.uses("a", NOW_S + 3, cpu=1_000)
    assert run.cluster.has_news
    run.cluster.wake()
    run.cluster.now += 30
    assert run.nodes_of(run.round()) == {"p": "a"}


def test_a_load_that_falls_wakes_nobody_who_waits_for_something_else(run: Any) -> None:
    listed(run)
    run.uses("a", NOW_S, cpu=8_000)
    run.pod(pod("p").requests(cpu=90_000))
    run.cluster.wake()
    assert run.round().placements == ()
    run.uses("a", NOW_S + 3, cpu=1_000)
    run.cluster.wake()
    run.cluster.now += 30
    assert not run.cluster.queue.has_ready(run.cluster.now)


def test_a_report_after_a_silence_wakes(run: Any) -> None:
    listed(run)
    run.uses("a", NOW_S, cpu=1_000)
    run.uses("b", NOW_S, cpu=9_000)
    run.cluster.loads.tell_time(NOW_S + 500)
    run.pod(pod("p").requests(cpu=1000))
    run.cluster.wake()
    assert run.round().placements == ()
    assert refused(run) == [EXPIRED]
    assert not run.cluster.has_news
    run.uses("a", NOW_S + 500, cpu=1_000)
    assert run.cluster.has_news


# --- what people are told ---------------------------------------------------------------------------------------------


def asked_of_node(run: Any, node: str) -> Any:
    return answer(run.cluster, WhyQuestion(kind="node", namespace="", name=node))


def test_people_see_what_a_node_uses_where_somebody_looks_at_it(run: Any) -> None:
    run.uses("a", NOW_S, cpu=6_000, memory=64 * GI)
    assert "load" not in asked_of_node(run, "a").facts
    listed(run)
    run.cluster.loads.tell_time(NOW_S + 12)
    assert asked_of_node(run, "a").facts["load"] == "cpu 6 (60 %), memory 64Gi (25 %) used, by METRICS, 12 s old"
    assert asked_of_node(run, "b").facts["load"] == "no report"
    run.reports("b", {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}}}})
    told = asked_of_node(run, "b")
    assert told.facts["load"] == "cpu 1 (10 %) used, by its NodeMetric, of no known time"
    assert [problem.field for problem in told.problems] == ["status.updateTime"]
    run.node("b", cpu=10_000, annotations={names.ANNOTATION_USAGE_THRESHOLDS: "x"})
    fields = [problem.field for problem in asked_of_node(run, "b").problems]
    assert f"metadata.annotations[{names.ANNOTATION_USAGE_THRESHOLDS}]" in fields


def test_people_are_told_which_nodes_are_too_busy(run: Any) -> None:
    listed(run)
    for node in ("a", "b"):
        run.uses(node, NOW_S, cpu=8_000)
    run.pod(pod("p").requests(cpu=1000))
    run.round()
    told = answer(run.cluster, WhyQuestion(namespace="default", name="p"))
    assert told.outcome == "refused"
    assert [(each.message, each.nodes) for each in told.reasons] == [("node(s) cpu usage exceed threshold", 2)]


# --- sums -------------------------------------------------------------------------------------------------------------

ARGS = LoadAwareArgs(
    usage_thresholds={"cpu": 60},
    prod_usage_thresholds={"memory": 70},
    prod_usage_include_sys=True,
    score_according_prod_usage=True,
    dominant_resource_weight=3,
    resource_weights={"cpu": 2, "memory": 1},
    estimated_seconds_after_pod_scheduled=100,
    allow_customize_estimation=True,
).completed()
BY_WINDOW = msgspec.structs.replace(
    ARGS,
    aggregated=AggregatedArgs(
        usage_thresholds={"cpu": 60},
        usage_aggregation_type="p95",
        usage_aggregated_duration="5m",
        score_aggregation_type="avg",
    ),
    filter_expired_node_metrics=False,
    supported_resources=("example.com/thing",),
)


def from_scratch(run: Any, args: LoadAwareArgs, row: int) -> Measured:
    """A node by the rules alone, from who is there."""
    cluster, node = run.cluster, run.cluster.nodes.states[row]
    report = cluster.loads.reports.of(node.name)
    metric = report.metric if report is not None else None
    pods = [
        assigned_of(args, report.key(each.claim.name, each.uid) if report else None, each.template, each.pod)
        for each in cluster.loads.on(row)
    ]
    return Measured(
        capacity_of(node.allocatable, node.annotations)[0],
        thresholds_of(args, node.annotations)[0],
        metric,
        existing_of(metric or Metric(None), pods) if pods else Existing({}, {}, {}, {}),
    )


happenings = st.lists(
    st.tuples(
        st.sampled_from(["metrics", "reports", "pod", "gone", "claim", "take back", "node", "time"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 3),
        st.integers(1, 90),
    ),
    min_size=3,
    max_size=30,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(happenings=happenings, priority=st.sampled_from([9500, 5500]), args=st.sampled_from([ARGS, BY_WINDOW]))
def test_what_is_kept_is_what_the_rules_say_from_scratch(
    solving: Any, happenings: list[Any], priority: int, args: LoadAwareArgs
) -> None:
    run = solving()
    run.cluster.loads.tell_time(NOW_S)
    for name in ("a", "b"):
        run.node(name, cpu=100)
    nodes, loads = run.cluster.nodes, run.cluster.loads
    table = LoadTable(nodes, loads, args)

    def asked(cpu: int, priority: int) -> LoadQuery:
        template = pod("w").requests(cpu=cpu).template(priority=priority).build(1).template
        return table.expected(Spec(("default", "w"), "default", "u", template))

    queries = [asked(cpu, each) for cpu in (1, 5, 20, 40) for each in (9500, 5500)]
    tried: list[Claim] = []
    for kind, node, number, cpu in happenings:
        builder = pod(f"p{number}").requests(cpu=cpu).template(priority=priority)
        if kind == "metrics":
            used = [PodUsage(uid=f"uid-default-p{at}", qos="", usage=Usage(cpu_milli=cpu // 4)) for at in range(number)]
            run.uses(
                node,
                loads.now_s,
                cpu=cpu,
                memory=cpu * GI // 100,
                pods=used,
                system_usage=Usage(cpu_milli=5),
                windows=[UsageWindow(duration_s=300 * number, p95=Usage(cpu_milli=cpu // 2))] if number else [],
            )
        elif kind == "reports":
            run.reports(node, status(loads.now_s - 50 * number, f"{cpu}m"))
        elif kind == "pod":
            run.pod(builder.on(node).set(scheduled=text_of(NOW_S - 40 * number)))
        elif kind == "gone":
            run.delete_pod(f"p{number}")
        elif kind == "claim":
            claim = Claim(("default", f"t{number}"), f"t{number}", node, {"cpu": cpu})
            run.cluster.capacity.apply(claim, 1)
            tried.append(claim)
        elif kind == "take back" and tried:
            run.cluster.capacity.apply(tried.pop(number % len(tried)), -1)
        elif kind == "node":
            text = f'{{"usageThresholds": {{"cpu": {cpu}, "example.com/thing": {number}}}}}'
            run.node(node, cpu=cpu, annotations={names.ANNOTATION_USAGE_THRESHOLDS: text} if number else {})
        elif kind == "time":
            loads.tell_time(loads.now_s + 60 * number)
        rows = np.array([nodes.rows["a"], nodes.rows["b"]], np.intp)
        for row, expected in [(row, from_scratch(run, args, row)) for row in rows.tolist()]:
            for query in queries:
                reason = too_busy(args, expected, query.incoming, loads.now_s)
                place = rows.tolist().index(row)
                assert table.reason(query, row) == reason
                assert table.admits(query, rows)[place] == (reason == "")
                assert [text for text, which in table.reasons(query, rows).items() if which[place]] == [reason][
                    : bool(reason)
                ]
                assert table.score(query, rows)[place] == score_of(args, expected, query.incoming, loads.now_s)
    while tried:
        run.cluster.capacity.apply(tried.pop(), -1)


def test_a_pod_that_says_something_else_counts_otherwise(run: Any) -> None:
    listed(run)
    run.uses("a", NOW_S, cpu=1_000)
    run.uses("b", NOW_S, cpu=9_000)
    there = pod("there").requests(cpu=1000).on("a")
    run.pod(there)
    table = LoadTable(run.cluster.nodes, run.cluster.loads, LoadAwareArgs().completed())
    table.expected(Spec(("", ""), "", "", there.build(1).template))
    row = run.cluster.nodes.rows["a"]

    def estimated() -> int:
        pods = [assigned_of(table.args, None, each.template, each.pod) for each in run.cluster.loads.on(row)]
        return existing_of(Metric(None), pods).estimated["cpu"]

    assert estimated() == 850
    run.pod(there.template(limits={"cpu": 4000}))
    assert estimated() == 3400


def test_estimates_of_nodes_with_thousands_of_resources_are_bounded(run: Any) -> None:
    listed(run, allowCustomizeEstimation=True)
    run.uses("a", NOW_S, cpu=1_000)
    text = msgspec.json.encode({f"r{at}": 1 for at in range(1000)}).decode()
    run.pod(pod("p").requests(cpu=1000).annotation(names.ANNOTATION_ESTIMATED_FACTORS, text))
    assert len(run.round().placements) == 1
    template = run.cluster.book.pods["default", "p"].template
    assert set(incoming_of(LoadAwareArgs(allow_customize_estimation=True).completed(), template).estimate) == {
        "cpu",
        "memory",
    }
