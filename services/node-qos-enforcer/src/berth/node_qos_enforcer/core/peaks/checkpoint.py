"""Models as one text that a restart takes up again: a line with version and checksum, then JSON.

What is of another version, or torn, is taken up by nobody: everything begins cold, and it is said why. So less is
lent, never more.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.node_qos_enforcer.core.peaks.histogram import Histogram, Saved
from berth.node_qos_enforcer.core.peaks.models import Model, Models

VERSION: Final = 1
NAME: Final = "berth-peaks"
AHEAD_MAX_S: Final = 3_600.0
"""A time further ahead of the clock is of no use."""
_Models = Annotated[dict[str, "SavedModel"], Meta(max_length=20_000)]


class SavedHistogram(msgspec.Struct, frozen=True, kw_only=True):
    """See `histogram.Saved`; buckets by number."""

    total: float
    reference_s: float
    weights: dict[int, int]


class SavedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model."""

    since_s: float
    updated_s: float
    cpu: SavedHistogram
    memory: SavedHistogram


class SavedModels(msgspec.Struct, frozen=True, kw_only=True):
    """All of a node."""

    node: str
    pods: _Models
    workloads: _Models
    items: _Models


class UnusableError(ValueError):
    """Why a checkpoint is not taken up."""


def written(node: str, models: Models) -> bytes:
    """The text."""
    kept = SavedModels(
        node=node,
        pods={key: _saved(model) for key, model in models.pods.items()},
        workloads={key: _saved(model) for key, model in models.workloads.items()},
        items={key: _saved(model) for key, model in models.items.items()},
    )
    body = encode(kept)
    return f"{NAME} {VERSION} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def read(node: str, text: bytes, now_s: float) -> Models:
    """The models, without those that are too old by now. Raises UnusableError."""
    head, _, body = text.partition(b"\n")
    words = head.split(b" ")
    if len(words) != 3 or words[0] != NAME.encode():
        raise UnusableError("it is no checkpoint of peaks")
    if words[1] != str(VERSION).encode():
        raise UnusableError(f"it is of version {words[1][:20].decode(errors='replace')}, not {VERSION}")
    if words[2] != hashlib.sha256(body).hexdigest().encode():
        raise UnusableError("it is torn: its checksum differs")
    try:
        kept = decode(body, SavedModels)
        if kept.node != node:
            raise UnusableError(f"it is of node {kept.node[:80]!r}")
        found = Models()
        for models, saved in ((found.pods, kept.pods), (found.workloads, kept.workloads), (found.items, kept.items)):
            models.update({key: _restored(each, now_s) for key, each in saved.items()})
    except (InvalidMessage, ValueError, OverflowError) as error:
        raise error if isinstance(error, UnusableError) else UnusableError(str(error)[:200]) from error
    found.forget(now_s)
    return found


def _saved(model: Model) -> SavedModel:
    return SavedModel(
        since_s=model.since_s, updated_s=model.updated_s, cpu=_kept(model.cpu), memory=_kept(model.memory)
    )


def _kept(histogram: Histogram) -> SavedHistogram:
    saved = histogram.saved()
    return SavedHistogram(total=saved.total_weight, reference_s=saved.reference_s, weights=dict(saved.weights))


def _restored(saved: SavedModel, now_s: float) -> Model:
    for name, at_s in (("since_s", saved.since_s), ("updated_s", saved.updated_s)):
        if not 0 <= at_s <= now_s + AHEAD_MAX_S:
            raise UnusableError(f"{name} {at_s} lies ahead")
    model = Model(saved.since_s)
    model.updated_s = saved.updated_s
    for histogram, kept in ((model.cpu, saved.cpu), (model.memory, saved.memory)):
        histogram.restore(Saved(kept.total, kept.weights, kept.reference_s))
    return model
