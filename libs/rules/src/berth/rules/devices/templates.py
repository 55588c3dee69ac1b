"""Sizes that a virtual NPU may have: a shared request must be one of them, by model of the node's NPUs.

The table is the ConfigMap that Koordinator reads. What is held of a chip counts by resource, whatever the mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_yaml import read_yaml

Templates: TypeAlias = Mapping[str, Mapping[str, Mapping[str, int]]]
"""`<vendor>-<model>` to name to amounts by resource."""

TRIGGERS: Final = frozenset({names.NPU_CORE})
"""A shared request that names one of these is served by a template alone."""
NO_MATCH: Final = "no matched GPU shared resource template"


def read_templates(text: str, field: str = "data[data.yaml]") -> tuple[Templates, tuple[Problem, ...]]:
    """The table in a text, and what of it cannot be read and is left out."""
    raw = read_yaml(text, field) if text.strip() else {}
    if isinstance(raw, Problem):
        return {}, (raw,)
    table: dict[str, dict[str, dict[str, int]]] = {}
    problems: list[Problem] = []
    for model, entries in raw.items():
        if not isinstance(entries, Mapping):
            problems.append(Problem(field=f"{field}.{model[:80]}", message="must be an object of templates"))
            continue
        for name, resources in entries.items():
            amounts, wrong = parse_amounts(resources, f"{field}.{model[:80]}.{name[:80]}")
            problems += [Problem(field=where, message=message) for where, message in wrong]
            if amounts and not wrong:
                table.setdefault(model, {})[name] = amounts
    return table, tuple(problems)


def matching(templates: Templates, asked: Mapping[str, int], *, strict: bool = True) -> dict[str, tuple[str, ...]]:
    """The names of the templates that a request of one device is, by model; models without one are left out.

    Strict: equal in every resource of either. Else only what is asked for is compared.
    """
    found: dict[str, tuple[str, ...]] = {}
    for model, entries in templates.items():
        matched = sorted(name for name, amounts in entries.items() if _is(amounts, asked, strict))
        if matched:
            found[model] = tuple(matched)
    return found


def model_key(node_labels: Mapping[str, str]) -> str:
    """How the table calls the model of a node's NPUs."""
    return f"{node_labels.get(names.LABEL_GPU_VENDOR, '')}-{node_labels.get(names.LABEL_GPU_MODEL, '')}"


def _is(template: Mapping[str, int], asked: Mapping[str, int], strict: bool) -> bool:
    compared = template.keys() | asked.keys() if strict else asked.keys()
    return bool(asked) and all(template.get(name, 0) == asked.get(name, 0) for name in compared)
