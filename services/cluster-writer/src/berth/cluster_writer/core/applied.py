"""What an object that was made for another service says of who made it, and for which request."""

from __future__ import annotations

from typing import Final

from berth.contracts import kube, names
from berth.contracts.command import MANAGER

REVISION_DIGITS_MAX: Final = 20
AHEAD_MAX_MS: Final = 3_600_000
"""A revision further ahead of our clock is no reason to drop what comes: it would hold for as long."""


def is_ours(meta: kube.Meta) -> bool:
    """Whether it carries our label: of a kind that other agents write as well, those without it are theirs."""
    return (meta.labels or {}).get(names.LABEL_MANAGED_BY) == MANAGER


def revision_of(meta: kube.Meta, owner: kube.OwnerReference | None, now_s: float) -> int:
    """That of the request which the object was last written for; 0 for an object of somebody else.

    One that was written for a former owner of this name goes with it, and says nothing of this one. `now_s`: Unix time.
    """
    if owner is not None and owner.uid not in {each.uid for each in meta.owner_references or ()}:
        return 0
    text = (meta.annotations or {}).get(names.ANNOTATION_REVISION, "")
    if not (text.isascii() and text.isdigit() and len(text) <= REVISION_DIGITS_MAX):
        return 0
    revision = int(text)
    return revision if revision <= now_s * 1000 + AHEAD_MAX_MS else 0
