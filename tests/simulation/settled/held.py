"""What buckets and the API server hold now, read where it lies and by nobody's reader."""

from __future__ import annotations

from typing import Any, TypeVar

from tests.simulation.harness import Harness

from berth.bus import headers as h
from berth.contracts.codec import decode
from berth.simcluster.store.objects import Obj
from berth.testing.simulation.nats import SimNats

T = TypeVar("T")

SCHEDULING = "scheduling.koordinator.sh"
GROUPS = "scheduling.sigs.k8s.io"


def entries(nats: SimNats, bucket: str) -> dict[str, tuple[int, bytes]]:
    """The live keys of a bucket, with sequence and value."""
    stream = nats.streams.get(f"KV_{bucket}")
    prefix, found = len(f"$KV.{bucket}."), dict[str, tuple[int, bytes]]()
    for each in sorted(stream.messages.values(), key=lambda each: each.sequence) if stream is not None else ():
        key = each.subject[prefix:]
        found.pop(key, None)
        if not (each.raw and h.marks_deletion(each.raw)):
            found[key] = (each.sequence, each.data)
    return found


def messages(nats: SimNats, bucket: str, kind: type[T], of: str = "") -> dict[str, T]:
    """The same, read as one kind of message; of keys that begin with `of`."""
    return {key: decode(value, kind) for key, (_, value) in entries(nats, bucket).items() if key.startswith(of)}


def objects(harness: Harness, group: str, plural: str) -> dict[str, Obj]:
    """The objects of a resource by `namespace/name`, or name; none where it is not known."""
    collection = harness.kube.store.state.collections.get((group, plural))
    return {} if collection is None else collection.items


def labels(obj: Obj) -> dict[str, Any]:
    """Its labels."""
    return obj.meta.get("labels") or {}
