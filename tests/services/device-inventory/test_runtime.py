"""What agents say of their container runtimes: the label of the node, and what its pods' owners are told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.inventory import Bench, node

from berth.contracts import names
from berth.contracts.codec import encode
from berth.contracts.command import PatchNode, ReportPod
from berth.contracts.event import FindingReported
from berth.contracts.node_runtime import FINDINGS_MAX, MESSAGE_MAX, NodeRuntime, PodFinding
from berth.contracts.state import Pod
from berth.contracts.subjects import named_key
from berth.device_inventory.core.runtime import REPORTS_MAX, STALE_S, WINDOW_S
from berth.runtime import Moment, Outcome

LABEL = names.LABEL_GPU_ISOLATION
WORKS = NodeRuntime(node="n", at=1.0, isolation="HAMi-core")
BROKEN = NodeRuntime(node="n", at=1.0, reason="the library is not there")


def bench(**labels: str) -> Bench:
    found = Bench(retry_s=30.0)
    found.show(node(labels={LABEL: labels["label"]} if "label" in labels else {}))
    found.complete()
    return found


def labels(found: Bench, now: float) -> list[dict[str, str | None]]:
    commands = found.reconciler.reconcile("n", Moment(now, now)).commands
    return [each.message.labels for each in commands if isinstance(each.message, PatchNode)]


@pytest.mark.parametrize(
    ("shown", "said", "asked"),
    [
        (None, WORKS, "HAMi-core"),
        ("HAMi-core", WORKS, ...),
        ("hami-core", WORKS, "HAMi-core"),
        ("another", WORKS, ...),
        (None, BROKEN, ...),
        ("HAMi-core", BROKEN, None),
        ("hami-core", BROKEN, None),
        ("another", BROKEN, ...),
        ("HAMi-core", NodeRuntime(node="n", at=1.0, isolation="x" * 99), None),
        ("HAMi-core", NodeRuntime(node="other", at=1.0), ...),
    ],
)
def test_the_label_stands_where_isolation_works(shown: str | None, said: NodeRuntime, asked: Any) -> None:
    found = bench(label=shown) if shown else bench()
    assert labels(found, 0.0) == [], "nobody says anything"
    found.says(said)
    assert labels(found, 1.0) == ([] if asked is ... else [{LABEL: asked}])


def test_an_agent_that_says_nothing_any_more_takes_the_label_with_it() -> None:
    found = bench()
    found.says(WORKS)
    assert labels(found, 0.0) == [{LABEL: "HAMi-core"}]
    found.show(node(labels={LABEL: "HAMi-core"}, version=2))
    assert labels(found, 1.0) == []
    found.says(WORKS)
    assert labels(found, 60.0) == []
    assert found.overdue(60.0 + STALE_S - 1) == []
    assert found.overdue(60.0 + STALE_S) == ["n"]
    assert labels(found, 60.0 + STALE_S) == [{LABEL: None}]
    assert found.reconciler.facts["agents that say nothing any more"] == "n"
    found.show(node(version=3))
    assert labels(found, 61.0 + STALE_S) == []
    found.says(WORKS)
    assert labels(found, 500.0) == [{LABEL: "HAMi-core"}]


def test_an_agent_that_is_no_plugin_any_more_takes_it_at_once() -> None:
    found = bench(label="HAMi-core")
    found.says(WORKS)
    assert labels(found, 0.0) == []
    found.says(None)
    assert labels(found, 1.0) == [{LABEL: None}]


def finding(pod: str = "p", **more: Any) -> PodFinding:
    told = {"container": "main", "kind": "lacking", "message": "began without env X", **more}
    return PodFinding(namespace="a", pod=pod, uid=told.pop("uid", pod), **told)


def says(found: Bench, *findings: PodFinding) -> None:
    found.says(NodeRuntime(node="n", at=1.0, findings=list(findings)))


def show_pod(found: Bench, name: str, on: str = "n") -> None:
    pod = Pod(namespace="a", name=name, uid=name, version=1, node=on, phase="Running")
    found.entry(named_key("pod", f"a.{name}"), encode(pod), found.pods)


def told(outcome: Outcome) -> tuple[list[ReportPod], list[FindingReported]]:
    reports = [each.message for each in outcome.commands if isinstance(each.message, ReportPod)]
    return reports, [each.message for each in outcome.events if isinstance(each.message, FindingReported)]


def decide(found: Bench, now: float = 0.0) -> tuple[list[ReportPod], list[FindingReported]]:
    return told(found.reconciler.reconcile("n", Moment(now, now)))


def test_a_finding_is_an_event_once_and_told_when_it_is_over() -> None:
    found = bench()
    show_pod(found, "p")
    says(found, finding())
    [report], [event] = decide(found)
    assert (report.namespace, report.name, report.uid, report.warning) == ("a", "p", "p", True)
    assert (report.reason, report.message) == ("StartedWithoutGrant", "container main: began without env X")
    assert (event.node, event.kind, event.container, event.lasts) == ("n", "lacking", "main", True)
    says(found, finding())
    assert decide(found) == ([], [])
    says(found)
    reports, [event] = decide(found)
    assert (reports, event.lasts) == ([], False)


def test_the_next_replica_makes_no_other_event_of_it() -> None:
    found = bench()
    show_pod(found, "p")
    says(found, finding())
    [first], _ = decide(found)
    found.reconciler.begin()
    [again], [event] = decide(found)
    assert (again.id, event.lasts) == (first.id, True)


def test_cpus_that_were_put_right_are_no_warning_and_end_without_a_word() -> None:
    found = bench()
    show_pod(found, "p")
    says(found, finding(kind="corrected", message="began with CPUs 0-7, and has its own, 2-3, now"))
    [report], [_] = decide(found)
    assert (report.reason, report.warning) == ("CPUsCorrected", False)
    says(found)
    assert decide(found) == ([], [])


def test_an_agent_speaks_of_the_pods_of_its_node_alone() -> None:
    found = bench()
    show_pod(found, "elsewhere", on="m")
    show_pod(found, "p")
    says(found, finding("elsewhere"), finding("p", uid="former"), finding("unseen"), finding("p", kind="odd"))
    assert decide(found) == ([], [])
    show_pod(found, "unseen")
    [report], _ = decide(found)
    assert report.name == "unseen", "once it is seen"


def test_a_pod_that_is_gone_takes_its_findings_with_it() -> None:
    found = bench()
    show_pod(found, "p")
    says(found, finding())
    decide(found)
    found.entry(named_key("pod", "a.p"), b"", found.pods)
    says(found)
    assert decide(found) == ([], [])


def test_what_an_agent_says_is_bounded_before_it_is_read() -> None:
    found = bench()
    show_pod(found, "p")
    most = [finding(container=f"{number:03}" * 30) for number in range(FINDINGS_MAX)]
    for findings in ([*most, finding()], [finding(message="m" * (MESSAGE_MAX + 1))], [finding(container="c" * 5_000)]):
        says(found, *findings)
        assert decide(found) == ([], [])
    assert found.runtimes.unreadable == 3
    says(found, *most[:8], finding(message="m" * MESSAGE_MAX))
    reports, _ = decide(found)
    assert max(len(each.message) for each in reports) < 1_024


def test_a_node_is_reported_of_so_much_in_a_minute_and_the_rest_later() -> None:
    found = bench()
    show_pod(found, "p")
    says(found, *(finding(container=f"c{number}") for number in range(FINDINGS_MAX)))
    counts = [len(decide(found, now)[0]) for now in (0.0, 1.0, WINDOW_S - 1, WINDOW_S, 2 * WINDOW_S, 3 * WINDOW_S)]
    assert counts == [REPORTS_MAX, 0, 0, REPORTS_MAX, REPORTS_MAX, REPORTS_MAX]
    assert decide(found, 4 * WINDOW_S) == ([], []), "each is reported once"
    assert found.reconciler.held_back > 0


def test_who_says_something_else_each_time_is_not_reported_of_without_end() -> None:
    found = bench()
    show_pod(found, "p")
    show_pod(found, "q", on="m")
    count = 0
    for second in range(0, 120, 5):
        says(found, *(finding(message=f"{second} {number}") for number in range(FINDINGS_MAX)))
        reports, events = decide(found, float(second))
        count += len(reports)
        assert len(events) <= REPORTS_MAX
    assert 0 < count <= 2 * REPORTS_MAX
    assert found.reconciler.facts["reports held back"] > 0
    assert "n" in found.overdue(180.0), "what waits is looked at when the minute is over"
    assert "n" not in found.overdue(100.0)


def test_what_cannot_be_read_is_counted_and_changes_nothing() -> None:
    found = bench(label="HAMi-core")
    found.says(WORKS)
    labels(found, 0.0)
    for value in (b"{", b'{"type":"noderuntime.set.v1","node":"n"}', encode(NodeRuntime(node="m", at=1.0))):
        found.entry(named_key("runtime", "n"), value, found.runtimes)
    assert found.runtimes.unreadable == 3
    assert labels(found, 1.0) == []
