"""`device-allocate-hint`: which devices a pod takes, by label, by virtual function, how many, and how close together.

A JSON object by device type. Unknown fields are left to newer versions; an unknown word in a known field is refused,
since what it asks for would not be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube.meta import View
from berth.contracts.kube.selectors import LabelSelector
from berth.rules.bounded_json import annotation_field, read_annotation
from berth.rules.devices.columns import FAMILIES
from berth.rules.devices.topology import SCOPES
from berth.rules.selectors import LabelTest, compile_selector

APPLY_FOR_ALL: Final = "ApplyForAll"
REQUESTS_AS_COUNT: Final = "RequestsAsCount"
DEVICE_LEVEL: Final = "DeviceLevel"
PCIE_LEVEL: Final = "PCIeLevel"

_STRATEGIES: Final = ("", APPLY_FOR_ALL, REQUESTS_AS_COUNT)
_EXCLUSIVE: Final = ("", DEVICE_LEVEL, PCIE_LEVEL)
_FIELD: Final = annotation_field(names.ANNOTATION_DEVICE_HINT)


class Hint(NamedTuple):
    """What the hint says of one type.

    `selector` tests the labels of a device, `functions` those of a virtual function, which is taken with each device
    if it is there. `scope` is the level that all devices share (`topology.SCOPES`), 0 for none.
    """

    selector: LabelTest | None = None
    functions: LabelTest | None = None
    strategy: str = ""
    scope: int = 0
    exclusive: str = ""


NO_HINT: Final = Hint()


class _Hint(View, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = None
    allocate_strategy: str = ""
    required_topology_scope: str = ""
    exclusive_policy: str = ""


def read_hints(annotations: Mapping[str, str]) -> dict[str, Hint] | Problem:
    """The hints by device type; types that no family covers are left out."""
    found = read_annotation(annotations, names.ANNOTATION_DEVICE_HINT, dict[str, _Hint])
    if isinstance(found, Problem):
        return found
    hints: dict[str, Hint] = {}
    for kind in sorted((found or {}).keys() & FAMILIES.keys()):
        hint = _hint((found or {})[kind], f"{_FIELD}.{kind}")
        if isinstance(hint, Problem):
            return hint
        hints[kind] = hint
    return hints


def _hint(raw: _Hint, field: str) -> Hint | Problem:
    for name, value, known in (
        ("allocateStrategy", raw.allocate_strategy, _STRATEGIES),
        ("requiredTopologyScope", raw.required_topology_scope, ("", *SCOPES)),
        ("exclusivePolicy", raw.exclusive_policy, _EXCLUSIVE),
    ):
        if value not in known:
            listed = ", ".join(each for each in known if each)
            return Problem(field=f"{field}.{name}", message=f"{value[:80]!r} is none of {listed}")
    selector = _test(raw.selector, f"{field}.selector")
    functions = _test(raw.vf_selector, f"{field}.vfSelector")
    if isinstance(selector, Problem):
        return selector
    if isinstance(functions, Problem):
        return functions
    scope = SCOPES.get(raw.required_topology_scope, 0)
    return Hint(selector, functions, raw.allocate_strategy, scope, raw.exclusive_policy)


def _test(selector: LabelSelector | None, field: str) -> LabelTest | Problem | None:
    if selector is None:
        return None
    compiled = compile_selector(selector, field)
    return compiled.problems[0] if compiled.problems else compiled.matches
