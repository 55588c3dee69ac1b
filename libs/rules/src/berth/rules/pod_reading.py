"""One reading of pods for the services that take them from the API: cluster-watcher, cluster-writer and auditor.

API servers differ in what they refuse, so a pod may carry a field of another type than it should. Whoever then could
not read a pod that others place would take it for unreadable or absent, or fail for ever at a task that concerns it.
"""

from __future__ import annotations

import msgspec

from berth.contracts.kube import Meta, Pod, PodSpec, PodStatus, View
from berth.rules.salvage import Found, read_part


class PodItem(View, frozen=True, kw_only=True):
    """A pod whose specification and status are read later, so that one field that does not fit costs only itself: a
    bound pod must never vanish for it."""

    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


def parts_of(item: PodItem, found: Found) -> tuple[PodSpec, PodStatus]:
    """Specification and status; what cannot be read is left out, and named in `found`."""
    return read_part(item.spec, PodSpec, "spec", found), read_part(item.status, PodStatus, "status", found)


def whole_pod(item: PodItem) -> Pod:
    """The pod, without what of it cannot be read."""
    spec, status = parts_of(item, [])
    return Pod(metadata=item.metadata, spec=spec, status=status)
