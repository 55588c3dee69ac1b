"""What ends a command early: a sentence for the user and an exit code."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_BAD: Final = 1
"""It ran, and the answer is bad: a law broken, a pod not placed, a service missing."""
EXIT_USAGE: Final = 2
"""It could not run: wrong arguments, nothing to connect to, a program or a folder missing."""
EXIT_DISK_FULL: Final = 3
"""It could not run: the disk has no space, or the bus cannot carry Berth."""
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143


class CliError(Exception):
    """Ends the command. The message says what is wrong and what to do."""

    def __init__(self, message: str, code: int = EXIT_USAGE) -> None:
        super().__init__(message)
        self.code = code
