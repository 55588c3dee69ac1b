"""GPUs, whole and shared: every name they are asked for by, which cards are given, and that they come back."""

from __future__ import annotations

import asyncio

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import DEVICES, devices_of
from tests.e2e.whole import Whole

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

WHOLE_CARD = [
    {"nvidia.com/gpu": "1"},
    {"koordinator.sh/gpu": "100"},
    {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"},
]
HALF_CARD = [
    {"koordinator.sh/gpu": "50"},
    {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
    {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"},
]


@pytest.mark.parametrize("request_", WHOLE_CARD, ids=lambda amounts: "+".join(amounts))
async def test_whole_gpus_under_every_name(whole: Whole, corner: Corner, request_: dict[str, str]) -> None:
    node = await corner.node("g", gpus=2)
    placed = await corner.bound(await corner.pod("a", request_), await corner.pod("b", request_))
    grants = [devices_of(pod) for pod in placed]
    assert sorted(grant["minor"] for (grant,) in grants) == [0, 1]
    for (grant,) in grants:
        assert grant["resources"] == {
            "koordinator.sh/gpu-core": "100",
            "koordinator.sh/gpu-memory-ratio": "100",
            "koordinator.sh/gpu-memory": "16Gi",
        }
        assert grant["id"] == f"GPU-{node}-{grant['minor']}"
    await corner.pod("c", request_)
    await corner.refused("c", "Insufficient gpu devices")
    await check_capacity(whole)


@pytest.mark.parametrize("request_", HALF_CARD, ids=lambda amounts: "+".join(amounts))
async def test_two_halves_share_a_card(whole: Whole, corner: Corner, request_: dict[str, str]) -> None:
    await corner.node("g", gpus=2)
    placed = await corner.bound(await corner.pod("a", request_), await corner.pod("b", request_))
    minors = [grant["minor"] for pod in placed for grant in devices_of(pod)]
    assert minors == [minors[0], minors[0]], "the second half belongs beside the first"
    (full,) = await corner.bound(await corner.pod("c", {"nvidia.com/gpu": "1"}))
    assert [grant["minor"] for grant in devices_of(full)] != minors[:1]
    await check_capacity(whole)


async def test_memory_alone_shares_a_card(whole: Whole, corner: Corner) -> None:
    await corner.node("g", gpus=1)
    request = {"koordinator.sh/gpu-memory": "6Gi"}
    await corner.bound(await corner.pod("a", request), await corner.pod("b", request))
    await corner.pod("c", request)
    await corner.refused("c", "Insufficient gpu devices")
    await check_capacity(whole)


async def test_two_cards_come_from_one_node(corner: Corner) -> None:
    await corner.node("small", gpus=1)
    big = await corner.node("big", gpus=2)
    (pod,) = await corner.bound(await corner.pod("p", {"nvidia.com/gpu": "2"}))
    assert pod["spec"]["nodeName"] == big
    assert sorted(grant["minor"] for grant in devices_of(pod)) == [0, 1]


async def test_gpus_free_again_are_given_again(whole: Whole, corner: Corner) -> None:
    await corner.node("g", gpus=1)
    for number in range(3):
        name = f"p{number}"
        await corner.bound(await corner.pod(name, {"nvidia.com/gpu": "1"}))
        await check_capacity(whole)
        await corner.delete_pod(name)


async def test_a_sick_card_is_not_given_out(whole: Whole, corner: Corner) -> None:
    node = await corner.node("g", gpus=2)
    await corner.until_counted(node, 2)
    device = await whole.call("GET", f"{DEVICES}/{node}")
    device["spec"]["devices"][0]["health"] = False
    await whole.call("PUT", f"{DEVICES}/{node}", device)
    await corner.until_counted(node, 1)
    (pod,) = await corner.bound(await corner.pod("a", {"nvidia.com/gpu": "1"}))
    assert [grant["minor"] for grant in devices_of(pod)] == [1]
    await corner.pod("b", {"nvidia.com/gpu": "1"})
    await corner.refused("b", "Insufficient gpu devices")


async def test_many_come_and_go(whole: Whole, corner: Corner) -> None:
    for number in range(3):
        await corner.node(f"n{number}", cpu="4", gpus=2)

    async def life(number: int) -> None:
        for turn in range(3):
            name = f"p{number}-{turn}"
            await corner.pod(name, {"cpu": "1", "koordinator.sh/gpu": "50"})
            await corner.bound(name, timeout_s=60)
            await corner.delete_pod(name)

    await asyncio.gather(*(life(number) for number in range(16)))
    await check_capacity(whole)
