"""Pods of other schedulers: left alone, and what they hold is counted."""

from __future__ import annotations

import json

import pytest
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import PODS, devices_of
from tests.e2e.whole import Whole

from berth.contracts import names

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]


async def test_pods_of_other_schedulers_are_left_alone_and_counted(whole: Whole, corner: Corner) -> None:
    node = await corner.node("n", cpu="2")
    await corner.pod("theirs", {"cpu": "1500m"}, scheduler="default-scheduler")
    await corner.placed_now()
    assert (await whole.why(corner.namespace, "theirs")).outcome == "foreign"
    assert not (await corner.see("theirs"))["spec"].get("nodeName")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "theirs"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await whole.call("POST", f"{PODS.format(corner.namespace)}/theirs/binding", binding)
    await corner.pod("ours", {"cpu": "1"})
    await corner.refused("ours", "Insufficient cpu")
    await corner.delete_pod("theirs")
    await corner.bound("ours")


async def test_gpus_bound_by_another_scheduler_are_not_given_again(whole: Whole, corner: Corner) -> None:
    node = await corner.node("g", gpus=2)
    given = {
        "gpu": [
            {
                "minor": 0,
                "resources": {
                    "koordinator.sh/gpu-core": "100",
                    "koordinator.sh/gpu-memory-ratio": "100",
                    "koordinator.sh/gpu-memory": "16Gi",
                },
            }
        ]
    }
    notes = {names.ANNOTATION_DEVICE_ALLOCATED: json.dumps(given)}
    request = {"nvidia.com/gpu": "1"}
    await corner.pod("theirs", request, scheduler="koord-scheduler", annotations=notes, nodeName=node)
    (ours,) = await corner.bound(await corner.pod("ours", request))
    assert [grant["minor"] for grant in devices_of(ours)] == [1]
    await check_capacity(whole)
