"""Memory that nobody touches is told from memory in use: kidled is started, where the kernel has it."""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.laws.cold_memory import HOT_CACHE
from berth.node_qos_enforcer.core.strategies.knobs import KIDLED_HIERARCHY, KIDLED_PERIOD
from berth.node_qos_enforcer.core.strategies.seam import Decided, Mount, Needs, Snapshot, Spec, Strategy, Wanted

FOLDER: Final = "kernel/mm/kidled"
PERIOD_S: Final = 5
COLLECT_POLICY: Final = "nodeMemoryCollectPolicy"


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Have idle pages counted, in groups with those below them."""
    return Decided((Wanted(FOLDER, KIDLED_HIERARCHY, "1"), Wanted(FOLDER, KIDLED_PERIOD, str(PERIOD_S))))


def collect_policy(spec: Spec) -> str:
    """Which memory counts as used; empty: nobody has said it."""
    extensions = spec.get("extensions")
    value = extensions.get(COLLECT_POLICY) if isinstance(extensions, dict) else None
    return value if isinstance(value, str) else ""


def _is_on(spec: Spec) -> bool:
    return collect_policy(spec) == HOT_CACHE


COLD_MEMORY: Final = Strategy(
    "cold-memory",
    "enforce-kernel",
    decide,
    _is_on,
    needs=Needs(
        knobs=(KIDLED_HIERARCHY, KIDLED_PERIOD),
        files=(f"/sys/{FOLDER}",),
        mounts=(Mount(f"/sys/{FOLDER}", writes=True),),
    ),
    is_steady=True,
)
