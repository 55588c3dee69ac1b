"""What placement-solver's shell does with what its followers read, without a bus."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.services.worlds.solver.bench import SolverBench

from berth.bus.port import Entry
from berth.contracts import buckets, subjects
from berth.contracts.codec import encode
from berth.placement_solver.core.awaited_quotas import UNPROVEN_S
from berth.placement_solver.members import Members
from berth.placement_solver.shell import MEMBER_TTL_S, _follow
from berth.testing.builders import pod

DEFAULT = "koordinator-default-quota"


def follow(run: Any, bench: SolverBench) -> dict[str, Any]:
    """The sinks that followers would feed, by bucket."""
    sinks: dict[str, Any] = {}

    def take(bucket: str, sink: Any, *, keys: str) -> Any:
        sinks[bucket] = sink
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
