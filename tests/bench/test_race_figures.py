"""What the race makes of counters and times."""

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "cluster"
METRICS = b"""# HELP apiserver_request_total Counter of apiserver requests
apiserver_request_total{code="201",group="",resource="pods",subresource="",verb="POST"} 110
apiserver_request_total{code="201",group="",resource="pods",subresource="binding",verb="POST"} 95
apiserver_request_total{code="409",group="",resource="pods",subresource="binding",verb="POST"} 5
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",subresource="",verb="PATCH"} 1.2e+01
apiserver_request_total{code="0",group="",resource="pods",subresource="",verb="WATCH"} 7
apiserver_request_total{code="200",group="",resource="",subresource="/readyz",verb="GET"} 3
apiserver_watch_events_total{group="",kind="Pod"} 300
apiserver_watch_events_total{group="",kind="Node"} 20
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"race_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


calls = load("calls")
figures = load("figures")
fixtures = load("fixtures")


def test_calls_are_read_from_the_servers_own_page() -> None:
    assert calls.calls_of(METRICS) == {
        "POST pods": 110,
        "POST pods/binding": 100,
        "PATCH leases": 12,
        "refused 409 POST pods/binding": 5,
        "watch events Pod": 300,
        "watch events Node": 20,
    }


def test_the_load_clients_own_calls_do_not_count() -> None:
    made = calls.per_pod(Counter(), calls.calls_of(METRICS), 100, Counter({"POST pods": 100}))
    assert made["POST pods"] == 0.1
    assert made["POST pods/binding"] == 1.0
    assert calls.writes(made) == pytest.approx(0.1 + 1.0 + 0.12)


def test_a_rate_is_between_the_first_and_the_last_bind() -> None:
    assert figures.rate_between([10.0, 12.0, 11.0]) == 1.0
    assert figures.rate_between([10.0]) == 0.0
    assert figures.rate_between([]) == 0.0


def test_percentiles() -> None:
    assert figures.latencies([n / 1000 for n in range(1, 101)]) == pytest.approx((50.0, 99.0))
    assert figures.latencies([]) == (None, None)


def test_the_middle_round_is_shown_whole() -> None:
    rounds = [figures.Course(name="rush", pods=1, pods_per_s=rate, p50_ms=10 * rate) for rate in (3.0, 1.0, 2.0, 9.0)]
    assert figures.median(rounds).p50_ms == 20.0


def test_an_overfull_node_and_a_node_that_is_not_there_are_found() -> None:
    nodes = {"items": [json.loads(item.body) for item in fixtures.nodes(2)]}
    pods = {"items": [json.loads(item.body) for item in fixtures.pods("p", 221, "any")]}
    for number, pod in enumerate(pods["items"][:220]):
        pod["spec"]["nodeName"] = f"node-{number % 2:05d}"
    assert fixtures.overfull(nodes, pods) == []
    pods["items"][220]["spec"]["nodeName"] = "node-00001"
    assert [each.split(":")[0] for each in fixtures.overfull(nodes, pods)] == ["node-00001 is overfull"]
    pods["items"][220]["spec"]["nodeName"] = "node-00002"
    assert fixtures.overfull(nodes, pods) == ["p-000220 is on node-00002, which does not exist"]


def of(items: Any, *on: int) -> dict[str, list[Any]]:
    """The list of these pods, each on the node of this number."""
    pods = [json.loads(item.body) for item in items]
    for pod, number in zip(pods, on, strict=True):
        pod["spec"]["nodeName"] = f"node-{number:05d}"
    return {"items": pods}


def test_pods_that_break_what_their_shape_asks_for_are_found() -> None:
    nodes = {"items": [json.loads(item.body) for item in fixtures.nodes(6)]}
    spread = list(fixtures.pods("p", 4, "any", fixtures.SPREAD))
    assert fixtures.misplaced(fixtures.SPREAD, nodes, of(spread, 0, 1, 2, 3)) == []
    assert fixtures.misplaced(fixtures.SPREAD, nodes, of(spread, 0, 1, 4, 3)) == ["p has a skew of 2"]
    apart = list(fixtures.pods("p", 4, "any", fixtures.APART))
    assert fixtures.misplaced(fixtures.APART, nodes, of(apart, 0, 3, 1, 2)) == []
    assert fixtures.misplaced(fixtures.APART, nodes, of(apart, 0, 3, 1, 0)) == ["2 pods of p-0 are on node-00000"]


def test_a_full_node_takes_a_pod_of_high_priority_for_so_many_victims() -> None:
    low = [json.loads(item.body) for item in fixtures.low_pods(1)]
    nodes = {"items": [json.loads(item.body) for item in fixtures.nodes(1)]}
    assert fixtures.overfull(nodes, {"items": low}) == []
    (high,) = of(fixtures.high_pods(1, "any"), 0)["items"]
    left = [len(low) - victims for victims in range(len(low) + 1)]
    fits = [count for count in left if not fixtures.overfull(nodes, {"items": [high, *low[:count]]})]
    assert max(fits) == len(low) - fixtures.VICTIMS


async def test_each_contender_runs_the_courses_as_often_as_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program itself, up to where servers are started."""
    monkeypatch.syspath_prepend(FOLDER)
    program = load("__main__")
    ran: list[tuple[str, int, bool]] = []

    async def on_warm(contender: Any, options: Any) -> list[Any]:
        ran.append((type(contender).__name__, options.pods, options.rush))
        return []

    monkeypatch.setattr(program.course, "on_warm", on_warm)
    monkeypatch.setattr(program, "version", lambda: "1")
    monkeypatch.setattr(
        "sys.argv", ["race", "--pods", "7", "--rounds", "2", "--no-rush", "--json", str(tmp_path / "race.json")]
    )
    await program.race(program.arguments())
    assert ran == [("KubeScheduler", 7, False), ("Berth", 7, False)] * 2
