"""What two looks have in common never shows more than either of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.libs.invariants.story import Good
from tests.services.auditor.looks import ledger_of, lists_of

from berth.auditor.core.confirm import confirmed
from berth.contracts import names
from berth.invariants import World, check


def world(**objects: Any) -> World:
    return World.of(**objects)


def node(cpu: str, **more: str) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": cpu, **more}}}


def quota(most: dict[str, str], least: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": "q", "namespace": "d"}, "spec": {"max": most, "min": least or {}}}


def pod(name: str = "p", node_: str = "n", **notes: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "d", "uid": f"uid-{name}", "annotations": notes}
    return {"metadata": meta, "spec": {"nodeName": node_, "schedulerName": names.SCHEDULER_NAME}}


def test_a_moment_confirms_itself() -> None:
    story = Good(4).run(60)
    lists = lists_of(story)
    moment = World.of(pods=lists.pods, nodes=lists.nodes, quotas=lists.quotas, ledger=ledger_of(story))
    both = confirmed(moment, moment)
    assert (both.pods, both.nodes, both.quotas) == (moment.pods, moment.nodes, moment.quotas)
    assert both.ledger.decisions == moment.ledger.decisions
    assert both.ledger.members == moment.ledger.members
    assert check(both).broken == check(moment).broken


@pytest.mark.parametrize(
    "before",
    [
        [],
        [pod(node_="")],
        [pod(node_="other")],
        [pod(**{names.ANNOTATION_PLAN: "x"})],
        [pod(**{names.ANNOTATION_DEVICE_ALLOCATED: "{}"})],
        [pod("another")],
    ],
)
def test_a_pod_that_was_otherwise_holds_nothing_for_certain(before: list[Any]) -> None:
    assert confirmed(world(pods=before), world(pods=[pod()])).pods == []


def test_a_node_offers_the_more_of_both() -> None:
    both = confirmed(world(nodes=[node("2", memory="1Gi")]), world(nodes=[node("1500m", pods="9")]))
    assert both.nodes[0].status.allocatable == {"cpu": "2000m", "memory": str(1 << 30), "pods": "9"}
    assert confirmed(world(), world(nodes=[node("1")])).nodes == []


def test_a_group_may_hold_the_more_of_both_and_what_only_one_limits_is_free() -> None:
    first, second = quota({"cpu": "2", "memory": "1"}, {"cpu": "1"}), quota({"cpu": "3"}, {"cpu": "0"})
    spec = confirmed(world(quotas=[first]), world(quotas=[second])).quotas[0].spec
    assert (spec.max, spec.min) == ({"cpu": "3000m"}, {"cpu": "1000m"})


def test_what_could_not_be_read_twice_cannot_be_read() -> None:
    broken = {"metadata": 3}
    assert confirmed(world(pods=[broken]), world(pods=[broken])).unreadable
    assert not confirmed(world(), world(pods=[broken])).unreadable
