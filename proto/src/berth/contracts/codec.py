"""Encoding and decoding of messages: one encoder for all, one decoder per type, errors that name the field.

What `decode` returns, `encode` writes again, and the other way round. Whatever comes from the bus (cut off, of another
type, with numbers beyond 64 bits, nested without end) is `InvalidMessage`, never another exception, and so is what JSON
cannot carry. Meaning is not checked here: whether a count may be negative is the business of its reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, cast

import msgspec

from berth.contracts.errors import InvalidMessage
from berth.contracts.renamed import RENAMED

T = TypeVar("T")

MESSAGE_BYTES_MAX: Final = (1 << 20) - 4096
"""Largest message accepted from the bus or handed to it: its 1 MiB less what subject and headers take."""

_ENCODER = msgspec.json.Encoder()
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_MISSING: Final = "Object missing required field `"
_INVALID_TAG: Final = "Invalid value '"


def encode(message: Any) -> bytes:
    """JSON of a message.

    Raises InvalidMessage, naming the field where there is one, for a message that is larger than `MESSAGE_BYTES_MAX`,
    nested too deeply, or holds NaN, an infinity or half a surrogate pair, none of which JSON has.
    """
    try:
        data = _ENCODER.encode(message)
    except UnicodeEncodeError as error:
        raise InvalidMessage(_first(message, _is_no_text), "is not Unicode text") from error
    except RecursionError as error:
        raise InvalidMessage("", "is nested too deeply") from error
    if len(data) > MESSAGE_BYTES_MAX:
        raise _too_large(data)
    # The encoder writes NaN as null, which no reader of a number takes. Few messages hold a null, so few are searched.
    if b"null" in data and (field := _first(message, _is_no_number)):
        raise InvalidMessage(field, "is not a finite number")
    return data


def decode(data: bytes, kind: type[T]) -> T:
    """The message in `data`. Raises InvalidMessage, naming the field, for anything that is not a `kind`.

    `kind` is a struct or a union of tagged structs (`decode(data, cast(Any, Command))` for a union under a checker).
    """
    if len(data) > MESSAGE_BYTES_MAX:
        raise _too_large(data)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        return cast(T, decoder.decode(data))
    except msgspec.ValidationError as error:
        raise _misfit(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage("", f"not JSON: {error}") from error


def _too_large(data: bytes) -> InvalidMessage:
    return InvalidMessage("", f"message of {len(data)} bytes is larger than {MESSAGE_BYTES_MAX}")


def _misfit(error: str) -> InvalidMessage:
    """From the decoder's sentence, such as "Expected `int`, got `str` - at `$.version`"."""
    problem, _, place = error.partition(" - at `")
    field = place.removesuffix("`").removeprefix("$").lstrip(".")
    if field == "type" and (new := RENAMED.get(problem.removeprefix(_INVALID_TAG).removesuffix("'"))):
        return InvalidMessage(field, f"{problem}: since 0.2 this message is {new}")
    if problem.startswith(_MISSING):
        name = problem.removeprefix(_MISSING).removesuffix("`")
        return InvalidMessage(f"{field}.{name}" if field else name, "is missing")
    return InvalidMessage(field, problem)


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_no_text(value: Any) -> bool:
    return isinstance(value, str) and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value)


def _first(message: Any, is_wrong: Callable[[Any], bool]) -> str:
    """Path of the first value that is wrong, empty if none is."""
    return next((path for path, value in _leaves(message, "") if is_wrong(value)), "")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every plain value of a message with its path, keys of mappings included."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield from _leaves(getattr(value, field.name), f"{path}.{field.encode_name}" if path else field.encode_name)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield f"{path}[{key!a}]", key
            yield from _leaves(part, f"{path}[{key!a}]")
    elif isinstance(value, (list, tuple)):
        for position, part in enumerate(value):
            yield from _leaves(part, f"{path}[{position}]")
    else:
        yield path, value
