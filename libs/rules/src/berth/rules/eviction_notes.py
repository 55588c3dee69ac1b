"""What the annotations of evictions say: a nomination on its beneficiary, a mark on a victim, plans that were let go.

Each is read and written here alone. What cannot be read counts as absent: nobody is evicted under such a mark, and such
a nomination holds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from berth.contracts import names
from berth.contracts.ledger import Grant

NOTE_LENGTH_MAX: Final = 256 * 1024
LET_GO_MAX: Final = 8
"""How many plans are remembered."""

Note = TypeVar("Note")
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class Nominated(msgspec.Struct, frozen=True):
    """Where its pod is nominated to, by which plan, and what it would be granted there."""

    plan: Text
    node: Text
    grants: list[Grant] = []


class Mark(msgspec.Struct, frozen=True):
    """The plan under which a pod is to leave, for whom (`namespace/name`, a Reservation `/name`; its uid), and why."""

    plan: Text
    beneficiary: Text
    uid: Text
    reason: str = ""


class BeneficiaryName(NamedTuple):
    """Namespace (empty for a Reservation) and name."""

    namespace: str
    name: str


_NOMINATED: Final = msgspec.json.Decoder(Nominated)
_MARK: Final = msgspec.json.Decoder(Mark)
_PLANS: Final = msgspec.json.Decoder(list[str])


def noted_nomination(annotations: Mapping[str, str]) -> Nominated | None:
    """The nomination that a beneficiary carries; None when there is none or it cannot be read."""
    return _read(_NOMINATED, annotations.get(names.ANNOTATION_NOMINATED, ""))


def nomination_note(nominated: Nominated) -> dict[str, str]:
    """The annotation of a nomination."""
    return {names.ANNOTATION_NOMINATED: _written(nominated)}


def noted_mark(annotations: Mapping[str, str]) -> Mark | None:
    """The mark that a victim carries; None when there is none or it cannot be read."""
    return _read(_MARK, annotations.get(names.ANNOTATION_EVICTED_FOR, ""))


def mark_note(mark: Mark) -> dict[str, str]:
    """The annotation of a mark."""
    return {names.ANNOTATION_EVICTED_FOR: _written(mark)}


def name_of(mark: Mark) -> BeneficiaryName:
    """The beneficiary of a mark."""
    namespace, _, name = mark.beneficiary.rpartition("/")
    return BeneficiaryName(namespace, name)


def plans_let_go(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The plans that a beneficiary has let go, the newest last; none when that cannot be read."""
    plans = _read(_PLANS, annotations.get(names.ANNOTATION_LET_GO, ""))
    return tuple(plans) if plans else ()


def let_go_note(annotations: Mapping[str, str], plan: str) -> dict[str, str]:
    """The annotation once `plan` was let go beside those of `annotations`: the newest `LET_GO_MAX`."""
    kept = [*(each for each in plans_let_go(annotations) if each != plan), plan]
    return {names.ANNOTATION_LET_GO: _written(kept[-LET_GO_MAX:])}


def _written(note: object) -> str:
    return msgspec.json.encode(note).decode()


def _read(decoder: msgspec.json.Decoder[Note], text: str) -> Note | None:
    if not text or len(text) > NOTE_LENGTH_MAX:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
