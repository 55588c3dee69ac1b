"""What the API server was asked, from its own counters."""

from __future__ import annotations

import re
from collections import Counter

_REQUEST = re.compile(rb"^apiserver_request_total\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)
_EVENT = re.compile(rb"^apiserver_watch_events_total\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL = re.compile(rb'(\w+)="([^"]*)"')
WATCH_EVENTS = "watch events"
RARE = 0.005
"""Calls for each pod below which they are not listed."""


def calls_of(metrics: bytes) -> Counter[str]:
    """Requests so far by `VERB resource/subresource`, those refused again by code, and events sent on watches."""
    found: Counter[str] = Counter()
    for labels, value in _REQUEST.findall(metrics):
        label = {name: text.decode() for name, text in _LABEL.findall(labels)}
        if label[b"resource"] == "" or label[b"verb"] in ("WATCH", "CONNECT"):
            continue
        sub = f"/{label[b'subresource']}" if label[b"subresource"] else ""
        call = f"{label[b'verb']} {label[b'resource']}{sub}"
        found[call] += int(float(value))
        if label[b"code"][0] in "45":
            found[f"refused {label[b'code']} {call}"] += int(float(value))
    for labels, value in _EVENT.findall(metrics):
        label = {name: text.decode() for name, text in _LABEL.findall(labels)}
        found[f"{WATCH_EVENTS} {label.get(b'resource') or label.get(b'kind', '')}"] += int(float(value))
    return found


def per_pod(before: Counter[str], after: Counter[str], pods: int, own: Counter[str]) -> dict[str, float]:
    """Calls between two looks for each pod, without the load client's `own`; rare ones are left out."""
    made = {name: after[name] - before[name] - own[name] for name in after}
    return {name: round(count / pods, 3) for name, count in sorted(made.items()) if count / pods >= RARE}


def writes(calls: dict[str, float]) -> float:
    """Calls for each pod that change something."""
    verbs = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")
    return sum(count for name, count in calls.items() if name.split(" ")[0] in verbs)
