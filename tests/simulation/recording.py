"""A recorder that looks on, with a folder that may be full, torn or gone; what it has kept is made again at the end.

None of its faults excuses anybody else: all other promises hold as if it were not there (`blinding.ELSEWHERE`).
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tests.services.worlds.recorder import MemoryDisk
from tests.simulation.faults import Fault
from tests.simulation.planted.injectors import Saboteur

from berth.cli.recorded.auditing import Audit, Verdict
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.ledger import Plan
from berth.recorder.core.keeping import segments
from berth.recorder.settings import SERVICE, Settings
from berth.recorder.shell import READ
from berth.recorder.shell import main as recorder
from berth.recording.frames import Frames
from berth.recording.grounds import Grounds
from berth.recording.records import AnyRecord, Began, Entered, Missed, Told, Whole
from berth.runtime.context import Context
from berth.testing.simulation.services import ServiceSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.simulation.harness import Harness

    from berth.invariants import Counts

RECORDER: Final = SERVICE
LAW: Final = "I44"
RECORDED_AFTER_S: Final = 20.0
"""What is older than that is recorded, where nothing is in the way: it gathers, and tries again now and then."""


class Recording:
    """The folders, each of one replica, which outlive their processes."""

    def __init__(self) -> None:
        self.disks: dict[str, MemoryDisk] = {}

    def spec(self) -> ServiceSpec:
        """recorder, which writes here."""

        async def main(context: Context[Settings]) -> None:
            disk = self.disks.setdefault(context.instance, MemoryDisk())
            await recorder(context, lambda _: disk)

        return ServiceSpec(name=RECORDER, settings_type=Settings, main=main)

    def verdicts(self) -> Iterator[Verdict]:
        """Every plan that is recorded, made again."""
        for _, disk in sorted(self.disks.items()):
            audit = Audit(lambda plan, stored_s: True)
            for name, _ in segments(disk.files()):
                for block in Frames(disk.read(name)):
                    yield from audit.over(block)
            yield from audit.end()

    def broken(self, counts: Counts) -> list[str]:
        """What came out otherwise, or did not and nobody says why; what is missing though nobody says so; also that
        nothing came out at all."""
        found = list(self.verdicts())
        counts.judged(LAW, len(found))
        broken = [
            f"{LAW} a plan comes out otherwise: {each.plan} ({each.kind}): {'; '.join(each.about)[:300]}"
            for each in found
            if each.outcome == "different"
        ]
        broken += [f"{LAW} nobody says why {each.plan} is {each.outcome}" for each in found if _is_unexplained(each)]
        for instance, disk in sorted(self.disks.items()):
            broken += [f"{LAW} {instance}: {text}" for text in holes(_records(disk))]
            if not disk.was_gone:
                broken += [f"{LAW} {instance}: {text}" for text in unknown(_segments(disk))]
        if found and not any(each.outcome == "same" for each in found):
            broken.append(f"{LAW} none of {len(found)} plans could be made again: {found[0].about}")
        return broken

    def forgotten(self, harness: Harness) -> list[str]:
        """When all is quiet: what a bucket has that no folder has."""
        found = []
        for bucket in READ:
            stream = harness.nats.streams.get(f"KV_{bucket}")
            stored = stream.messages.values() if stream is not None else ()
            before_ns = harness.nats.unix_ns() - int(RECORDED_AFTER_S * 1e9)
            due = max((each.sequence for each in stored if each.time < before_ns), default=0)
            newest = max((_newest(_records(disk), bucket) for disk in self.disks.values()), default=0)
            if newest < due:
                found.append(f"{LAW} {bucket} is recorded through {newest}, and has had {due} for a while")
        return found


def holes(records: Iterable[AnyRecord]) -> list[str]:
    """Messages between two that are recorded, of one run, of which nobody says that they are missing."""
    run, in_checkpoint, is_first = "", False, False
    seen: dict[str, int] = {}
    missed: dict[str, set[int]] = {}
    found = []
    for record in records:
        if isinstance(record, Began):
            in_checkpoint, is_first = True, record.run != run
            if is_first:
                run, seen, missed = record.run, {}, {}
        elif isinstance(record, Whole):
            in_checkpoint = False
        elif isinstance(record, Missed):
            missed.setdefault(record.bucket, set()).update(range(record.first, record.last + 1))
        elif isinstance(record, Entered) and (is_first or not in_checkpoint):
            before = seen.get(record.bucket, 0)
            seen[record.bucket] = max(before, record.sequence)
            unsaid = set(range(before + 1, record.sequence)) - missed.get(record.bucket, set())
            if unsaid and before and not in_checkpoint:
                found.append(f"{record.bucket} lacks {min(unsaid)} to {max(unsaid)}, and nothing says so")
    return found


def unknown(listed: Iterable[Iterable[AnyRecord]]) -> list[str]:
    """Grounds that one segment has at its end and the next one that is whole does not begin with: by which plans are
    told that cannot be made again from there on."""
    newest, found = "", []
    for number, records in enumerate(listed):
        grounds, is_whole = Grounds(), False
        for record in records:
            if isinstance(record, Told):
                grounds.take(record.ground)
            elif isinstance(record, Whole):
                is_whole = True
                if newest and grounds.of(newest) is None:
                    found.append(f"segment {number} begins without the ground {newest}, which is in one before it")
            elif isinstance(record, Entered) and is_whole and not record.deleted and ".plan." in record.key:
                with suppress(InvalidMessage):
                    origin = decode(record.value, Plan).round
                    if origin is not None and origin.told is not None:
                        grounds.take(origin.told)
        newest = next((each.ground.id for each in reversed(list(grounds))), "") if is_whole else newest
    return found


def _is_unexplained(verdict: Verdict) -> bool:
    return verdict.outcome == "not replayable" and not any(verdict.about)


def _records(disk: MemoryDisk) -> Iterator[AnyRecord]:
    for records in _segments(disk):
        yield from records


def _segments(disk: MemoryDisk) -> Iterator[list[AnyRecord]]:
    for name, _ in segments(disk.files()):
        yield [record for block in Frames(disk.read(name)) for record in block]


def _newest(records: Iterable[AnyRecord], bucket: str) -> int:
    """Of the last run."""
    newest, run = 0, ""
    for record in records:
        if isinstance(record, Began) and record.run != run:
            newest, run = 0, record.run
        elif isinstance(record, Entered) and record.bucket == bucket:
            newest = max(newest, record.sequence)
    return newest


def full(rng: random.Random, at_s: float) -> list[Fault]:
    """The folder takes a few bytes more, or none, for a while."""
    return [Fault(at_s, "recorder full", amount=rng.choice((0.0, 30.0, 900.0)), for_s=rng.uniform(1.0, 12.0))]


def gone(rng: random.Random, at_s: float) -> list[Fault]:
    """The folder is gone for a while, and comes back as it was."""
    return [Fault(at_s, "recorder gone", for_s=rng.uniform(1.0, 12.0))]


def torn(rng: random.Random, at_s: float) -> list[Fault]:
    """A crash takes the last bytes of a segment, or garbles one."""
    return [Fault(at_s, "recorder torn", amount=rng.choice((0.0, 1.0, 40.0)))]


class RecordingSaboteur(Saboteur):
    """An injector that reaches the folders."""

    @property
    def _disks(self) -> list[MemoryDisk]:
        recording = self._harness.recording
        assert recording is not None
        return [disk for _, disk in sorted(recording.disks.items())]

    def calm(self) -> None:
        """See `FaultInjector.calm`."""
        super().calm()
        self._has_room()
        self._is_back()

    def _recorder_full(self, fault: Fault) -> None:
        for disk in self._disks:
            disk.room = sum(map(len, disk.held.values())) + int(fault.amount)
        self._later(fault.for_s, self._has_room)

    def _has_room(self) -> None:
        for disk in self._disks:
            disk.room = None

    def _recorder_gone(self, fault: Fault) -> None:
        for disk in self._disks:
            disk.is_gone = True
        self._later(fault.for_s, self._is_back)

    def _is_back(self) -> None:
        for disk in self._disks:
            disk.is_gone = False

    def _recorder_torn(self, fault: Fault) -> None:
        for replica in self._harness.host.of(RECORDER):
            replica.kill(after_callbacks=0)
        for disk in self._disks:
            listed = segments(disk.files()) if not disk.is_gone else []
            if not listed:
                continue
            last = disk.held[listed[-1].name]
            if fault.amount:
                del last[max(len(last) - int(fault.amount), 0) :]
            elif last:
                last[-1 - self._rng.randrange(min(len(last), 200))] ^= 0x5A
