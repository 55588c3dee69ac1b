"""Another policy on what was recorded: both sides, figure by figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from berth.cli.errors import EXIT_BAD, CliError
from berth.cli.recorded.moment import NO_GROUND, Moment, view_of
from berth.cli.recorded.segments import Head
from berth.cli.recorded.tape import entry_of
from berth.cli.recorded.times import told
from berth.cli.shadow.lives import Lives
from berth.cli.shadow.outcome import Differences, Side
from berth.cli.shadow.packing import packing_of
from berth.cli.shadow.stretch import Stretch
from berth.cli.shadow.world import World
from berth.contracts import buckets
from berth.contracts.errors import InvalidMessage
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.prices.stranding import Typical, typical_of
from berth.recording.grounds import Known
from berth.recording.recalled import Recalled
from berth.recording.records import Entered
from berth.rules.bounded_yaml import TEXT_MAX
from berth.rules.scheduler_config import SchedulerConfig, read_scheduler_config

LOOKS: Final = 100
"""So often it is measured how full both are, at moments that lie equally far apart."""
TOLD_EVERY_S: Final = 2.0
PROBLEMS_MAX: Final = 8

Tell = Callable[[str], None]


@dataclass
class Compared:
    """What was decided, and what the shadow decides. `missed` is how many messages recorder has missed."""

    since_s: float
    until_s: float
    missed: int
    lives: Lives
    recorded: Side
    shadow: Side
    differences: Differences


def compared(
    listed: Sequence[Head], profile: Path, since_s: float | None, until_s: float | None, tell: Tell = lambda _: None
) -> Compared:
    """Play the stretch through. Raises CliError for a profile that cannot be used, and what was not recorded."""
    text = _text_of(profile)
    stretch = Stretch(listed, since_s, until_s)
    tell("reading what was recorded")
    moment = stretch.moment()
    if moment.ground is NO_GROUND:
        moment = moment._replace(ground=_first_ground(stretch) or NO_GROUND)
    lives = Lives(frozenset(moment.ground.ground.schedulers))
    world = World(moment.ground, text, lives)
    _check(profile, world.cluster, moment)
    newest_s, missed = _read(stretch, moment, lives)
    if newest_s <= stretch.since_s:
        raise CliError(f"nothing is recorded that happened after {told(stretch.since_s)}", EXIT_BAD)
    ends_s = stretch.until_s if stretch.until_s is not None else newest_s
    world.side.came = lives.came
    recorded = Side(came=lives.came)
    for uid, life in lives.of.items():
        if life.is_decided_anew and life.decided_s is not None and life.came_s is not None:
            recorded.nodes[uid] = life.node
            recorded.waited_s[uid] = max(0.0, life.decided_s - life.came_s)
    recorded.victims.update(lives.victims.values())
    _play(stretch, moment, world, recorded, ends_s, tell)
    return Compared(stretch.since_s, ends_s, missed, lives, recorded, world.side, Differences(recorded, world.side))


def _read(stretch: Stretch, moment: Moment, lives: Lives) -> tuple[float, int]:
    """Fill in what became of every pod; when the last message was stored, and how many were missed."""
    lives.begin(moment.values.of(buckets.STATE), moment.values.of(buckets.LEDGER), stretch.since_s)
    newest_s, missed = moment.newest_s, 0
    for record in stretch.records():
        if isinstance(record, Entered):
            newest_s = max(newest_s, record.stored_s)
            lives.read(record)
        else:
            missed += record.last - record.first + 1
    return newest_s, missed


def _play(stretch: Stretch, moment: Moment, world: World, recorded: Side, ends_s: float, tell: Tell) -> None:
    """Both sides from message to message, and a look at both now and then."""
    seen = view_of(moment)
    world.begin(moment, stretch.since_s)
    whole_s = ends_s - stretch.since_s
    looks = [stretch.since_s + whole_s * (at + 1) / LOOKS for at in range(LOOKS)]
    typical: tuple[Typical, ...] = ()
    told_at = time.monotonic()

    def look(at_s: float) -> None:
        nonlocal typical
        world.advance(at_s)
        typical = typical_of(world.cluster.prices.workload, typical)
        seen.end_of_state()
        seen.wake()
        recorded.packings.append(packing_of(seen, typical))
        world.side.packings.append(packing_of(world.cluster, typical))

    done = 0
    for record in stretch.records():
        if not isinstance(record, Entered):
            continue
        while done < LOOKS and looks[done] < record.stored_s:
            look(looks[done])
            done += 1
        _see(seen, record)
        ground = moment.recalled.take(record)
        if ground is not None:
            world.price(ground)
        world.take(record)
        if time.monotonic() - told_at >= TOLD_EVERY_S:
            told_at = time.monotonic()
            part = min(1.0, max(0.0, (record.stored_s - stretch.since_s) / whole_s))
            placed, came = len(world.side.nodes), world.side.came
            tell(f"{part:.0%}, {told(record.stored_s)}: {placed} of {came} pods placed")
    for at_s in looks[done:]:
        look(at_s)
    world.advance(ends_s)


def _see(seen: ClusterView, record: Entered) -> None:
    seen.now = max(seen.now, record.stored_s)
    seen.loads.tell_time(record.stored_s)
    try:
        seen.read(record.bucket, entry_of(record))
    except (InvalidMessage, ValueError):
        return


def _first_ground(stretch: Stretch) -> Known | None:
    """The first that is told in the stretch."""
    recalled = Recalled()
    for record in stretch.records():
        found = recalled.take(record)
        if found is not None:
            return found
    return None


# --- the profile -----------------------------------------------------------------------------------------------------


def _text_of(profile: Path) -> str:
    try:
        with profile.open(encoding="utf-8") as file:
            text = file.read(TEXT_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"profile {profile} cannot be read: {error}") from error
    found = read_scheduler_config(text)
    if not isinstance(found, SchedulerConfig):
        said = "; ".join(f"{each.field}: {each.message}" for each in found[:PROBLEMS_MAX])
        raise CliError(f"profile {profile} cannot be used: {said}")
    return text


def _check(profile: Path, cluster: ClusterView, moment: Moment) -> None:
    """Raises CliError for a profile that is for nobody who came, or needs what was not recorded."""
    if cluster.configuration.idle:
        raise CliError(f"profile {profile}: {cluster.configuration.idle}")
    if cluster.looks_at_load and buckets.METRICS not in moment.streams:
        raise CliError(
            f"profile {profile} looks at what nodes really use, which was not recorded (BERTH_RECORD_METRICS)", EXIT_BAD
        )
