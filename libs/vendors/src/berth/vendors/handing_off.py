"""What a bind writes for the device plugins of a node, and the lock under which it does.

A plugin that takes one pod of a node at a time is locked by an annotation of the node, `<time>,<namespace>,<pod>`,
which the plugin removes after its work. Who takes it writes with the version of the node that it has read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.rules.bounded_json import annotation_field
from berth.rules.times import text_of, unix_of
from berth.vendors.nvidia import ISOLATION
from berth.vendors.registry import REGISTRY, Registry
from berth.vendors.vendor import Bind, HandOff

LOCK_S: Final = 300
"""Seconds after which a lock counts no longer, whoever has it."""
LABEL_VGPU_NODE: Final = "hami.io/vgpu-node"
_LENGTH_MAX: Final = 1024


class Lock(NamedTuple):
    """Who has a node's lock, and since when in Unix seconds."""

    since_s: float
    namespace: str
    pod: str


class LockVerdict(NamedTuple):
    """Whether the bind may take the lock, and what to report: why not, or what was wrong with the one there."""

    may_take: bool
    problem: Problem | None = None


def hand_off(bind: Bind, vendor: str, registry: Registry = REGISTRY) -> HandOff | Problem:
    """What is written onto the pod that is bound, and which lock has to be had first.

    `vendor` is the vendor label of the Device. Nothing for a pod without an accelerator.
    """
    bind = replace(bind, given=tuple(each for each in bind.given if each.kind == "gpu"))
    if not bind.given:
        return HandOff()
    known = registry.of("gpu", vendor)
    own = known.hand_off(bind) if known is not None else HandOff()
    if isinstance(own, Problem):
        return own
    annotations = {
        names.ANNOTATION_BIND_TIMESTAMP: str(bind.time_ns),
        names.ANNOTATION_GPU_MINORS: ",".join(str(each.minor) for each in bind.given),
    }
    isolated = bind.pod_labels.get(names.LABEL_GPU_ISOLATION, "").lower() == ISOLATION.lower()
    labels = {LABEL_VGPU_NODE: bind.node} if isolated else {}
    return HandOff(annotations={**annotations, **own.annotations}, labels={**labels, **own.labels}, lock=own.lock)


def lock_value(bind: Bind) -> str:
    """The value of the lock that this bind writes."""
    return f"{text_of(bind.time_ns // 10**9)},{bind.namespace},{bind.pod}"


def read_lock(text: str) -> Lock | None:
    """Who has the lock; None when the text is none."""
    parts = text.split(",") if len(text) <= _LENGTH_MAX else []
    since_s = unix_of(parts[0]) if len(parts) == 3 else None
    return Lock(since_s, parts[1], parts[2]) if since_s is not None and all(parts[1:]) else None


def judge_lock(name: str, text: str, bind: Bind, *, holder_exists: bool) -> LockVerdict:
    """Whether the bind may put its lock where `text` stands; empty: no lock.

    It may where the lock is its own from an earlier try, older than five minutes (or as far in the future, by a clock
    that went wrong), its holder is gone, or where it is unreadable and nobody could ever remove it.
    """
    if not text:
        return LockVerdict(True)
    lock = read_lock(text)
    if lock is None:
        return LockVerdict(True, Problem(field=annotation_field(name), message=f"{text[:80]!r} is no lock: taken over"))
    is_own = (lock.namespace, lock.pod) == (bind.namespace, bind.pod)
    if is_own or not holder_exists or abs(bind.time_ns / 10**9 - lock.since_s) > LOCK_S:
        return LockVerdict(True)
    message = f"is held by {lock.namespace}/{lock.pod} since {text_of(lock.since_s)}"
    return LockVerdict(False, Problem(field=annotation_field(name), message=message))


def is_held_by(text: str, namespace: str, pod: str) -> bool:
    """Whether the lock is this pod's, so that it may be taken off when its bind is withdrawn."""
    lock = read_lock(text)
    return lock is not None and (lock.namespace, lock.pod) == (namespace, pod)
