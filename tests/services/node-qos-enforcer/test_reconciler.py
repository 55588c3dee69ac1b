"""The node's state in, looks out."""

import json

import pytest

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode, encode
from berth.contracts.metrics import NodeMetrics
from berth.contracts.slo import CpuSuppress, NodeSLO
from berth.node_qos_enforcer.core.measure import Meter
from berth.node_qos_enforcer.core.node_facts import UNKNOWN
from berth.node_qos_enforcer.core.strategy import Strategy
from berth.node_qos_enforcer.reconciler import Reconciler
from berth.node_qos_enforcer.sampler import take_sample
from berth.node_qos_enforcer.views import KnownNode, NodeView, StrategyView, node_key
from berth.rules.load_aware.agent_report import read_agent_report
from berth.rules.load_aware.metric import usage_of

KEY = node_key("n-1.example")


def entry(value: bytes, *, key=KEY, deleted=False) -> Entry:
    return Entry(key=key, value=value, deleted=deleted, sequence=1, pending=0, gap=False, traceparent=None)


def seen(cpu: int) -> bytes:
    return encode(state.Node(name="n-1.example", uid="u", version=1, capacity={"cpu": cpu}))


class Bucket:
    """Keeps what is put, as the bus would."""

    def __init__(self):
        self.puts = []

    def put(self, key, value, *, traceparent=None):
        self.puts.append((key, value))
        return True


def reporter(strategy: Strategy | None = None) -> Reconciler:
    known = KnownNode("n-1.example")
    known.strategies.strategy = strategy
    return Reconciler(known=known, bucket=Bucket(), meter=Meter(known.node, max_gap_s=20))


def look(one, machine, now):
    """One look, and what comes of it."""
    sample = take_sample(machine.trees, monotonic=machine.clock)
    return one.report(sample, now=now, now_s=machine.monotonic)


def test_view_takes_its_own_node_only():
    view = NodeView(KEY)
    view.apply(entry(seen(1_000), key="node.other"))
    assert view.facts == UNKNOWN
    view.apply(entry(seen(4_000)))
    assert view.facts.capacity_milli == 4_000
    view.apply(entry(b"", deleted=True))
    assert view.facts == UNKNOWN
    view.apply(entry(seen(4_000)))
    view.end(7)
    assert view.facts.capacity_milli == 4_000


def test_view_keeps_the_node_while_state_begins_anew():
    view = NodeView(KEY)
    view.apply(entry(seen(4_000)))
    view.reset()
    assert view.facts.capacity_milli == 4_000
    view.apply(entry(seen(1_000), key="node.other"))
    view.end(7)
    assert view.facts == UNKNOWN, "it is not there any more"


def test_state_that_cannot_be_read_is_a_problem_of_the_next_message(modern_machine):
    one = reporter()
    one.known.view.apply(entry(b'{"type":"node.seen.v1","name":5}'))
    got = one.report(
        take_sample(modern_machine.trees, monotonic=modern_machine.clock), now=5.0, now_s=modern_machine.monotonic
    )
    assert f"state.{KEY}" in [problem.field for problem in got.metrics.problems]


def test_each_look_goes_to_the_nodes_own_key(modern_machine):
    one = reporter(Strategy(enabled=True, policy="cfsQuota"))
    modern_machine.kubelet()
    for step in (0, 1):
        modern_machine.node(ticks=1_000 + 400 * step)
        modern_machine.pod("p", "Burstable", cpu_ns=step * 2_000_000_000, memory=7)
        modern_machine.monotonic += 10 * step
        one.report(
            take_sample(modern_machine.trees, monotonic=modern_machine.clock),
            now=50.0 + step,
            now_s=modern_machine.monotonic,
        )
    keys, values = zip(*one.bucket.puts, strict=True)
    assert set(keys) == {"node.n-1_example"}
    got = decode(values[-1], NodeMetrics)
    assert (got.node, got.measured_at, got.interval_s) == ("n-1.example", 51.0, 10.0)
    assert (got.node_usage.cpu_milli, got.pods[0].usage.cpu_milli) == (400, 200)
    assert got.suppress_cpu_milli == 8_000 * 65 // 100 - 200 - 200
    assert one.facts()["suppress_target_milli"] == got.suppress_cpu_milli
    assert one.facts()["best_effort_next_quota_us"] == 100 * got.suppress_cpu_milli
    json.dumps(one.facts())


