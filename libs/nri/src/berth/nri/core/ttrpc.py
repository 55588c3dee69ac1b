"""Messages of ttrpc within a stream of bytes: a header of 10 bytes (length, call, type, flags), then data."""

from __future__ import annotations

import struct

import msgspec

from berth.nri.core.fault import Fault

REQUEST, RESPONSE, DATA = 1, 2, 3
"""Types of messages; the last is of streaming calls, which NRI has none of."""
DATA_MAX = 4 << 20
"""Of one message, in bytes."""
_HEADER = struct.Struct(">IIBB")

OK = 0
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12
INTERNAL = 13
"""Status codes, as those of gRPC."""


class Message(msgspec.Struct, frozen=True):
    """One message. `call` is what ttrpc calls a stream id: odd for calls of a client, and the same in their answer."""

    call: int
    type: int
    data: bytes
    flags: int = 0


def encode(message: Message) -> bytes:
    """Its bytes. The data has at most `DATA_MAX` bytes."""
    return _HEADER.pack(len(message.data), message.call, message.type, message.flags) + message.data


class Assembler:
    """Takes a stream's bytes as they come and gives its messages. It keeps one message at most."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        """Why nothing more is read."""
        self._kept = bytearray()

    @property
    def inside(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self._kept)

    def feed(self, data: bytes) -> list[Message]:
        """Whole messages, in their order."""
        if self.fault is not None:
            return []
        self._kept += data
        found: list[Message] = []
        at = 0
        while len(self._kept) - at >= _HEADER.size:
            length, call, kind, flags = _HEADER.unpack_from(self._kept, at)
            if length > DATA_MAX:
                self.fault = Fault("oversized", f"a message of {length} bytes; at most {DATA_MAX} are allowed")
                self._kept.clear()
                return found
            end = at + _HEADER.size + length
            if len(self._kept) < end:
                break
            found.append(Message(call, kind, bytes(memoryview(self._kept)[at + _HEADER.size : end]), flags))
            at = end
        del self._kept[:at]
        return found
