"""Progress of long work: one line that is redrawn on a terminal, a plain line each second elsewhere."""

from __future__ import annotations

import sys

from berth.cli.output import fitted, is_live


class Progress:
    """Prints to standard error on a terminal, so that results can be piped; plain lines go to standard output."""

    def __init__(self) -> None:
        self._live = is_live(sys.stdout)
        self._drawn = False

    def update(self, text: str) -> None:
        """The state of things now."""
        if self._live:
            sys.stdout.write(f"\r\x1b[2K{fitted(text)}")
            sys.stdout.flush()
            self._drawn = True
        else:
            print(fitted(text), flush=True)

    def line(self, text: str) -> None:
        """Something that stays."""
        if self._drawn:
            sys.stdout.write("\r\x1b[2K")
            self._drawn = False
        print(text, flush=True)
