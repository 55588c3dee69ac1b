"""Which cards kubelet has picked, by uid of the pod: its word, as a Device carries it, and what each pod holds by it.

Kubelet keeps a pod's cards until that pod is over, so an old word about a pod is as good as a new one, and one about a
pod that is gone says nothing about anybody. Of a pod without a word nobody knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Protocol

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import device
from berth.contracts.ledger import MINOR_DIGITS_MAX, Grant
from berth.rules.devices.kubelet_counts import GPU

PODS_MAX: Final = 1_024
LENGTH_MAX: Final = 1 << 18
FIELD: Final = f"metadata.annotations[{names.ANNOTATION_KUBELET_CARDS}]"
NO_CARDS: Final[Mapping[str, tuple[int, ...]]] = {}
_WHOLE: Final = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100}
_Minor = Annotated[int, msgspec.Meta(ge=0, lt=10**MINOR_DIGITS_MAX)]
_CARDS: Final = msgspec.json.Decoder(dict[str, tuple[_Minor, ...]])


class Card(Protocol):
    """A device of a node, as its Device or INVENTORY lists it."""

    @property
    def kind(self) -> str: ...
    @property
    def minor(self) -> int: ...
    @property
    def amounts(self) -> Mapping[str, int]: ...


def write_kubelet_cards(cards: Mapping[str, Sequence[int]]) -> str:
    """The annotation's text."""
    return msgspec.json.encode({uid: sorted(minors) for uid, minors in sorted(cards.items())}).decode()


def read_kubelet_cards(annotations: Mapping[str, str]) -> Mapping[str, tuple[int, ...]] | Problem:
    """The minors that each pod holds, by uid, as a Device says it. One that gives a card to two says nothing."""
    text = annotations.get(names.ANNOTATION_KUBELET_CARDS)
    if not text:
        return NO_CARDS
    if len(text) > LENGTH_MAX:
        return Problem(field=FIELD, message=f"is longer than {LENGTH_MAX} characters")
    try:
        cards = _CARDS.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return Problem(field=FIELD, message=f"must be a JSON object of lists of minors by uid: {error}"[:200])
    if len(cards) > PODS_MAX:
        return Problem(field=FIELD, message=f"has {len(cards)} pods, at most {PODS_MAX} are read")
    holders = Counter(minor for minors in cards.values() for minor in minors)
    twice = sorted(minor for minor, times in holders.items() if times > 1)
    if twice:
        return Problem(field=FIELD, message=f"gives minor {twice[0]} to more than one")
    return cards


def picked_grants(cards: Mapping[str, Sequence[int]], devices: Iterable[Card]) -> dict[str, tuple[Grant, ...]]:
    """What each pod holds by that, whole cards with all that they have. A pod with a card that is not listed is left
    out."""
    if not cards:
        return {}
    listed = {each.minor: each.amounts for each in devices if each.kind == GPU}
    return {
        uid: tuple(device(GPU, minor, {**listed[minor], **_WHOLE}) for minor in sorted(minors))
        for uid, minors in cards.items()
        if minors and all(minor in listed for minor in minors)
    }
