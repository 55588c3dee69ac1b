"""The annotation `extended-resource-spec`: what each container has of batch resources, for agents on the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY
from berth.resources.amounts import format_amounts, parse_amounts
from berth.rules.admission.draft import list_in, mapping_in, texts_in
from berth.rules.admission.seam import Case

_WRITTEN: Final = (BATCH_CPU, BATCH_MEMORY)
_PATH: Final = ("metadata", "annotations", ANNOTATION_EXTENDED_RESOURCE_SPEC)


def extended_spec(pod: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The content for a pod (init containers are none of it), None where no container asks for batch resources; and
    amounts that cannot be read, which are left out."""
    containers: dict[str, Any] = {}
    problems: list[Problem] = []
    for place, container in enumerate(list_in(pod, "spec", "containers")):
        resources = mapping_in(container, "resources")
        told: dict[str, dict[str, str]] = {}
        for part in ("limits", "requests"):
            written = mapping_in(resources, part)
            found = {name: written[name] for name in _WRITTEN if name in written}
            if not found:
                continue
            amounts, unread = parse_amounts(found, f"spec.containers[{place}].resources.{part}")
            problems += [Problem(field=field, message=message) for field, message in unread]
            if amounts:
                told[part] = format_amounts(amounts)
        if told:
            containers[str(mapping_in(container).get("name", ""))] = told
    return ({"containers": containers} if containers else None), problems


def run(case: Case) -> None:
    """The rule: over what a user has written; without batch resources there is none. A pod that is bound keeps what the
    bind has written."""
    old = case.request.old_object or {}
    if mapping_in(old, "spec").get("nodeName"):
        bound = texts_in(old, "metadata", "annotations").get(ANNOTATION_EXTENDED_RESOURCE_SPEC)
        if bound is None:
            case.draft.drop(_PATH)
        else:
            case.draft.put(_PATH, bound)
        return
    content, problems = extended_spec(case.draft.now)
    for problem in problems:
        case.note(problem)
    if content is None:
        case.draft.drop(_PATH)
    else:
        case.draft.put(_PATH, msgspec.json.encode(content).decode())
