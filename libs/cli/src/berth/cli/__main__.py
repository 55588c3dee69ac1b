"""Entry point of `berth`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import CycloptsError

from berth.cli.app import app
from berth.cli.errors import EXIT_OK, EXIT_USAGE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the exit code."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = app(tokens, exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return EXIT_USAGE
    return result if isinstance(result, int) else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
