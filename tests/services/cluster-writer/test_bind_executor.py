"""Binds against the simulated API without HTTP, where every answer can be arranged."""

from __future__ import annotations

import pytest

from berth.contracts import names, subjects
from berth.contracts.ledger import Allocation, DeviceGrant
from berth.kube.answer import Answer, answer_of
from berth.simcluster.store import Path
from berth.testing.views import eventually


async def test_a_bind_carries_its_annotations(desk):
    desk.begin()
    desk.binds.begin(desk.decide(desk.api.seen("a")))
    await desk.over()
    assert (desk.node_of(), desk.landed) == ("n", ["a"])
    assert desk.api.raw("a")["metadata"]["annotations"] == {names.ANNOTATION_PLAN: "p"}
    assert desk.reported == []
    desk.show("a")
    desk.show("a")
    assert desk.reported == ["a"], "published when STATE shows it, once"


@pytest.mark.parametrize("status", [0, 401, 403, 429, 500, 503])
async def test_an_unknown_outcome_is_repeated_until_it_is_known(desk, status):
    desk.api.on("bind", *[lambda name: Answer(status)] * 12)
    desk.begin()
    await eventually(lambda: desk.api.calls["bind"] >= 13)
    await desk.over()
    assert desk.node_of() == "n"
    assert desk.withdrawn == []


async def test_however_long_it_is_refused_a_bind_is_tried_again_every_few_seconds(desk, monkeypatch):
    pauses = []
    sleep = desk.binds._clock.sleep

    async def noting(seconds):
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(desk.binds._clock, "sleep", noting)
    desk.api.on("bind", *[lambda name: Answer(429)] * 40)
    desk.begin()
    await desk.over()
    assert desk.node_of() == "n"
    assert len(pauses) >= 40
    assert max(pauses) <= 5.0


async def test_a_bind_whose_answer_was_lost_lands_once(desk, api):
    decision = None

    def land(name):
        body = {
            "metadata": {"uid": decision.uid, "annotations": decision.annotations},
            "target": {"kind": "Node", "name": "n"},
        }
        assert api.store.bind("default", name, body).status == 201
        return Answer(0)

    desk.api.on("bind", land)
    decision = desk.begin()
    await eventually(lambda: desk.binds.has_parked(), what="it waits for the view")
    desk.show("a")
    await desk.over()
    assert api.calls["bind"] == 2
    assert (desk.withdrawn, desk.lost) == ([], [])


async def test_a_pod_that_changed_is_judged_again_with_its_new_version(desk, api):
    pod = api.pod("a")
    desk.show("a")
    decision = desk.decide(pod)
    api.touch("a")
    desk.binds.begin(decision)
    await eventually(lambda: desk.binds.has_parked())
    assert not desk.node_of()
    desk.show("a")
    await desk.over()
    assert desk.node_of() == "n"


async def test_a_pod_of_another_uid_is_left_alone(desk, api):
    def replace(name):
        api.remove("a")
        api.pod("a")

    desk.api.on("bind", replace)
    desk.begin()
    await desk.over()
    assert not desk.node_of()
    assert api.calls["bind"] == 1


async def test_a_pod_that_is_gone_is_over(desk, api):
    desk.api.on("bind", lambda name: api.remove("a"))
    desk.begin()
    await eventually(lambda: api.calls["bind"] >= 2, what="not found is not gone")
    desk.vanish("a")
    await desk.over()
    assert desk.landed == []


async def test_a_pod_bound_elsewhere_is_over(desk, api):
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "elsewhere"}}
    desk.api.on("bind", lambda name: api.store.bind("default", name, body) and None)
    desk.begin()
    await eventually(lambda: desk.binds.has_parked())
    desk.show("a")
    await desk.over()
    assert desk.node_of() == "elsewhere"
    assert desk.withdrawn == []
    assert desk.reported == []


async def test_a_bind_that_is_refused_for_good_is_withdrawn(desk):
    desk.api.on("bind", lambda name: Answer(400, reason="BadRequest"))
    desk.begin()
    await desk.over()
    assert desk.api.raw("a")["metadata"]["annotations"] == {names.ANNOTATION_ATTEMPT: "1"}
    assert [name for name, _ in desk.withdrawn] == ["a"]
    assert desk.api.calls["bind"] == 1


PAGE = b"<html><body><h1>400 Bad request</h1>Your browser sent an invalid request.</body></html>"


