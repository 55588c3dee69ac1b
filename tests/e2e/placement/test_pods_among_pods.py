"""Where a pod goes because of other pods: spread over zones, one per node, beside another; and how long it waits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.clusters import SIMULATED
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES, PODS
from tests.e2e.whole import Whole

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}


def spread(key: str = ZONE, **more: Any) -> list[dict[str, Any]]:
    """One hard constraint on pods of the same app."""
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "labelSelector": {"matchLabels": WEB}, **more}]


def required(kind: str, key: str, **selector: Any) -> dict[str, Any]:
    """One required term of `podAffinity` or `podAntiAffinity`."""
    term = {"topologyKey": key, "labelSelector": selector or {"matchLabels": WEB}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


async def zones_of(whole: Whole, pods: list[dict[str, Any]], key: str = ZONE) -> Counter[str]:
    """How many of the pods are in each zone."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in await whole.items(NODES)}
    return Counter(labels[pod["spec"]["nodeName"]][key] for pod in pods)


async def test_replicas_are_spread_over_zones(whole: Whole, corner: Corner) -> None:
    """By least cost all of them would go to one node: one zone has more and larger nodes than the others."""
    for name, zone in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b", "b"), ("c", "c")):
        await corner.node(name, cpu="16" if zone == "a" else "8", labels={ZONE: zone})
    await corner.placed_now()
    async with whole.paused("placement-solver"):  # all in one batch
        pods = [await corner.pod(f"p{i}", labels=WEB, topologySpreadConstraints=spread()) for i in range(6)]
        await whole.until_in_state(corner.namespace, *pods)
    assert await zones_of(whole, await corner.bound(*pods)) == {"a": 2, "b": 2, "c": 2}
    await check_capacity(whole)


async def test_a_new_revision_of_a_deployment_is_spread_by_itself(whole: Whole, corner: Corner) -> None:
    """What is left of the old one does not count: with it nobody would go to its zone."""
    for zone in "abc":
        await corner.node(zone, labels={ZONE: zone})
    revision = "pod-template-hash"
    old, new = {**WEB, revision: "1"}, {**WEB, revision: "2"}
    await corner.bound(*[await corner.pod(f"old-{i}", labels=old, nodeSelector={ZONE: "a"}) for i in range(4)])
    apart = spread(matchLabelKeys=[revision])
    async with whole.paused("placement-solver"):
        pods = [await corner.pod(f"new-{i}", labels=new, topologySpreadConstraints=apart) for i in range(3)]
        await whole.until_in_state(corner.namespace, *pods)
    assert await zones_of(whole, await corner.bound(*pods)) == {"a": 1, "b": 1, "c": 1}


async def test_who_would_skew_a_zone_waits_for_capacity_in_another(corner: Corner) -> None:
    await corner.node("a", cpu="8", labels={ZONE: "a"})
    full = await corner.node("b", cpu="1", labels={ZONE: "b"})
    await corner.node("nowhere")
    other = await corner.pod("other", {"cpu": "1"}, nodeSelector={ZONE: "b"})
    await corner.bound(other)
    await corner.bound(await corner.pod("p0", {"cpu": "1"}, labels=WEB, topologySpreadConstraints=spread()))
    await corner.pod("p1", {"cpu": "1"}, labels=WEB, topologySpreadConstraints=spread())
    said = await corner.refused("p1", "0/", "1 Insufficient cpu")
    assert "1 node(s) didn't match pod topology spread constraints," in said
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in said
    await corner.delete_pod(other)
    (pod,) = await corner.bound("p1")
    assert pod["spec"]["nodeName"] == full


