"""What a pod says of its eviction for its node's sake: why it leaves, or why it was refused that.

Written by cluster-writer alone, before it evicts. What cannot be read counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from berth.contracts import names
from berth.contracts.base import Integer, Problem
from berth.rules.bounded_json import annotation_field, read_json

REASON: Final = "NodePressure"
"""The reason that events name."""
NODE: Final = "node:"
"""What the name of a node begins with where events name a beneficiary."""
MESSAGE_MAX: Final = 1_024
_Text = Annotated[str, Meta(max_length=MESSAGE_MAX)]


class NodeEviction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The note. `revision` is that of the request; `refused` says why the pod stays, empty while it is to leave."""

    node: _Text
    revision: Integer
    need: _Text
    feature: _Text
    accumulator: _Text
    release: dict[str, Integer] = {}
    counts: dict[str, Integer] = {}
    message: _Text = ""
    refused: _Text = ""


def noted_eviction(annotations: Mapping[str, str]) -> NodeEviction | None:
    """The note that a pod carries; None when there is none or it cannot be read."""
    text = annotations.get(names.ANNOTATION_NODE_EVICTION)
    if not text:
        return None
    note = read_json(text, NodeEviction, annotation_field(names.ANNOTATION_NODE_EVICTION))
    return None if isinstance(note, Problem) else note


def eviction_note(note: NodeEviction) -> dict[str, str]:
    """The annotation."""
    return {names.ANNOTATION_NODE_EVICTION: msgspec.json.encode(note).decode()}