async def test_a_page_of_a_proxy_is_no_refusal_of_the_bind(desk):
    desk.api.on("bind", *[lambda name: answer_of(400, PAGE, "Bad Request", None)] * 3)
    desk.begin()
    await desk.over()
    assert desk.withdrawn == []
    assert desk.api.raw("a")["spec"]["nodeName"]
    assert desk.api.calls["bind"] == 4


async def test_a_withdrawal_is_guarded_and_repeated(desk, api):
    desk.api.on("bind", lambda name: Answer(400))
    desk.api.on(
        "patch", lambda name, body: Answer(0), lambda name, body: Answer(500), lambda name, body: api.touch("a")
    )
    desk.begin()
    await eventually(lambda: desk.binds.has_parked(), what="the pod has changed meanwhile")
    desk.show("a")
    await desk.over()
    assert desk.api.raw("a")["metadata"]["annotations"] == {names.ANNOTATION_ATTEMPT: "1"}
    assert len(desk.withdrawn) == 1


async def test_a_decision_given_up_is_withdrawn_without_a_bind(desk, api):
    pod = api.pod("a")
    desk.show("a")
    desk.binds.give_up(desk.decide(pod), "its gang is not whole")
    await desk.over()
    assert api.calls["bind"] == 0
    assert desk.withdrawn == [("a", "its gang is not whole")]


async def test_a_view_older_than_the_solvers_waits(desk, api):
    pod = api.pod("a")
    desk.show("a")
    desk.binds.begin(desk.decide(pod, basis=api.store.version + 5))
    await eventually(lambda: desk.binds.has_parked())
    for index in range(5):
        api.pod(f"other{index}")
    assert not desk.node_of()
    desk.show("other4")
    await desk.over()
    assert desk.node_of() == "n"


async def test_a_node_that_is_not_seen_is_waited_for_once(desk, api):
    pod = api.pod("a")
    desk.show("a")
    desk.binds.begin(desk.decide(pod, node="late"))
    await eventually(lambda: desk.binds.has_parked())
    assert desk.withdrawn == []
    desk.put(subjects.named_key("node", "late"), api.node("late"))
    await desk.over()
    assert desk.node_of() == "late"


async def test_a_decision_for_a_node_that_is_gone_is_withdrawn(desk, api):
    pod = api.pod("a")
    desk.show("a")
    desk.binds.begin(desk.decide(pod, node="never"))
    await eventually(lambda: desk.binds.has_parked())
    desk.end()
    await desk.over()
    assert [name for name, _ in desk.withdrawn] == ["a"]


async def test_a_clash_among_ours_is_a_loss_and_nothing_is_bound(desk, api):
    first, second = api.pod("a"), api.pod("b")
    desk.show("a")
    desk.show("b")
    one = desk.decide(first, minors=[0], allocation=_allocation([0]))
    two = desk.decide(second, "q", minors=[0], allocation=_allocation([0]))
    desk.binds.begin(one)
    desk.binds.begin(two)
    await eventually(lambda: desk.binds.has_parked())
    desk.end()
    await desk.over()
    assert len(desk.lost) == 2
    assert not desk.node_of("a")
    assert not desk.node_of("b")


async def test_a_clash_with_a_stranger_is_withdrawn(desk, api):
    pod = api.pod("a", cpu="10")
    desk.show("a")
    api.pod("stranger", cpu="10")
    body = {"metadata": {"name": "stranger"}, "target": {"kind": "Node", "name": "n"}}
    api.store.bind("default", "stranger", body)
    desk.show("stranger")
    desk.binds.begin(desk.decide(pod))
    await eventually(lambda: desk.binds.has_parked())
    desk.end()
    await desk.over()
    assert [name for name, _ in desk.withdrawn] == ["a"]
    assert desk.lost == []


async def test_a_reservation_is_bound_by_its_status(desk, api):
    seen = api.reservation("r")
    desk.put(subjects.named_key("reservation", "r"), seen)
    decision = desk.decide(seen, namespace="", kind="reservation", allocation=Allocation(amounts={"cpu": 2000}))
    # The first half lands, the answer to the second is lost after its effect.
    desk.api.on("patch status", lambda name, body: Answer(0))
    desk.binds.begin(decision)
    await eventually(lambda: desk.binds.has_parked(), what="the annotations have moved the version on")
    desk.put(subjects.named_key("reservation", "r"), api.seen_reservation("r"))
    await desk.over()
    after = api.seen_reservation("r")
    assert (after.phase, after.node, after.plan, after.allocatable) == ("Available", "n", "p", {"cpu": 2000})
    assert {condition.type for condition in after.conditions} == {"Scheduled", "Ready"}


