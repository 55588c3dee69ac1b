"""Bugs of those that show the cluster, and of what follows from time alone: cluster-watcher and reservation-manager."""

from __future__ import annotations

import itertools
import zlib
from contextlib import AbstractContextManager
from unittest.mock import patch

from berth.cluster_watcher.core.published_view import PublishedView, Verdict
from berth.contracts.state import Reservation
from berth.reservation_manager.core import life, schedule


def deletions_swallowed() -> AbstractContextManager[object]:
    """Of every third name a pod that is gone stays in STATE."""
    real = PublishedView.judge_deletion

    def judge_deletion(self: PublishedView, key: str, version: int) -> Verdict:
        is_meant = key.startswith("pod.") and zlib.crc32(key.encode()) % 3 == 0
        return Verdict.UNCHANGED if is_meant else real(self, key, version)

    return patch.object(PublishedView, "judge_deletion", judge_deletion)


def never_expires() -> AbstractContextManager[object]:
    """A Reservation holds its capacity for ever."""
    return patch.object(life, "end_of", lambda reservation: 0.0)


def expires_early() -> AbstractContextManager[object]:
    """A Reservation is over after a third of its time."""
    real = life.end_of

    def end_of(reservation: Reservation) -> float:
        end_s, created_s = real(reservation), life.unix(reservation.created or "")
        return created_s + (end_s - created_s) / 3 if end_s and created_s else end_s

    return patch.object(life, "end_of", end_of)


def windows_named_anew() -> AbstractContextManager[object]:
    """Whoever looks at a window calls its Reservation by another name."""
    numbers = itertools.count()
    return patch.object(schedule, "name_of", lambda made, window: f"{made.name}-{window.start}-{next(numbers) % 7}")
