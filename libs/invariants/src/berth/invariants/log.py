"""The ledger's log: its fold has one hash, however it is read (I7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from berth.contracts.errors import InvalidMessage
from berth.invariants.report import Finding
from berth.transaction.ledger_view import LedgerView

_ENCODER = msgspec.json.Encoder(order="deterministic")


class LogEntry(NamedTuple):
    """One message of LEDGER, as a follower sees it."""

    sequence: int
    key: str
    value: bytes
    deleted: bool = False


def state_hash(view: LedgerView) -> str:
    """A hash of all that a view knows, the same on every machine."""
    decisions = sorted((name, held.sequence, held.decision) for name, held in view.decisions.items())
    state = (view.epoch, decisions, sorted(view.plans.items()), sorted(view.stamps.items()))
    return hashlib.sha256(_ENCODER.encode(state)).hexdigest()


def fold(entries: Iterable[LogEntry]) -> LedgerView:
    """A view of these messages. One that cannot be read leaves what was known."""
    view = LedgerView()
    for entry in entries:
        try:
            view.apply(entry.key, entry.value, entry.deleted, entry.sequence)
        except (InvalidMessage, ValueError):
            continue
    return view


def compacted(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """The newest message of each key, in order: what a bucket still holds of its log."""
    newest = {entry.key: entry for entry in entries}
    return sorted(newest.values())


def folded_otherwise(entries: Sequence[LogEntry], live: LedgerView | None = None) -> Iterator[Finding]:
    """Ways of reading one log that end in different states: again, compacted, and (`live`) as it went by."""
    wanted = state_hash(fold(entries))
    ways = {"read again": fold(entries), "compacted": fold(compacted(entries))}
    if live is not None:
        ways["followed"] = live
    for way, view in ways.items():
        found = state_hash(view)
        if found != wanted:
            yield Finding(f"log {way}", f"the log folds to {wanted[:12]}, {way} to {found[:12]}")
