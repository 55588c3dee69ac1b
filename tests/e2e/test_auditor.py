"""The auditor among real processes: a foreign hand is told on the bus, and nothing else ever is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.e2e.corner import CORNER
from tests.e2e.objects import PODS
from tests.e2e.waiting import until
from tests.e2e.whole import Whole, run_whole

from berth.bus import Message
from berth.cli.commands.status import ask_status
from berth.contracts import names
from berth.contracts.codec import decode
from berth.contracts.event import AuditReported

pytestmark = pytest.mark.e2e


@pytest_asyncio.fixture
async def whole(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Whole]:
    monkeypatch.setenv("BERTH_AUDIT_INTERVAL_S", "2")
    monkeypatch.setenv("BERTH_AUDIT_CONFIRM_S", "0.5")
    async with run_whole() as running:
        yield running


def pod(name: str, *, notes: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "1", names.NVIDIA_GPU: "1"}
    container = {"name": "main", "image": "example", "resources": {"requests": amounts, "limits": amounts}}
    meta = {"name": name, "annotations": notes or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, "containers": [container]}}


async def test_a_foreign_bind_onto_a_taken_device_is_told(whole: Whole) -> None:
    told: list[tuple[str, AuditReported]] = []

    async def hear(message: Message) -> None:
        told.append((message.subject.split(".")[4], decode(message.data, AuditReported)))

    await whole.bus.subscribe("berth.v1.evt.audit.>", hear)
    async with whole.corner() as corner:
        node = await corner.node("a", gpus=1)
        pods = PODS.format(corner.namespace)
        ours = pod("ours", schedulerName=names.SCHEDULER_NAME, nodeSelector={CORNER: corner.namespace})
        await whole.call("POST", pods, ours)

        async def is_bound() -> bool:
            return any(each["spec"].get("nodeName") for each in await whole.items(pods))

        await until(is_bound, "our pod to be bound")
        looks = await whole.counted("auditor", 'berth_auditor_looks_total{outcome="complete"}')

        async def looked_again() -> bool:
            return await whole.counted("auditor", 'berth_auditor_looks_total{outcome="complete"}') > looks + 1

        await until(looked_again, "two more looks")
        assert told == []
        given = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100"}
        note = msgspec.json.encode({"gpu": [{"minor": 0, "resources": given}]}).decode()
        theirs = pod("theirs", notes={names.ANNOTATION_DEVICE_ALLOCATED: note}, schedulerName="other", nodeName=node)
        await whole.call("POST", pods, theirs)

        async def is_told() -> bool:
            return bool(told)

        await until(is_told, "the difference")
        verb, difference = told[0]
        assert (verb, difference.promise, difference.subject) == ("found", "I1", f"node {node}, gpu 0")
        assert f"{corner.namespace}/ours 100, {corner.namespace}/theirs 100" in difference.evidence
        (answer,) = (await ask_status(whole.bus))["auditor"]
        assert answer.facts["differences"] == 1
        assert await whole.counted("auditor", 'berth_auditor_differences{promise="I1"}') == 1
        await whole.call("DELETE", f"{pods}/theirs")

        async def is_over() -> bool:
            return len(told) > 1

        await until(is_over, "that it is gone")
        assert [each for each, _ in told] == ["found", "gone"]
