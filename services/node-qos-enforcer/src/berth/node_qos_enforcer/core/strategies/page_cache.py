"""How much page cache pods may have, on kernels that limit it."""

from __future__ import annotations

from typing import Any, Final

from berth.contracts.names import MEMORY
from berth.node_qos_enforcer.core.laws.page_cache import page_cache_limit
from berth.node_qos_enforcer.core.strategies.knobs import PAGE_CACHE_ENABLE, PAGE_CACHE_SIZE, PAGE_CACHE_SYNC
from berth.node_qos_enforcer.core.strategies.node_slo import BE_CLASS, LS_CLASS, LSR_CLASS, SYSTEM_CLASS
from berth.node_qos_enforcer.core.strategies.seam import Decided, Needs, Pod, Snapshot, Spec, Strategy, Wanted
from berth.node_qos_enforcer.core.strategies.sections import block_of, integer, is_enabled
from berth.rules.cpus.qos import BE, LS, LSE, LSR, SYSTEM, qos_class_or_default

BLOCK: Final = "memoryQOS"
_CLASSES: Final = {LSE: LSR_CLASS, LSR: LSR_CLASS, LS: LS_CLASS, BE: BE_CLASS, SYSTEM: SYSTEM_CLASS}
_FIELDS: Final = ("pageCacheEnable", "pageCacheLimitPercent", "pageCacheLimitSize")
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Give the limit of each pod whose class has one."""
    wanted: list[Wanted] = []
    for pod in snapshot.pods:
        block = _block(spec, pod)
        if not block or not pod.group or not pod.is_known:
            continue
        limit = page_cache_limit(
            size=integer(block, "pageCacheLimitSize"),
            percent=integer(block, "pageCacheLimitPercent"),
            enable=_switch(block, "pageCacheEnable"),
            reclaim_sync=_switch(block, "pageCacheReclaimSync"),
            memory_limit=pod.limits.get(BATCH_MEMORY if pod.qos == BE else MEMORY, -1),
        )
        # The size goes first: a limit that is switched on before it has one drops everything.
        values = ((PAGE_CACHE_SIZE, limit.size), (PAGE_CACHE_SYNC, limit.sync), (PAGE_CACHE_ENABLE, limit.enable))
        wanted += [Wanted(pod.group, knob, str(value)) for knob, value in values if value is not None]
    return Decided(tuple(wanted))


def _block(spec: Spec, pod: Pod) -> dict[str, Any]:
    name = _CLASSES.get(pod.qos or qos_class_or_default({}, pod.kube_qos), "")
    return block_of(spec, name, BLOCK) if name and is_enabled(spec, name, BLOCK) else {}


def _switch(block: dict[str, Any], name: str) -> bool | None:
    value = block.get(name)
    return value if isinstance(value, bool) else None


def _is_on(spec: Spec) -> bool:
    blocks = (block_of(spec, each, BLOCK) for each in set(_CLASSES.values()))
    return any(each.get("enable") is True and any(field in each for field in _FIELDS) for each in blocks)


PAGE_CACHE: Final = Strategy(
    "page-cache",
    "enforce",
    decide,
    _is_on,
    needs=Needs(knobs=(PAGE_CACHE_SIZE, PAGE_CACHE_ENABLE, PAGE_CACHE_SYNC)),
    is_steady=True,
)
