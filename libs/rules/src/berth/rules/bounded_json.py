"""JSON that users write into annotations, read with a limit.

An annotation is text from a stranger: it may be huge, deeply nested or of another shape. Reading it costs at most
what `bytes_max` allows and yields a value of the wanted type or one short problem that names the annotation; it never
raises.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from berth.contracts.base import Problem

BYTES_MAX: Final = 64 * 1024

T = TypeVar("T")


def annotation_field(name: str) -> str:
    """How problems name an annotation."""
    return f"metadata.annotations[{name}]"


def label_field(name: str) -> str:
    """How problems name a label."""
    return f"metadata.labels[{name}]"


def read_annotation(
    annotations: Mapping[str, str], name: str, kind: type[T], *, bytes_max: int = BYTES_MAX
) -> T | Problem | None:
    """The annotation's JSON as `kind`; None when it is absent or empty."""
    text = annotations.get(name)
    return read_json(text, kind, annotation_field(name), bytes_max=bytes_max) if text else None


def read_json(text: str, kind: type[T], field: str, *, bytes_max: int = BYTES_MAX) -> T | Problem:
    """`text` as `kind`, or what is wrong with it. `field` is where the text comes from."""
    if len(text) > bytes_max or len(text.encode(errors="replace")) > bytes_max:
        return Problem(field=field, message=f"is too large (at most {bytes_max} bytes)")
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        return Problem(field=field, message=f"is not readable: {_short(error)}")
    except (RecursionError, UnicodeError):
        return Problem(field=field, message="is not readable: nested too deeply or not UTF-8")


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 200 else text[:197] + "..."
