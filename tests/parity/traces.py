"""Traces in files: JSON, compressed where the name ends in `.xz`."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.parity.world import Trace

SUFFIX = ".xz"


def read_traces(path: Path) -> list[Trace]:
    """All traces of a file. Raises OSError, lzma.LZMAError, msgspec.MsgspecError."""
    data = path.read_bytes()
    return msgspec.json.decode(lzma.decompress(data) if path.suffix == SUFFIX else data, type=list[Trace])


def write_traces(path: Path, traces: Sequence[Trace]) -> None:
    """Write all of them; what was there is lost."""
    data = msgspec.json.encode(traces)
    path.write_bytes(lzma.compress(data, preset=9) if path.suffix == SUFFIX else data)
