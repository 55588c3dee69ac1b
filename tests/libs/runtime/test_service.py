"""What the managers' loop carries out of an outcome, in which order, and what it leaves undone."""

from __future__ import annotations

from typing import Any

import pytest

from berth.bus.port import Entry
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.command import PatchNode
from berth.contracts.errors import InvalidMessage
from berth.contracts.event import NodeChanged
from berth.contracts.slo import NodeSLO
from berth.runtime import Command, Context, Event, Manager, Moment, Outcome, Output, PublishedView, Write
from berth.runtime.settings import ServiceSettings
from berth.telemetry import counter

PUBLISHED = counter("berth_test_published_total", "Writes.", ["what"])
COMMANDS = counter("berth_test_commands_total", "Commands.")
WRITE = Write("node.n", NodeSLO(node="n"), [Event("evt.n", NodeChanged(node="n", message="new"), "id")])
COMMAND = Command("cmd.n", PatchNode(name="n", uid="u"), "id")


class FakeBus:
    """Owned bucket, lease and queues in one: writes down what it is given."""

    active = False

    def __init__(self) -> None:
        self.done: list[str] = []
        self.changes = True
        self.meanwhile: Any = lambda: None

    def owned(self, *_: Any, **__: Any) -> FakeBus:
        return self

    lease = owned

    def commands(self) -> FakeBus:
        return self

    events = commands

    def put(self, key: str, value: bytes) -> bool:
        self.done.append(f"put {key}")
        return self.changes

    def delete(self, key: str) -> bool:
        self.done.append(f"delete {key}")
        return self.changes

    def offer(self, subject: str, payload: bytes, **_: Any) -> bool:
        self.done.append(f"offer {subject}")
        return True

    async def publish(self, subject: str, payload: bytes, **_: Any) -> None:
        self.done.append(f"publish {subject}")
        self.meanwhile()


class Fixed:
    """A reconciler with one answer."""

    is_ready, missing, facts = True, "complete", dict[str, str | int | float | bool]()

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def begin(self) -> None:
        pass

    def names(self) -> list[str]:
        return ["n"]

    def due(self, at: Moment) -> list[str]:
        return []

    def reconcile(self, name: str, at: Moment) -> Outcome:
        return self.outcome


class Bench:
    def __init__(self, *answer: Any, **more: Any) -> None:
        self.bus: Any = FakeBus()
        context = Context(service="test", settings=ServiceSettings(), bus=self.bus)
        self.manager: Manager[ServiceSettings, Fixed] = Manager("test", context, lease_ttl_s=2)
        self.view = PublishedView("node", NodeSLO, self.manager.changed.mark)
        self.manager.wire(
            Fixed(Outcome(*answer, **more)),
            inputs=[],
            output=Output(buckets.SLO, self.view, PUBLISHED, written="message", deleted="deletion"),
            commands=COMMANDS,
            window_s=0.0,
        )

    async def run(self) -> list[str]:
        await self.manager._batch(["n"])
        return self.bus.done


async def test_commands_go_after_writes_unless_the_writes_are_their_record() -> None:
    assert await Bench([WRITE], [COMMAND]).run() == ["put node.n", "offer evt.n", "publish cmd.n"]
    assert await Bench([WRITE], [COMMAND], commands_first=True).run() == ["publish cmd.n", "put node.n", "offer evt.n"]


async def test_an_event_of_a_write_that_changes_nothing_is_not_sent() -> None:
    bench = Bench([WRITE])
    bench.bus.changes = False
    assert await bench.run() == ["put node.n"]


async def test_a_record_is_not_written_over_what_the_bucket_shows_meanwhile() -> None:
    bench = Bench([WRITE], [COMMAND], commands_first=True)
    bench.bus.meanwhile = lambda: bench.view.put("n", NodeSLO(node="n", uid="theirs"))
    assert await bench.run() == ["publish cmd.n"]


async def test_a_command_that_cannot_be_sent_leaves_no_record() -> None:
    bench = Bench([WRITE], [COMMAND], commands_first=True)

    def refuse() -> None:
        raise InvalidMessage("spec", "is too large")

    bench.bus.meanwhile = refuse
    assert await bench.run() == ["publish cmd.n"]
    assert bench.view.messages == {}


async def test_nothing_is_decided_from_views_that_begin_anew() -> None:
    bench = Bench([WRITE])
    bench.manager.reconciler.is_ready = False
    assert await bench.run() == []


@pytest.mark.parametrize("value", [encode(NodeSLO(node="n")), b"{"])
async def test_a_deletion_is_written_for_what_the_bucket_shows_readable_or_not(value: bytes) -> None:
    bench = Bench([Write("node.n", None)])
    bench.view.apply(Entry("node.n", value, False, 1, 0, False, None))
    assert bench.view.keys == {"node.n": "n"}
    assert await bench.run() == ["delete node.n"]
    assert bench.view.keys == {}
