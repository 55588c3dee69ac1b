"""Which changes are worth another try for a pod that spread or affinity has ruled out."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from berth.contracts.kube import LabelSelector, Taint
from berth.contracts.state import Node
from berth.rules.peer_hints import affinity_after_node, affinity_after_pod, spread_after_node, spread_after_pod
from berth.testing.builders import PodBuilder, pod

WEB = {"app": "web"}


class Change(NamedTuple):
    old: Any = None
    new: Any = None


def of(builder: PodBuilder | None) -> Any:
    return None if builder is None else builder.build(1)


def placed(app: str, namespace: str = "default", node: str = "n") -> PodBuilder:
    return pod("there", namespace).label("app", app).on(node)


def node(*, taints: tuple[Taint, ...] = (), **labels: str) -> Node:
    return Node(name="n", uid="n", version=1, labels=labels, taints=list(taints))


def no_labels(_namespace: str) -> dict[str, str]:
    return {}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, placed("web"), True),
        (None, placed("db"), False),
        (None, placed("web", "other"), False),
        (placed("web"), None, True),
        (placed("db"), None, False),
        (placed("db"), placed("web"), True),
        (placed("web"), placed("db"), True),
        (placed("web"), placed("web"), False),
        (placed("web", "other"), placed("db", "other"), False),
    ],
)
def test_spread_waits_for_pods_that_count(old: PodBuilder | None, new: PodBuilder | None, expected: bool) -> None:
    waiting = pod("p").spread("zone", WEB).build(1)
    assert spread_after_pod(waiting, Change(of(old), of(new)), no_labels) is expected


def test_soft_constraints_wait_for_nothing() -> None:
    waiting = pod("p").spread("zone", WEB, when_unsatisfiable="ScheduleAnyway").build(1)
    assert not spread_after_pod(waiting, Change(None, placed("web").build(1)), no_labels)


def test_own_tolerations_matter_where_taints_decide_which_nodes_count() -> None:
    for policy, expected in (("Honor", True), ("", False)):
        before = pod("p").spread("zone", WEB, node_taints_policy=policy)
        old = before.build(1)
        assert spread_after_pod(old, Change(old, before.tolerates("x").build(2)), no_labels) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node(zone="a", rack="1"), True),
        (None, node(zone="a"), False),
        (node(zone="a", rack="1"), None, True),
        (node(zone="a"), None, False),
        (node(zone="a"), node(zone="a", rack="1"), True),
        (node(zone="a", rack="1"), node(zone="a"), True),
        (node(zone="a", rack="1"), node(zone="b", rack="1"), True),
        (node(zone="a", rack="1"), node(zone="a", rack="1", other="x"), False),
        (node(zone="a", rack="1"), node(zone="a", rack="1", taints=(Taint(key="t", effect="NoSchedule"),)), True),
        (node(zone="a"), node(zone="a", taints=(Taint(key="t", effect="NoSchedule"),)), False),
    ],
)
def test_spread_waits_for_nodes_that_count(old: Node | None, new: Node | None, expected: bool) -> None:
    waiting = pod("p").spread("zone", WEB).spread("rack", WEB).build(1)
    assert spread_after_node(waiting, Change(old, new), no_labels) is expected


@pytest.mark.parametrize(
    ("old", "new", "toward", "away"),
    [
        (None, placed("web"), True, False),
        (None, placed("db"), False, False),
        (None, placed("web", node=""), False, False),
        (placed("web"), None, False, True),
        (placed("web", node=""), None, False, False),
        (placed("db"), placed("web"), True, False),
        (placed("web"), placed("db"), False, True),
        (placed("web"), placed("web"), False, False),
        (placed("web", "other"), None, False, False),
    ],
)
def test_affinity_waits_for_company_and_anti_affinity_for_its_end(
    old: PodBuilder | None, new: PodBuilder | None, toward: bool, away: bool
) -> None:
    change = Change(of(old), of(new))
    assert affinity_after_pod(pod("p").near("zone", WEB).build(1), change, no_labels) is toward
    assert affinity_after_pod(pod("p").apart("zone", WEB).build(1), change, no_labels) is away


def test_the_end_of_a_pod_that_keeps_others_away_wakes_nobody() -> None:
    guard = placed("web").apart("zone", {"app": "noisy"})
    waiting = pod("p").label("app", "noisy").build(1)
    assert not affinity_after_pod(waiting, Change(guard.build(1), None), no_labels)


def test_namespaces_are_selected_by_their_labels() -> None:
    team = LabelSelector(match_labels={"team": "a"})
    waiting = pod("p").near("zone", WEB, namespace_selector=team).build(1)
    change = Change(None, placed("web", "red").build(1))
    assert affinity_after_pod(waiting, change, {"red": {"team": "a"}}.__getitem__)
    assert not affinity_after_pod(waiting, change, {"red": {"team": "b"}}.__getitem__)


@pytest.mark.parametrize(
    ("old", "new", "toward", "away"),
    [
        (None, node(), False, True),
        (None, node(zone="a"), True, True),
        (node(), node(zone="a"), True, False),
        (node(zone="a"), node(), False, True),
        (node(zone="a"), node(zone="b"), True, True),
        (node(zone="a"), node(zone="a", other="x"), False, False),
    ],
)
def test_affinity_waits_for_keys_of_nodes(old: Node | None, new: Node | None, toward: bool, away: bool) -> None:
    change = Change(old, new)
    assert affinity_after_node(pod("p").near("zone", WEB).build(1), change, no_labels) is toward
    assert affinity_after_node(pod("p").apart("zone", WEB).build(1), change, no_labels) is away
