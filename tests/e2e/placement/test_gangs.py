"""Pods that start together or not at all: groups, strict and other gangs, groups of gangs, gangs on GPUs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import POD_GROUPS, PODS, note
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

GANG = names.GANG_PREFIX


async def test_a_pod_group_starts_whole(whole: Whole, corner: Corner) -> None:
    await corner.node("a", cpu="2")
    await corner.node("b", cpu="2")
    labels = {names.LABEL_POD_GROUP: "team"}
    await corner.pod_group("team", 4)
    first = [await corner.pod(f"m{i}", {"cpu": "1"}, labels=labels) for i in range(3)]
    await corner.refused("m0", "3 of 4 members")
    first.append(await corner.pod("m3", {"cpu": "1"}, labels=labels))
    placed = await corner.bound(*first)
    assert {note(pod, names.ANNOTATION_BIND_GANG_GROUP) for pod in placed} == {f"{corner.namespace}/team"}
    assert {note(pod, names.ANNOTATION_BIND_GANG_COUNT) for pod in placed} == {"4"}
    assert len({note(pod, names.ANNOTATION_PLAN) for pod in placed}) == 1

    async def scheduled() -> bool:
        group = await whole.call("GET", f"{POD_GROUPS.format(corner.namespace)}/team")
        status: dict[str, Any] = group.get("status", {})
        return status.get("scheduled") == 4 or status.get("phase") == "Running"

    await until(scheduled, "the PodGroup's status")


async def test_a_strict_gang_starts_whole_or_not_at_all(corner: Corner) -> None:
    await corner.node("a", cpu="2")
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "3"}
    members = [await corner.pod(f"m{i}", {"cpu": "1"}, annotations=notes) for i in range(3)]
    for member in members:
        await corner.refused(member, "capacity for 2 of 3 members")
    await corner.placed_now(requests={"cpu": "2"})
    await corner.node("b", cpu="1")
    await corner.bound(*members)


async def test_a_reservation_starts_with_its_gang(whole: Whole, corner: Corner) -> None:
    node = await corner.node("a", cpu="3")
    labels = {names.LABEL_POD_GROUP: "team"}
    await corner.pod_group("team", 3)
    members = [await corner.pod(f"m{i}", {"cpu": "1"}, labels=labels) for i in range(2)]
    await corner.refused("m0", "2 of 3 members")
    kept = await corner.reservation("kept", {"cpu": "1"}, labels=labels, ttl="1h", allocateOnce=True)
    placed = await corner.bound(*members)
    reservation = await corner.phase(kept, "Available")
    assert reservation["status"]["nodeName"] == node
    assert {note(each, names.ANNOTATION_BIND_GANG_COUNT) for each in (*placed, reservation)} == {"3"}
    assert len({note(each, names.ANNOTATION_PLAN) for each in (*placed, reservation)}) == 1

    async def counted() -> bool:
        group = await whole.call("GET", f"{POD_GROUPS.format(corner.namespace)}/team")
        return bool(group.get("status", {}).get("scheduled") == 3)

    await until(counted, "the Reservation in the PodGroup's status")
    await corner.bound(await corner.pod("owner", {"cpu": "1"}, labels={"owner": "kept"}))
    await check_capacity(whole)


async def test_a_member_too_many_comes_later(corner: Corner) -> None:
    await corner.node("a", cpu="2")
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "2"}
    members = [await corner.pod(f"m{i}", {"cpu": "1"}, annotations=notes) for i in range(3)]

    async def two() -> bool:
        pods = await corner.whole.items(PODS.format(corner.namespace))
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 2

    await until(two, "two members on nodes")
    await corner.node("b", cpu="1")
    await corner.bound(*members)


async def test_gangs_of_a_group_start_together(corner: Corner) -> None:
    await corner.node("a", cpu="2")
    groups = json.dumps([f"{corner.namespace}/left", f"{corner.namespace}/right"])

    def notes(gang: str) -> dict[str, str]:
        return {f"{GANG}name": gang, f"{GANG}min-available": "2", f"{GANG}groups": groups}

    left = [await corner.pod(f"l{i}", {"cpu": "1"}, annotations=notes("left")) for i in range(2)]
    await corner.refused("l0", "right")
    right = [await corner.pod(f"r{i}", {"cpu": "1"}, annotations=notes("right")) for i in range(2)]
    await corner.refused("r1", "members that must start together")
    await corner.node("b", cpu="2")
    placed = await corner.bound(*left, *right)
    assert len({note(pod, names.ANNOTATION_PLAN) for pod in placed}) == 1


async def test_a_gang_that_is_not_strict_says_so(corner: Corner) -> None:
    await corner.node("a", cpu="4")
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "2", f"{GANG}mode": "NonStrict"}
    members = [await corner.pod(f"m{i}", {"cpu": "1"}, annotations=notes) for i in range(2)]
    await corner.bound(*members)


async def test_a_gang_on_gpus_is_all_or_nothing(whole: Whole, corner: Corner) -> None:
    await corner.node("a", gpus=2)
    await corner.bound(await corner.pod("other", {"koordinator.sh/gpu": "10"}))
    notes = {f"{GANG}name": "g", f"{GANG}min-available": "3"}
    members = [await corner.pod(f"m{i}", {"nvidia.com/gpu": "1"}, annotations=notes) for i in range(3)]
    await corner.refused("m2", "capacity for 1 of 3 members", "gpu")
    await corner.node("b", gpus=2)
    await corner.bound(*members)
    await check_capacity(whole)
