"""In which order commands are carried out, and which of those that wait for one object give way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from berth.cluster_writer import turns
from berth.cluster_writer.core.coalescing import covers, is_of_figures
from berth.cluster_writer.turns import OVERTAKEN, Turns
from berth.contracts.command import EvictPod, PatchObject

FIGURES = PatchObject(
    api="g/v1/quotas", namespace="ns", name="q", uid="u", annotations={"used": "1"}, status={"used": {"cpu": "1"}}
)


def ready(reason: str, message: str = "") -> dict[str, str]:
    return {"type": "Ready", "status": "True", "reason": reason, "message": message, "lastProbeTime": message}


SHOWN = PatchObject(
    api="g/v1/rs", name="r", uid="u", status={"phase": "Available", "conditions": [ready("Available")], "allocated": {}}
)


@pytest.mark.parametrize(
    ("older", "changes", "does"),
    [
        (FIGURES, {"annotations": {"used": "2", "asked": "3"}, "status": {"used": {"cpu": "2", "memory": "1"}}}, True),
        (FIGURES, {"annotations": {}}, False),
        (FIGURES, {"status": None}, False),
        (FIGURES, {"status": {"used": {"memory": "1"}}}, False),
        (FIGURES, {"status": {"used": None}}, False),
        (FIGURES, {"uid": "another"}, False),
        (FIGURES, {"status": {"used": {"cpu": "2"}, "phase": "Ended"}}, False),
        (SHOWN, {"status": {**(SHOWN.status or {}), "conditions": [ready("Available", "later")]}}, True),
        (SHOWN, {"status": {**(SHOWN.status or {}), "conditions": [ready("Succeeded")]}}, False),
        (SHOWN, {"status": {**(SHOWN.status or {}), "phase": "Succeeded"}}, False),
        (SHOWN, {"status": {"allocated": {}}}, False),
        (SHOWN, {"status": {**(SHOWN.status or {}), "conditions": "garbled"}}, False),
    ],
    ids=range(12),
)
def test_what_covers_an_older_request(older: PatchObject, changes: dict[str, Any], does: bool) -> None:
    assert covers(replace(older, **changes), older) is does


def test_only_figures_wait_for_binds() -> None:
    assert is_of_figures(FIGURES, None)
    assert is_of_figures(SHOWN, "Available")
    assert not is_of_figures(SHOWN, "Pending")
    assert not is_of_figures(SHOWN, None)
    assert not is_of_figures(replace(FIGURES, status=None), None)
    assert not is_of_figures(EvictPod(namespace="ns", name="p", uid="u", reason="r"), None)


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


class Desk:
    """Commands, and what of them was sent; nothing ends before `open` is set."""

    def __init__(self) -> None:
        self.clock, self.busy, self.sent = Clock(), False, []  # type: ignore[var-annotated]
        self.open = asyncio.Event()
        self.turns = Turns(self.clock, lambda: self.busy, lambda at: None)
        self.sequence = 0

    def put(self, command: Any, *, sequence: int = 0, comes_again: bool = False) -> asyncio.Task[str]:
        async def send() -> str:
            self.sent.append(command)
            await self.open.wait()
            return "done"

        self.sequence = sequence or self.sequence + 1
        made = self.turns.take(command, send, sequence=self.sequence, comes_again=comes_again)
        return asyncio.create_task(made)  # type: ignore[arg-type]


def numbered(number: int, **changes: Any) -> PatchObject:
    status = {"used": {"cpu": str(number)}}
    return replace(FIGURES, annotations={"used": str(number)}, status=status, **changes)


async def test_of_what_waits_the_newest_is_carried_out() -> None:
    desk = Desk()
    tasks = [desk.put(numbered(number)) for number in range(5)]
    other = desk.put(numbered(7, name="other"))
    await asyncio.sleep(0)
    assert desk.sent == [numbered(0), numbered(7, name="other")]
    desk.open.set()
    assert await asyncio.gather(*tasks) == ["done", *[OVERTAKEN] * 3, "done"]
    assert await other == "done"
    assert desk.sent[2:] == [numbered(4)]
    assert not desk.turns._lines


async def test_a_phase_keeps_its_place_among_figures() -> None:
    desk = Desk()
    figures = replace(SHOWN, status={"allocated": {"cpu": "1"}})
    commands = [figures, SHOWN, replace(SHOWN, status={**(SHOWN.status or {}), "phase": "Succeeded"}), figures]
    tasks = [desk.put(each) for each in commands]
    desk.open.set()
    assert await asyncio.gather(*tasks) == ["done"] * 4
    assert desk.sent == commands


async def test_figures_come_behind_binds_but_not_for_ever() -> None:
    desk = Desk()
    desk.busy = True
    desk.open.set()
    late, phase = desk.put(FIGURES), desk.put(SHOWN)
    evicts = desk.put(EvictPod(namespace="ns", name="p", uid="u", reason="r"))
    assert await evicts == await phase == await late == "done"
    assert desk.sent[-1] == FIGURES
    assert turns.BEHIND_MAX_S <= desk.clock.time < turns.BEHIND_MAX_S + 1.0


async def test_what_comes_again_gives_way_to_what_was_done_since() -> None:
    desk = Desk()
    desk.open.set()
    assert await desk.put(numbered(2), sequence=9) == "done"
    assert await desk.put(numbered(1), sequence=8, comes_again=True) == OVERTAKEN
    assert await desk.put(numbered(3), sequence=1) == "done", "the queue may have begun anew"
    assert [each.annotations["used"] for each in desk.sent] == ["2", "3"]


async def test_what_comes_again_takes_no_place_of_what_is_newer_and_waits() -> None:
    desk = Desk()
    first, newer = desk.put(numbered(0), sequence=7), desk.put(numbered(2), sequence=9)
    await asyncio.sleep(0)
    older = desk.put(numbered(1), sequence=8, comes_again=True)
    phase = desk.put(replace(FIGURES, status={"phase": "Ended"}), sequence=6, comes_again=True)
    desk.open.set()
    assert await asyncio.gather(first, newer, older, phase) == ["done", "done", OVERTAKEN, "done"]
    assert desk.sent[:2] == [numbered(0), numbered(2)]
    assert await desk.put(numbered(1), sequence=8, comes_again=True) == OVERTAKEN, "the newest is remembered"


async def test_a_failure_lets_the_next_one_begin() -> None:
    desk = Desk()

    async def failing() -> str:
        raise RuntimeError

    first = asyncio.create_task(desk.turns.take(SHOWN, failing, sequence=1, comes_again=False))  # type: ignore[arg-type]
    second = desk.put(replace(SHOWN, status={"phase": "Failed"}))
    desk.open.set()
    with pytest.raises(RuntimeError):
        await first
    assert await second == "done"
