"""Kubernetes Events wait behind binds, keep to their pace, and never hold anything up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from prometheus_client import REGISTRY

from berth.cluster_writer.outbox import QUEUE_MAX, Note, Outbox
from berth.kube.answer import Answer
from berth.kube.bodies import ObjectRef
from berth.testing.virtual_loop import LoopClock, VirtualLoop

EPOCH_S = 1_750_000_000.0


class Api:
    """Notes when each Event comes in, and answers with the next of `statuses`, at last with 201."""

    def __init__(self, statuses: Sequence[int] = ()) -> None:
        self.statuses = list(statuses)
        self.sent: list[tuple[float, str, dict[str, Any]]] = []

    async def create(self, resource: Any, namespace: str, body: Any) -> Answer:
        self.sent.append((asyncio.get_running_loop().time(), namespace, body))
        return Answer(self.statuses.pop(0) if self.statuses else 201)


def outbox_of(api: Api, per_second: float = 10.0, is_busy: Callable[[], bool] = lambda: False) -> Outbox:
    shape: Any = api
    return Outbox(shape, LoopClock(EPOCH_S), random.Random(1), "writer-0", per_second=per_second, is_busy=is_busy)


def note(name: str = "p", namespace: str = "team") -> Note:
    return Note(ObjectRef("v1", "Pod", namespace, name, "u1", "7"), "Scheduled", f"{name} goes to n1")


def fate(name: str) -> float:
    return REGISTRY.get_sample_value("berth_writer_kubernetes_events_total", {"fate": name}) or 0.0


def play(scene: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scene)


async def work(outbox: Outbox, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await outbox.run()


def test_they_go_out_in_order_at_their_pace() -> None:
    api, before = Api(), fate("sent")

    async def scene() -> None:
        outbox = outbox_of(api, per_second=4.0)
        for name in ("a", "b", "c"):
            outbox.put(note(name))
        await work(outbox, 5.0)

    play(scene())
    assert [(at_s, body["involvedObject"]["name"]) for at_s, _, body in api.sent] == [(0, "a"), (0.25, "b"), (0.5, "c")]
    assert {namespace for _, namespace, _ in api.sent} == {"team"}
    first = api.sent[0][2]
    assert (first["reason"], first["type"], first["reportingInstance"]) == ("Scheduled", "Normal", "writer-0")
    assert first["firstTimestamp"] == "2025-06-15T15:06:40Z"
    assert len({body["metadata"]["name"] for _, _, body in api.sent}) == 3
    assert fate("sent") == before + 3


@pytest.mark.parametrize(("took_s", "wait_s"), [(0.0, 0.02), (0.001, 0.021), (0.005, 0.105), (0.5, 1.5)])
def test_they_give_way_where_the_api_server_takes_long(took_s: float, wait_s: float) -> None:
    """50 a second is the most; no more than a twentieth of the time is theirs, yet one is sent every second or so."""

    class Slow(Api):
        async def create(self, resource: Any, namespace: str, body: Any) -> Answer:
            answer = await super().create(resource, namespace, body)
            await asyncio.sleep(took_s)
            return answer

    api = Slow()

    async def scene() -> None:
        outbox = outbox_of(api, per_second=50.0)
        for name in ("a", "b"):
            outbox.put(note(name))
        await work(outbox, 3.0)

    play(scene())
    (first_s, _, _), (second_s, _, _) = api.sent
    assert second_s - first_s == pytest.approx(wait_s)


def test_they_wait_while_many_binds_are_open() -> None:
    api = Api()

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        outbox = outbox_of(api, is_busy=lambda: loop.time() < 1.99)
        outbox.put(note())
        await work(outbox, 5.0)

    play(scene())
    assert [at_s for at_s, _, _ in api.sent] == [pytest.approx(2.0)]


def test_what_the_api_server_refuses_is_counted_and_the_next_one_goes() -> None:
    api, before = Api([500, 0]), (fate("failed"), fate("sent"))

    async def scene() -> None:
        outbox = outbox_of(api)
        for name in ("a", "b", "c"):
            outbox.put(note(name))
        await work(outbox, 5.0)

    play(scene())
    assert [body["involvedObject"]["name"] for _, _, body in api.sent] == ["a", "b", "c"], "none is tried twice"
    assert (fate("failed"), fate("sent")) == (before[0] + 2, before[1] + 1)


def test_a_full_box_drops_and_counts() -> None:
    api, before = Api(), fate("dropped")

    async def scene() -> None:
        outbox = outbox_of(api, per_second=1000.0)
        for number in range(QUEUE_MAX + 3):
            outbox.put(note(f"p{number}"))
        assert fate("dropped") == before + 3
        await work(outbox, 60.0)

    play(scene())
    assert len(api.sent) == QUEUE_MAX
    assert api.sent[-1][2]["involvedObject"]["name"] == f"p{QUEUE_MAX - 1}", "what came last is dropped"


@pytest.mark.parametrize("per_second", [0.0, -1.0])
def test_a_box_that_is_switched_off_keeps_nothing(per_second: float) -> None:
    api, before = Api(), fate("dropped")

    async def scene() -> None:
        outbox = outbox_of(api, per_second=per_second)
        outbox.put(note())
        await work(outbox, 5.0)

    play(scene())
    assert not api.sent
    assert fate("dropped") == before + 1


def test_what_has_no_namespace_is_told_in_default() -> None:
    api = Api()

    async def scene() -> None:
        outbox = outbox_of(api)
        outbox.put(note("a-reservation", namespace=""))
        await work(outbox, 5.0)

    play(scene())
    assert [namespace for _, namespace, _ in api.sent] == ["default"]


def test_an_event_with_a_name_of_its_own_is_made_once() -> None:
    api, before = Api([201, 409]), (fate("sent"), fate("known"), fate("failed"))

    async def scene() -> None:
        outbox = outbox_of(api)
        for _ in range(2):
            outbox.put(note()._replace(token="8d2f6c1e"))
        await work(outbox, 1.0)

    play(scene())
    assert [body["metadata"]["name"] for _, _, body in api.sent] == ["p.8d2f6c1e", "p.8d2f6c1e"]
    after = (fate("sent"), fate("known"), fate("failed"))
    assert tuple(one - other for one, other in zip(after, before, strict=True)) == (1, 1, 0)
