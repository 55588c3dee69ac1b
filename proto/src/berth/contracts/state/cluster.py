"""What is neither of nodes nor of pods alone, and the marker of a complete list."""

from __future__ import annotations

from berth.contracts.base import Integer, Message


class Namespace(Message, frozen=True, kw_only=True, tag="namespace.seen.v1"):
    """A namespace."""

    name: str
    version: Integer
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PriorityClass(Message, frozen=True, kw_only=True, tag="priorityclass.seen.v1"):
    """A priority class; a `value` beyond 32 bits is held within them."""

    name: str
    version: Integer
    value: Integer = 0
    global_default: bool = False
    preemption_policy: str = ""


class ConfigMap(Message, frozen=True, kw_only=True, tag="configmap.seen.v1"):
    """One of the ConfigMaps that the watcher is configured to follow."""

    namespace: str
    name: str
    version: Integer
    data: dict[str, str] = {}


class Synced(Message, frozen=True, kw_only=True, tag="synced.set.v1"):
    """Through which resource version a kind (`pods`, `nodes`, ...) is complete.

    `complete` is false before the first write of a relist and true after its last. While changes go by that need no
    write, the marker alone moves on, about once a second. Of ConfigMaps only some are followed: each has a marker of
    its own, by its key (`configmap.<namespace>.<name>`).
    """

    kind: str
    version: Integer
    complete: bool
