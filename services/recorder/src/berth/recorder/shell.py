"""The wiring of the recorder, and when it writes.

It writes files and nothing else: nobody decides by what it says. What it cannot write it does not keep: it says so, and
begins again with a checkpoint when there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from berth.contracts import buckets
from berth.recorder.core import keeping
from berth.recorder.core.taking import Taking
from berth.recorder.disk import Disk, Folder
from berth.recorder.settings import SERVICE, Settings
from berth.recorder.views import BucketView
from berth.recording.frames import MARK, Frames, framed, sound
from berth.recording.records import AnyRecord, Whole
from berth.runtime import Context, Input, Replica
from berth.telemetry import counter, gauge

READ: Final = (
    buckets.STATE,
    buckets.INVENTORY,
    buckets.QUOTA,
    buckets.RESERVATION,
    buckets.SLO,
    buckets.LEDGER,
)
"""What every solver reads."""
TRY_AGAIN: Final = 5
"""So many times longer is waited after something could not be written."""
SEGMENTS: Final = "segments"
"""The health check until what was recorded before is read."""

RECORDS = counter("berth_recorder_records_total", "What was written: messages, and what was said about buckets.")
FAILURES = counter("berth_recorder_failures_total", "Writes that failed, each with a gap in what is recorded.")
TORN = counter("berth_recorder_torn_total", "Segments whose end was cut off at a start, for it was broken.")
BYTES = gauge("berth_recorder_bytes", "Bytes of all segments.")
RECORDING = gauge("berth_recorder_recording", "1 while what is read is being written.")


class Shell(Replica[Settings]):
    """One replica. The folder is its own."""

    def __init__(self, context: Context[Settings], disk: Disk) -> None:
        settings = context.settings
        names = (*READ, buckets.METRICS) if settings.record_metrics else READ
        self.taking = Taking(names)
        inputs = [Input(name, BucketView(name, self.taking)) for name in names]
        super().__init__(SERVICE, context, inputs=inputs, lease_ttl_s=settings.lease_ttl_s)
        self._disk = disk
        self._run = ""
        self._segment = keeping.File("", 0)
        self._checkpoint = 0
        self._trouble = "not begun"
        self._found = keeping.File("", 0), 0
        """The newest segment as it was at the start, and how many of its bytes were sound."""

    @property
    def is_ready(self) -> bool:
        """See `Replica`."""
        return self.taking.is_whole

    @property
    def missing(self) -> str:
        """See `Replica`."""
        return "read" if self.is_ready else "reading"

    @property
    def facts(self) -> dict[str, str | int | float]:
        """See `Replica`."""
        return {
            "trouble": self._trouble or "none",
            "segment": self._segment.name,
            "keys": self.taking.keys,
            "unread": ", ".join(each.removeprefix("berth_") for each in self.taking.unread),
            "grounds refused": self.taking.refused,
        }

    async def run(self) -> None:
        """See `Replica`. What earlier segments have of grounds comes before what the buckets show."""
        health = self.context.health
        health.add(SEGMENTS, lambda: (False, "reading what was recorded before"))
        await self._recall()
        health.remove(SEGMENTS)
        await super().run()

    async def work(self) -> None:
        """Write what is read, for as long as this replica is the active one."""
        context, every_s = self.context, self.context.settings.record_every_s
        context.log.info("active: recording", folder=context.settings.record_folder)
        self._mend()
        try:
            while True:
                pause_s = every_s
                try:
                    await self._write()
                except OSError as error:
                    self._fail(error)
                    pause_s = TRY_AGAIN * every_s
                await context.clock.sleep(pause_s)
        finally:
            self._end("stands by")

    async def _recall(self) -> None:
        """Grounds that were told before this start, from the newest checkpoint that is whole on."""
        after: list[str] = []
        try:
            for each in reversed(keeping.segments(self._disk.files())):
                self.context.log.info("reading what was recorded before", segment=each.name, bytes=each.size)
                is_whole, good = await self._read_again(each.name)
                if not after:
                    self._found = each, good
                if is_whole:
                    break
                after.append(each.name)
            for name in reversed(after):
                await self._read_again(name)
        except OSError as error:
            self.context.log.warning("cannot read what was recorded before", error=str(error)[:200])

    async def _read_again(self, name: str) -> tuple[bool, int]:
        """Recall what a segment has; whether its checkpoint is whole, and how many of its bytes are sound."""
        frames, is_whole = Frames(self._disk.read(name)), False
        for records in frames:
            for record in records:
                is_whole |= isinstance(record, Whole)
                self.taking.recall(record)
            await self.context.clock.sleep(0)
        return is_whole, frames.good

    def _mend(self) -> None:
        """What a crash has left of the newest segment ends with what is sound."""
        try:
            listed = keeping.segments(self._disk.files())
            for name, size in listed[-1:]:
                found, good = self._found
                if found != (name, size):
                    good = sound(self._disk.read(name))
                if good < size:
                    self.context.log.warning(
                        "the end of a segment is torn, and cut off", segment=name, bytes=size - good
                    )
                    self._disk.cut(name, good)
                    TORN.inc()
        except OSError as error:
            self._fail(error)

    async def _write(self) -> None:
        taking, settings = self.taking, self.context.settings
        if not taking.on:
            self._end("reading")
            if not taking.is_whole:
                return
        if self._run:
            self._append(b"".join(framed(self._counted())))
        if not self._run or keeping.is_full(self._segment.size, self._checkpoint, settings.record_bytes_max):
            await self._begin()

    def _counted(self) -> list[AnyRecord]:
        records = self.taking.taken()
        RECORDS.inc(len(records))
        return records

    async def _begin(self) -> None:
        """The next segment: a checkpoint, while what comes is gathered."""
        context, taking = self.context, self.taking
        is_new = not self._run
        run = self._run or f"{context.instance}-{context.random.getrandbits(64):016x}"
        files = self._disk.files()
        for name in keeping.to_delete(files, context.settings.record_bytes_max - self._checkpoint):
            self._disk.delete(name)
        self._segment = keeping.File(keeping.next_name(files), 0)
        streams = {name: each.created for name, each in self.followers.items()}
        records = taking.checkpoint(run, context.clock.now(), streams)
        self._append(MARK)
        for each in framed(records):
            self._append(each)
            await context.clock.sleep(0)
        self._run, self._checkpoint, self._trouble = run, self._segment.size, ""
        RECORDING.set(1)
        BYTES.set(sum(each.size for each in keeping.segments(self._disk.files())))
        if is_new:
            context.log.info("recording from here on", segment=self._segment.name, bytes=self._segment.size)

    def _append(self, data: bytes) -> None:
        if data:
            self._disk.append(self._segment.name, data)
            self._segment = self._segment._replace(size=self._segment.size + len(data))

    def _end(self, why: str) -> None:
        """The run is over: who asks for what comes now finds a gap."""
        self.taking.stop()
        RECORDING.set(0)
        if self._run or self._segment.name:
            self._run, self._segment = "", keeping.File("", 0)
            self._trouble = why

    def _fail(self, error: OSError) -> None:
        FAILURES.inc()
        message = f"{type(error).__name__}: {error}"[:200]
        if self._trouble != message:
            self.context.log.warning("cannot record: what is read now will be missing", error=message)
        self._end(message)
        self._trouble = message


async def main(context: Context[Settings], make_disk: Callable[[Path], Disk] = Folder) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context, make_disk(Path(context.settings.record_folder))).run()
