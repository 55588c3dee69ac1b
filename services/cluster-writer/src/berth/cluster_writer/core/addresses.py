"""Whether a command came on the subject that is its own.

The bus lets each service send on its own subjects alone, so the subject says who is asking. A command of another type,
for another kind of object or about another object than its subject names is somebody else's, and is refused.
"""

from __future__ import annotations

from berth.contracts import buckets
from berth.contracts.catalogue import CHANNELS
from berth.contracts.command import ApplyObject, Command, DeleteObject, PatchObject
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import PREFIX, unescape

FRONT = f"{PREFIX}.cmd."


def _patterns() -> dict[str, tuple[str, tuple[str, ...]]]:
    """By the words that a subject begins with: the tag that belongs there, and the fields whose values follow."""
    found = {}
    for channel in CHANNELS:
        if channel.place == buckets.COMMANDS:
            tokens = channel.pattern.removeprefix(FRONT).split(".")
            words = [token for token in tokens if not token.startswith("<")]
            found[".".join(words)] = (channel.tag, tuple(token.strip("<>") for token in tokens[len(words) :]))
    return found


PATTERNS = _patterns()


def check(subject: str, command: Command) -> None:
    """Raises InvalidMessage, naming what does not belong together."""
    words, tag, fields, values = _read(subject)
    sent = str(command.__struct_config__.tag)
    if sent != tag:
        raise InvalidMessage("type", f"{sent!r} does not belong on {FRONT}{words}, which is for {tag!r}")
    for field, value in zip(fields, values, strict=True):
        if getattr(command, field) != value:
            raise InvalidMessage(field, f"{getattr(command, field)!r} is not what the subject names: {value!r}")
    if isinstance(command, PatchObject | ApplyObject | DeleteObject):
        kind = command.api.rpartition("/")[2]
        if kind != words.rpartition(".")[2]:
            raise InvalidMessage("api", f"{command.api!r} does not belong on {FRONT}{words}")


def _read(subject: str) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """The words of a subject, the tag that belongs there, and the names behind the words by field."""
    tail = subject.removeprefix(FRONT)
    for words, (tag, fields) in PATTERNS.items():
        tokens = tail.removeprefix(f"{words}.").split(".")
        if subject.startswith(FRONT) and tail.startswith(f"{words}.") and len(tokens) == len(fields):
            try:
                return words, tag, fields, tuple(map(unescape, tokens))
            except ValueError as error:
                raise InvalidMessage("subject", str(error)) from error
    raise InvalidMessage("subject", f"{subject[:200]!r} is none that commands come on")
