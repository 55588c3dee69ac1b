"""config.koordinator.sh ClusterColocationProfile: from the API server's object to what STATE says of it."""

from __future__ import annotations

from typing import Final

import msgspec

from berth.contracts import state
from berth.contracts.kube import ClusterColocationProfile
from berth.rules.reading.findings import Found, problems_of
from berth.rules.reading.metadata import identity_of

SPEC_BYTES_MAX: Final = 64 << 10
"""Largest spec that is carried, as JSON."""


def colocation_profile_of(item: ClusterColocationProfile, version: int) -> state.ClusterColocationProfile:
    """The profile; what its spec means is left to who acts on it.

    All annotations are carried: which of them concern a profile is a matter of admission.
    """
    found: Found = []
    meta, spec = item.metadata, item.spec or {}
    size = len(msgspec.json.encode(spec))
    if size > SPEC_BYTES_MAX:
        found.append(("spec", f"has {size} bytes, at most {SPEC_BYTES_MAX} are accepted"))
        spec = {}
    return state.ClusterColocationProfile(
        name=identity_of(meta, found).name,
        uid=meta.uid,
        version=version,
        labels=meta.labels or {},
        annotations={name: text for name, text in (meta.annotations or {}).items() if not _is_large(name)},
        spec=spec,
        deleting=meta.deletion_timestamp is not None,
        problems=problems_of(found),
    )


def _is_large(annotation: str) -> bool:
    """kubectl keeps the whole manifest in an annotation."""
    return annotation.startswith("kubectl.kubernetes.io/")
