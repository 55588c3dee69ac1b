"""slo.koordinator.sh NodeSLO: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

from berth.contracts import state
from berth.contracts.kube import NodeSLO
from berth.contracts.names import ANNOTATION_REVISION
from berth.rules.reading.metadata import identity_of

REVISION_DIGITS_MAX: Final = 15


def node_slo_of(item: NodeSLO, version: int) -> state.NodeSLO:
    """Which request it was written for, and whose it is. A number that is none says that it was written for none."""
    meta = item.metadata
    text = (meta.annotations or {}).get(ANNOTATION_REVISION, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= REVISION_DIGITS_MAX
    owners = [each.uid for each in meta.owner_references or () if each.kind == "Node"]
    return state.NodeSLO(
        name=identity_of(meta, []).name,
        uid=meta.uid,
        version=version,
        revision=int(text) if is_number else 0,
        owner_uid=owners[0] if owners else "",
    )