async def test_a_soft_spread_holds_up_nobody(whole: Whole, corner: Corner) -> None:
    await corner.node("a", labels={ZONE: "a"})
    await corner.node("b", labels={ZONE: "b"})
    soft = spread(whenUnsatisfiable="ScheduleAnyway")
    pods = [await corner.pod(f"p{i}", labels=WEB, topologySpreadConstraints=soft) for i in range(4)]
    await corner.bound(*pods)
    only = [
        await corner.pod(f"q{i}", labels=WEB, topologySpreadConstraints=soft, nodeSelector={ZONE: "a"}) for i in "012"
    ]
    assert await zones_of(whole, await corner.bound(*only)) == {"a": 3}


async def test_one_per_node_and_the_fourth_waits_for_a_fourth_node(whole: Whole, corner: Corner) -> None:
    for name in "abc":
        await corner.node(name, labels={HOST: name})
    await corner.placed_now()
    apart = required("podAntiAffinity", HOST)
    async with whole.paused("placement-solver"):
        pods = [await corner.pod(f"p{i}", labels=WEB, affinity=apart) for i in range(4)]
        await whole.until_in_state(corner.namespace, *pods)

    bound: list[dict[str, Any]] = []
    waiting = ""
    while not waiting:
        found = await whole.items(PODS.format(corner.namespace))
        bound = [pod for pod in found if pod["spec"].get("nodeName")]
        if len(bound) >= 3:
            (waiting,) = {pod["metadata"]["name"] for pod in found if not pod["spec"].get("nodeName")}
    assert len({pod["spec"]["nodeName"] for pod in bound}) == 3
    said = await corner.refused(waiting, "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.")
    why = await whole.why(corner.namespace, waiting)
    assert [(reason.code, reason.nodes) for reason in why.reasons] == [("InterPodAffinity", 3)], said

    fourth = await corner.node("d", labels={HOST: "d"})
    (pod,) = await corner.bound(waiting)
    assert pod["spec"]["nodeName"] == fourth


async def test_who_is_kept_away_needs_no_term_of_its_own(corner: Corner) -> None:
    await corner.node("a", labels={HOST: "a"})
    apart = required("podAntiAffinity", HOST, matchLabels={"noise": "loud"})
    await corner.bound(await corner.pod("quiet", affinity=apart))
    await corner.pod("loud", labels={"noise": "loud"})
    await corner.refused("loud", "1 node(s) didn't satisfy existing pods anti-affinity rules")
    await corner.delete_pod("quiet")
    await corner.bound("loud")


async def test_a_pod_goes_where_the_other_one_is(whole: Whole, corner: Corner) -> None:
    for name, zone in (("a1", "a"), ("b1", "b"), ("b2", "b")):
        await corner.node(name, labels={ZONE: zone})
    await corner.placed_now()
    beside = required("podAffinity", ZONE, matchLabels={"app": "db"})
    await corner.pod("web", affinity=beside)
    await corner.refused("web", "0/3 nodes are available: 3 node(s) didn't match pod affinity rules")
    await corner.pod("db", labels={"app": "db"}, nodeSelector={ZONE: "b"})
    (web,) = await corner.bound("web")
    assert await zones_of(whole, [web]) == {"b": 1}


async def test_a_set_whose_pods_want_each_other_has_a_first_one(whole: Whole, corner: Corner) -> None:
    for name, zone in (("a", "a"), ("b", "b")):
        await corner.node(name, labels={ZONE: zone})
    together = required("podAffinity", ZONE)
    pods = [await corner.pod(f"p{i}", labels=WEB, affinity=together) for i in range(4)]
    assert len(await zones_of(whole, await corner.bound(*pods))) == 1


