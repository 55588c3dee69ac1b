"""Bugs of what recorder keeps, and of what solvers say that their plans were made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from unittest.mock import patch

from msgspec.structs import replace

from berth.placement_solver.origins import Origins
from berth.recorder import shell
from berth.recorder.core.taking import Taking
from berth.recorder.shell import Shell
from berth.recording.records import AnyRecord, Missed

Planted = AbstractContextManager[object]


def gaps_are_unsaid() -> Planted:
    """What cannot be written is left out, and recording goes on."""
    return patch.object(Shell, "_fail", lambda self, error: None)


def all_is_one_run() -> Planted:
    """A start goes on with what was recorded before it."""
    real = Taking.checkpoint

    def checkpoint(self: Taking, run: str, at_s: float, streams: Mapping[str, str]) -> Iterator[AnyRecord]:
        return real(self, "always", at_s, streams)

    return patch.object(Taking, "checkpoint", checkpoint)


def missed_is_unsaid() -> Planted:
    """What was replaced before it was read is not noted."""
    real = Taking._put

    def put(self: Taking, record: AnyRecord, size: int = 0) -> None:
        if not isinstance(record, Missed):
            real(self, record, size)

    return patch.object(Taking, "_put", put)


def never_again() -> Planted:
    """Who could not write once does not try again."""
    return patch.object(shell, "TRY_AGAIN", 1e6)


def kept_is_untold() -> Planted:
    """A plan does not say for whom capacity was kept while the optimiser thought."""
    real = Origins.of
    return patch.object(Origins, "of", lambda self, made: replace(real(self, made), kept=[]))


def answers_are_untold() -> Planted:
    """A plan does not say what the optimiser answered."""
    real = Origins.of
    return patch.object(Origins, "of", lambda self, made: replace(real(self, made), answer=None))


def grounds_are_forgotten() -> Planted:
    """A start takes nothing from the segments that are there."""

    async def nothing(self: Shell) -> None:
        pass

    return patch.object(Shell, "_recall", nothing)
