"""Texts of single cells: ages, and the state of pods and nodes in a word."""

from datetime import datetime
from typing import Any

from berth.simcluster.store.objects import Json, condition_status, section

UNKNOWN, NONE, UNSET = "<unknown>", "<none>", "<unset>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
_ROLE = "node-role.kubernetes.io/"


def duration(seconds: float) -> str:
    """How long, with at most two units: `7s`, `5m3s`, `3h12m`, `12d`."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    return _two(whole, _YEAR, "y", _DAY, "d") if whole < 8 * _YEAR else f"{whole // _YEAR}y"


def _two(whole: int, unit: int, name: str, small: int, small_name: str) -> str:
    rest = whole % unit // small
    return f"{whole // unit}{name}{rest}{small_name}" if rest else f"{whole // unit}{name}"


def age(stamp: Any, now: float) -> str:
    """How long ago an RFC 3339 time was."""
    try:
        return duration(now - datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).timestamp())
    except ValueError:
        return UNKNOWN


def pod_state(pod: Json) -> str:
    """`Pending`, `Running`, `Completed`, `Terminating`, ..."""
    status = section(pod, "status")
    phase = str(status.get("phase") or "")
    text = str(status.get("reason") or phase)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            text = "SchedulingGated"
    for container in reversed(status.get("containerStatuses") or ()):
        state = section(container, "state")
        ended = section(state, "terminated")
        text = str(section(state, "waiting").get("reason") or ended.get("reason") or text)
    if "deletionTimestamp" in pod["metadata"] and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    return text


def pod_ready(pod: Json) -> str:
    """Containers that are ready, of all."""
    ready = [each for each in section(pod, "status").get("containerStatuses") or () if each.get("ready")]
    return f"{len(ready)}/{len(section(pod, 'spec').get('containers') or ())}"


def pod_restarts(pod: Json) -> str:
    """How often containers were restarted."""
    return str(sum(each.get("restartCount") or 0 for each in section(pod, "status").get("containerStatuses") or ()))


def node_state(node: Json) -> str:
    """`Ready`, `NotReady`, `Unknown`, and whether it is cordoned."""
    ready = condition_status(node, "Ready")
    text = {"True": "Ready", "": "Unknown"}.get(ready, "NotReady")
    return f"{text},SchedulingDisabled" if section(node, "spec").get("unschedulable") else text


def node_roles(node: Json) -> str:
    """From the labels."""
    labels = section(node["metadata"], "labels")
    return ",".join(sorted(key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE))) or NONE


def node_address(node: Json, kind: str) -> str:
    """Its first address of a kind."""
    found = [each.get("address") for each in section(node, "status").get("addresses") or () if each.get("type") == kind]
    return str(found[0]) if found else NONE


def at(data: Any, path: str, missing: Any = "") -> Any:
    """The value behind `a.b[0].c`; `missing` where there is none."""
    for part in path.replace("[", ".").replace("]", "").strip(".").split("."):
        if isinstance(data, list) and part.isdigit() and int(part) < len(data):
            data = data[int(part)]
        elif isinstance(data, dict) and part in data:
            data = data[part]
        else:
            return missing
    return missing if data is None else data
