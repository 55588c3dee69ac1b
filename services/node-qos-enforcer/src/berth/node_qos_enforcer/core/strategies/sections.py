"""Parts of a NodeSLO's specification, as strategies ask for them. What is of another kind than it should be is not
there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.node_qos_enforcer.core.strategies.node_slo import QOS
from berth.node_qos_enforcer.core.strategies.seam import Spec


def policy_of(spec: Spec, name: str) -> str:
    """One of the policies by which classes are held; empty: the protocol's default."""
    value = _object(_object(spec.get(QOS)).get("policies")).get(name)
    return value if isinstance(value, str) else ""


def block_of(spec: Spec, class_name: str, block: str) -> dict[str, Any]:
    """One block of one class."""
    return _object(_object(_object(spec.get(QOS)).get(class_name)).get(block))


def is_enabled(spec: Spec, class_name: str, block: str) -> bool:
    """Whether a block of a class is switched on."""
    return block_of(spec, class_name, block).get("enable") is True


def integer(section: Mapping[str, Any], name: str) -> int | None:
    """A number of a section; None where there is none."""
    value = section.get(name)
    return value if type(value) is int else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
