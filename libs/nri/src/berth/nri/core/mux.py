"""The multiplexer: several streams of bytes over one, each frame with the number of its stream and its length.

A frame is a header of 8 bytes (stream, length; uint32, big endian) and at most `PAYLOAD_MAX` bytes. A stream's bytes
may be cut into frames anywhere, and the frames of streams may come between each other.
"""

from __future__ import annotations

import struct

from berth.nri.core.fault import Fault

PLUGIN, RUNTIME = 1, 2
"""Streams: on the first the runtime asks the plugin, on the second the plugin asks the runtime."""
PAYLOAD_MAX = 10 + (4 << 20)
"""Of one frame, in bytes: a whole message of ttrpc."""
FIRST_MAX = 4096
_HEADER = struct.Struct(">II")


def encode(stream: int, data: bytes) -> bytes:
    """The frames of one message, of `PAYLOAD_MAX` bytes at most.

    containerd reads a header into `FIRST_MAX` bytes and refuses a frame that is larger than what it reads into, then
    reads the rest at once: what is longer is cut after that many bytes, and only there.
    """
    parts = [data[:FIRST_MAX], data[FIRST_MAX:]] if len(data) > FIRST_MAX else [data]
    return b"".join(_HEADER.pack(stream, len(part)) + part for part in parts)


class Demultiplexer:
    """Takes bytes as they come and gives each stream's. It keeps no payload: less than a header at any time."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        """Why nothing more is read."""
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    @property
    def inside(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._header or self._left)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Pieces in their order, each with its stream; none is empty."""
        found: list[tuple[int, bytes]] = []
        at = 0
        while at < len(data) and self.fault is None:
            if self._left:
                piece = data[at : at + self._left]
                found.append((self._stream, piece))
                self._left -= len(piece)
                at += len(piece)
                continue
            part = data[at : at + _HEADER.size - len(self._header)]
            self._header += part
            at += len(part)
            if len(self._header) == _HEADER.size:
                self._stream, self._left = _HEADER.unpack(self._header)
                self._header.clear()
                if self._left > PAYLOAD_MAX:
                    self.fault = Fault("oversized", f"a frame of {self._left} bytes; at most {PAYLOAD_MAX} are allowed")
        return found
