"""Encoding and decoding of messages: one encoder for all, one decoder per type, errors that name the field."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from berth.contracts.errors import Broken

T = TypeVar("T")

MESSAGE_BYTES_MAX = 1 << 20
"""Largest message accepted from the bus or handed to it."""

_ENCODER = msgspec.json.Encoder()
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def encode(message: Any) -> bytes:
    """JSON of a message. Raises Broken when it is larger than `MESSAGE_BYTES_MAX`."""
    data = _ENCODER.encode(message)
    if len(data) > MESSAGE_BYTES_MAX:
        raise Broken("", f"message of {len(data)} bytes is larger than {MESSAGE_BYTES_MAX}")
    return data


def decode(data: bytes, kind: type[T]) -> T:
    """The message in `data`. Raises Broken, naming the field, for anything that is not a `kind`.

    `kind` is a struct or a union of tagged structs (`decode(data, cast(Any, Command))` for a union under a checker).
    """
    if len(data) > MESSAGE_BYTES_MAX:
        raise Broken("", f"message of {len(data)} bytes is larger than {MESSAGE_BYTES_MAX}")
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return cast(T, decoder.decode(data))
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        raise Broken(path.removesuffix("`").removeprefix("$").lstrip("."), text) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Broken("", f"not JSON: {error}") from error
