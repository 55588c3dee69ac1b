"""A recorder that looks on, with a folder that may be full or torn; what it has kept is made again at the end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tests.services.worlds.recorder import MemoryDisk
from tests.simulation.faults import Fault
from tests.simulation.planted.injectors import Saboteur

from berth.cli.recorded.auditing import Audit, Verdict
from berth.recorder.core.keeping import segments
from berth.recorder.settings import SERVICE, Settings
from berth.recorder.shell import main as recorder
from berth.recording.frames import Frames
from berth.runtime.context import Context
from berth.testing.simulation.services import ServiceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDER: Final = SERVICE
LAW: Final = "replay: a plan comes out otherwise:"


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

    def broken(self) -> list[str]:
        """What came out otherwise; also that nothing came out at all."""
        found = list(self.verdicts())
        broken = [
            f"{LAW} {each.plan} ({each.kind}): {'; '.join(each.about)[:300]}"
            for each in found
            if each.outcome == "different"
        ]
        if found and not any(each.outcome == "same" for each in found):
            broken.append(f"replay: none of {len(found)} plans could be made again: {found[0].about}")
        return broken


def full(rng: random.Random, at_s: float) -> list[Fault]:
    """The folder takes a few bytes more, or none, for a while."""
    return [Fault(at_s, "recorder full", amount=rng.choice((0.0, 30.0, 900.0)), for_s=rng.uniform(1.0, 12.0))]


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

    def _recorder_full(self, fault: Fault) -> None:
        for disk in self._disks:
            disk.room = sum(map(len, disk.held.values())) + int(fault.amount)
        self._later(fault.for_s, self._has_room)

    def _has_room(self) -> None:
        for disk in self._disks:
            disk.room = None

    def _recorder_torn(self, fault: Fault) -> None:
        for replica in self._harness.host.of(RECORDER):
            replica.kill(after_callbacks=0)
        for disk in self._disks:
            listed = segments(disk.files())
            if not listed:
                continue
            last = disk.held[listed[-1].name]
            if fault.amount:
                del last[max(len(last) - int(fault.amount), 0) :]
            elif last:
                last[-1 - self._rng.randrange(min(len(last), 200))] ^= 0x5A
