"""What a segment holds: a checkpoint, then what was read since, in the order in which it was read."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from berth.contracts.round import Ground


class Record(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One thing that happened to the recorder."""


class Began(Record, frozen=True, tag="began"):
    """The head of a segment; the checkpoint follows, through `Whole`.

    `run` is equal for segments between which nothing is missing. `at_s` is the time of the recorder, in unix seconds.
    `streams` says when the stream of each bucket was made.
    """

    run: str
    at_s: float
    streams: dict[str, str]


class Entered(Record, frozen=True, tag="entered"):
    """A message of a bucket; in a checkpoint the newest of its key, else one that was read just now."""

    bucket: str
    sequence: int
    key: str
    value: bytes
    deleted: bool = False
    stored_s: float = 0.0
    trace: str | None = None


class Missed(Record, frozen=True, tag="missed"):
    """Messages of a bucket that were replaced before they were read: the first and the last that may be. What replaced
    them has been read at the next `Ended` of the bucket."""

    bucket: str
    first: int
    last: int


class Ended(Record, frozen=True, tag="ended"):
    """The end of a bucket was reached."""

    bucket: str
    sequence: int


class Told(Record, frozen=True, tag="told"):
    """A ground that plans may name, in full."""

    ground: Ground


class Whole(Record, frozen=True, tag="whole"):
    """The checkpoint is complete."""


AnyRecord: TypeAlias = Began | Entered | Missed | Ended | Told | Whole

_encoder = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[list[AnyRecord]]] = msgspec.msgpack.Decoder(list[AnyRecord])


def write(records: list[AnyRecord]) -> bytes:
    """Records as bytes."""
    return _encoder.encode(records)


def read(data: bytes) -> list[AnyRecord]:
    """The records. Raises ValueError for anything else."""
    return _decoder.decode(data)
