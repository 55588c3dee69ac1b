"""An answer that cannot be written is an error: `berth status > /dev/full`."""

from __future__ import annotations

import os
import sys

from berth.cli.errors import EXIT_DISK_FULL, EXIT_OK


def flushed(code: int) -> int:
    """The exit code, once everything printed has reached its reader or turned out not to."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return unwritten(error)
    return code


def unwritten(error: OSError) -> int:
    """The exit code when standard output took no more.

    A reader that has gone (`berth watch | head`) wanted no more, and there is nobody to say it to.
    """
    _discard()
    if isinstance(error, BrokenPipeError):
        return EXIT_OK
    print(f"berth: cannot write the answer: {error.strerror or error}", file=sys.stderr)
    return EXIT_DISK_FULL


def _discard() -> None:
    """What is still buffered goes nowhere, or the interpreter complains of it at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
