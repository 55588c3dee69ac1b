"""Entry point of `berth`.

A signal that arrives before a command has its own handlers ends the process with that command's exit code: nothing has
been started then. So the handlers come before every import that takes time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from berth.cli.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED, EXIT_USAGE

_CODES = {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_TERMINATED, signal.SIGHUP: EXIT_TERMINATED}


def _end_early() -> None:
    for number, code in _CODES.items():
        signal.signal(number, lambda *_, code=code: os._exit(code))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default the one of the command line; the result is the exit code."""
    if arguments is None:
        _end_early()
    from cyclopts import CycloptsError

    from berth.cli.app import app
    from berth.cli.fullness import flushed, unwritten
    from berth.cli.options import command_first

    tokens = command_first(list(sys.argv[1:] if arguments is None else arguments))
    try:
        result = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        print(f"berth: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:  # of help and version: commands have handled theirs
        return unwritten(error)
    except SystemExit as ended:  # what writes the help ends so when its reader has gone
        if isinstance(ended.__context__, BrokenPipeError):
            return unwritten(ended.__context__)
        raise
    return flushed(result if isinstance(result, int) else EXIT_OK)


if __name__ == "__main__":
    sys.exit(main())
