"""What the annotations of evictions say: a nomination on its beneficiary, a mark on a victim, plans that were let go,
and whom the API server does not let go.

Each is read and written here alone. What cannot be read counts as absent: nobody is evicted under such a mark, and such
a nomination holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from berth.contracts import names
from berth.contracts.ledger import DeviceGrant
from berth.rules.times import text_of, unix_of

NOTE_LENGTH_MAX: Final = 256 * 1024
LET_GO_MAX: Final = 8
"""How many plans are remembered."""
REFUSED_MAX: Final = 64
"""How many refusals are remembered."""
REFUSED_FOR_S: Final = 180.0
"""How long one is remembered: a policy may change, and a pod be relabelled."""
ANYBODY: Final = "*"
"""In the place of a uid: no pod at all may be deleted for this one."""

Note = TypeVar("Note")
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class Nominated(msgspec.Struct, frozen=True):
    """Where its pod is nominated to, by which plan, and the devices that it would have there."""

    plan: Text
    node: Text
    devices: list[DeviceGrant] = []


class Mark(msgspec.Struct, frozen=True):
    """The plan under which a pod is to leave, for whom (`namespace/name`, a Reservation `/name`; its uid), and why."""

    plan: Text
    beneficiary: Text
    uid: Text
    reason: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """The uid of a pod that may not be marked or deleted for the pod that carries this, and until when that counts
    (RFC 3339)."""

    uid: Text
    until: Text


class BeneficiaryName(NamedTuple):
    """Namespace (empty for a Reservation) and name."""

    namespace: str
    name: str


_NOMINATED: Final = msgspec.json.Decoder(Nominated)
_MARK: Final = msgspec.json.Decoder(Mark)
_PLANS: Final = msgspec.json.Decoder(list[str])
_REFUSALS: Final = msgspec.json.Decoder(list[Refusal])


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


def refused_victims(annotations: Mapping[str, str], now_s: float) -> frozenset[str]:
    """The uids of those who may not be chosen as victims for a beneficiary now; `ANYBODY` among them: nobody may."""
    return frozenset(each.uid for each in _standing(annotations, now_s))


def refusal_note(annotations: Mapping[str, str], uids: Iterable[str], now_s: float) -> dict[str, str]:
    """The annotation once these were refused beside those of `annotations` that still count: the newest
    `REFUSED_MAX`. Nothing without any."""
    refused = sorted(set(uids))
    if not refused:
        return {}
    kept = [each for each in _standing(annotations, now_s) if each.uid not in refused]
    until = text_of(now_s + REFUSED_FOR_S)
    return {names.ANNOTATION_REFUSED: _written([*kept, *(Refusal(uid, until) for uid in refused)][-REFUSED_MAX:])}


def _standing(annotations: Mapping[str, str], now_s: float) -> list[Refusal]:
    found = _read(_REFUSALS, annotations.get(names.ANNOTATION_REFUSED, "")) or []
    return [each for each in found if (unix_of(each.until) or 0.0) > now_s]


def _written(note: object) -> str:
    return msgspec.json.encode(note).decode()


def _read(decoder: msgspec.json.Decoder[Note], text: str) -> Note | None:
    if not text or len(text) > NOTE_LENGTH_MAX:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
