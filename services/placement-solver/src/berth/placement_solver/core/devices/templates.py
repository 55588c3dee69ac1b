"""Virtual NPUs come in fixed sizes: which template a shared request is.

A template is a set of amounts per accelerator, listed under `<vendor>-<model>`. A shared request for NPU cores must
equal one in every resource; the accelerator's own plugin then cuts that size. Accounting stays additive, so the minor
is chosen like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from berth.contracts import names
from berth.placement_solver.core.devices.columns import GPU, Vector
from berth.placement_solver.core.devices.slots import NoRoom
from berth.placement_solver.core.devices.want import Want

Templates: TypeAlias = Mapping[str, Mapping[str, Vector]]
"""`<vendor>-<model>` -> template name -> amounts."""

_NPU_CORE = GPU.columns.index(names.NPU_CORE)


def read_templates(content: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Templates:
    """Templates from amounts by resource name."""
    return {model: {name: GPU.vector(of) for name, of in sizes.items()} for model, sizes in content.items()}


def matching(templates: Templates, amounts: Vector, *, strict: bool = True) -> dict[str, list[str]]:
    """Names of matching templates by model.

    Without ``strict`` only the resources that the request names are compared.
    """
    found: dict[str, list[str]] = {}
    for model, sizes in templates.items():
        equal = [name for name, size in sizes.items() if _equal(size, amounts, strict)]
        if equal:
            found[model] = sorted(equal)
    return found


def template_on(templates: Templates, want: Want, vendor: str, model: str) -> str | NoRoom:
    """The template that the request is on a node of this vendor and model; empty when it needs none.

    Several equal templates leave the choice to the plugin: then the name is empty, too.
    """
    if not want.shared or not want.amounts[_NPU_CORE]:
        return ""
    found = matching(templates, want.amounts).get(f"{vendor}-{model}", [])
    if not found:
        return NoRoom("no matched GPU shared resource template", unresolvable=True)
    return found[0] if len(found) == 1 else ""


def _equal(size: Vector, amounts: Vector, strict: bool) -> bool:
    return all(s == a for s, a in zip(size, amounts, strict=True) if strict or a)
