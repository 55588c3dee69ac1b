"""The past of a pod is in order, also where two services publish about it."""

from __future__ import annotations

from typing import Any

from berth.bus import Message
from berth.cli.past import past_of
from berth.contracts import event
from berth.contracts.codec import encode

BOUND = event.PlacementBound(namespace="d", name="a", uid="u", node="n", plan="p", latency_ms=1.0)
DECIDED = event.PlacementDecided(plan="p", pods=["d/a"], nodes=["n"])


class Events:
    """A bus that keeps these events, by their place in the stream."""

    def __init__(self, **kept: tuple[int, Any]) -> None:
        self.kept = kept

    async def past_events(self, pattern: str) -> Any:
        if ".placement." in pattern and "bound" in self.kept:
            yield message(*self.kept["bound"])

    async def last_event(self, subject: str) -> Message | None:
        return message(*self.kept["decided"]) if "decided" in self.kept else None


def message(sequence: int, said: Any) -> Message:
    return Message(subject="", data=encode(said), headers={}, sequence=sequence)


async def test_a_decision_stands_before_its_bind_whichever_came_first() -> None:
    for places in ((3, 7), (7, 3)):
        bus: Any = Events(decided=(places[0], DECIDED), bound=(places[1], BOUND))
        assert [each.data for each in await past_of(bus, "d", "a")] == [encode(DECIDED), encode(BOUND)]
    lost: Any = Events(bound=(3, BOUND))
    assert [each.data for each in await past_of(lost, "d", "a")] == [encode(BOUND)]
