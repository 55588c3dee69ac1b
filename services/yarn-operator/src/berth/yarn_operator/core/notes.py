"""What a node's annotation says that YARN has of it, beside what other frameworks have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, add_into, format_amounts, parse_amounts
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.cpus.qos import BATCH
from berth.yarn_operator.core.pods import NodeManager
from berth.yarn_operator.core.units import NONE, Share, amounts_of, share_of

NAME: Final = "hadoop-yarn"
"""The entry of YARN, as the protocol names it."""
REVISION_MAX: Final = 1 << 53
_FIELD: Final = annotation_field(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS)


class Noted(NamedTuple):
    """`charged` is what YARN is charged with, for which `manager` (None: the entry names none), `revision` that of the
    entry, which grows with each change, `writer` who asked for it; `others` what further frameworks have of batch
    resources, `entries` theirs as written; `text` the annotation, empty without."""

    charged: Share
    manager: NodeManager | None
    revision: int
    writer: str
    others: Amounts
    entries: tuple[dict[str, Any], ...]
    text: str


class _Allocations(msgspec.Struct, frozen=True):
    allocations: list[dict[str, Any]] | None = None


def read_note(annotations: Mapping[str, str]) -> Noted | Problem:
    """What the annotation says, or what is wrong with it: then nobody knows who has what, and it is left alone."""
    text = annotations.get(names.ANNOTATION_THIRD_PARTY_ALLOCATIONS, "")
    read = read_annotation(annotations, names.ANNOTATION_THIRD_PARTY_ALLOCATIONS, _Allocations)
    if read is None:
        return Noted(NONE, None, 0, "", {}, (), text)
    if isinstance(read, Problem):
        return read
    charged, revision, writer = NONE, 0, ""
    manager: NodeManager | None = None
    others: Amounts = {}
    entries: list[dict[str, Any]] = []
    for at, each in enumerate(read.allocations or []):
        amounts, problems = parse_amounts(each.get("resources"), f"{_FIELD}.allocations[{at}].resources")
        if problems:
            return Problem(field=problems[0][0], message=problems[0][1])
        if each.get("name") == NAME:
            charged = share_of(amounts)
            given = each.get("revision", 0)
            revision = given if isinstance(given, int) and 0 <= given < REVISION_MAX else 0
            said = each.get("writer")
            writer = said if isinstance(said, str) else ""
            node_id, cluster = each.get("nodeId"), each.get("clusterId")
            if isinstance(node_id, str) and node_id and isinstance(cluster, str):
                manager = NodeManager(node_id, cluster)
            continue
        entries.append(each)
        if each.get("priority") == BATCH:
            add_into(others, amounts)
    return Noted(charged, manager, revision, writer, others, tuple(entries), text)


def entry_of(share: Share) -> dict[str, Any]:
    """YARN's entry, as the protocol has it."""
    return {"name": NAME, "priority": BATCH, "resources": format_amounts(amounts_of(share))}


def note_text(noted: Noted, charge: Share, manager: NodeManager, writer: str) -> str:
    """The annotation with another charge, all else as it was."""
    revision = noted.revision + 1
    ours = {"revision": revision, "writer": writer, "nodeId": manager.id, "clusterId": manager.cluster}
    entries = [*noted.entries, entry_of(charge) | ours]
    return msgspec.json.encode({"allocations": entries}, order="deterministic").decode()
