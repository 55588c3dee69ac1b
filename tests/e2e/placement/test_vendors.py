"""NPUs whole and cut to a size, and what device plugins are told at the bind, under the lock of their node."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from tests.e2e.capacity import check_capacity
from tests.e2e.corner import Corner
from tests.e2e.objects import NODES, Json
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.contracts import names
from berth.contracts.inventory import NPU_TEMPLATES

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]

NAMESPACE, _, CONFIG_MAP = NPU_TEMPLATES.partition("/")
SIZES = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TABLE = """
huawei-Ascend-310P3:
  vir02: {koordinator.sh/gpu-memory: 6Gi, huawei.com/npu-core: 2, huawei.com/npu-cpu: 2, huawei.com/npu-dvpp: 25}
  broken: 7
"""
CHIP = {names.NPU_CORE: "8", names.NPU_CPU: "7", names.NPU_DVPP: "100", names.GPU_MEMORY: "24Gi"}
VIR02 = {names.GPU_SHARED: "1", names.NPU_CORE: "2", names.NPU_CPU: "2", names.NPU_DVPP: "25", names.GPU_MEMORY: "6Gi"}
MLU = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "48Gi"}
HALF = {names.GPU_CORE: "50", names.GPU_MEMORY: "24Gi"}
LOCK = "cambricon.com/dsmlu.lock"


def card(minor: int, prefix: str, resources: dict[str, str]) -> Json:
    return {"type": "gpu", "minor": minor, "id": f"{prefix}-{minor}", "health": True, "resources": resources}


def labels(vendor: str, model: str) -> dict[str, str]:
    return {names.LABEL_GPU_VENDOR: vendor, names.LABEL_GPU_MODEL: model}


def notes(pod: Json) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"]["annotations"]
    return found


@pytest_asyncio.fixture(loop_scope="package")
async def sizes(whole: Whole) -> AsyncIterator[None]:
    """The ConfigMap of sizes, of which one cannot be used."""
    await whole.try_call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await whole.call("POST", SIZES, {"metadata": {"name": CONFIG_MAP}, "data": {"data.yaml": TABLE}})
    yield
    await whole.call("DELETE", f"{SIZES}/{CONFIG_MAP}")


async def test_npus_are_given_whole_or_cut_to_a_size(whole: Whole, corner: Corner, sizes: None) -> None:
    await corner.node("n")
    await corner.device(
        "n",
        [card(minor, "npu", {**CHIP, names.GPU_MEMORY_RATIO: "100"}) for minor in range(2)],
        labels=labels("huawei", "Ascend-310P3"),
    )
    whole_chip = {names.NPU_CORE: "8", names.GPU_MEMORY_RATIO: "100"}
    (first,) = await corner.bound(await corner.pod("whole", whole_chip))
    cut = await corner.bound(*[await corner.pod(name, VIR02) for name in "abc"])
    (minor,) = {"0", "1"} - {notes(first)[names.NPU_CORE]}
    for pod in cut:
        entry = json.loads(notes(pod)[names.ANNOTATION_DEVICE_ALLOCATED])["gpu"][0]
        assert (str(entry["minor"]), entry["extension"]) == (minor, {"gpuSharedResourceTemplate": "vir02"})
        assert notes(pod)[names.NPU_CORE] == f"{minor}-vir02"
        assert notes(pod)["predicate-time"].isdigit()
    await corner.pod("d", VIR02)
    await corner.refused("d", "Insufficient gpu devices")
    await corner.pod("odd", {**VIR02, names.GPU_MEMORY: "7Gi"})
    await corner.refused("odd", "no matched GPU shared resource template")

    async def counted() -> bool:
        return (await whole.metrics("placement-solver"))["berth_solver_npu_template_problems"] == 1

    await until(counted, "the size that cannot be used to be counted")
    await check_capacity(whole)


async def test_an_mlu_is_handed_over_under_the_lock_of_its_node_also_through_a_kill(
    whole: Whole, corner: Corner
) -> None:
    node = await corner.node("n")
    await corner.device("n", [card(0, "mlu", MLU)], labels=labels("cambricon", "MLU370"))
    path = f"{NODES}/{node}"
    # Another scheduler is about to bind a pod there, and its plugin is at work.
    await corner.pod("other", scheduler="nobody")
    lock = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ},{corner.namespace},other"
    await whole.patch(path, {"metadata": {"annotations": {LOCK: lock}}})
    await corner.pod("a", HALF)
    await corner.decided("a")
    waits = 'berth_writer_node_locks_total{what="waits"}'

    async def tried() -> bool:
        with contextlib.suppress(aiohttp.ClientError):  # while it starts
            return (await whole.metrics("cluster-writer")).get(waits, 0) > 0
        return False

    await until(tried, "the bind to wait for the lock")
    os.kill(whole.stack.processes["cluster-writer"].pid, signal.SIGKILL)
    await until(tried, "the next writer to wait for it")
    assert "nodeName" not in (await corner.see("a"))["spec"]
    await whole.patch(path, {"metadata": {"annotations": {LOCK: None}}})
    (pod,) = await corner.bound("a")
    assert {name: notes(pod).get(name) for name in ("CAMBRICON_DSMLU_ASSIGHED", "CAMBRICON_DSMLU_PROFILE")} == {
        "CAMBRICON_DSMLU_ASSIGHED": "false",
        "CAMBRICON_DSMLU_PROFILE": "0_50_96",
    }
    assert notes(pod)[names.ANNOTATION_GPU_MINORS] == "0"
    found: dict[str, Any] = await whole.call("GET", path)
    assert found["metadata"]["annotations"][LOCK].endswith(f",{corner.namespace},a")
    await corner.pod("two", {names.KOORD_GPU: "200"})
    await corner.refused("two", "node(s) of cambricon give out 1 device(s) per pod")
    await corner.delete_pod("a")
    await corner.bound(await corner.pod("b", HALF))
    await check_capacity(whole)