def grows(api):
    """It is placed under plan `made`, and asks for 3 cores."""
    path = Path("scheduling.koordinator.sh", "v1alpha1", "reservations", "", "r")
    notes = {names.ANNOTATION_PLAN: "made", names.ANNOTATION_RESERVATION_RESIZE: '{"resources":{"cpu":"3"}}'}
    api.reservation("r")
    assert api.store.patch(path, {"metadata": {"annotations": notes}}).status == 200
    status = {"phase": "Available", "nodeName": "n", "allocatable": {"cpu": "2"}}
    assert api.store.patch(path._replace(subresource="status"), {"status": status}).status == 200
    return api.seen_reservation("r")


async def test_a_reservation_grows_by_its_status_and_then_names_the_plan(desk, api):
    key, seen = subjects.named_key("reservation", "r"), grows(api)
    desk.put(key, seen)
    former = desk.decide(seen, "made", namespace="", kind="reservation", allocation=Allocation(amounts={"cpu": 2000}))
    desk.binds.begin(former)
    decision = desk.decide(
        seen, namespace="", kind="reservation", allocation=Allocation(amounts={"cpu": 3000}), grows="made"
    )
    assert desk.cluster.book.claims_of(("", "r"))[0].amounts == {"cpu": 3000}
    # The amounts land, and the writer stops there.
    desk.api.on("patch", lambda *_: Answer(409))
    desk.binds.begin(decision)
    await eventually(lambda: desk.binds.has_parked(), what="the status has moved the version on")
    half = api.seen_reservation("r")
    assert (half.plan, half.allocatable) == ("made", {"cpu": 3000})
    desk.put(key, half)
    await desk.over()
    after = api.seen_reservation("r")
    assert (after.plan, after.allocatable, after.attempt) == ("p", {"cpu": 3000}, 0)
    desk.put(key, after)
    desk.binds.begin(decision)
    await desk.over()
    assert api.seen_reservation("r").version == after.version


def _allocation(minors):
    grants = [DeviceGrant(kind="gpu", minor=m, amounts={names.GPU_CORE: 100}) for m in minors]
    return Allocation(amounts={"cpu": 1000}, devices=grants)


async def test_a_bind_empties_the_notes_that_a_tenant_brought_along(desk, api):
    forged = {
        names.ANNOTATION_DEVICE_ALLOCATED: '{"gpu":[{"minor":1}]}',
        names.ANNOTATION_RESERVATION_ALLOCATED: '{"name":"r","uid":"u"}',
        names.ANNOTATION_QUOTA: "/rich",
        names.ANNOTATION_PLAN: "forged",
    }
    pod = api.pod("liar", annotations=forged)
    desk.show("liar")
    desk.binds.begin(desk.decide(pod))
    await desk.over()
    assert api.raw("liar")["metadata"]["annotations"] == {
        names.ANNOTATION_DEVICE_ALLOCATED: "{}",
        names.ANNOTATION_RESERVATION_ALLOCATED: "{}",
        names.ANNOTATION_QUOTA: "",
        names.ANNOTATION_PLAN: "p",
    }


FORGED = {
    names.ANNOTATION_DEVICE_ALLOCATED: '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}',
    names.ANNOTATION_PLAN: "forged",
}


@pytest.mark.parametrize(("asked", "landed", "withdrawn"), [(0, ["a"], []), (1, [], ["a"])])
async def test_a_forged_holder_raises_no_epoch(desk, api, asked, landed, withdrawn):
    """It blocks no card that it does not ask for; one that it asks for costs the decision, and never the ledger."""
    api.pod("liar", gpus=asked, annotations=FORGED, nodeName="n")
    desk.show("liar")
    pod = api.pod("a", gpus=1)
    desk.show("a")
    desk.binds.begin(desk.decide(pod, minors=[0], allocation=_allocation([0])))
    if withdrawn:
        await eventually(lambda: desk.binds.has_parked())
        desk.end()
        await eventually(lambda: desk.withdrawn or desk.lost)
    else:
        await desk.over()
    assert ([name for name, _ in desk.withdrawn], desk.landed, desk.lost) == (withdrawn, landed, [])