def test_the_last_minutes_are_what_load_aware_scheduling_reads(modern_machine):
    one = reporter()
    for step in range(31):
        modern_machine.node(ticks=1_000 + (step // 2) * 800)  # 0 and 800 milli-cores by turns
        modern_machine.monotonic += 10
        one.report(
            take_sample(modern_machine.trees, monotonic=modern_machine.clock),
            now=50.0 + step,
            now_s=modern_machine.monotonic,
        )
    metric, problems = read_agent_report(decode(one.bucket.puts[-1][1], NodeMetrics), 1_000.0)
    assert metric is not None
    assert problems == ()
    assert usage_of(metric, "p95", 300.0)["cpu"] == 800
    assert usage_of(metric, "avg", 600.0)["cpu"] == 400
    assert usage_of(metric, "avg", 1800.0) is None
    assert usage_of(metric, "p50")["cpu"] == 0


def test_a_lost_bucket_gets_the_last_look_again(modern_machine):
    one = reporter()
    one.on_reset()
    assert one.bucket.puts == []
    one.report(
        take_sample(modern_machine.trees, monotonic=modern_machine.clock), now=5.0, now_s=modern_machine.monotonic
    )
    one.on_reset()
    assert len(one.bucket.puts) == 2
    assert one.bucket.puts[0] == one.bucket.puts[1]


def test_a_look_that_is_no_news_is_not_told(modern_machine):
    one = reporter()
    one.every_s = 60.0
    modern_machine.kubelet()
    used = 0
    for cores in (0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2):
        used += cores * 1_000
        modern_machine.node(ticks=1_000 + used)
        modern_machine.monotonic += 10
        sample = take_sample(modern_machine.trees, monotonic=modern_machine.clock)
        one.report(sample, now=modern_machine.monotonic, now_s=modern_machine.monotonic)
    told = [decode(value, NodeMetrics) for _, value in one.bucket.puts]
    assert [(each.measured_at, each.node_usage.cpu_milli) for each in told] == [
        (110.0, 0),
        (120.0, 1_000),
        (130.0, 1_000),
        (150.0, 2_000),
        (210.0, 2_000),
    ]
    one.on_conflict(KEY)
    one.report(sample, now=modern_machine.monotonic, now_s=modern_machine.monotonic)
    assert len(one.bucket.puts) == 6, "somebody else has written it"


def test_somebody_elses_write_is_counted():
    one = reporter()
    one.on_conflict("node.other")
    one.on_conflict(KEY)
    assert one.facts()["conflicts"] == 1


def told(enabled=True, policy="cfsQuota", **more) -> bytes:
    return encode(NodeSLO(node="n-1.example", cpu_suppress=CpuSuppress(enabled=enabled, policy=policy, **more)))


def test_a_strategy_is_taken_from_the_nodes_own_key():
    view = StrategyView(KEY)
    view.apply(entry(told(), key="node.other"))
    assert (view.strategy, view.source) == (None, "none")
    view.apply(entry(told(threshold_percent=40, min_percent=5)))
    assert view.strategy == Strategy(enabled=True, policy="cfsQuota", threshold_percent=40, min_percent=5)
    assert view.source == "bus"


def test_a_lost_bucket_leaves_the_last_strategy():
    view = StrategyView(KEY)
    view.apply(entry(told()))
    view.reset()
    view.end(7)
    assert view.strategy == Strategy(enabled=True, policy="cfsQuota")


def test_a_deletion_switches_off():
    view = StrategyView(KEY)
    view.apply(entry(told()))
    view.apply(entry(b"", deleted=True))
    assert (view.strategy, view.source, view.message) == (Strategy(), "withdrawn", None)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"{", "not JSON"),
        (told(threshold_percent=101), "cpu_suppress.threshold_percent: is not within 0..100: 101"),
        (told(min_percent=-1), "cpu_suppress.min_percent"),
        (told(policy="x" * 5_000), "cpu_suppress.policy: is none of cpuset, cfsQuota: 'xxx"),
    ],
)
def test_a_strategy_of_no_use_leaves_the_last_one_and_is_named(value, words, modern_machine):
    one = reporter()
    view = one.known.strategies
    view.apply(entry(told()))
    view.apply(entry(value))
    assert view.strategy == Strategy(enabled=True, policy="cfsQuota")
    got = one.report(
        take_sample(modern_machine.trees, monotonic=modern_machine.clock), now=5.0, now_s=modern_machine.monotonic
    )
    (problem,) = [each for each in got.metrics.problems if each.field == f"slo.{KEY}"]
    assert words in problem.message
    assert len(problem.message) <= 200
    view.apply(entry(told(enabled=False)))
    assert (view.strategy, view.problems) == (Strategy(policy="cfsQuota"), ())