async def test_a_gated_pod_goes_once_its_last_gate_is_gone(whole: Whole, corner: Corner) -> None:
    """And until then it keeps nobody away."""
    await corner.node("a", labels={HOST: "a"})
    apart = required("podAntiAffinity", HOST)
    gates = [{"name": "example.com/quota"}, {"name": "example.com/image"}]
    await corner.pod("gated", labels=WEB, affinity=apart, schedulingGates=gates)
    await corner.bound(await corner.pod("first", labels=WEB, affinity=apart))
    path = f"{PODS.format(corner.namespace)}/gated"
    await whole.patch(path, {"spec": {"schedulingGates": gates[1:]}})
    await corner.placed_now()
    why = await whole.why(corner.namespace, "gated")
    assert why.outcome == "waiting"
    assert "example.com/image" in why.message
    await whole.patch(path, {"spec": {"schedulingGates": []}})
    await corner.refused("gated", "1 node(s) didn't match pod anti-affinity rules")
    await corner.delete_pod("first")
    await corner.bound("gated")


# --- bad input -------------------------------------------------------------------------------------------------------

ODD: dict[str, tuple[dict[str, Any], str]] = {
    "a selector that nobody matches": (
        {
            "affinity": required(
                "podAffinity", ZONE, matchExpressions=[{"key": "app", "operator": "In", "values": ["no"]}]
            )
        },
        "1 node(s) didn't match pod affinity rules",
    ),
    "a selector that contradicts itself": (
        {
            "affinity": required(
                "podAffinity",
                ZONE,
                matchExpressions=[{"key": "app", "operator": "Exists"}, {"key": "app", "operator": "DoesNotExist"}],
            )
        },
        "1 node(s) didn't match pod affinity rules",
    ),
    "a key that no node has, in a spread": (
        {"topologySpreadConstraints": spread("example.com/rack")},
        "1 node(s) didn't match pod topology spread constraints (missing required label)",
    ),
    "a key that no node has, in an affinity": (
        {"affinity": required("podAffinity", "example.com/rack")},
        "1 node(s) didn't match pod affinity rules",
    ),
}


@pytest.mark.parametrize("what", ODD)
async def test_what_no_node_can_satisfy_is_named(corner: Corner, what: str) -> None:
    await corner.node("n", labels={ZONE: "a"})
    more, text = ODD[what]
    await corner.pod("p", labels=WEB, **more)
    await corner.refused("p", "0/1 nodes are available", text)
    await corner.placed_now()


async def test_a_key_that_no_node_has_keeps_nobody_away(corner: Corner) -> None:
    await corner.node("n")
    apart = required("podAntiAffinity", "example.com/rack")
    await corner.bound(*[await corner.pod(f"p{i}", labels=WEB, affinity=apart) for i in range(2)])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "maxSkew 0": ({"topologySpreadConstraints": spread(maxSkew=0)}, "spec.topologySpreadConstraints[0].maxSkew"),
    "no topology key": (
        {"topologySpreadConstraints": spread("")},
        "spec.topologySpreadConstraints[0].topologyKey",
    ),
    "an unknown word": (
        {"topologySpreadConstraints": spread(whenUnsatisfiable="Never")},
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
    ),
    "minDomains of a soft constraint": (
        {"topologySpreadConstraints": spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2)},
        "spec.topologySpreadConstraints[0].minDomains",
    ),
    "an operator that nobody knows": (
        {
            "affinity": required(
                "podAntiAffinity", ZONE, matchExpressions=[{"key": "app", "operator": "Near", "values": ["web"]}]
            )
        },
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector",
    ),
    "an affinity without a topology key": (
        {"affinity": required("podAffinity", "")},
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_means_nothing_is_refused_by_its_field(whole: Whole, corner: Corner, what: str) -> None:
    """By the API server, or by Berth where a server lets it pass."""
    await corner.node("n", labels={ZONE: "a"})
    more, field = REFUSED[what]
    status, answer = await whole.try_call(
        "POST", PODS.format(corner.namespace), corner.manifest("bad", labels=WEB, **more)
    )
    if status < 300:
        assert whole.cluster.kind == SIMULATED, "the real server refuses it"
        await corner.refused("bad", field)
    else:
        assert (status, answer["reason"]) == (422, "Invalid"), answer
        assert field in answer["message"]
    await corner.placed_now()
