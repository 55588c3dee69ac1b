"""What placement-solver's shell does with what its followers read, without a bus and with one."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

from tests.services.worlds.solver.bench import SolverBench

from berth.bus import Bus, BusSettings
from berth.bus.port import Entry
from berth.contracts import buckets, subjects
from berth.contracts.codec import encode
from berth.contracts.metrics import NodeMetrics, Usage
from berth.contracts.state import NodeMetric
from berth.placement_solver.core.awaited_quotas import UNPROVEN_S
from berth.placement_solver.members import Members
from berth.placement_solver.shell import MEMBER_TTL_S, _follow
from berth.rules.times import text_of
from berth.testing.builders import pod
from berth.testing.nats_server import NatsServer
from berth.testing.views import eventually

DEFAULT = "koordinator-default-quota"
LOAD_AWARE = {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}}


def follow(run: Any, bench: SolverBench) -> dict[str, Any]:
    """The sinks that followers would feed, by bucket; of some keys of a bucket with their pattern."""
    sinks: dict[str, Any] = {}

    def take(bucket: str, sink: Any, *, keys: str) -> Any:
        sinks[bucket if keys == ">" or bucket == buckets.LEASE else f"{bucket} {keys}"] = sink
        return SimpleNamespace(run=lambda: None)

    context: Any = SimpleNamespace(
        bus=SimpleNamespace(follow=take), spawn=lambda *_, **__: None, log=SimpleNamespace(warning=print)
    )
    _follow(context, run.cluster, bench.rounds, Members("s1", bench.clock, MEMBER_TTL_S))
    return sinks


def test_what_is_read_before_the_first_round_has_not_waited_since_the_clock_began(solving: type[Any]) -> None:
    run = solving()
    run.node("n1", cpu=10_000)
    run.quota(DEFAULT)
    bench = SolverBench(run)
    bench.clock.time = 1_000_000.0
    sink = follow(run, bench)[buckets.STATE]
    asking = pod("p").requests(cpu=1000).quota("team").build(run.version + 1)
    sink.apply(Entry(subjects.pod_key("default", "p"), encode(asking), False, 1, 0, False, None))

    def charged(after_s: float) -> list[str]:
        bench.clock.time += after_s
        bench.rounds.tick()
        run.cluster.queue.wake(run.cluster.now)
        return [placement.claim.quota for placement in run.round().placements]

    assert charged(0.1) == [], "its quota may be on its way"
    assert charged(UNPROVEN_S) == [f"/{DEFAULT}"]


def entry(key: str, message: Any, stored_s: float) -> Entry:
    return Entry(key, encode(message), False, 1, 0, False, None, stored_s)


def test_reports_are_followed_once_a_profile_looks_at_them(solving: type[Any]) -> None:
    run = solving()
    bench = SolverBench(run)
    sinks = follow(run, bench)
    extra = {buckets.METRICS, f"{buckets.STATE} nodemetric.>"}
    assert not extra & set(sinks)
    for sink in list(sinks.values()):
        sink.end(1)
    assert bench.rounds.readiness.may_plan()
    run.configure(plugins=LOAD_AWARE)
    assert extra <= set(sinks)
    assert not bench.rounds.readiness.may_plan(), "nothing is planned before all reports are read"
    first = sinks[buckets.METRICS]
    for name in extra:
        sinks[name].end(1)
    assert bench.rounds.readiness.may_plan()
    run.configure(plugins={})
    run.configure(plugins=LOAD_AWARE)
    assert sinks[buckets.METRICS] is first, "they are followed once"


def test_time_is_what_the_bus_shows(solving: type[Any]) -> None:
    run = solving()
    run.configure(plugins=LOAD_AWARE)
    sinks = follow(run, SolverBench(run))
    metrics = NodeMetrics(
        node="n", measured_at=9.0, interval_s=5.0, memory_total_bytes=10, node_usage=Usage(cpu_milli=7)
    )
    sinks[buckets.METRICS].apply(entry(subjects.named_key("node", "n"), metrics, 5_000.0))
    assert run.cluster.loads.now_s == 5_000.0
    report = run.cluster.loads.reports.of("n")
    assert (report.metric.updated_s, report.metric.node_usage["cpu"]) == (5_000.0, 7)
    sinks[buckets.LEDGER].apply(Entry("x", b"", False, 1, 0, False, None, 5_100.0))
    assert run.cluster.loads.now_s == 5_100.0
    sinks[buckets.LEASE].apply(Entry("solver.s1", b"", False, 1, 0, False, None, 4_000.0))
    assert run.cluster.loads.now_s == 4_000.0, "a lease was stored just now"


def test_a_report_wakes_the_loop_when_it_may_help_somebody(solving: type[Any]) -> None:
    run = solving()
    run.node("n", cpu=10_000)
    run.configure(plugins=LOAD_AWARE)
    bench = SolverBench(run)
    sink = follow(run, bench)[buckets.METRICS]

    def uses(cpu: int) -> None:
        bench.rounds.changed.clear()
        usage = Usage(cpu_milli=cpu)
        message = NodeMetrics(node="n", measured_at=0.0, interval_s=5.0, memory_total_bytes=10, node_usage=usage)
        sink.apply(entry(subjects.named_key("node", "n"), message, 5_000.0))

    uses(9_000)
    run.pod(pod("p").requests(cpu=1000))
    run.cluster.wake()
    assert run.round().placements == ()
    uses(8_000)
    assert not bench.rounds.changed.is_set()
    uses(1_000)
    assert bench.rounds.changed.is_set()


async def test_reports_on_a_real_bus(solving: type[Any], nats_server: NatsServer) -> None:
    run = solving()
    bus = await Bus.connect(BusSettings(url=nats_server.url), service="test")
    tasks: list[asyncio.Task[None]] = []

    def spawn(coroutine: Any, *, name: str) -> None:
        tasks.append(asyncio.create_task(coroutine, name=name))

    try:
        await bus.ensure()
        run.configure(plugins=LOAD_AWARE)
        bench = SolverBench(run)
        context: Any = SimpleNamespace(bus=bus, spawn=spawn, log=SimpleNamespace(warning=print))
        _follow(context, run.cluster, bench.rounds, Members("s1", bench.clock, MEMBER_TTL_S))
        usage = Usage(cpu_milli=4_000, memory_bytes=5)
        message = NodeMetrics(node="n.1", measured_at=1.0, interval_s=5.0, memory_total_bytes=10, node_usage=usage)
        bus.owned(buckets.METRICS).put(subjects.named_key("node", "n.1"), encode(message))
        status = {"updateTime": text_of(time.time()), "nodeMetric": {"nodeUsage": {"resources": {"cpu": "3"}}}}
        state = bus.owned(buckets.STATE)
        for name in ("n.1", "n.2"):
            key = subjects.named_key("nodemetric", name)
            state.put(key, encode(NodeMetric(name=name, version=1, status=status)))
        reports = run.cluster.loads.reports
        await eventually(lambda: reports.of("n.1") is not None and reports.of("n.2") is not None)
        await eventually(lambda: reports.of("n.1").is_agents)
        assert reports.of("n.1").metric.node_usage["cpu"] == 4_000
        assert abs(reports.of("n.1").metric.updated_s - time.time()) < 60
        assert reports.of("n.2").metric.node_usage["cpu"] == 3_000
        assert abs(run.cluster.loads.now_s - time.time()) < 60
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await bus.close()
