"""Request bodies: bind, evict, delete with preconditions, Events. Pure; nothing here is sent."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

EVENT_MESSAGE_LENGTH_MAX = 1024
"""What an API server accepts in the message of an Event."""
NAME_LENGTH_MAX = 253


class Patch(enum.Enum):
    """The patch types; the value is the content type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"  # JSON is YAML


class ObjectRef(NamedTuple):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str = ""


def binding(
    namespace: str, name: str, *, uid: str, version: str, node: str, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """A Binding that merges `annotations` into the pod in the same write, if uid and resource version still hold."""
    metadata: dict[str, Any] = {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": version}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def eviction(
    namespace: str, name: str, *, uid: str, version: str = "", grace_s: int | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """An Eviction of this very pod; a successor of the same name is left alone, and with `version` a changed pod."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": delete_options(uid=uid, version=version, grace_s=grace_s, dry_run=dry_run),
    }


def delete_options(
    *, uid: str = "", version: str = "", grace_s: int | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """DeleteOptions with the given preconditions; empty ones are left out."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", version)) if v}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def event(
    about: ObjectRef,
    *,
    reason: str,
    message: str,
    warning: bool,
    component: str,
    instance: str,
    now: float,
    token: str,
    action: str = "",
) -> dict[str, Any]:
    """A v1 Event. `now` is Unix time, `token` makes the name unique (`<object>.<token>`); long texts are cut. `action`
    is what was being done, in one word."""
    stamp = timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": about.namespace or "default",
            "name": f"{about.name[: NAME_LENGTH_MAX - len(token) - 1].rstrip('.-')}.{token}",
        },
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            **({"resourceVersion": about.version} if about.version else {}),
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason[:128],
        "message": message[:EVENT_MESSAGE_LENGTH_MAX],
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": instance,
        **({"action": action} if action else {}),
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def timestamp(now: float) -> str:
    """Unix time as metav1.Time: whole seconds, UTC."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(now: float) -> str:
    """Unix time as metav1.MicroTime."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
