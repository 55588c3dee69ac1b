"""Capacity that is kept for its owners: placed, used up, run out, and the cards that belong to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import PODS, RESERVATIONS, devices_of, note
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]


async def test_a_reservation_is_placed_used_by_its_owner_and_over(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="4")
    name = await corner.reservation("r", {"cpu": "3"}, ttl="1h", allocateOnce=True)
    reservation = await corner.phase(name, "Available")
    assert reservation["status"]["nodeName"] == node
    await corner.pod("stranger", {"cpu": "2"})
    await corner.refused("stranger", "Insufficient cpu")
    (owner,) = await corner.bound(await corner.pod("owner", {"cpu": "3"}, labels={"owner": "r"}))
    allocated = json.loads(note(owner, names.ANNOTATION_RESERVATION_ALLOCATED))
    assert allocated == {"name": name, "uid": reservation["metadata"]["uid"]}
    ended = await corner.phase(name, "Succeeded")
    assert [each["name"] for each in ended["status"]["currentOwners"]] == ["owner"]
    await check_capacity(whole)
    await corner.delete_pod("owner")
    await corner.bound("stranger")


async def test_a_reservation_grows_in_place_once_its_node_has_that_free(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="8")
    name = await corner.reservation("r", {"cpu": "2"}, ttl="1h", allocateOnce=False)
    placed = await corner.phase(name, "Available")
    await corner.bound(await corner.pod("other", {"cpu": "3"}))

    async def resized(cores: str, then: str) -> None:
        notes = {names.ANNOTATION_RESERVATION_RESIZE: json.dumps({"resources": {"cpu": cores}})}
        await whole.patch(f"{RESERVATIONS}/{name}", {"metadata": {"annotations": notes}})

        async def look() -> bool:
            found = await whole.call("GET", f"{RESERVATIONS}/{name}")
            return bool(found["status"]["allocatable"]["cpu"] == then)

        await until(look, f"{name} to hold {then}")

    await resized("5", "5")
    await corner.pod("stranger", {"cpu": "1"})
    await corner.refused("stranger", "Insufficient cpu")
    await corner.bound(await corner.pod("owner", {"cpu": "5"}, labels={"owner": "r"}))
    grown = await corner.phase(name, "Available")
    assert note(grown, names.ANNOTATION_PLAN) != note(placed, names.ANNOTATION_PLAN)
    await resized("6", "5")
    await check_capacity(whole)
    await corner.delete_pod("owner")
    await resized("2", "2")
    await corner.bound("stranger")


async def test_a_reservation_serves_several_owners_until_it_is_full(corner: Corner) -> None:
    await corner.node("n", cpu="4")
    name = await corner.reservation(
        "r", {"cpu": "2", "memory": "512Mi"}, ttl="1h", allocateOnce=False, allocatePolicy="Restricted"
    )
    await corner.phase(name, "Available")
    affinity = {names.ANNOTATION_RESERVATION_AFFINITY: json.dumps({"name": name})}

    async def owner(pod: str) -> str:
        return await corner.pod(pod, {"cpu": "1"}, labels={"owner": "r"}, annotations=affinity)

    placed = await corner.bound(await owner("a"), await owner("b"))
    assert all(name in note(pod, names.ANNOTATION_RESERVATION_ALLOCATED) for pod in placed)
    await owner("c")
    await corner.refused("c", f"reservation {name}: Insufficient cpu")
    await corner.phase(name, "Available")
    await corner.delete_pod("a")
    await corner.bound("c")


async def test_an_expired_reservation_gives_its_capacity_back(corner: Corner) -> None:
    await corner.node("n", cpu="2")
    name = await corner.reservation("r", {"cpu": "2"}, ttl="3s")
    await corner.phase(name, "Available")
    await corner.pod("waits", {"cpu": "2"})
    await corner.refused("waits", "Insufficient cpu")
    await corner.phase(name, "Failed")
    await corner.bound("waits")
    affinity = {names.ANNOTATION_RESERVATION_AFFINITY: json.dumps({"name": name})}
    await corner.pod("owner", labels={"owner": "r"}, annotations=affinity)
    await corner.refused("owner", "no reservations match")


async def test_a_reservation_of_gpus_keeps_its_cards(whole: Whole, corner: Corner) -> None:
    await corner.node("g", gpus=2)
    request = {"nvidia.com/gpu": "1"}
    name = await corner.reservation("r", request, ttl="1h")
    await corner.phase(name, "Available")
    (other,) = await corner.bound(await corner.pod("other", request))
    await corner.pod("third", request)
    await corner.refused("third", "Insufficient gpu devices")
    (owner,) = await corner.bound(await corner.pod("owner", request, labels={"owner": "r"}))
    assert devices_of(owner)[0]["minor"] != devices_of(other)[0]["minor"]
    await check_capacity(whole)


async def test_a_reservation_takes_over_a_pod_that_runs_and_keeps_what_it_leaves(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="8", gpus=2)
    await corner.until_counted(node, 2)
    (runs,) = await corner.bound(await corner.pod("runs", {"cpu": "6", "nvidia.com/gpu": "1"}, labels={"owner": "r"}))
    name = await corner.reservation(
        "r",
        {"cpu": "8", "nvidia.com/gpu": "2"},
        ttl="1h",
        allocateOnce=False,
        allocatePolicy="Restricted",
        preAllocation=True,
    )
    reservation = await corner.phase(name, "Available")
    assert [each["name"] for each in reservation["status"]["currentOwners"]] == ["runs"]
    taken = await corner.see("runs")
    note_of_it = json.loads(note(taken, names.ANNOTATION_RESERVATION_ALLOCATED))
    assert note_of_it == {"name": name, "uid": reservation["metadata"]["uid"]}
    assert {each["minor"] for each in devices_of(runs)} < {each["minor"] for each in devices_of(reservation)}
    await check_capacity(whole)
    await corner.delete_pod("runs")
    await corner.pod("stranger", {"cpu": "2"})
    await corner.refused("stranger", "Insufficient cpu")
    await corner.bound(await corner.pod("owner", {"cpu": "6"}, labels={"owner": "r"}))


async def test_a_reservation_that_takes_over_pods_has_to_be_restricted(corner: Corner) -> None:
    await corner.node("n", cpu="2")
    name = await corner.reservation("r", {"cpu": "1"}, ttl="1h", preAllocation=True)

    async def is_refused() -> bool:
        status = (await corner.whole.call("GET", f"{RESERVATIONS}/{name}")).get("status") or {}
        said = [each.get("message") or "" for each in status.get("conditions") or ()]
        return any("spec.preAllocation" in text for text in said)

    await until(is_refused, "a refusal that names the field")


async def test_a_placeholder_hands_its_place_over(whole: Whole, corner: Corner) -> None:
    await corner.node("n", cpu="4")
    owners = json.dumps([{"labelSelector": {"matchLabels": {"owner": "held"}}}])
    notes = {names.ANNOTATION_RESERVATION_OWNERS: owners}
    labels = {names.LABEL_OPERATING_MODE: "Reservation"}
    await corner.bound(await corner.pod("holds", {"cpu": "3"}, labels=labels, annotations=notes))
    await corner.pod("stranger", {"cpu": "2"})
    await corner.refused("stranger", "Insufficient cpu")
    path = f"{PODS.format(corner.namespace)}/holds"
    ready = {"type": "Ready", "status": "True"}
    await whole.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": [ready]}})  # as a kubelet says
    await corner.pod("user", {"cpu": "3"}, labels={"owner": "held"})

    async def holders() -> list[dict[str, Any]]:
        items = await whole.items(PODS.format(corner.namespace))
        return [pod for pod in items if pod["metadata"]["name"] == "holds"]

    async def leaves() -> bool:
        return all(pod["metadata"].get("deletionTimestamp") for pod in await holders())

    await until(leaves, "the placeholder to leave")
    for pod in await holders():
        assert json.loads(note(pod, names.ANNOTATION_RESERVATION_CURRENT_OWNER))["name"] == "user"
        assert not (await corner.see("user"))["spec"].get("nodeName")
        await corner.delete_pod("holds")  # where no kubelet says that it has ended
    await corner.bound("user")
    assert await holders() == []
    await check_capacity(whole)
