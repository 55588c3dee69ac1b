"""What a Lease of coordination.k8s.io says, and the bodies that change it. Pure.

Times inside a Lease are written for people. Nobody here reads them: whether a holder is alive is judged by watching
the resource version with one's own clock.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from berth.contracts.names import ANNOTATION_EPOCH, ANNOTATION_PLAN
from berth.kube.bodies import micro_timestamp

DURATION_MAX_S = 60
"""A longer duration in somebody else's Lease is not believed: it would keep every stand-by out."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec | None = None


_DECODER = msgspec.json.Decoder(_Lease)


class LeaseRecord(NamedTuple):
    """A Lease as read. `epoch` is None when there is no (readable) epoch yet; `plan` is empty when there is none."""

    holder: str
    epoch: int | None
    plan: str
    version: str
    uid: str
    transitions: int
    duration_s: int

    @property
    def mark(self) -> tuple[int | None, str]:
        """What the Lease remembers for its holder."""
        return self.epoch, self.plan


def read_lease(body: bytes) -> LeaseRecord | None:
    """The record in a Lease's JSON, None when it is not one."""
    try:
        lease = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    spec = lease.spec or _Spec()
    annotations = lease.metadata.annotations or {}
    epoch = annotations.get(ANNOTATION_EPOCH, "")
    return LeaseRecord(
        holder=spec.holder_identity or "",
        epoch=int(epoch) if epoch.isascii() and epoch.isdigit() and len(epoch) <= 18 else None,
        plan=annotations.get(ANNOTATION_PLAN, ""),
        version=lease.metadata.resource_version,
        uid=lease.metadata.uid,
        transitions=max(spec.lease_transitions or 0, 0),
        duration_s=min(max(spec.lease_duration_seconds or 0, 0), DURATION_MAX_S),
    )


def new_lease(namespace: str, name: str, holder: str, duration_s: int, now: float) -> dict[str, Any]:
    """A Lease that is ours from its creation, with nothing remembered."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "acquireTime": micro_timestamp(now),
            "renewTime": micro_timestamp(now),
            "leaseTransitions": 0,
        },
    }


def taken(record: LeaseRecord, holder: str, duration_s: int, now: float) -> dict[str, Any]:
    """Merge patch that makes it ours if nobody has touched it since; what it remembers stays."""
    return _guarded(
        record,
        {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "acquireTime": micro_timestamp(now),
            "renewTime": micro_timestamp(now),
            "leaseTransitions": record.transitions + 1,
        },
    )


def renewed(record: LeaseRecord, now: float) -> dict[str, Any]:
    """Merge patch that shows that we are alive."""
    return _guarded(record, {"renewTime": micro_timestamp(now)})


def remembering(record: LeaseRecord, now: float, *, epoch: int, plan: str) -> dict[str, Any]:
    """Merge patch that makes the Lease remember an epoch and a plan; an empty plan forgets the former one."""
    body = renewed(record, now)
    body["metadata"]["annotations"] = {ANNOTATION_EPOCH: str(epoch), ANNOTATION_PLAN: plan or None}
    return body


def released(record: LeaseRecord) -> dict[str, Any]:
    """Merge patch that leaves it to the next one; what it remembers stays."""
    return _guarded(record, {"holderIdentity": "", "leaseDurationSeconds": 1})


def _guarded(record: LeaseRecord, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"uid": record.uid, "resourceVersion": record.version}, "spec": spec}
