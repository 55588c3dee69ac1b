"""Segments as bytes: a mark, then frames. What follows the first frame that is broken is no part of a segment.

A frame is the length of its content and the CRC-32 of it, four bytes each, little endian, and the content: records,
compressed by zlib.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from berth.recording.records import AnyRecord, Entered, read, write

MARK: Final = b"berth-recording 1\n"
"""What a segment begins with."""
BLOCK_BYTES: Final = 128 << 10
"""About so many bytes of values make a frame."""
FRAME_BYTES_MAX: Final = 64 << 20
LEVEL: Final = 3
_HEAD: Final = Struct("<II")
_OTHER_BYTES: Final = 64


def frame(records: list[AnyRecord]) -> bytes:
    """Records as one frame."""
    content = zlib.compress(write(records), LEVEL)
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def framed(records: Iterable[AnyRecord]) -> Iterator[bytes]:
    """Records as frames of a handy size."""
    block: list[AnyRecord] = []
    size = 0
    for record in records:
        block.append(record)
        size += _OTHER_BYTES + (len(record.value) if isinstance(record, Entered) else 0)
        if size >= BLOCK_BYTES:
            yield frame(block)
            block, size = [], 0
    if block:
        yield frame(block)


class Frames:
    """The records of a segment, block by block. `good` is how many bytes of it have been read and are sound."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.good = 0

    @property
    def is_torn(self) -> bool:
        """There is more than what is sound. To be asked when all has been read."""
        return self.good < len(self._data)

    def __iter__(self) -> Iterator[list[AnyRecord]]:
        data = self._data
        if not data.startswith(MARK):
            return
        self.good = len(MARK)
        while (content := self._content()) is not None:
            try:
                records = read(zlib.decompress(content))
            except (ValueError, zlib.error):
                return
            self.good += _HEAD.size + len(content)
            yield records

    def _content(self) -> bytes | None:
        """Of the next frame; None where there is none that is sound."""
        start = self.good + _HEAD.size
        if start > len(self._data):
            return None
        length, check = _HEAD.unpack_from(self._data, self.good)
        content = self._data[start : start + length]
        if length > FRAME_BYTES_MAX or len(content) < length or zlib.crc32(content) != check:
            return None
        return content


def sound(data: bytes) -> int:
    """How many bytes of a segment are sound."""
    frames = Frames(data)
    for _ in frames:
        pass
    return frames.good
