"""What a node's NodeSLO says, complete: each section laid over the protocol's defaults.

A block of a class that is not switched on is replaced by the values that switch it off, so that the kernel's state is
put back. The blocks of class System, and those of disks and network, stay as they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

THRESHOLD: Final = "resourceUsedThresholdWithBE"
BURST: Final = "cpuBurstStrategy"
QOS: Final = "resourceQOSStrategy"
SYSTEM: Final = "systemStrategy"
HOST_APPLICATIONS: Final = "hostApplications"
LSR_CLASS: Final = "lsrClass"
LS_CLASS: Final = "lsClass"
BE_CLASS: Final = "beClass"
SYSTEM_CLASS: Final = "systemClass"
ROOT_CLASS: Final = "cgroupRoot"

_CPU: Final = {"enable": False, "groupIdentity": 2, "schedIdle": 0, "coreExpeller": True}
_MEMORY: Final = {
    "enable": False,
    "minLimitPercent": 0,
    "lowLimitPercent": 0,
    "throttlingPercent": 0,
    "wmarkRatio": 95,
    "wmarkScalePermill": 20,
    "wmarkMinAdj": -25,
    "priorityEnable": 0,
    "priority": 0,
    "oomKillGroup": 0,
}
_RESCTRL: Final = {"enable": False, "catRangeStartPercent": 0, "catRangeEndPercent": 100, "mbaPercent": 100}
_LATENCY: Final = {"cpuQOS": _CPU, "memoryQOS": _MEMORY, "resctrlQOS": _RESCTRL}
DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    THRESHOLD: {
        "enable": False,
        "cpuSuppressThresholdPercent": 65,
        "cpuSuppressPolicy": "cpuset",
        "memoryEvictThresholdPercent": 70,
        "cpuEvictPolicy": "evictByRealLimit",
    },
    BURST: {
        "policy": "none",
        "cpuBurstPercent": 1000,
        "cfsQuotaBurstPercent": 300,
        "cfsQuotaBurstPeriodSeconds": -1,
        "sharePoolThresholdPercent": 50,
    },
    QOS: {
        LSR_CLASS: _LATENCY,
        LS_CLASS: _LATENCY,
        BE_CLASS: {
            "cpuQOS": {**_CPU, "groupIdentity": -1, "coreExpeller": False},
            "memoryQOS": {**_MEMORY, "wmarkMinAdj": 50},
            "resctrlQOS": {**_RESCTRL, "catRangeEndPercent": 30},
        },
    },
    SYSTEM: {"totalNetworkBandwidth": 0},
}
OFF: Final[Mapping[str, Mapping[str, Any]]] = {
    "cpuQOS": {"enable": False, "groupIdentity": 0, "schedIdle": 0, "coreExpeller": False},
    "memoryQOS": {**dict.fromkeys(_MEMORY, 0), "enable": False, "wmarkScalePermill": 50},
    "resctrlQOS": dict(_RESCTRL),
}
"""What a block of a class counts for while it is not switched on."""


def effective(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The whole specification. A section of the wrong kind counts as if it were not there."""
    known = {name: effective_section(name, spec.get(name)) for name in DEFAULTS}
    return {**spec, **known}


def effective_section(name: str, section: object) -> dict[str, Any]:
    """One section, with what it leaves out."""
    found = _laid_over(DEFAULTS.get(name, {}), section if isinstance(section, Mapping) else {})
    return _switched_off(found) if name == QOS else found


def _switched_off(section: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(section)
    for each in (LSR_CLASS, LS_CLASS, BE_CLASS):
        blocks = section[each] if isinstance(section.get(each), Mapping) else {}
        off = {
            name: dict(values)
            for name, values in OFF.items()
            if not isinstance(blocks.get(name), Mapping) or blocks[name].get("enable") is not True
        }
        found[each] = {**blocks, **off}
    return found


def _laid_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A field that is there replaces, null keeps, objects merge."""
    merged = {name: dict(value) if isinstance(value, Mapping) else value for name, value in base.items()}
    for name, value in over.items():
        if value is None:
            continue
        below = merged.get(name)
        merged[name] = _laid_over(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
