"""What a node's agent says of its containers: an Event on the pod, once, and a label of the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.corner import Corner
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.bus import Message
from berth.bus.port import OwnedPort
from berth.contracts import buckets, names
from berth.contracts.codec import decode, encode
from berth.contracts.event import FindingReported
from berth.contracts.node_runtime import NodeRuntime, PodFinding
from berth.contracts.subjects import named_key

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="package")]


@pytest_asyncio.fixture(loop_scope="package")
async def metrics(whole: Whole) -> AsyncIterator[OwnedPort]:
    """Where agents of nodes write."""
    bucket = whole.bus.owned(buckets.METRICS, keys="runtime.>")
    await bucket.ready()
    yield bucket
    await bucket.close()


async def test_a_finding_is_an_event_on_its_pod_and_isolation_a_label_of_the_node(
    corner: Corner, whole: Whole, metrics: OwnedPort
) -> None:
    node = await corner.node("n", cpu="4")
    await corner.pod("train", {"cpu": "1"})
    (pod,) = await corner.bound("train")
    heard: list[FindingReported] = []

    async def hear(message: Message) -> None:
        heard.append(decode(message.data, FindingReported))

    await whole.bus.subscribe(f"berth.v1.evt.finding.reported.{corner.namespace}.>", hear)
    said = {"namespace": corner.namespace, "pod": "train", "kind": "lacking", "message": "began without env X"}
    true = PodFinding(uid=pod["metadata"]["uid"], container="main", **said)
    false = PodFinding(uid="another", **said)

    def says(at: float, isolation: str, *findings: PodFinding) -> None:
        message = NodeRuntime(node=node, at=at, isolation=isolation, findings=list(findings))
        metrics.put(named_key("runtime", node), encode(message))

    async def events() -> list[dict[str, Any]]:
        found = await whole.items(f"/api/v1/namespaces/{corner.namespace}/events")
        return [each for each in found if each["reason"] == "StartedWithoutGrant"]

    async def label() -> list[str]:
        [shown] = [each for each in await whole.items("/api/v1/nodes") if each["metadata"]["name"] == node]
        return [shown["metadata"].get("labels", {}).get(names.LABEL_GPU_ISOLATION, "")]

    async def isolated() -> bool:
        return await label() == ["HAMi-core"]

    async def not_isolated() -> bool:
        return await label() == [""]

    says(1.0, "HAMi-core", true, false)
    [event] = await until(events, "an Event on the pod")
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert event["message"] == "container main: began without env X"
    assert event["type"] == "Warning"
    await until(isolated, "the label")
    says(2.0, "", true)
    await until(not_isolated, "and no label")
    says(3.0, "")

    async def over() -> bool:
        return any(not each.lasts for each in heard)

    await until(over, "that it is over")
    assert [each.lasts for each in heard] == [True, False]
    says(4.0, "", true)

    async def again() -> bool:
        return len(heard) == 3

    await until(again, "that it is there again")
    await corner.placed_now()  # cluster-writer had time for the second request
    assert len(await events()) == 1, "of one finding there is one Event"
