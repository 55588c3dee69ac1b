"""What hooks answer, read: anything may come back from code of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from berth.resources.amounts import Amounts, parse_amounts

TEXT_LENGTH_MAX: Final = 512
SHOWN_MAX: Final = 16
SHOWN_NAME_LENGTH_MAX: Final = 63
SHOWN_TEXT_LENGTH_MAX: Final = 128


class Unusable(NamedTuple):
    """Why there is no answer that can be used. `is_busy`: there is none yet, for the hook is still at this call, or at
    an earlier one; that is no failure."""

    why: str
    is_busy: bool = False


def read_charges(answer: object, resources: Collection[str]) -> Amounts | Unusable:
    """The surcharge that a hook with these resources asks for; None is none. All of it has to be usable."""
    amounts, problems = parse_amounts(answer, "charges")
    if problems:
        return Unusable(_short(": ".join(problems[0])))
    for name in amounts:
        if name not in resources:
            return Unusable(f"charges {_short(name)}, which is not among its resources")
    return {name: amount for name, amount in amounts.items() if amount}


def read_refusal(answer: object) -> str | Unusable:
    """Why a pod is refused; empty, as None: it is not."""
    if answer is None:
        return ""
    if not isinstance(answer, str):
        return Unusable(f"answers with {type(answer).__name__}, not with a text")
    return printable(answer)[:TEXT_LENGTH_MAX]


def read_shown(answer: object) -> dict[str, str] | Unusable:
    """What a quota shows: the first fields by name, as short texts."""
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        return Unusable(f"answers with {type(answer).__name__}, not with fields")
    shown: dict[str, str] = {}
    for name, value in answer.items():
        if not isinstance(name, str) or not 0 < len(name) <= SHOWN_NAME_LENGTH_MAX:
            return Unusable(f"shows a field whose name is no text of 1 to {SHOWN_NAME_LENGTH_MAX} characters")
        if isinstance(value, bool) or not isinstance(value, str | int):
            return Unusable(f"shows {_short(name)} as {type(value).__name__}, not as a text or an integer")
        if isinstance(value, int) and abs(value) >= 1 << 63:
            return Unusable(f"shows {_short(name)} as an integer beyond 64 bits")
        shown[printable(name)] = printable(str(value)[:SHOWN_TEXT_LENGTH_MAX])
    return {name: shown[name] for name in sorted(shown)[:SHOWN_MAX]}


def printable(text: str) -> str:
    """What a message can carry, in one line: lone surrogates are no characters, and control characters none to read."""
    sent = text.encode(errors="replace").decode()
    return sent if sent.isprintable() else "".join(each if each.isprintable() else " " for each in sent)


def _short(text: str) -> str:
    return printable(text[:TEXT_LENGTH_MAX])
