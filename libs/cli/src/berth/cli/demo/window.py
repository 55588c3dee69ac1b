"""The act of a schedule: what it holds for its window is held against everybody else, and used by whom it is for."""

from __future__ import annotations

import asyncio
from typing import Final

from berth.cli.demo.grants import used_reservation
from berth.cli.demo.scenario import Scenario
from berth.cli.demo.stage import Stage
from berth.cli.demo.studio import NAME, SCHEDULE
from berth.rules.reservation_window import WindowNote, window_of
from berth.simcluster.store.objects import Json

RESERVATIONS: Final = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
POLL_S: Final = 0.1
POLLS_MAX: Final = 200


async def window(stage: Stage, plot: Scenario) -> bool:
    """A schedule makes the Reservation of its window, which a stranger finds full and its owner uses."""
    of = plot.studio
    await stage.create([of.node, of.schedule])
    held, note = await _held(stage)
    name = held["metadata"]["name"] if held else ""
    times = f"{NAME} is held for {_clock(note.start)} to {_clock(note.end)} UTC" if note else ""
    stage.tell("window", SCHEDULE, "available" if held else "not placed", times)
    (stranger,) = await stage.settled(await stage.create([of.stranger]))
    said = await stage.why(of.stranger["metadata"]["name"])
    stage.tell("pod", of.stranger["metadata"]["name"], "placed" if stranger.node else "waits", stranger.node)
    stage.more("because", said.message if said else "no reason")
    (player,) = await stage.settled(await stage.create([of.player]))
    used = used_reservation(player.annotations)
    facts = f"{player.node}  out of reservation {used or 'none'}"
    stage.tell("pod", of.player["metadata"]["name"], "placed" if player.node else "waiting", facts)
    return bool(name) and player.node == NAME and used == name and not stranger.node and bool(said and said.message)


async def _held(stage: Stage) -> tuple[Json | None, WindowNote | None]:
    """The Reservation of a window of the schedule that has its node, and the window."""
    for _ in range(POLLS_MAX):
        for each in (await stage.object(RESERVATIONS)).get("items") or []:
            note = window_of(each["metadata"].get("annotations") or {})
            if note and note.schedule == SCHEDULE and (each.get("status") or {}).get("phase") == "Available":
                return each, note
        await asyncio.sleep(POLL_S)
    return None, None


def _clock(time: str) -> str:
    """Hours and minutes of a time in RFC 3339."""
    return time[11:16]
