"""Capacity that is kept for its owners: placed, used up, run out, and the cards that belong to it."""

from __future__ import annotations

import json

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import devices_of, note
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
