"""How far it is, on standard error: one line that is drawn anew on a terminal, else a line now and then."""

from __future__ import annotations

import time
from types import TracebackType
from typing import IO, Final, Self

from berth.cli.output import fitted, is_live

LINES_EVERY_S: Final = 15.0


class Progress:
    """Of one command."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._live = is_live(stream)
        self._drawn = False
        self._next_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()

    def tell(self, text: str) -> None:
        """The state of things now."""
        if self._live:
            self._stream.write(f"\r\x1b[2K{fitted(text)}")
            self._stream.flush()
            self._drawn = True
        elif time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LINES_EVERY_S
            print(fitted(text), file=self._stream, flush=True)
