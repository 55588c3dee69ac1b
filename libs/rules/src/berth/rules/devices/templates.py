"""Sizes that a virtual NPU may have: a shared request must be one of them, by model of the node's NPUs.

The table is the ConfigMap that Koordinator reads. Sizes of every mix share a chip as long as their sums are there, AI
CPUs and DVPP with them; but a chip that is cut into sizes gives out nothing in another way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import parse_amounts
from berth.rules.bounded_yaml import read_yaml
from berth.rules.gpu_request import CardRequest

Templates: TypeAlias = Mapping[str, Mapping[str, Mapping[str, int]]]
"""`<vendor>-<model>` to name to amounts by resource."""

TRIGGERS: Final = frozenset({names.NPU_CORE})
"""A shared request that names one of these is served by a template alone."""
KEY: Final = "data.yaml"
"""Of the ConfigMap, where the table stands."""
NO_MATCH: Final = "no matched GPU shared resource template"


def read_templates(text: str, field: str = f"data[{KEY}]") -> tuple[Templates, tuple[Problem, ...]]:
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


def without_twins(templates: Templates, field: str = f"data[{KEY}]") -> tuple[Templates, tuple[Problem, ...]]:
    """The table without templates that equal an earlier one of their model, and which these are.

    A share that equals two is given out under no name, and a device plugin takes that for a whole chip.
    """
    table: dict[str, dict[str, Mapping[str, int]]] = {}
    problems: list[Problem] = []
    for model, entries in templates.items():
        kept: dict[str, Mapping[str, int]] = {}
        for name, amounts in sorted(entries.items()):
            twin = next((other for other, its in kept.items() if _is(its, amounts, True)), "")
            if twin:
                where = f"{field}.{model[:80]}.{name[:80]}"
                problems.append(Problem(field=where, message=f"is the same as {twin[:80]}, and is left out"))
            else:
                kept[name] = amounts
        table[model] = kept
    return table, tuple(problems)


def needs_template(cards: CardRequest, triggers: Collection[str] = TRIGGERS) -> bool:
    """Whether a request of the gpu family is served by a template alone."""
    return cards.shared and not cards.each.keys().isdisjoint(triggers)


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
