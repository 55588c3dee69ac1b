"""Standard logging with fields, which the renderer of the lines shows as such."""

from __future__ import annotations

import logging


class FieldLogger:
    """One text per kind of event, what differs in fields: `log.warning("cannot follow, trying again", bucket=bucket)`.

    No field may have the name of an attribute of `logging.LogRecord` (`name`, `args`, `module`).
    """

    def __init__(self, name: str) -> None:
        self._log = logging.getLogger(name)

    def at(self, level: int, text: str, /, **fields: object) -> None:
        """A line of this level (`logging.DEBUG` to `logging.ERROR`)."""
        self._log.log(level, text, extra=fields, stacklevel=2)

    def debug(self, text: str, /, **fields: object) -> None:
        """What is of use only in the search for a defect."""
        self._log.debug(text, extra=fields, stacklevel=2)

    def info(self, text: str, /, **fields: object) -> None:
        """What has happened."""
        self._log.info(text, extra=fields, stacklevel=2)

    def warning(self, text: str, /, **fields: object) -> None:
        """What is not as it should be, and is dealt with."""
        self._log.warning(text, extra=fields, stacklevel=2)

    def error(self, text: str, /, **fields: object) -> None:
        """What somebody has to look at."""
        self._log.error(text, extra=fields, stacklevel=2)

    def failed(self, text: str, error: BaseException | None, /, **fields: object) -> None:
        """The same, with an exception that nobody expected."""
        self._log.error(text, exc_info=error, extra=fields, stacklevel=2)

    def exception(self, text: str, /, **fields: object) -> None:
        """The same, with the exception that is being handled."""
        self._log.exception(text, extra=fields, stacklevel=2)
